//! The names of C's malloc, for a library that is preloaded. The variant is that of the variable
//! `TOFT_SMALL_BINS_VARIANT` when the library is compiled, so that no call is dispatched.

use crate::shared::Allocator;
use crate::variant::{Number, Pick, number};
use std::ffi::c_void;
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

#[path = "../../c_names.rs"]
mod c_names;

type Pointer = *mut c_void;

/// Returns a block, and sets errno if there is none.
#[inline(always)]
fn given(block: *mut u8) -> Pointer {
    if block.is_null() { no_memory() } else { block.cast() }
}

#[cold]
fn no_memory() -> Pointer {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

fn plain(size: usize) -> Pointer {
    given(HEAP.malloc(size))
}

fn zeroed(count: usize, size: usize) -> Pointer {
    given(count.checked_mul(size).map_or(null_mut(), |bytes| HEAP.zeroed(1, bytes)))
}

/// # Safety
/// 1. As C's `free`.
unsafe fn freed(block: Pointer) {
    // SAFETY: (1).
    unsafe { HEAP.free(block.cast()) }
}

/// # Safety
/// 1. As C's `malloc_usable_size`.
unsafe fn usable(block: Pointer) -> usize {
    // SAFETY: (1).
    if block.is_null() { 0 } else { unsafe { HEAP.usable_size(block.cast()) } }
}

/// A block with the content of another one. A size of 0 frees the block, as in glibc.
///
/// # Safety
/// 1. As C's `realloc`.
unsafe fn resized(block: Pointer, size: usize) -> Pointer {
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
fn aligned(align: usize, size: usize) -> Pointer {
    given(align.max(1).checked_next_power_of_two().map_or(null_mut(), |a| HEAP.aligned(a, size)))
}

/// Leaves errno as it is.
fn quietly_aligned(align: usize, size: usize) -> Pointer {
    HEAP.aligned(align, size).cast()
}
