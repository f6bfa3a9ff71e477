//! The process's own allocator, and the calls that C, C++ and Rust make on it.
//!
//! Every function takes the call site from its caller: the C and C++ names are two-instruction
//! shims in front of these (crate `toft-preload`), so that the site is the program's own code.

use super::guarded::Stands;
use super::start::{allocator, heap_or_start, ready};
use super::{Allocator, Call, Resized};
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::os::{Linux, process};
use crate::policy::HARDENED;
use crate::slab::{MEDIUM_MAX, SMALL_MAX, class_of_medium};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, current_heap};
use core::ffi::c_void;
use core::ptr::null_mut;

type Pointer = *mut c_void;

fn pointer(address: Option<usize>) -> Pointer {
    match address {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => no_memory(),
    }
}

#[cold]
fn no_memory() -> Pointer {
    process::set_errno(libc::ENOMEM);
    null_mut()
}

/// Runs `body` with the thread's heap, or with a borrowed one where the thread has none any more.
#[cfg_attr(not(feature = "hardened"), cold)]
fn with_heap<R>(body: impl FnOnce(&Allocator<Linux>, &Heap) -> Option<R>) -> Option<R> {
    let heap = heap_or_start()?;
    body(allocator(), heap)
}

/// malloc.
///
/// # Safety
/// 1. None beyond those of C's malloc; `site` may be any number.
#[inline(always)]
pub unsafe fn malloc_at(size: usize, site: usize) -> Pointer {
    if HARDENED {
        return pointer(with_heap(|allocator, heap| allocator.allocate(heap, size, site)));
    }
    if size > SMALL_MAX {
        return malloc_medium(size, site);
    }
    let heap = current_heap();
    let index = heap.small_bin(size, site);
    match heap.pop(index) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => malloc_slow(index, site),
    }
}

/// The same path for the medium tier, kept apart so that each is straight code.
#[inline(never)]
extern "C" fn malloc_medium(size: usize, site: usize) -> Pointer {
    if size > MEDIUM_MAX {
        return malloc_large(size, site);
    }
    let heap = current_heap();
    let index = heap.bin(class_of_medium(size), site);
    match heap.pop(index) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => malloc_slow(index, site),
    }
}

/// The claim of a bin is used up: usually the current slab has more. Kept short, because a program
/// that replaces blocks at random comes here every few calls.
#[inline(never)]
extern "C" fn malloc_slow(index: usize, site: usize) -> Pointer {
    match current_heap().pop_after_refill(index) {
        Some(address) if allocator().watchful => malloc_sampled(address, site),
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => malloc_slower(index, site),
    }
}

/// A claim was begun, and blocks are sampled.
#[cold]
#[inline(never)]
extern "C" fn malloc_sampled(address: usize, site: usize) -> Pointer {
    let address = allocator().sample(current_heap(), address, 16, site, Stands::ForItsClaim);
    core::ptr::with_exposed_provenance_mut(address)
}

/// A thread without a heap has one row of bins: its index tells the class, and no more.
#[cold]
#[inline(never)]
extern "C" fn malloc_slower(index: usize, site: usize) -> Pointer {
    let class = index % ROW_WORDS / BIN_WORDS;
    pointer(with_heap(|allocator, heap| {
        let address = allocator.allocate_slow(heap, class, site)?;
        Some(allocator.sample(heap, address, 16, site, Stands::ForItsClaim))
    }))
}

#[cold]
#[inline(never)]
extern "C" fn malloc_large(size: usize, site: usize) -> Pointer {
    pointer(with_heap(|allocator, heap| Some(allocator.allocate_large(heap, size, 1, site)?.0)))
}

/// calloc.
///
/// # Safety
/// 1. None beyond those of C's calloc.
pub unsafe fn calloc_at(count: usize, size: usize, site: usize) -> Pointer {
    let Some(bytes) = count.checked_mul(size) else { return no_memory() };
    let heap = current_heap();
    if !HARDENED
        && bytes <= SMALL_MAX
        && let Some(address) = heap.pop(heap.small_bin(bytes, site))
    {
        let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: a slot of at least `bytes` bytes, handed out a moment ago.
        unsafe { target.write_bytes(0, bytes) };
        return target.cast();
    }
    pointer(with_heap(|allocator, heap| {
        let address = allocator.allocate_zeroed(heap, bytes, site)?;
        Some(allocator.sample(heap, address, 16, site, Stands::Zeroed))
    }))
}

/// aligned allocation; `align` is a power of two.
///
/// # Safety
/// 1. None beyond those of C's aligned_alloc.
pub unsafe fn aligned_at(align: usize, size: usize, site: usize) -> Pointer {
    pointer(with_heap(|allocator, heap| {
        let address = allocator.allocate_aligned(heap, size, align, site)?;
        Some(allocator.sample(heap, address, align, site, Stands::Alone))
    }))
}

/// free, for whatever call named `call`.
///
/// # Safety
/// 1. `address` is zero, or a live block, or else is named and ends the process: no bad pointer is
///    followed. The program does not use the block afterwards.
#[inline(always)]
pub unsafe fn free_for(address: Pointer, call: Call) {
    let address = address.addr();
    if !allocator().free_small(heap_to_free, address, call) {
        free_not_small(address, call);
    }
}

/// In the hardened build a thread that only frees has a quarantine, too, and so a heap.
#[inline(always)]
fn heap_to_free() -> &'static Heap {
    if HARDENED { heap_or_start().unwrap_or_else(current_heap) } else { current_heap() }
}

#[inline(never)]
fn free_not_small(address: usize, call: Call) {
    if !allocator().free_medium(heap_to_free, address, call) {
        free_not_a_slot(address, call);
    }
}

#[cold]
#[inline(never)]
fn free_not_a_slot(address: usize, call: Call) {
    if address != 0 {
        // The first call of a process may be a bad free: the options must be known to treat it.
        ready();
        allocator().free_other(address, call);
    }
}

/// free, of a block of `size` bytes at a multiple of `align`. Only the hardened build looks at those.
///
/// # Safety
/// 1. As for [`free_for`].
#[inline(always)]
pub unsafe fn free_sized_for(address: Pointer, size: usize, align: usize, call: Call) {
    if HARDENED && !address.is_null() {
        ready();
        if !allocator().size_fits(address.addr(), size, align, call) {
            return;
        }
    }
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, call) }
}

/// free.
///
/// # Safety
/// 1. As for [`free_for`].
#[inline(always)]
pub unsafe fn free(address: Pointer) {
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, Call::Free) }
}

/// free for good: the block's address is never handed out again.
///
/// # Safety
/// 1. As for [`free_for`].
pub unsafe fn free_permanently(address: Pointer) {
    if !address.is_null() {
        ready();
        allocator().free_for_good(address.addr());
    }
}

/// realloc with C's meaning for null and for size zero.
///
/// # Safety
/// 1. As for [`free_for`]; on success the old pointer is not used afterwards.
pub unsafe fn realloc_at(address: Pointer, size: usize, site: usize) -> Pointer {
    if address.is_null() {
        // SAFETY: (1) no duties.
        return unsafe { malloc_at(size, site) };
    }
    if size == 0 {
        // SAFETY: (1) the caller's.
        unsafe { free_for(address, Call::Realloc) };
        return null_mut();
    }
    let Some(heap) = heap_or_start() else { return no_memory() };
    match allocator().resize(heap, address.addr(), size, site) {
        Resized::At(to) => core::ptr::with_exposed_provenance_mut(to),
        Resized::NoMemory => no_memory(),
        Resized::Misused => {
            process::set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

/// malloc_usable_size.
///
/// # Safety
/// 1. As for [`free_for`], but the block stays.
pub unsafe fn usable_size(address: Pointer) -> usize {
    if address.is_null() {
        return 0;
    }
    ready();
    allocator().usable_size(address.addr(), Call::UsableSize).unwrap_or(0)
}

/// Gives back everything of the whole process that can be given back; says how many bytes of pages.
pub fn purge() -> usize {
    heap_or_start().map_or(0, |heap| allocator().purge(Some(heap)) + allocator().compact_now(heap))
}

/// Lets sparse slabs share pages, where `TOFT_COMPACT` allows it; says how many bytes of pages that has saved, by
/// calculation.
pub fn compact() -> usize {
    heap_or_start().map_or(0, |heap| allocator().compact_now(heap))
}

/// Sends live data out to swap that nothing has happened to since the last call; says how many bytes.
pub fn page_out_cold() -> usize {
    instance().map_or(0, Allocator::page_out_cold)
}

/// The process's allocator, for statistics; `None` before the first allocation.
pub fn instance() -> Option<&'static Allocator<Linux>> {
    ready().then(allocator)
}

/// To be called before the process installs a filter of system calls (seccomp): from then on only
/// such calls are made as any malloc makes.
pub fn before_filter() {
    // Without memory for an allocator there is nobody to tell. It then has not been promised by
    // `watch_filters` either that it would be told.
    if ready() {
        // The filter may be for all threads, and not know what the watcher calls.
        allocator().guarded.stop_watcher();
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

/// Verifies the whole heap, and names what is wrong; says whether nothing is.
pub fn verify() -> bool {
    heap_or_start().is_none_or(|heap| allocator().verify(heap))
}

/// Looks for words that lead into freed blocks, and names them; says how many there are.
pub fn dangling() -> usize {
    let mark = 0u8;
    let here = (&raw const mark).addr();
    instance().map_or(0, |allocator| allocator.sweep_for_dangling(Some(here)))
}

/// Names an access by a function that copies or fills, if it leaves the block that it begins in. Starts nothing:
/// before the first allocation there is no block.
pub fn check_range(call: Call, writes: bool, address: usize, bytes: usize) {
    allocator().stays_within(call, writes, address, bytes);
}

/// Number of bad calls that were ignored.
pub fn misuses() -> usize {
    instance().map_or(0, |allocator| allocator.misuses().load(Relaxed))
}

pub use super::scope::{at_exit, at_start};
