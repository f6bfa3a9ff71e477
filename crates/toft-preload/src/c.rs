//! The C and POSIX allocation functions, with glibc's meaning of every corner.

use crate::process;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use toft_core::os::process::set_errno;
use toft_core::report::Call;
use toft_core::site::Site;

type Pointer = *mut c_void;

extern "C" fn malloc_at(size: usize, site: Site) -> Pointer {
    // SAFETY: (1) no duties.
    unsafe { process::malloc_at(size, site) }
}

extern "C" fn calloc_at(count: usize, size: usize, site: Site) -> Pointer {
    // SAFETY: (1) no duties.
    unsafe { process::calloc_at(count, size, site) }
}

unsafe extern "C" fn realloc_at(address: Pointer, size: usize, site: Site) -> Pointer {
    // SAFETY: (1) the caller's.
    unsafe { process::realloc_at(address, size, site) }
}

unsafe extern "C" fn reallocarray_at(
    address: Pointer,
    count: usize,
    size: usize,
    site: Site,
) -> Pointer {
    match count.checked_mul(size) {
        // SAFETY: (1) the caller's.
        Some(bytes) => unsafe { process::realloc_at(address, bytes, site) },
        None => {
            set_errno(libc::ENOMEM);
            null_mut()
        }
    }
}

fn aligned(align: usize, size: usize, site: Site) -> Pointer {
    // SAFETY: (1) no duties.
    unsafe { process::aligned_at(align, size, site) }
}

/// An alignment that is no power of two is rounded up to one, as glibc does. There is no memory at
/// the largest power of two, but only an alignment above that is invalid.
extern "C" fn memalign_at(align: usize, size: usize, site: Site) -> Pointer {
    match align.checked_next_power_of_two() {
        Some(align) => aligned(align, size, site),
        None => {
            set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

extern "C" fn aligned_alloc_at(align: usize, size: usize, site: Site) -> Pointer {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return null_mut();
    }
    aligned(align, size, site)
}

/// Leaves `out` alone unless it succeeds.
unsafe extern "C" fn posix_memalign_at(
    out: *mut Pointer,
    align: usize,
    size: usize,
    site: Site,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<Pointer>()) {
        return libc::EINVAL;
    }
    // SAFETY: libc's errno is a thread-local int; posix_memalign reports by its result alone.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let block = aligned(align, size, site);
    if block.is_null() {
        // SAFETY: as above.
        unsafe { *errno = before };
        return libc::ENOMEM;
    }
    // SAFETY: the caller's pointer.
    unsafe { *out = block };
    0
}

fn page_size() -> usize {
    toft_core::os::process::page_size()
}

extern "C" fn valloc_at(size: usize, site: Site) -> Pointer {
    aligned(page_size(), size, site)
}

extern "C" fn pvalloc_at(size: usize, site: Site) -> Pointer {
    match size.max(1).checked_next_multiple_of(page_size()) {
        Some(bytes) => aligned(page_size(), bytes, site),
        None => {
            set_errno(libc::ENOMEM);
            null_mut()
        }
    }
}

#[cfg(not(feature = "secure-light"))]
short_shim!(malloc, malloc_at, "rsi", "x1");
#[cfg(feature = "secure-light")]
shim!(malloc, malloc_at, "rsi", "x1");
shim!(calloc, calloc_at, "rdx", "x2");
shim!(realloc, realloc_at, "rdx", "x2");
shim!(reallocarray, reallocarray_at, "rcx", "x3");
shim!(memalign, memalign_at, "rdx", "x2");
shim!(aligned_alloc, aligned_alloc_at, "rdx", "x2");
shim!(posix_memalign, posix_memalign_at, "rcx", "x3");
shim!(valloc, valloc_at, "rsi", "x1");
shim!(pvalloc, pvalloc_at, "rsi", "x1");

/// glibc's own names. musl has some of them, too: those give blocks that only musl uses, and stay
/// its own.
#[cfg(target_env = "gnu")]
mod glibc_names {
    use super::*;

    #[cfg(not(feature = "secure-light"))]
    short_shim!(__libc_malloc, malloc_at, "rsi", "x1");
    #[cfg(feature = "secure-light")]
    shim!(__libc_malloc, malloc_at, "rsi", "x1");
    shim!(__libc_calloc, calloc_at, "rdx", "x2");
    shim!(__libc_realloc, realloc_at, "rdx", "x2");
    shim!(__libc_memalign, memalign_at, "rdx", "x2");
    shim!(__libc_valloc, valloc_at, "rsi", "x1");
    shim!(__libc_pvalloc, pvalloc_at, "rsi", "x1");
    shim!(__posix_memalign, posix_memalign_at, "rcx", "x3");

    /// glibc's own name for `free`.
    ///
    /// # Safety
    /// 1. As for C's free.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn __libc_free(address: Pointer) {
        // SAFETY: (1) the caller's.
        unsafe { process::free(address) }
    }
}

/// `free`.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(address: Pointer) {
    // SAFETY: (1) the caller's.
    unsafe { process::free(address) }
}

/// `cfree`, the old name of `free`.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(address: Pointer) {
    // SAFETY: (1) the caller's.
    unsafe { process::free(address) }
}

/// C23's `free_sized`. The secure build compares the size, the default one believes it.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(address: Pointer, size: usize) {
    // SAFETY: (1) the caller's.
    unsafe { process::free_sized_for(address, size, 1, Call::FreeSized) }
}

/// C23's `free_aligned_sized`. As `free_sized`.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(address: Pointer, align: usize, size: usize) {
    // SAFETY: (1) the caller's.
    unsafe { process::free_sized_for(address, size, align, Call::FreeAlignedSized) }
}

/// `malloc_usable_size`: exact, and constant for the life of the block.
///
/// # Safety
/// 1. As for C's free, but the block stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(address: Pointer) -> usize {
    // SAFETY: (1) the caller's.
    unsafe { process::usable_size(address) }
}
