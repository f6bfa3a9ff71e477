//! Tests of pinning on the running kernel.

use super::super::Memory as _;
use super::super::filter::Filter;
use super::*;
use crate::os::seccomp::Calls;
use std::sync::{Mutex, MutexGuard};
use std::vec;
extern crate std;

const PAGE: usize = 4096;
/// Arguments of `clone` that make it fork, on every architecture.
const FORK: [usize; 6] = [libc::SIGCHLD as usize, 0, 0, 0, 0, 0];
/// Descriptors and the place of the mapping belong to the process, so one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

struct Memory {
    start: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Memory {
    const LEN: usize = 40 * PIECE_BYTES;

    /// Returns pages that contain their number.
    fn new() -> Memory {
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // At a fixed address there may be another test's fake system, which is 16 TiB large.
        let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: (1) a new mapping.
        let start = unsafe { syscall(libc::SYS_mmap, [0, Self::LEN, both, flags, usize::MAX, 0]) };
        let start = usize::try_from(start).unwrap();
        let advice = libc::MADV_NOHUGEPAGE as usize;
        // SAFETY: (1) a mapping of this test.
        unsafe { syscall(libc::SYS_madvise, [start, Self::LEN, advice, 0, 0, 0]) };
        let memory = Memory { start, _turn: turn };
        (0..Self::LEN / PAGE).for_each(|page| memory.write(page));
        memory
    }

    fn word(&self, page: usize) -> *mut usize {
        core::ptr::with_exposed_provenance_mut(self.start + page * PAGE + 8)
    }

    fn write(&self, page: usize) {
        // SAFETY: a word of the mapping.
        unsafe { self.word(page).write_volatile(page + 1) };
    }

    fn is_there(&self, page: usize) -> bool {
        // SAFETY: a word of the mapping.
        unsafe { self.word(page).read_volatile() == page + 1 }
    }

    fn resident(&self) -> usize {
        let mut bytes = 0;
        let address = (0..Self::LEN).step_by(PIECE_BYTES).map(|at| self.start + at);
        address.for_each(|at| {
            Linux::detect().resident_pieces(at, PIECE_BYTES, |_, len| bytes += len);
        });
        bytes / PAGE
    }

    fn pin(&self, pinned: &Pinned) {
        (0..Self::LEN).step_by(PIECE_BYTES).for_each(|at| {
            assert!(pinned.add(self.start + at, PIECE_BYTES));
        });
    }

    fn discard(
        &self,
        pinned: &Pinned,
        is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error> {
        let filter = Filter::new();
        filter.watch();
        let os = Linux::detect();
        // SAFETY: (1) the test's own mapping, which only it uses.
        unsafe { os.discard_unused(pinned, &|| filter.permit(&os, Calls::NONE, true), is_unused) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: (1) mapped by `new`; the test is over.
        unsafe { Linux::detect().unmap(self.start, Self::LEN) }.unwrap();
    }
}

/// Acts like the kernel when it is short of memory at the worst moment: takes the free pages.
fn take(address: usize, len: usize) {
    let advice = libc::MADV_PAGEOUT as usize;
    // SAFETY: (1) pages that are not free keep their contents.
    unsafe { syscall(libc::SYS_madvise, [address, len, advice, 0, 0, 0]) };
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn end_child(well: bool) -> ! {
    loop {
        // SAFETY: (1) ends the child.
        unsafe { syscall(libc::SYS_exit_group, [usize::from(!well), 0, 0, 0, 0, 0]) };
    }
}

/// Waits for a child, and returns its status.
fn end_of(child: isize) -> i32 {
    let mut status = -1i32;
    let args = [child as usize, (&raw mut status).addr(), 0, 0, 0, 0];
    // SAFETY: (1) the kernel writes the status.
    assert_eq!(unsafe { syscall(libc::SYS_wait4, args) }, child);
    status
}

#[test]
fn what_is_not_used_goes() {
    let memory = Memory::new();
    let pinned = Pinned::new();
    memory.pin(&pinned);
    let before = descriptors();
    let mut asked = 0;
    let gone = memory.discard(&pinned, |address, len| {
        assert_eq!(address, memory.start + asked);
        asked += len;
        true
    });
    assert_eq!((asked, gone, memory.resident()), (Memory::LEN, Ok(Memory::LEN), 0));
    assert_eq!(descriptors(), before);
}

#[test]
fn what_is_used_stays_even_where_the_kernel_is_short_of_memory() {
    let memory = Memory::new();
    let pinned = Pinned::new();
    memory.pin(&pinned);
    let gone = memory.discard(&pinned, |address, len| {
        take(address, len);
        false
    });
    assert_eq!(gone, Ok(0));
    take(memory.start, Memory::LEN);
    assert!((0..Memory::LEN / PAGE).all(|page| memory.is_there(page)));
}

/// The pinned page is the page that a write changes, even if it is shared with a child or was only
/// read so far.
#[test]
fn what_is_written_between_pinning_and_freeing_stays() {
    for shared in [false, true] {
        let memory = Memory::new();
        let pinned = Pinned::new();
        if !shared {
            let advice = libc::MADV_DONTNEED as usize;
            // SAFETY: (1) a mapping of this test.
            unsafe { syscall(libc::SYS_madvise, [memory.start, Memory::LEN, advice, 0, 0, 0]) };
            assert!((0..Memory::LEN / PAGE).all(|page| !memory.is_there(page)));
        }
        // SAFETY: the child waits to be killed.
        let child = if shared { unsafe { syscall(libc::SYS_clone, FORK) } } else { 0 };
        if shared && child == 0 {
            loop {
                // SAFETY: (1) sleeps.
                unsafe { syscall(libc::SYS_ppoll, [0; 6]) };
            }
        }
        let piece = (memory.start, PIECE_BYTES);
        assert!(pinned.open().is_some() && pinned.pin(piece, PAGE));
        (0..PIECE_BYTES / PAGE).for_each(|page| memory.write(page));
        assert!(advise(piece, libc::MADV_FREE));
        take(piece.0, piece.1);
        keep(piece.0, piece.1, PAGE);
        pinned.close();
        assert!((0..PIECE_BYTES / PAGE).all(|page| memory.is_there(page)), "{shared}");
        if shared {
            // SAFETY: (1) the test's own child.
            unsafe {
                syscall(libc::SYS_kill, [child as usize, libc::SIGKILL as usize, 0, 0, 0, 0])
            };
            end_of(child);
        }
    }
}

/// A child that is created while the pipe is being closed closes the rest of it.
#[test]
fn a_pipe_that_is_half_closed_is_closed() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let pinned = Pinned::new();
    assert!(pinned.open().is_some());
    let ends = pinned.ends().unwrap();
    process::close(ends[0]);
    Linux::detect().keep_pinned(&pinned);
    let get = libc::F_GETFD as usize;
    // SAFETY: (1) only queries a descriptor.
    assert!(unsafe { syscall(libc::SYS_fcntl, [ends[1] as usize, get, 0, 0, 0, 0]) } < 0);
    assert!(pinned.ends().is_none());
}

/// Nothing is tried if the system does not keep pinned pages, or if there is a filter.
#[test]
fn where_it_cannot_be_done_nothing_is_asked() {
    let memory = Memory::new();
    let pinned = Pinned::new();
    assert_eq!(pinned.is_able(&Linux::detect()), Some(true));
    pinned.able.store(UNABLE, Relaxed);
    memory.pin(&pinned);
    assert_eq!(memory.discard(&pinned, |_, _| panic!("asked")), Err(Error::Unsupported));
    pinned.able.store(ABLE, Relaxed);
    // SAFETY: (1) the test's own mapping.
    let refused =
        unsafe { Linux::detect().discard_unused(&pinned, &|| None, |_, _| panic!("asked")) };
    assert_eq!(refused, Err(Error::Unsupported));
    assert!((0..Memory::LEN / PAGE).all(|page| memory.is_there(page)));
}

/// A thread begins to use a page after it was freed, and the check does not see it.
#[test]
fn what_is_written_to_meanwhile_stays() {
    let memory = Memory::new();
    let pinned = Pinned::new();
    memory.pin(&pinned);
    let pages = Memory::LEN / PAGE;
    let chosen = |page: usize| page % 7 == 3;
    let gone = memory.discard(&pinned, |address, len| {
        let first = (address - memory.start) / PAGE;
        (first..first + len / PAGE)
            .filter(|&page| chosen(page))
            .for_each(|page| memory.write(page));
        true
    });
    let stay = (0..pages).filter(|&page| chosen(page)).count();
    assert_eq!((memory.resident(), gone), (stay, Ok((pages - stay) * PAGE)));
    assert!((0..pages).all(|page| memory.is_there(page) == chosen(page)));
}

/// The parent's pages are taken, while the child keeps its own, which no other process has then.
#[test]
fn the_child_of_a_fork_keeps_what_was_pinned() {
    let memory = Memory::new();
    let pinned = Pinned::new();
    memory.pin(&pinned);
    let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: (1) a new mapping, of a word that both processes see.
    let shared = unsafe { syscall(libc::SYS_mmap, [0, PAGE, both, flags, usize::MAX, 0]) };
    // SAFETY: the mapping above; zero at first.
    let is_alone: &AtomicU32 = unsafe { &*core::ptr::with_exposed_provenance(shared as usize) };
    let (mut child, mut first) = (0, 0);
    let gone = memory.discard(&pinned, |address, _| {
        if child == 0 {
            first = address;
            let ends = pinned.ends().unwrap();
            // SAFETY: (1) the child makes only raw system calls.
            child = unsafe { syscall(libc::SYS_clone, FORK) };
            if child == 0 {
                while is_alone.load(Acquire) == 0 {
                    std::thread::yield_now();
                }
                Linux::detect().keep_pinned(&pinned);
                take(memory.start, Memory::LEN);
                let all = (0..Memory::LEN / PAGE).all(|page| memory.is_there(page));
                let closed = ends.iter().all(|&end| {
                    let get = libc::F_GETFD as usize;
                    // SAFETY: (1) only queries a descriptor.
                    unsafe { syscall(libc::SYS_fcntl, [end as usize, get, 0, 0, 0, 0]) < 0 }
                });
                end_child(all && closed && pinned.is_empty());
            }
            let advice = libc::MADV_DONTNEED as usize;
            // SAFETY: (1) a mapping of this test.
            unsafe { syscall(libc::SYS_madvise, [memory.start, Memory::LEN, advice, 0, 0, 0]) };
            is_alone.store(1, Release);
        }
        true
    });
    assert!(gone.is_ok() && child > 0 && first == memory.start);
    assert_eq!(end_of(child), 0);
    // SAFETY: (1) mapped above.
    unsafe { syscall(libc::SYS_munmap, [shared as usize, PAGE, 0, 0, 0, 0]) };
}

#[test]
fn without_descriptors_nothing_happens() {
    let memory = Memory::new();
    let pinned = Pinned::new();
    memory.pin(&pinned);
    // Other tests open files, so this uses a child.
    // SAFETY: the child makes only raw system calls.
    let child = unsafe { syscall(libc::SYS_clone, FORK) };
    if child == 0 {
        let none = [0u64; 2];
        let which = libc::RLIMIT_NOFILE as usize;
        // SAFETY: (1) the kernel reads the limit, which is the child's own.
        unsafe { syscall(libc::SYS_prlimit64, [0, which, (&raw const none).addr(), 0, 0, 0]) };
        let mut asked = false;
        let gone = memory.discard(&pinned, |_, _| {
            asked = true;
            true
        });
        take(memory.start, Memory::LEN);
        let all = (0..Memory::LEN / PAGE).all(|page| memory.is_there(page));
        end_child(all && gone == Err(Error::NoMemory) && !asked);
    }
    assert_eq!(end_of(child), 0);
}

#[test]
fn runs_are_named() {
    let of = |flags: &[u8]| {
        let mut all = std::vec::Vec::new();
        runs(flags, |first, count| all.push((first, count)));
        all
    };
    assert_eq!(of(&[1, 1, 0, 3, 2, 1]), [(0, 2), (3, 1), (5, 1)]);
    assert_eq!((of(&[1; 7]), of(&[])), (vec![(0, 7)], vec![]));
}
