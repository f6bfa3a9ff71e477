//! The process's allocator: one static, on separate pages. `process/start.rs` builds it.

use super::Allocator;
use crate::os::Linux;
use crate::stats::{Anchor, Root};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;

/// Everything in this library that is ever written after it is loaded, on separate pages, so that
/// they can be made read-only when the start is done.
#[repr(C, align(4096))]
#[allow(missing_debug_implementations, reason = "its fields are read by its own functions only")]
pub struct Global {
    pub(crate) allocator: UnsafeCell<Allocator<Linux>>,
    /// The addresses of all parts, for readers from outside. As the allocator.
    pub(crate) root: UnsafeCell<Root>,
    /// Where the start is. FRESH -> STARTING by exchange, by one thread; the rest by that thread.
    pub(crate) state: AtomicU32,
    /// The thread key that tells of thread exits, plus one; zero without. Written during the start.
    pub(crate) exit_key: AtomicU32,
    /// Not zero where wrappers of malloc are looked through. Written during the start.
    pub(crate) looks_through: AtomicUsize,
    /// The program's own `operator delete`, or null (`process/program_delete.rs`). Written while
    /// the library is loaded.
    pub(crate) delete: AtomicPtr<c_void>,
}

/// Offset in bytes, from the beginning of [`GLOBAL`], of a 64-bit word. It is not zero if calls
/// other than malloc must ask `site_behind`. For the shims.
pub const LOOKS_THROUGH: usize = core::mem::offset_of!(Global, looks_through);

// SAFETY: the allocator is written once, before `state` says ready and before any pointer into it
// is used by another thread; read-only afterwards.
unsafe impl Sync for Global {}

/// The process's own.
pub static GLOBAL: Global = Global {
    allocator: UnsafeCell::new(Allocator::unready(Linux::undetected())),
    root: UnsafeCell::new(Root::NONE),
    state: AtomicU32::new(FRESH),
    exit_key: AtomicU32::new(0),
    looks_through: AtomicUsize::new(0),
    delete: AtomicPtr::new(core::ptr::null_mut()),
};

/// Where a scan from outside begins: found by its name, or by its first bytes in the data of any
/// mapped file. It leads to the root, even before that is written.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.rel.ro")]
#[used]
#[allow(non_upper_case_globals)]
pub static toft_root: Anchor = Anchor::new(&raw const toft_root, GLOBAL.root.get());

pub(crate) const FRESH: u32 = 0;
pub(crate) const STARTING: u32 = 1;
pub(crate) const READY: u32 = 2;

/// The allocator, ready or not: before the start every address is foreign to it.
#[inline(always)]
pub(crate) fn allocator() -> &'static Allocator<Linux> {
    // SAFETY: written once, in `start`, before the state says so to others; a thread that reads it
    // before sees an allocator of nothing, because its span is written last.
    unsafe { &*GLOBAL.allocator.get() }
}

/// Returns true when the start is done.
pub(crate) fn is_ready() -> bool {
    GLOBAL.state.load(Ordering::Acquire) == READY
}

/// Whether every call of every thread is looked at, so that nothing is freed unseen.
pub(crate) fn calls_are_looked_at() -> bool {
    allocator().options().is_careful() && GLOBAL.exit_key.load(Ordering::Relaxed) != 0
}
