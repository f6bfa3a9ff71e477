//! Calls that are about no block of the caller's: what is done to the whole process's heap, asked
//! of it, or promised to it.

pub use super::thread_exit::give_exit_key;

use crate::allocator::{Allocator, allocator, is_ready};
use crate::os::{Linux, process};
use crate::process::start::{heap_or_start, ready};
use crate::report::Call;
use crate::stats;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::thread::{EXITED_HEAP, Heap};
use core::ptr::{NonNull, with_exposed_provenance_mut};

/// Gives back whatever the whole process can give back; returns the bytes of pages.
pub fn purge() -> usize {
    heap_or_start().map_or(0, |heap| {
        allocator().maintenance().probe_filter();
        allocator().sweeper().purge(Some(heap)) + allocator().compactor().compact_now(heap)
    })
}

/// Purges if enough was freed since the last purge; returns the bytes of pages.
pub fn trim() -> usize {
    if heap_or_start().is_some() && allocator().sweeper().is_trim_due() { purge() } else { 0 }
}

/// Lets sparse slabs share pages, where `TOFT_COMPACT` allows it; returns the bytes of pages saved,
/// by calculation.
pub fn compact() -> usize {
    heap_or_start().map_or(0, |heap| allocator().compactor().compact_now(heap))
}

/// Sends live data out to swap that nothing has happened to since the last call; returns the bytes.
pub fn page_out_cold() -> usize {
    instance().map_or(0, |allocator| {
        allocator.maintenance().probe_filter();
        allocator.cold_pages().page_out()
    })
}

/// The process's allocator, for statistics; `None` before the first allocation.
#[inline]
pub fn instance() -> Option<&'static Allocator<Linux>> {
    ready().then(allocator)
}

/// To be called before the process installs a filter of system calls (seccomp): from then on only
/// such calls are made as any malloc makes.
pub fn before_filter() {
    // Without memory for an allocator there is no filter state to notify. Then `watch_filters` has
    // made no promise either.
    if ready() {
        allocator().uninitialized_reads().stop_watcher();
        allocator().filter().about_to_install(allocator().os());
    }
}

/// The kernel has refused the filter that [`before_filter`] told of.
pub fn filter_refused() {
    if ready() {
        allocator().filter().was_refused();
    }
}

/// A promise that [`before_filter`] is called before every filter, or that there never is one.
/// Without it only such system calls are made as any malloc makes: one of another kind, under a
/// filter that does not know it, would end the process. The preload library gives this promise,
/// because it exports `prctl` and `syscall`; a Rust program may do so itself.
pub fn watch_filters() {
    if ready() {
        allocator().filter().watch();
    }
}

/// Stops Toft's thread, and returns when it has left the process. Until [`allow_reclaimer`] none
/// starts. Returns false if the caller must not call that. For calls that change the credentials or
/// the namespaces of the process.
pub fn stop_reclaimer() -> bool {
    is_ready() && allocator().maintenance().stop_thread()
}

/// Ends the effect of [`stop_reclaimer`].
pub fn allow_reclaimer() {
    allocator().maintenance().allow_thread();
}

/// A library is opened without `RTLD_DEEPBIND`, because it would find another malloc with it: says
/// so once.
pub fn deepbind_is_cleared() {
    if ready() {
        allocator().mapper().cannot_bind_deeply();
    }
}

/// Verifies the whole heap, and names what is wrong; returns true if nothing is.
#[inline(never)]
pub fn verify() -> bool {
    instance().is_none_or(|allocator| allocator.verifier().verify(heap_or_none()))
}

/// Verifies the heap when the program ends, for a bounded time.
#[inline(never)]
pub fn verify_at_exit() {
    if let Some(allocator) = instance() {
        allocator.verifier().verify_at_exit(heap_or_none());
    }
}

/// The heap of the calling thread, or one that owns nothing if there is no memory for it.
fn heap_or_none() -> &'static Heap {
    heap_or_start().unwrap_or(EXITED_HEAP.heap())
}

/// Names an access by a function that copies or fills, if it leaves the block that it begins in.
/// Starts nothing: before the first allocation there is no block.
pub fn check_range(call: Call, writes: bool, address: usize, bytes: usize) {
    allocator().reports().stays_within(call, writes, address, bytes);
}

/// Number of bad calls that were ignored.
pub fn misuses() -> usize {
    instance().map_or(0, |allocator| allocator.misuses().load(Relaxed))
}

/// Counts the usable bytes that the calling thread has allocated and freed, and returns the words
/// that have them until its next count. They live for ever.
pub fn thread_bytes() -> Option<&'static [AtomicU64; 2]> {
    heap_or_start().and_then(|heap| stats::thread_bytes(allocator(), heap))
}

/// Returns the page that interfaces of other allocators keep their figures in, all zero at first.
/// It is mapped by the first call. The library's own data is read-only after the start, and the
/// program may know the address of this page.
pub fn interface_page() -> Option<NonNull<u8>> {
    let word = instance()?.interface_page();
    let mapped = word.load(Acquire);
    if let Some(page) = NonNull::new(with_exposed_provenance_mut(mapped)) {
        return Some(page);
    }
    let new = process::scratch(process::page_size())?;
    // Another thread that loads the address finds the page mapped.
    let page = match word.compare_exchange(0, new, AcqRel, Acquire) {
        Ok(_) => new,
        Err(first) => {
            process::unmap(new, process::page_size());
            first
        }
    };
    NonNull::new(with_exposed_provenance_mut(page))
}
