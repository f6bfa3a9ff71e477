//! Allocating and freeing, with the parameters of the preloaded library or of a Rust program.

use crate::class::STEP;
use crate::next;
use crate::process::{ALLOCATOR, with_thread};
use crate::settings::Settings;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A pointer of C.
pub type Pointer = *mut c_void;
/// Returns the parameters, if the process has not started the allocator.
pub type Parameters = fn() -> Settings;

/// A small block; null if the request passes through.
#[inline]
pub fn small(size: usize, parameters: Parameters) -> Pointer {
    let address = with_thread(parameters, |thread| ALLOCATOR.allocate(thread, size));
    std::ptr::with_exposed_provenance_mut(address.unwrap_or(0))
}

/// Allocates; `align` is a power of two.
#[inline]
pub fn aligned(align: usize, size: usize, parameters: Parameters) -> Pointer {
    let block = if align <= STEP { small(size, parameters) } else { null_mut() };
    // SAFETY: no duties.
    if block.is_null() { unsafe { next::memalign(align, size) } } else { block }
}

/// Frees.
///
/// # Safety
/// 1. `block` is null, or a live block of this allocator or of the next, and is not used any more.
#[inline]
pub unsafe fn free(block: Pointer, parameters: Parameters) {
    if ALLOCATOR.owns(block.addr()) {
        // Without memory for a record the block stays where it is.
        with_thread(parameters, |thread| ALLOCATOR.free(thread, block.addr()));
    } else {
        // SAFETY: (1) the caller's.
        unsafe { next::free(block) }
    }
}
