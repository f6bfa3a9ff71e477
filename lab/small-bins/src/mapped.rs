//! Blocks too large for the heap. Each has a mapping, which is returned when the block is freed.
//!
//! ```text
//! | ...          | length | distance | the block ...   |
//! ^ the mapping starts `distance` bytes before the block
//! ```

use crate::chunk::{ALIGN, WORD};
use crate::fault::{Fault, stop};
use crate::memory::PAGE;
use std::ptr::null_mut;

/// The smallest request that gets a mapping: 128 KiB, as in glibc.
pub(crate) const MAPPED: usize = 128 << 10;

/// Runs a system call that must not change errno: `free` keeps it.
pub(crate) fn keeping_errno(call: impl FnOnce()) {
    // SAFETY: the address of this thread's errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        call();
        *errno = before;
    }
}

/// Returns a mapped block, all zero, at a multiple of `align`; or null.
#[cold]
#[inline(never)]
pub(crate) fn allocate(align: usize, request: usize) -> *mut u8 {
    let align = align.max(ALIGN);
    // An alignment beyond a page needs room to move the block up.
    let slack = if align > PAGE { align } else { 0 };
    let length = request
        .checked_add(align.min(PAGE) + slack)
        .and_then(|length| length.checked_next_multiple_of(PAGE))
        .filter(|length| *length <= isize::MAX as usize);
    let Some(length) = length else { return null_mut() };
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which replaces none.
    let start = unsafe { libc::mmap(null_mut(), length, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return null_mut();
    }
    let start = start.cast::<u8>();
    let distance = (start.addr() + ALIGN).next_multiple_of(align) - start.addr();
    // SAFETY: `distance` is at least two words, and the request fits behind it.
    unsafe {
        let block = start.add(distance);
        write_header(block, length, distance);
        block
    }
}

/// # Safety
/// 1. `block` is `distance >= 16` bytes into a mapping of `length` bytes.
unsafe fn write_header(block: *mut u8, length: usize, distance: usize) {
    // SAFETY: (1): both words are in the mapping, and not in the block.
    unsafe {
        block.sub(2 * WORD).cast::<usize>().write(length);
        block.sub(WORD).cast::<usize>().write(distance);
    }
}

/// Returns the length of a block's mapping, and its distance. Stops the process if that cannot be.
///
/// # Safety
/// 1. `block` is a live mapped block, or a mistake that the checks see.
unsafe fn header(block: *mut u8, variant: &str) -> (usize, usize) {
    let foreign = || -> ! { stop(variant, Fault::Foreign { block: block.addr() }) };
    if !block.addr().is_multiple_of(ALIGN) {
        foreign();
    }
    // SAFETY: (1): two words before a mapped block are of its mapping.
    let (length, distance) = unsafe {
        (block.sub(2 * WORD).cast::<usize>().read(), block.sub(WORD).cast::<usize>().read())
    };
    let start = block.addr().wrapping_sub(distance);
    if distance < ALIGN
        || distance >= length
        || !length.is_multiple_of(PAGE)
        || !start.is_multiple_of(PAGE)
    {
        foreign();
    }
    (length, distance)
}

/// Returns the usable bytes of a mapped block.
///
/// # Safety
/// 1. As `header`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn usable_size(block: *mut u8, variant: &str) -> usize {
    // SAFETY: (1).
    let (length, distance) = unsafe { header(block, variant) };
    length - distance
}

/// Returns a mapped block to the OS.
///
/// # Safety
/// 1. As `header`, and the block is not used any more.
#[cold]
#[inline(never)]
pub(crate) unsafe fn free(block: *mut u8, variant: &str) {
    // SAFETY: (1): the mapping is this block's alone.
    keeping_errno(|| unsafe {
        let (length, distance) = header(block, variant);
        libc::munmap(block.sub(distance).cast(), length);
    });
}

/// Changes the size of a mapped block, which may move. Returns null, and changes nothing, if that
/// cannot be.
///
/// # Safety
/// 1. As `header`; the old pointer is not used any more if the result is not null.
#[cold]
#[inline(never)]
pub(crate) unsafe fn resize(block: *mut u8, request: usize, variant: &str) -> *mut u8 {
    // SAFETY: (1): the mapping is this block's alone, and its content moves with it.
    unsafe {
        let (length, distance) = header(block, variant);
        let wanted = request
            .checked_add(distance)
            .and_then(|length| length.checked_next_multiple_of(PAGE))
            .filter(|length| *length <= isize::MAX as usize);
        let Some(wanted) = wanted else { return null_mut() };
        let start = block.sub(distance).cast();
        let moved = libc::mremap(start, length, wanted, libc::MREMAP_MAYMOVE);
        if moved == libc::MAP_FAILED {
            return null_mut();
        }
        let block = moved.cast::<u8>().add(distance);
        write_header(block, wanted, distance);
        block
    }
}
