//! Allocation by a number of the program's own in place of the call site: a type, a zone, a tenant.

use crate::process;
use core::ffi::c_void;
use toft_core::site::Site;

type Pointer = *mut c_void;

/// malloc, with `token` for the call site.
#[unsafe(no_mangle)]
pub extern "C" fn toft_malloc_at(size: usize, token: u64) -> Pointer {
    // SAFETY: (1) no duties.
    unsafe { process::malloc_at(size, Site::of_token(token)) }
}

/// calloc, with `token` for the call site.
#[unsafe(no_mangle)]
pub extern "C" fn toft_calloc_at(count: usize, size: usize, token: u64) -> Pointer {
    // SAFETY: (1) no duties.
    unsafe { process::calloc_at(count, size, Site::of_token(token)) }
}

/// aligned_alloc, with `token` for the call site; null and `EINVAL` where `align` is no power of
/// two.
#[unsafe(no_mangle)]
pub extern "C" fn toft_aligned_alloc_at(align: usize, size: usize, token: u64) -> Pointer {
    if !align.is_power_of_two() {
        toft_core::os::process::set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    // SAFETY: (1) no duties.
    unsafe { process::aligned_at(align, size, Site::of_token(token)) }
}

/// realloc, with `token` for the call site of the block, if it moves.
///
/// # Safety
/// 1. As for C's realloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_realloc_at(address: Pointer, size: usize, token: u64) -> Pointer {
    // SAFETY: (1) the caller's.
    unsafe { process::realloc_at(address, size, Site::of_token(token)) }
}
