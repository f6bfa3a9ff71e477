//! The names that C programs call. Only in a library that is preloaded.

use crate::calls::{self, Pointer};
use crate::process::{from_environment, print_counts};
use std::ffi::c_int;

/// `c!(name(arguments) -> result = value)`: exports a function of C.
macro_rules! c {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $value:expr) => {
        #[doc = concat!("C's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// 1. As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: (1) the caller's.
            #[allow(unused_unsafe)]
            unsafe { $value }
        }
    };
}

c!(malloc(size: usize) -> Pointer = calls::malloc(size, from_environment));
c!(calloc(count: usize, size: usize) -> Pointer = calls::calloc(count, size, from_environment));
c!(free(block: Pointer) = calls::free(block, from_environment));
c!(realloc(block: Pointer, size: usize) -> Pointer =
    calls::realloc(block, size, from_environment));
c!(reallocarray(block: Pointer, count: usize, size: usize) -> Pointer =
match count.checked_mul(size) {
    Some(bytes) => calls::realloc(block, bytes, from_environment),
    None => out_of_memory(),
});
c!(memalign(align: usize, size: usize) -> Pointer =
    calls::aligned(align, size, from_environment));
c!(aligned_alloc(align: usize, size: usize) -> Pointer =
    calls::aligned(align, size, from_environment));
c!(valloc(size: usize) -> Pointer = calls::aligned(page(), size, from_environment));
c!(pvalloc(size: usize) -> Pointer = match size.max(1).checked_next_multiple_of(page()) {
    Some(bytes) => calls::aligned(page(), bytes, from_environment),
    None => out_of_memory(),
});
c!(malloc_usable_size(block: Pointer) -> usize = calls::usable_size(block));

/// C's `posix_memalign`.
///
/// # Safety
/// 1. As in C: `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut Pointer, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let errno = crate::errno::Errno::kept();
    let block = calls::aligned(align, size, from_environment);
    drop(errno);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: (1) the caller's.
    unsafe { out.write(block) };
    0
}

fn page() -> usize {
    // SAFETY: no duties.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs() as usize
}

fn out_of_memory() -> Pointer {
    // SAFETY: the location is a thread-local int of the calling thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    std::ptr::null_mut()
}

extern "C" fn at_exit() {
    print_counts();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
