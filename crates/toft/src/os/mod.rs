//! L1: the interface to the operating system.
//!
//! [`Os`] has everything that the allocator needs from a system: fixed mappings, their release, and
//! entropy. [`Linux`] implements it by raw system calls. They never change `errno` and never enter
//! libc, so they can never call back into malloc. `fake` implements it on an array and fails on
//! demand, so that the whole core runs in property tests and under the fuzzer.

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
pub use cgroup::{Group, memory_there_is};
use core::ops::Range;
use filter::Permit;
pub use huge::{HUGE, Huge, HugeHabit, MIDDLE};
pub use linux::Linux;
pub use mapping_options::MappingOptions;
pub use page_idleness::{PageIdleness, Pages, Scan};
pub use pin::{PIECE_BYTES, Pin, Pinned};
use release::{Piece, Release};
use seccomp::Answers;
pub use share::{Sharing, threads_and_filter};
pub use syscall::syscall;

/// The reason why a call to the system failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Something else is already mapped there.
    Occupied,
    /// The system has no memory, address space or mappings left.
    NoMemory,
    /// The system does not support the call.
    Unsupported,
}

/// The number of ticks of `Os::ticks` in about a second.
pub const SECOND: u32 = 40;

/// Everything that the allocator needs from a system.
///
/// # Safety
///
/// An implementation promises:
/// 1. after `map(a, n)` succeeds, the `n` bytes at `a` are readable, writable, zero, and were not
///    mapped before the call;
/// 2. `unmap`, `discard`, `discard_all`, `guard`, `unguard`, `forbid`, `allow`, `relocate` and
///    `transfer` touch exactly the ranges they are given;
/// 3. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Os: PageIdleness + Huge + Pin + MappingOptions {
    /// Returns the number of bytes in a page, which is a power of two and at least 4096.
    fn page_size(&self) -> usize;

    /// Returns the addresses to try first. They begin with a page, and their number is a power of
    /// two.
    fn address_space(&self) -> Range<usize>;

    /// Notes the addresses of the allocator's own tables.
    fn with_tables(self, _tables: Range<usize>) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Maps `len` bytes at exactly `addr`, readable, writable and zero, and never over anything
    /// else.
    fn map(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Unmaps a range.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and nothing refers into it any more.
    unsafe fn unmap(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Releases the pages of a range, which reads as zero afterwards.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and its contents are not needed any more.
    unsafe fn discard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Releases the pages of many ranges, and sets `done` for each range that reads as zero now.
    /// The contents of the other ranges are unknown. With a permit it uses the method of `release`.
    /// Without one it makes a usual call for each range. It takes some time, so do not use it on a
    /// path that the program waits for.
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

    /// Makes the pages of a mapped range present, before its first use. Fails if the system cannot.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object.
    unsafe fn populate(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range fault on every access without splitting its mapping.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn guard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Ends `guard`: the range is zero, and may be used again.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn unguard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range fault on every access, by a separate mapping. It is for systems without
    /// guard pages. One range costs the process two mappings.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn forbid(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range readable, writable and nothing else, even if the program changed its
    /// protection.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object, and holds no guards.
    unsafe fn allow(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Extends a mapped range in place, with zeros, never over anything else.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object.
    unsafe fn extend(&self, addr: usize, old_len: usize, new_len: usize) -> Result<(), Error>;

    /// Moves the pages of `[old, old + old_len)` to `new`. Extends them with zeros to `new_len`, or
    /// releases the part that does not fit. After a failure, the part that does not fit may be
    /// gone.
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

    /// Moves the pages of `[from, from + len)` to `[to, to + len)`, whose own pages are lost. Both
    /// stay mapped, and `from` reads as zero. After `Unsupported` nothing has changed. After any
    /// other error `to` is not mapped any more.
    ///
    /// # Safety
    /// 1. Both ranges were mapped by `map` of this object, each is part of one mapping, and they do
    ///    not overlap.
    /// 2. What is in `to` is not needed, and no thread uses `from` meanwhile.
    unsafe fn transfer(&self, from: usize, to: usize, len: usize) -> Result<(), Error>;

    /// Returns the time in ticks of 10 to 40 milliseconds, from an arbitrary moment on. It wraps
    /// round. Makes no system call.
    fn ticks(&self) -> u32;

    /// Returns the processor's counter, in units of less than 50 nanoseconds. Makes no system call.
    fn counter(&self) -> u64;

    /// Returns the number of the process.
    fn process(&self) -> u32;

    /// Starts a thread that runs `run(argument)`, and returns its number, or `None` on failure. The
    /// program does not know the thread, and nothing of libc may be used in it.
    ///
    /// # Safety
    /// 1. `run` may be called with the argument from another thread, for as long as the process
    ///    lives.
    unsafe fn spawn(&self, run: unsafe extern "C" fn(usize) -> !, argument: usize) -> Option<u32>;

    /// Prepares a thread that `spawn` made. It calls this first.
    fn settle_in(&self);

    /// Makes every running thread of the process pass a full memory barrier before this returns.
    /// Returns false if the system cannot do that.
    fn barrier(&self) -> bool;

    /// Sleeps while the word is `value`, for at most the given number of milliseconds.
    fn sleep_on(&self, word: &AtomicU32, value: u32, milliseconds: u32);

    /// Wakes the thread that sleeps on the word.
    fn wake(&self, word: &AtomicU32);

    /// Blocks all signals of the calling thread. A handler might write to memory whose writers the
    /// thread itself has stopped. Returns the argument for `let_in_signals`.
    fn shut_out_signals(&self) -> u64;

    /// Ends `shut_out_signals`.
    fn let_in_signals(&self, before: u64);

    /// Prepares for `share`, `share_with` and `unshare`.
    ///
    /// `own` is the number of Toft's threads beside the calling one. `None` means that the program
    /// certainly has other threads. If `bytes` is not zero, this makes a store of that size. Fails
    /// if writers cannot be stopped. `kept` is zero at first, and only these functions use it.
    fn begin_sharing(
        &self,
        own: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error>;

    /// Ends the work that `begin_sharing` began.
    fn end_sharing(&self, sharing: Sharing);

    /// Resets `kept` in the child of a fork, where it is the parent's.
    fn forget_sharing(&self, kept: &AtomicU32);

    /// Makes private pages a view of the store from `offset` on. `copy` gets the address to which
    /// it must copy the needed contents. Meanwhile no thread can write to the range, and every read
    /// sees it complete. After an error nothing has changed.
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

    /// Releases pages of a store: all views read as zero there.
    ///
    /// # Safety
    /// 1. The range is a view, and the contents are needed in no view.
    unsafe fn empty_store(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Returns true if a filter applies, or may apply, to the calling thread's system calls.
    /// Returns `None` if that cannot be checked at the moment. Reads a file.
    fn is_filtered(&self) -> Option<bool>;

    /// Returns what the calling thread's filter allows, which a child that makes the calls finds
    /// out. Returns `None` if the child may not or cannot be created. `cloned` means that this
    /// process is the child of a fork under the filter.
    fn probe_filter(&self, cloned: bool) -> Option<Answers>;

    /// Returns how short of memory the process's group is. Each file that it reads needs a permit.
    fn group<'a>(&self, permit: &dyn Fn() -> Option<Permit<'a>>) -> Group;

    /// Returns the bytes of memory that the group, or else the machine, has. Reads files: call it
    /// at the start only.
    fn memory_there_is(&self) -> Option<usize>;

    /// Returns a word that an attacker cannot predict, or an error, but never a weak word.
    fn random(&self) -> Result<u64, Error>;

    /// Lets about a millisecond pass, so that an interrupted thread can go on.
    fn wait_briefly(&self);

    /// Reports a line of text to the user. The line ends with a newline.
    fn report(&self, line: &[u8]);

    /// Ends the process at once, in a way that no handler can prevent.
    fn abort(&self) -> !;
}

/// The number of calls of `wait_briefly` after which a condition is taken to be permanent.
const WAITS: u32 = 200;

/// Waits until `done` returns true, for at most a fifth of a second. Returns true if it did.
///
/// Use it only for moments between two instructions of another thread. That thread may have been
/// interrupted there, on a loaded machine for some milliseconds. Nothing depends on the thread
/// going on.
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
