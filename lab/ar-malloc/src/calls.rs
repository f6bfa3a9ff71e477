//! The calls of C, for whatever has the parameters: the preloaded library or a Rust program.

use crate::class::STEP;
use crate::next;
use crate::process::{allocator, with_thread};
use crate::settings::Settings;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A pointer of C.
pub type Pointer = *mut c_void;
/// Returns the parameters, if the process has not started the allocator.
pub type Parameters = fn() -> Settings;

/// A small block; null if the request passes through.
#[inline]
fn small(size: usize, parameters: Parameters) -> Pointer {
    let address = with_thread(parameters, |thread| allocator().allocate(thread, size));
    std::ptr::with_exposed_provenance_mut(address.unwrap_or(0))
}

/// C's `malloc`.
#[inline]
pub fn malloc(size: usize, parameters: Parameters) -> Pointer {
    let block = small(size, parameters);
    // SAFETY: no duties.
    if block.is_null() { unsafe { next::malloc(size) } } else { block }
}

/// C's `calloc`.
#[inline]
pub fn calloc(count: usize, size: usize, parameters: Parameters) -> Pointer {
    // A product that overflows is for the C library to refuse.
    let bytes = count.saturating_mul(size);
    let block = small(bytes, parameters);
    if block.is_null() {
        // SAFETY: no duties.
        return unsafe { next::calloc(count, size) };
    }
    // SAFETY: a block of at least `bytes` bytes that only this call knows.
    unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    block
}

/// C's `memalign`; `align` is a power of two.
#[inline]
pub fn aligned(align: usize, size: usize, parameters: Parameters) -> Pointer {
    let block = if align <= STEP { small(size, parameters) } else { null_mut() };
    // SAFETY: no duties.
    if block.is_null() { unsafe { next::memalign(align, size) } } else { block }
}

/// C's `free`.
///
/// # Safety
/// 1. `block` is null, or a live block of this allocator or of the next, and is not used any more.
#[inline]
pub unsafe fn free(block: Pointer, parameters: Parameters) {
    if allocator().owns(block.addr()) {
        // Without memory for a record the block stays where it is.
        with_thread(parameters, |thread| allocator().free(thread, block.addr()));
    } else {
        // SAFETY: (1) the caller's.
        unsafe { next::free(block) }
    }
}

/// C's `realloc`. Of size zero it frees, as glibc does.
///
/// # Safety
/// 1. `block` is null, or a live block of this allocator or of the next. It is not used any more,
///    unless this function returns null for a size that is not zero.
pub unsafe fn realloc(block: Pointer, size: usize, parameters: Parameters) -> Pointer {
    if block.is_null() {
        return malloc(size, parameters);
    }
    if !allocator().owns(block.addr()) {
        // A block that was large stays large.
        // SAFETY: (1) the caller's.
        return unsafe { next::realloc(block, size) };
    }
    if size == 0 {
        // SAFETY: (1) the caller's.
        unsafe { free(block, parameters) };
        return null_mut();
    }
    let usable = allocator().usable(block.addr());
    if size <= usable && size > usable / 2 {
        return block;
    }
    let new = malloc(size, parameters);
    if new.is_null() {
        return if size <= usable { block } else { new };
    }
    // SAFETY: two different live blocks, which have at least as many bytes as are copied.
    unsafe { new.cast::<u8>().copy_from_nonoverlapping(block.cast(), usable.min(size)) };
    // SAFETY: (1) the caller's.
    unsafe { free(block, parameters) };
    new
}

/// C's `malloc_usable_size`.
///
/// # Safety
/// 1. `block` is null, or a live block of this allocator or of the next.
#[cfg(feature = "preload")]
pub unsafe fn usable_size(block: Pointer) -> usize {
    if allocator().owns(block.addr()) {
        allocator().usable(block.addr())
    } else {
        // SAFETY: (1) the caller's.
        unsafe { next::usable_size(block) }
    }
}
