//! L1: the interface to the operating system.
//!
//! [`Os`] has everything that the allocator needs from a system: fixed mappings, their release, and
//! entropy. [`Linux`] implements it by raw system calls. They never change `errno` and never enter
//! libc, so they can never call back into malloc. Calls that take pages away are the exception,
//! in a process with memory hooks (`hooks.rs`). `fake` implements it on an array and fails on
//! demand, so that the whole core runs in property tests and under the fuzzer.

mod cgroup;
mod digits;
pub mod filter;
mod hooks;
mod huge;
pub mod keys;
mod linux;
mod mapping_options;
mod memory;
mod page_idleness;
mod page_sharing;
pub mod probes;
pub mod process;
mod random;
pub mod release;
mod residency;
pub mod seccomp;
mod share;
mod syscall;
mod text;
pub mod thread;
mod threads;
pub mod userfault;
mod userfaultfd;

#[cfg(any(test, feature = "fake-os"))]
pub mod fake;

pub use cgroup::{Group, memory_there_is};
use core::ops::Range;
pub use digits::digits;
use filter::Permit;
pub use huge::{HUGE, Huge, HugeHabit, MIDDLE};
pub use linux::Linux;
pub use mapping_options::MappingOptions;
pub use memory::Memory;
pub use page_idleness::{PageIdleness, Pages, Scan};
pub use page_sharing::PageSharing;
pub use residency::{PIECE_BYTES, Residency};
use seccomp::Answers;
pub use share::{Sharing, threads_and_filter};
pub use syscall::syscall;
pub use text::Text;
pub use threads::Threads;

/// The reason why a call to the system failed, or was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Something else is already mapped there.
    Occupied,
    /// Another thread has not finished a call about the same place. No call was made. There may be
    /// memory elsewhere.
    Busy,
    /// The system has no memory, address space or mappings left.
    NoMemory,
    /// The system does not support the call.
    Unsupported,
}

/// The number of ticks of `Os::ticks` in about a second.
pub const SECOND: u32 = 40;

/// Everything that the allocator needs from a system. Each part is a separate trait, and a layer
/// names the part that it uses: regions use [`Memory`].
///
/// # Safety
///
/// An implementation promises:
/// 1. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Os:
    Memory + Threads + PageSharing + PageIdleness + Huge + Residency + MappingOptions
{
    /// Notes the addresses of the allocator's own tables.
    fn with_tables(self, _tables: Range<usize>) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Returns the system as it is after the start. It does not change any more then, because the
    /// allocator that contains it becomes read-only.
    fn after_start(self) -> Self
    where
        Self: Sized,
    {
        self
    }

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
pub fn wait_for(os: &impl Threads, done: impl Fn() -> bool) -> bool {
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
