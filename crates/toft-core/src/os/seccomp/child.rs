//! The child that a filter may kill, and how its parent stays unchanged.
//!
//! ```text
//! parent   blocks all signals -> clone(CLONE_VM | CLONE_VFORK) ........ goes on -> wait4 -> next child
//! child                           own stack, no exit signal -> rows ... ends, or is killed in a row
//! ```
//!
//! - *Signals*: all are blocked, so no handler of the program runs in the child. A filter may force
//!   SIGSYS on it (`SECCOMP_RET_TRAP`), which kills it, because the signal is blocked. The table of
//!   handlers is a copy.
//! - *Waits*: a child without an exit signal sends no SIGCHLD, and only waits with `__WALL` or
//!   `__WCLONE` see it. It has ended when `clone` returns, and is collected at once.
//! - *Memory*: the child writes to the notes and to its stack, which are unmapped afterwards.
//! - *Descriptors*: the child's table is a copy, and ends with it.
//! - *Core dumps*: a limit of one byte, at which the kernel does not dump, not even into a pipe.
//! - *Tracers* do not follow it (`CLONE_UNTRACED`).
//! - A supervisor that does not answer (`SECCOMP_RET_USER_NOTIF`) holds the calling thread, as for
//!   any call of the program.

use super::calls;
use super::{Answers, Calls, Outcome, Way};
use crate::os::syscall::syscall;
use crate::os::{share, thread};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

const BOTH: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
/// The number of bytes of the child's stack, and of the stack of the thread that it tries to start.
const STACK: usize = 48 << 10;
const THREAD_STACK: usize = 16 << 10;

/// The notes of the child, in memory that it shares with its parent. There is one writer at a time:
/// the parent waits in `clone` while there is a child, and reads afterwards. `Relaxed` is therefore
/// enough.
#[derive(Debug)]
pub(super) struct Notes {
    /// The [`Outcome`] of each row.
    outcomes: [AtomicU32; Calls::COUNT],
    /// The [`Outcome`] of the limit on core dumps.
    limited: AtomicU32,
    /// Not zero if the child has reached its end.
    done: AtomicU32,
    page: usize,
    /// A private page that the rows try their calls on.
    tried: usize,
    /// The end of the stack of the thread that the child tries to start.
    thread_top: usize,
}

/// Addresses that are unmapped on drop.
struct Mapping(usize, usize);

impl Mapping {
    fn new(len: usize, kind: i32) -> Option<Mapping> {
        let flags = (kind | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: (1) a new mapping.
        let got = unsafe { syscall(libc::SYS_mmap, [0, len, BOTH, flags, usize::MAX, 0]) };
        (got > 0).then_some(Mapping(got as usize, len))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: (1) mapped by `new`; no child is left that uses it.
        unsafe { syscall(libc::SYS_munmap, [self.0, self.1, 0, 0, 0, 0]) };
    }
}

/// Makes children try all rows. Returns `None` if no child could be created, or if something other
/// than a row's call ended one. If `shares` is set, they share the memory of their parent, else
/// they have a copy.
pub(super) fn probe(way: Way, shares: bool, page: usize) -> Option<Answers> {
    let seen = if shares { libc::MAP_PRIVATE } else { libc::MAP_SHARED };
    let len = (size_of::<Notes>() + page - 1) & !(page - 1);
    let noted = Mapping::new(len, seen)?;
    let private = Mapping::new(page + THREAD_STACK + STACK, libc::MAP_PRIVATE)?;
    let (tried, thread_top) = (private.0, private.0 + page + THREAD_STACK);
    let notes: &Notes = {
        let place: *mut Notes = core::ptr::with_exposed_provenance_mut(noted.0);
        // SAFETY: zero bytes are notes; in a mapping that this function unmaps at its end.
        unsafe {
            (&raw mut (*place).page).write(page);
            (&raw mut (*place).tried).write(tried);
            (&raw mut (*place).thread_top).write(thread_top);
            &*place
        }
    };
    let before = share::block_signals();
    let done = notes.fill(way, shares, thread_top + STACK);
    share::set_mask(before);
    if !done {
        return None;
    }
    Some(Answers::of(notes.outcomes.iter().map(outcome)))
}

fn outcome(word: &AtomicU32) -> Outcome {
    match word.load(Relaxed) {
        0 => Outcome::Untried,
        2 => Outcome::Works,
        3 => Outcome::Refused,
        4 => Outcome::Lies,
        _ => Outcome::Begun,
    }
}

impl Notes {
    /// Creates children until one reaches its end. Returns true if one did.
    fn fill(&self, way: Way, shares: bool, top: usize) -> bool {
        // Each child that is killed has begun one more row than the child before.
        for _ in 0..Calls::COUNT + 2 {
            let begun = self.begun();
            // SAFETY: (1) a stack that no other child uses, because there is one child at a time.
            let child = unsafe { create(way, shares, top, (&raw const *self).expose_provenance()) };
            if child <= 0 {
                return false;
            }
            let waits = outcome(&self.outcomes[0]) == Outcome::Works;
            if waits {
                collect(child as usize);
            }
            if self.done.load(Relaxed) != 0 || !waits {
                return true;
            }
            if self.begun() == begun {
                return false;
            }
        }
        false
    }

    fn begun(&self) -> usize {
        let all = self.outcomes.iter().chain([&self.limited]);
        all.filter(|word| outcome(word) != Outcome::Untried).count()
    }

    /// Tries a row, unless an earlier child has begun it.
    fn try_once(word: &AtomicU32, row: impl FnOnce() -> Outcome) {
        if outcome(word) == Outcome::Untried {
            word.store(Outcome::Begun as u32, Relaxed);
            word.store(row() as u32, Relaxed);
        }
    }
}

/// Collects an ended child, which no other wait has seen.
fn collect(child: usize) {
    let args = [child, 0, libc::__WALL as usize, 0, 0, 0];
    loop {
        // SAFETY: (1) writes nothing.
        let code = unsafe { syscall(libc::SYS_wait4, args) };
        if code != -(libc::EINTR as isize) {
            break;
        }
    }
}

/// Creates a child that begins with [`child`]. Returns its number, or the negative error code. The
/// child has ended when this returns.
///
/// # Safety
/// 1. `top` is the end of a stack that is not in use.
unsafe fn create(way: Way, shares: bool, top: usize, notes: usize) -> isize {
    let memory = if shares { libc::CLONE_VM } else { 0 };
    let flags = (memory | libc::CLONE_VFORK | libc::CLONE_UNTRACED) as usize;
    if way == Way::Clone3 {
        // `struct clone_args`: flags, three addresses, the exit signal, the stack, and more.
        let args = [flags, 0, 0, 0, 0, top - STACK, STACK, 0];
        let argument = [(&raw const args).expose_provenance(), size_of_val(&args), 0];
        // SAFETY: (1) the caller's duty; (2) that stack is in the structure.
        let made = unsafe { thread::clone_onto(libc::SYS_clone3, argument, top, child, notes) };
        if made != -(libc::ENOSYS as isize) {
            return made;
        }
    }
    // SAFETY: (1) the caller's duty; (2) flags without a signal, and the stack.
    unsafe { thread::clone_onto(libc::SYS_clone, [flags, top, 0], top, child, notes) }
}

/// Runs in the child. It makes only system calls, because its memory may be its parent's.
///
/// # Safety
/// 1. `notes` is the address of notes that live until the child has ended.
unsafe extern "C" fn child(notes: usize, _top: usize) -> ! {
    let notes: &Notes = {
        // SAFETY: duty 1.
        unsafe { &*core::ptr::with_exposed_provenance(notes) }
    };
    // Each child limits its own core dumps, unless that has killed an earlier child. The loader has
    // made this call already.
    if outcome(&notes.limited) != Outcome::Begun {
        notes.limited.store(Outcome::Begun as u32, Relaxed);
        limit_core();
        notes.limited.store(Outcome::Works as u32, Relaxed);
    }
    for (row, word) in notes.outcomes.iter().enumerate() {
        Notes::try_once(word, || calls::attempt(row, notes.tried, notes.page, notes.thread_top));
    }
    notes.done.store(1, Relaxed);
    loop {
        // SAFETY: (1) ends only the child.
        unsafe { syscall(libc::SYS_exit_group, [0; 6]) };
    }
}

fn limit_core() {
    let set = |bytes: u64| {
        let limit = [bytes, bytes];
        let args = [0, libc::RLIMIT_CORE as usize, (&raw const limit).expose_provenance(), 0, 0, 0];
        // SAFETY: (1) the child's own limit.
        unsafe { syscall(libc::SYS_prlimit64, args) == 0 }
    };
    // If the limit is zero already, it cannot be raised to one.
    let _ = set(1) || set(0);
}
