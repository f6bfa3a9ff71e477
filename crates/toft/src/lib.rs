//! Toft as the allocator of a Rust program: blocks are grouped by call site, every free is checked,
//! idle memory is returned to the operating system, and `toft heap PID` says at any moment who
//! holds what.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: toft::Toft = toft::Toft;
//!
//! fn main() {
//!     // A promise: this program installs no filter of system calls (seccomp).
//!     toft::watch_filters();
//!     let numbers: Vec<u32> = (0..1000).collect();
//!     assert!(toft::statistics().live_bytes >= numbers.len() * 4);
//! }
//! ```
//!
//! The environment says what is written when the program ends (`TOFT_STATS`, `TOFT_LEAKS`,
//! `TOFT_PROFILE`), and how a misuse is treated (`TOFT_ON_MISUSE`). All variables are listed in
//! [the options](https://github.com/toft-malloc/toft/blob/main/docs/options.md).
//!
//! Linux only: glibc on x86-64 and aarch64, and static musl programs on x86-64. Elsewhere the crate
//! `toft-arena` allocates from memory that the program hands over.

#![no_std]

mod global;
mod zone;

pub use global::Toft;
pub use zone::{Zone, ZoneStatistics};

static HOOK: toft_core::hook::Hook = toft_watch::with(toft_zone::with(toft_core::hook::Hook::NONE));
toft_core::hook!(HOOK);

use core::ffi::c_int;
use toft_core::process;
use toft_core::stats::snapshot;

/// This library's version.
///
/// ```
/// assert!(toft::VERSION.starts_with("0."));
/// ```
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The figures of the whole process's heap, by [`statistics`]. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of live blocks.
    pub live_blocks: usize,
    /// The usable bytes of the live blocks.
    pub live_bytes: usize,
    /// The number of blocks that were ever allocated.
    pub allocations: u64,
    /// Free bytes in slots that were in use and belong to a thread. They are resident until the
    /// pages are returned.
    pub free_bytes: usize,
    /// Bytes of free large blocks and empty slabs that may still be resident.
    pub kept_bytes: usize,
    /// Bytes of address space that is mapped for blocks. The part that was never touched is not
    /// resident.
    pub mapped_bytes: usize,
    /// Bytes of address space that is mapped for tables.
    pub metadata_bytes: usize,
    /// The number of running threads that have allocated.
    pub threads: usize,
    /// The number of invalid calls that were reported and ignored (`TOFT_ON_MISUSE=warn`).
    pub misuses: usize,
}

/// Counts the whole heap. Reads the states of all slots: some milliseconds for a heap of 1 GiB, and
/// nothing at any other time. While other threads allocate, each figure is exact for some moment
/// during the call. All figures are zero before the first allocation.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// let before = toft::statistics().live_bytes;
/// let block = vec![0u8; 1 << 20];
/// assert!(toft::statistics().live_bytes >= before + block.len());
/// ```
pub fn statistics() -> Statistics {
    let Some(allocator) = process::instance() else { return Statistics::default() };
    let all = snapshot(allocator);
    Statistics {
        live_blocks: all.live_blocks,
        live_bytes: all.live_bytes(),
        allocations: all.allocations,
        free_bytes: all.free_bytes,
        kept_bytes: all.kept_bytes,
        mapped_bytes: all.mapped_bytes,
        metadata_bytes: all.metadata_bytes,
        threads: all.threads,
        misuses: all.misuses,
    }
}

/// Returns all memory that holds no live block to the operating system. Returns the number of bytes
/// of pages that were released. The slots that other threads allocate next keep their pages. All
/// other free pages are returned some hundred milliseconds after their last use anyway, if
/// [`watch_filters`] was called.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// let blocks: Vec<_> = (0..10_000).map(|number| vec![number as u8; 1000]).collect();
/// drop(blocks);
/// assert!(toft::purge() > 0);
/// ```
pub fn purge() -> usize {
    process::purge()
}

/// Verifies the whole heap and prints what is wrong with it on standard error. Returns true if
/// nothing is. Reads every slab; the builds `secure` and `secure-light` also read canaries, and
/// `secure` reads free memory.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// assert!(toft::verify());
/// ```
pub fn verify() -> bool {
    process::verify()
}

/// Writes a profile of the heap to a file descriptor: the live blocks of each call site, exactly.
/// `toft report FILE` reads it. Returns false if [`watch_filters`] was not called, because the
/// calls that read the list of mappings might then end the process; if the descriptor cannot be
/// written to; and if another thread is writing a profile.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// use std::os::fd::AsRawFd;
/// # let path = std::env::temp_dir().join(format!("heap-{}.toft", std::process::id()));
/// toft::watch_filters();
/// let file = std::fs::File::create(&path)?;
/// assert!(toft::write_profile(file.as_raw_fd()));
/// # assert!(std::fs::read(&path)?.len() > 100);
/// # std::fs::remove_file(&path)
/// # ; Ok::<(), std::io::Error>(())
/// ```
pub fn write_profile(descriptor: c_int) -> bool {
    toft_watch::profile_to(descriptor)
}

/// Writes the figures of this process to a file descriptor, in Prometheus' text format. Returns
/// false where [`write_profile`] does.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// use std::os::fd::AsRawFd;
/// toft::watch_filters();
/// assert!(toft::write_metrics(std::io::stdout().as_raw_fd()));
/// ```
pub fn write_metrics(descriptor: c_int) -> bool {
    toft_watch::metrics_to(descriptor)
}

/// Promises that the program calls [`before_filter`] before it installs a filter of system calls
/// (seccomp), or that it installs none. Only then may Toft make calls that such a filter might
/// forbid: it starts the thread that returns idle memory, and it can be purged from outside. A
/// program that changes its users or namespaces later does so inside [`without_thread`].
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// toft::watch_filters();
/// ```
pub fn watch_filters() {
    process::watch_filters();
}

/// To be called before the program installs a filter of system calls (seccomp). From then on Toft
/// makes only calls that every malloc makes, and finds out which others the filter allows.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// toft::watch_filters();
/// toft::before_filter();
/// // Here the program installs its filter.
/// assert_eq!(vec![1; 1000].len(), 1000);
/// ```
pub fn before_filter() {
    process::before_filter();
}

/// Calls `body` while Toft has no thread, and returns its result. For calls that change the users,
/// groups, capabilities or namespaces of the process: a thread keeps those with which it began, and
/// `unshare(CLONE_NEWUSER)` fails in a process that has a second thread.
///
/// The thread, which [`watch_filters`] allows, is stopped first, within a millisecond or so. When
/// `body` has returned or panicked, it may start again, with the new users and namespaces. Other
/// threads of the program go on. Calls of this function may be nested.
///
/// This never fails. `body` runs beside the thread in two cases: if the thread has not ended within
/// 10 s, because a debugger has stopped it, and after [`before_filter`], because the filter may
/// forbid the waiting. Under a filter the thread ends by itself within a second.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: toft::Toft = toft::Toft;
/// toft::watch_filters();
/// # // SAFETY: a system call without arguments.
/// # let user = unsafe { libc::getuid() };
/// // SAFETY: a number of a user.
/// let result = toft::without_thread(|| unsafe { libc::setuid(user) });
/// assert_eq!(result, 0);
/// ```
pub fn without_thread<R>(body: impl FnOnce() -> R) -> R {
    process::without_thread(body)
}
