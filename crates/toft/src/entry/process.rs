//! The process's own allocator, and the calls that C, C++ and Rust make on it.
//!
//! Every function takes the call site from its caller: the C and C++ names are two-instruction
//! shims in front of these (crate `toft-preload`), so that the site is the program's own code.
//!
//! `process/free.rs` has free, `process/whole.rs` the calls that are about no block.

mod free;
mod whole;

use super::guarded::Stands;
use super::start::{allocator, heap_or_start, ready};
use super::{Allocator, Call, Resized};
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::os::{Linux, probes, process};
use crate::policy::HARDENED;
use crate::site::Place;
use crate::slab::{MEDIUM_MAX, SMALL_MAX, class_of_medium};
use crate::thread::{Heap, current_heap};
use core::ffi::c_void;
use core::ptr::null_mut;

pub use super::scope::{at_exit, at_start, linked_at_exit, linked_at_start};
pub use free::{free, free_for, free_permanently, free_sized_for};
pub use whole::{
    before_filter, check_range, compact, dangling, deepbind_is_cleared, filter_refused, instance,
    misuses, page_out_cold, purge, verify, verify_at_exit, watch_filters,
};

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
    let heap = current_heap();
    if HARDENED {
        return match allocator().malloc_small(heap, size, site) {
            Some(block) => block.cast(),
            None => malloc_hardened(size, site),
        };
    }
    if size > SMALL_MAX {
        return malloc_medium(size, site);
    }
    let index = heap.small_bin(size, site);
    match heap.pop(index) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => malloc_slow(index, site),
    }
}

/// The hardened build has no slot of this size at hand, or it is not a small one.
#[inline(never)]
extern "C" fn malloc_hardened(size: usize, site: usize) -> Pointer {
    let (allocator, heap) = (allocator(), current_heap());
    if let Some(address) = allocator.malloc_slot(heap, size, site) {
        return core::ptr::with_exposed_provenance_mut(address);
    }
    match allocator.malloc_refill(heap, size, site) {
        Some(address) if allocator.watchful => malloc_sampled(address, site),
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => pointer(with_heap(|allocator, heap| {
            let address = allocator.allocate(heap, size, site)?;
            Some(allocator.sample(heap, address, 16, site, Stands::ForItsClaim))
        })),
    }
}

/// The path for the medium tier, kept apart so that each is straight code.
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

/// The claim of a bin is used up. Or each site has a separate row: then row 0, where malloc has
/// looked in vain, is empty for ever. Its index is the class's, and every malloc takes this way.
///
/// Has no frame, for that.
#[inline(never)]
extern "C" fn malloc_slow(index: usize, site: usize) -> Pointer {
    let heap = current_heap();
    if !heap.is_exact() {
        return malloc_refill(index, site, heap);
    }
    let row = heap.known_row(site);
    if row == 0 {
        return malloc_through(index, site);
    }
    match heap.pop(row + index) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => malloc_refill(row + index, site, heap),
    }
}

/// A site that this thread does not remember, or one of a wrapper: then the caller's return address
/// is needed. Those who have come here have no frames, so that the call's own is on top of the
/// stack, or, where a form of `operator new` has called, behind the four words that it has put
/// there.
#[unsafe(naked)]
extern "C" fn malloc_through(_index: usize, _site: usize) -> Pointer {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rdx, rsp", "mov rcx, rbp", "jmp {}", sym malloc_through_at);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x2, xzr", "mov x3, xzr", "b {}", sym malloc_through_at);
}

extern "C" fn malloc_through_at(index: usize, site: usize, stack: usize, frame: usize) -> Pointer {
    const NEW: usize = 4 * size_of::<usize>();
    let top = [stack, stack.wrapping_add(NEW)].into_iter().find(|&stack| {
        // SAFETY: words of this thread's stack, which is longer than the frames of those who have
        // called us.
        stack > NEW && unsafe { Place { stack, frame }.site() } == site
    });
    let heap = current_heap();
    let site = match top {
        Some(stack) if allocator().wrappers.are_there() => {
            allocator().site_behind(heap, Place { stack, frame })
        }
        _ => site,
    };
    let row = allocator().row(heap, site);
    match heap.pop(row + index) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        None => malloc_refill(row + index, site, heap),
    }
}

/// The call site of a call whose return address is at `stack`, with the frame pointer that it came
/// with: that address, or, where it is in a wrapper, the return address of the wrapper's caller.
///
/// # Safety
/// 1. At `stack` is the return address of a call that has not returned.
pub unsafe extern "C" fn site_behind(stack: usize, frame: usize) -> usize {
    let place = Place { stack, frame };
    // SAFETY: (1) the caller's.
    let site = unsafe { place.site() };
    match heap_or_start() {
        Some(heap) if allocator().wrappers.are_there() => allocator().site_behind(heap, place),
        _ => site,
    }
}

/// Offset in bytes, from the beginning of [`GLOBAL`], of a 64-bit word. It is not zero if calls
/// other than malloc must ask [`site_behind`]. For the shims.
pub use super::start::{GLOBAL, LOOKS_THROUGH};
pub use super::thread_exit::give_exit_key;

/// Usually the current slab has more. Kept short, because a program that replaces blocks at random
/// comes here every few calls.
#[inline(never)]
extern "C" fn malloc_refill(index: usize, site: usize, heap: &Heap) -> Pointer {
    match heap.pop_after_refill(index) {
        Some(address) if probes::wants_allocations() => malloc_told(address, site, index),
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

/// `says_where!(name --> body)`: a call that goes on to a body, and adds the place of the program's
/// call and its frame pointer. Callers have no frames by then, as far as the compiler likes: users
/// of the place check it.
macro_rules! says_where {
    ($(#[$doc:meta])* $name:ident($($argument:ident),*) --> $body:ident, $stack:literal, $frame:literal, $arm:literal) => {
        $(#[$doc])*
        #[unsafe(naked)]
        extern "C" fn $name($($argument: usize),*) -> Pointer {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!("mov ", $stack, ", rsp"), concat!("mov ", $frame, ", rbp"), "jmp {}", sym $body
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!($arm, "b {}", sym $body);
        }
    };
}

says_where! {
    /// A claim was begun, and a probe or the sampler follows allocations.
    malloc_told(_address, _site, _index) --> malloc_told_at, "rcx", "r8", "mov x3, xzr\nmov x4, xzr"
}

#[cold]
#[inline(never)]
extern "C" fn malloc_told_at(
    address: usize,
    site: usize,
    index: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    let heap = current_heap();
    let address = allocator().sample(heap, address, 16, site, Stands::ForItsClaim);
    if let Some(seat) = heap.sit() {
        heap.set_call(stack, frame);
        allocator().tell_claim(heap, &seat, index, address, site);
        heap.set_call(0, 0);
    }
    core::ptr::with_exposed_provenance_mut(address)
}

/// A thread without a heap has one row of bins: its index tells the class, and no more.
#[cold]
#[inline(never)]
extern "C" fn malloc_slower(index: usize, site: usize) -> Pointer {
    if probes::wants_allocations() {
        return malloc_slower_told(index, site);
    }
    malloc_slower_untold(index, site)
}

says_where! {
    /// As `malloc_slower`, where a probe or the sampler follows allocations.
    malloc_slower_told(_index, _site) --> malloc_slower_told_at, "rdx", "rcx", "mov x2, xzr\nmov x3, xzr"
}

extern "C" fn malloc_slower_told_at(
    index: usize,
    site: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    from_call(stack, frame, || malloc_slower_untold(index, site))
}

/// Runs with the heap knowing the place of the program's call, for keeping its stack.
#[inline]
fn from_call(stack: usize, frame: usize, body: impl FnOnce() -> Pointer) -> Pointer {
    with_heap(|_, heap| {
        heap.set_call(stack, frame);
        Some(())
    });
    let block = body();
    current_heap().set_call(0, 0);
    block
}

#[inline]
fn malloc_slower_untold(index: usize, site: usize) -> Pointer {
    let class = index % ROW_WORDS / BIN_WORDS;
    pointer(with_heap(|allocator, heap| {
        let address = allocator.allocate_slow(heap, class, site)?;
        Some(allocator.sample(heap, address, 16, site, Stands::ForItsClaim))
    }))
}

#[cold]
#[inline(never)]
extern "C" fn malloc_large(size: usize, site: usize) -> Pointer {
    if probes::wants_allocations() {
        return malloc_large_told(size, site);
    }
    malloc_large_untold(size, site)
}

says_where! {
    /// As `malloc_large`, where a probe or the sampler follows allocations.
    malloc_large_told(_size, _site) --> malloc_large_told_at, "rdx", "rcx", "mov x2, xzr\nmov x3, xzr"
}

extern "C" fn malloc_large_told_at(
    size: usize,
    site: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    from_call(stack, frame, || malloc_large_untold(size, site))
}

#[inline]
fn malloc_large_untold(size: usize, site: usize) -> Pointer {
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
