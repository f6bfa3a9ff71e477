//! L1: everything that talks to the operating system.
//!
//! [`Os`] is the whole of what the allocator asks of a system: fixed mappings, their release, and
//! entropy. [`Linux`] answers with raw system calls. They never touch `errno` and never enter libc,
//! so they can never call back into malloc. `fake` answers from an array and fails on demand, so
//! that the whole core runs in property tests and under the fuzzer.

mod cgroup;
pub mod filter;
mod huge;
pub mod keys;
mod linux;
mod mapping_options;
mod page_idleness;
mod pin;
pub mod probes;
pub mod process;
pub mod release;
pub mod seccomp;
mod share;
mod syscall;
pub mod thread;
pub mod userfault;

#[cfg(any(test, feature = "fake-os"))]
pub mod fake;

use crate::sync::AtomicU32;
pub use cgroup::Group;
use core::ops::Range;
use filter::Permit;
pub use huge::{HUGE, Huge, HugeHabit, MIDDLE};
pub use linux::Linux;
pub use mapping_options::Wishes;
pub use page_idleness::{Pages, Scan, Warmth};
pub use pin::{PIECE_BYTES, Pin, Pinned};
use release::{Piece, Release};
use seccomp::Answers;
pub use share::Sharing;
pub use syscall::syscall;

/// Why a call to the system did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Something else is already mapped there.
    Occupied,
    /// The system has no memory, address space or mappings left for us.
    NoMemory,
    /// This system does not know the call.
    Unsupported,
}

/// Ticks in about a second: `Os::ticks`.
pub const SECOND: u32 = 40;

/// What the allocator asks of a system.
///
/// # Safety
///
/// An implementation promises:
/// 1. after `map(a, n)` succeeds, the `n` bytes at `a` are readable, writable, zero, and were not
///    mapped before the call;
/// 2. `unmap`, `discard`, `discard_all`, `guard`, `unguard`, `forbid`, `allow`, `relocate` and
///    `transfer` touch exactly the ranges they are given;
/// 3. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Os: Warmth + Huge + Pin + Wishes {
    /// Bytes in a page: a power of two, at least 4096.
    fn page_size(&self) -> usize;

    /// The addresses that may be tried first: from a page's start, a power of two of bytes.
    fn address_space(&self) -> Range<usize>;

    /// Tells the system where the allocator's own tables are from now on.
    fn with_tables(self, _tables: Range<usize>) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Maps `len` bytes at exactly `addr`, readable, writable and zero, and never over anything
    /// else.
    fn map(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Gives a range back altogether.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and nothing refers into it any more.
    unsafe fn unmap(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Gives the pages of a range back; they read as zero afterwards.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and its contents are not needed any more.
    unsafe fn discard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Gives the pages of many ranges back and says of each whether it reads as zero now; of what
    /// is not `done` the contents are unknown. With a permit by the method of `release`, without
    /// one by one call of the usual kind for each. Takes a while: not for a path that a program
    /// waits for.
    ///
    /// # Safety
    /// 1. Each range was mapped by `map` of this object and its contents are not needed any more.
    ///    No thread writes to it before this returns.
    unsafe fn discard_all(
        &self,
        release: &mut Release,
        pieces: &mut [Piece],
        permit: Option<&Permit<'_>>,
    );

    /// Puts pages under a mapped range, before its first use. Fails where the system cannot.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object.
    unsafe fn populate(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range fault on every access without splitting its mapping.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn guard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Ends that: what was guarded is zero, and may be used again.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn unguard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// As `guard`, by a separate mapping: for where the system knows no guards. One range costs the
    /// process two mappings.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn forbid(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range readable, writable and nothing else, whatever its program has made of
    /// it.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object, and holds no guards.
    unsafe fn allow(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range longer where it is, with zeros, never over anything else.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object.
    unsafe fn extend(&self, addr: usize, old_len: usize, new_len: usize) -> Result<(), Error>;

    /// Moves the pages of `[old, old + old_len)` to `new` and extends them with zeros to `new_len`,
    /// or gives back what does not fit. Where it fails, the part that does not fit may be gone.
    ///
    /// # Safety
    /// 1. The old range was mapped by `map` of this object, and nothing refers into it afterwards.
    /// 2. The new range belongs to the caller and does not overlap the old one.
    unsafe fn relocate(
        &self,
        old: usize,
        old_len: usize,
        new: usize,
        new_len: usize,
    ) -> Result<(), Error>;

    /// Moves the pages of `[from, from + len)` to `[to, to + len)`, whose own are lost. Both stay
    /// mapped, and `from` reads as zero. After `Unsupported` nothing has changed; after any other
    /// error `to` is not mapped any more.
    ///
    /// # Safety
    /// 1. Both ranges were mapped by `map` of this object, each is part of one mapping, and they do
    ///    not overlap.
    /// 2. What is in `to` is not needed, and no thread uses `from` meanwhile.
    unsafe fn transfer(&self, from: usize, to: usize, len: usize) -> Result<(), Error>;

    /// The time, in ticks of 10 to 40 milliseconds from some moment on; it wraps round. Costs no
    /// system call.
    fn ticks(&self) -> u32;

    /// The processor's counter: time in units of less than 50 nanoseconds. Costs no system call.
    fn counter(&self) -> u64;

    /// The number of the process.
    fn process(&self) -> u32;

    /// Starts a thread that runs `run(argument)`, of which the program knows nothing; says its
    /// number, if it could. Nothing of libc may be used in it.
    ///
    /// # Safety
    /// 1. `run` may be called with the argument from another thread, for as long as the process
    ///    lives.
    unsafe fn spawn(&self, run: unsafe extern "C" fn(usize) -> !, argument: usize) -> Option<u32>;

    /// What a thread made by `spawn` does first.
    fn settle_in(&self);

    /// Every running thread of the process passes a full memory barrier before this returns; says
    /// whether the system can do that.
    fn barrier(&self) -> bool;

    /// Sleeps while the word is `value`, for at most the given milliseconds.
    fn sleep_on(&self, word: &AtomicU32, value: u32, milliseconds: u32);

    /// Wakes the thread that sleeps on the word.
    fn wake(&self, word: &AtomicU32);

    /// The calling thread takes no signal from here on: a handler might write to what the thread
    /// has itself stopped. Returns what `let_in_signals` needs.
    fn shut_out_signals(&self) -> u64;

    /// Ends that.
    fn let_in_signals(&self, before: u64);

    /// Prepares for `share`, `share_with` and `unshare`, in a process with `own` threads of ours
    /// beside the calling one. `None`: there certainly are other threads of the program. With a
    /// store of `bytes` bytes, unless that is zero. An error where writers cannot be stopped.
    /// `kept` is zero at first, and only these functions use it.
    fn begin_sharing(
        &self,
        own: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error>;

    /// Ends what `begin_sharing` has begun.
    fn end_sharing(&self, sharing: Sharing);

    /// In the child of a fork: `kept` was the parent's.
    fn forget_sharing(&self, kept: &AtomicU32);

    /// Makes private pages a view of the store from `offset` on. `copy` is given the address to
    /// which it must copy what is needed. Meanwhile no thread writes to the range, or sees it
    /// otherwise than whole. After an error nothing has changed.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object; what is not copied is not needed.
    /// 2. No other view uses that part of the store.
    unsafe fn share(
        &self,
        sharing: &Sharing,
        offset: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error>;

    /// Makes private pages a view of the same store as the range at `with`.
    ///
    /// # Safety
    /// 1. As for `share`.
    /// 2. At `with` there is a view of `len` bytes, in which no slab uses what `copy` writes.
    unsafe fn share_with(
        &self,
        sharing: &Sharing,
        with: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error>;

    /// Makes views private again.
    ///
    /// # Safety
    /// 1. The range consists of views; what is not copied is not needed.
    unsafe fn unshare(
        &self,
        sharing: &Sharing,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error>;

    /// Makes a range that may be a view private and zero.
    ///
    /// # Safety
    /// 1. As for `discard`; no thread uses the range meanwhile.
    unsafe fn renew(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Gives pages of a store back: all views read as zero there.
    ///
    /// # Safety
    /// 1. The range is a view, and the contents are needed in no view.
    unsafe fn empty_store(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Whether the calling thread's system calls go through a filter, or may; nothing where that
    /// cannot be looked up at the moment. Reads a file.
    fn is_filtered(&self) -> Option<bool>;

    /// What the calling thread's filter allows, found out by a child that makes the calls; nothing
    /// where none may be created, or could be. `cloned` says that this process has come of a fork
    /// under it.
    fn probe_filter(&self, cloned: bool) -> Option<Answers>;

    /// How short of memory the group of processes is that this one belongs to; with a permit for
    /// each file that is read.
    fn group<'a>(&self, permit: &dyn Fn() -> Option<Permit<'a>>) -> Group;

    /// Bytes of memory that the group, or else the machine, may have. Reads files: for the start.
    fn memory_there_is(&self) -> Option<usize>;

    /// A word that an attacker cannot predict, or an error: never a weak one.
    fn random(&self) -> Result<u64, Error>;

    /// Lets about a millisecond pass, so that a thread that was interrupted can go on.
    fn wait_briefly(&self);

    /// One line for a person, already ended by a newline.
    fn report(&self, line: &[u8]);

    /// Ends the process at once, in a way that no handler can turn into going on.
    fn abort(&self) -> !;
}

/// How many times `wait_briefly` is called before something is taken to be there for good.
const WAITS: u32 = 200;

/// Waits until `done` returns true, for a fifth of a second at most; returns true if it did.
///
/// For the moments between two instructions of another thread only: that thread may have been
/// interrupted there, on a loaded machine for some milliseconds. Nothing depends on it going on.
pub fn wait_for(os: &impl Os, done: impl Fn() -> bool) -> bool {
    if crate::sync::spin_until(&done) {
        return true;
    }
    for _ in 0..WAITS {
        if done() {
            return true;
        }
        os.wait_briefly();
    }
    done()
}
