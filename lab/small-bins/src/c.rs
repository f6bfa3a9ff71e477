//! The names of C's malloc, for a library that is preloaded. The variant is that of the variable
//! `TOFT_SMALL_BINS_VARIANT` when the library is compiled, so that no call is dispatched.

use crate::shared::Allocator;
use crate::variant::{Number, Pick, number};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The place of the variant.
const CHOSEN: usize = number(match option_env!("TOFT_SMALL_BINS_VARIANT") {
    Some(name) => name,
    None => "original",
});

static HEAP: Allocator<<Number<CHOSEN> as Pick>::Variant> = Allocator::new();

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = loaded;

extern "C" fn loaded() {
    extern "C" fn before() {
        HEAP.before_fork();
    }
    extern "C" fn after() {
        HEAP.after_fork();
    }
    extern "C" fn child() {
        HEAP.after_fork_in_child();
    }
    // SAFETY: three functions of this type, in a library that is never unloaded. If there is no
    // memory for them, only a fork beside another thread's call is unsafe.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(child)) };
}

/// Returns a block, and sets errno if there is none.
#[inline(always)]
fn given(block: *mut u8) -> *mut c_void {
    if block.is_null() {
        no_memory();
    }
    block.cast()
}

#[cold]
fn no_memory() {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

/// `c!(name(arguments) -> result = value)`: exports a function of C.
macro_rules! c {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $value:expr) => {
        #[doc = concat!("C's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// 1. As in C: a block is null or live, and is not used after it was freed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: (1).
            #[allow(unused_unsafe)]
            unsafe { $value }
        }
    };
}

c!(malloc(size: usize) -> *mut c_void = given(HEAP.malloc(size)));
c!(calloc(count: usize, size: usize) -> *mut c_void =
    given(count.checked_mul(size).map_or(null_mut(), |bytes| HEAP.zeroed(1, bytes))));
c!(free(block: *mut c_void) = HEAP.free(block.cast()));
c!(realloc(block: *mut c_void, size: usize) -> *mut c_void = resized(block, size));
c!(reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void =
match count.checked_mul(size) {
    Some(bytes) => resized(block, bytes),
    None => given(null_mut()),
});
c!(memalign(align: usize, size: usize) -> *mut c_void = aligned(align, size));
c!(aligned_alloc(align: usize, size: usize) -> *mut c_void = aligned(align, size));
c!(valloc(size: usize) -> *mut c_void = aligned(page(), size));
c!(pvalloc(size: usize) -> *mut c_void = match size.max(1).checked_next_multiple_of(page()) {
    Some(size) => aligned(page(), size),
    None => given(null_mut()),
});
c!(malloc_usable_size(block: *mut c_void) -> usize =
    if block.is_null() { 0 } else { HEAP.usable_size(block.cast()) });

/// A block with the content of another one. A size of 0 frees the block, as in glibc.
///
/// # Safety
/// 1. As C's `realloc`.
unsafe fn resized(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return given(HEAP.malloc(size));
    }
    // SAFETY: (1).
    unsafe {
        if size == 0 {
            HEAP.free(block.cast());
            return null_mut();
        }
        given(HEAP.realloc(block.cast(), 1, size))
    }
}

/// An alignment that is no power of two is rounded up to one, as in glibc.
fn aligned(align: usize, size: usize) -> *mut c_void {
    given(align.max(1).checked_next_power_of_two().map_or(null_mut(), |a| HEAP.aligned(a, size)))
}

/// `posix_memalign`.
///
/// # Safety
/// 1. As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let block = HEAP.aligned(align, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: (1): the caller's place for the result.
    unsafe { *out = block.cast() };
    0
}

fn page() -> usize {
    // SAFETY: no duties.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs() as usize
}
