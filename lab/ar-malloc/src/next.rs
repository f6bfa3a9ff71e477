//! The allocator that large requests pass through to: that of the C library.
//!
//! A preloaded library has taken the names of C, so it uses the names that glibc has for its own
//! functions.

#[cfg(feature = "preload")]
use std::ffi::c_void;

#[cfg(not(feature = "preload"))]
pub use libc::{free, memalign};

#[cfg(feature = "preload")]
unsafe extern "C" {
    #[link_name = "__libc_calloc"]
    pub fn calloc(count: usize, size: usize) -> *mut c_void;
    #[link_name = "__libc_realloc"]
    pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    #[link_name = "__libc_free"]
    pub fn free(block: *mut c_void);
    #[link_name = "__libc_memalign"]
    pub fn memalign(align: usize, size: usize) -> *mut c_void;
}

/// C's `malloc_usable_size` of a block of the C library.
///
/// # Safety
/// 1. As in C.
#[cfg(feature = "preload")]
pub unsafe fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: the arguments are a constant and a C string.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr()) };
    if function.is_null() {
        return 0;
    }
    // SAFETY: the function of this name has this type.
    let function: unsafe extern "C" fn(*mut c_void) -> usize =
        unsafe { std::mem::transmute(function) };
    // SAFETY: (1) the caller's.
    unsafe { function(block) }
}
