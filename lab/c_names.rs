//! The names of C's malloc, for a library that is preloaded. Each allocator of the laboratory that
//! exports them has this file as a module, and defines in the module above it what they do.

use super::{Pointer, aligned, freed, no_memory, plain, quietly_aligned, resized, usable, zeroed};
use std::ffi::c_int;

/// `c!(name(arguments) -> result = value)`: exports a function of C.
macro_rules! c {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $value:expr) => {
        #[doc = concat!("C's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// 1. As in C: a block is null or live, and is not used after it was freed. A place for a
        ///    result is writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: (1).
            #[allow(unused_unsafe)]
            unsafe { $value }
        }
    };
}

c!(malloc(size: usize) -> Pointer = plain(size));
c!(calloc(count: usize, size: usize) -> Pointer = zeroed(count, size));
c!(free(block: Pointer) = freed(block));
c!(realloc(block: Pointer, size: usize) -> Pointer = resized(block, size));
c!(reallocarray(block: Pointer, count: usize, size: usize) -> Pointer =
    count.checked_mul(size).map_or_else(no_memory, |bytes| resized(block, bytes)));
c!(memalign(align: usize, size: usize) -> Pointer = aligned(align, size));
c!(aligned_alloc(align: usize, size: usize) -> Pointer = aligned(align, size));
c!(valloc(size: usize) -> Pointer = aligned(page(), size));
c!(pvalloc(size: usize) -> Pointer = size.max(1).checked_next_multiple_of(page())
    .map_or_else(no_memory, |bytes| aligned(page(), bytes)));
c!(malloc_usable_size(block: Pointer) -> usize = usable(block));
c!(posix_memalign(out: *mut Pointer, align: usize, size: usize) -> c_int = {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let block = quietly_aligned(align, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    out.write(block);
    0
});

fn page() -> usize {
    // SAFETY: no duties.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs() as usize
}
