//! The process's own allocator, as C, C++ and Rust call it.
//!
//! Every function takes the call site from its caller: the C and C++ names are two-instruction
//! shims in front of these (crate `toft-preload`), so that the site is the program's own code.
//!
//! `whole_heap.rs` has the calls that are about no block.

pub use super::scope::at_start;
pub use crate::path::Pointer;

use super::start::{heap_or_start, ready};
use crate::allocator::{Allocator, allocator};
use crate::bin::BinIndex;
use crate::os::Linux;
use crate::path::{self, Caller};
use crate::region::Site;
use crate::report::Call;
use crate::site::Place;
use crate::thread::{Heap, current_heap};

/// A thread of the process. Has no size, so calls pass nothing on: the allocator is a static, and
/// the heap is found in the thread's word.
#[derive(Clone, Copy, Debug)]
struct Process;

impl Caller for Process {
    type Os = Linux;

    #[inline(always)]
    fn allocator(&self) -> &Allocator<Linux> {
        allocator()
    }

    #[inline(always)]
    fn heap(&self) -> &Heap {
        current_heap()
    }

    #[inline(always)]
    fn heap_or_start(&self) -> Option<&Heap> {
        heap_or_start()
    }

    #[inline(always)]
    fn start(&self) {
        ready();
    }

    #[inline(always)]
    fn through(self, index: BinIndex, site: Site) -> Pointer {
        through(index, site)
    }

    #[inline(always)]
    fn refilled(self, address: usize, site: Site, index: BinIndex) -> Pointer {
        refilled(address, site, index)
    }

    #[inline(always)]
    fn slower(self, index: BinIndex, site: Site) -> Pointer {
        slower(index, site)
    }

    #[inline(always)]
    fn large(self, size: usize, site: Site) -> Pointer {
        large(size, site)
    }
}

/// `with_place!(name(arguments) -> body)`: goes on in `path::body` with the stack pointer and the
/// frame pointer as two arguments more. The functions that lead here end in a call of the next one,
/// so the compiler usually gives them no frames. Then the program's return address is on top of the
/// stack. Every user of the place checks that.
macro_rules! with_place {
    ($name:ident($($argument:ident: $type:ty),*) -> $body:ident, $stack:literal, $frame:literal, $arm:literal) => {
        #[unsafe(naked)]
        extern "C" fn $name($(_: $type),*) -> Pointer {
            extern "C" fn go_on($($argument: $type),*, stack: usize, frame: usize) -> Pointer {
                path::$body(Process, $($argument),*, stack, frame)
            }
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!("mov ", $stack, ", rsp"), concat!("mov ", $frame, ", rbp"), "jmp {}", sym go_on
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!($arm, "b {}", sym go_on);
        }
    };
}

with_place!(through(index: BinIndex, site: Site) -> through_from, "rdx", "rcx", "mov x2, xzr\nmov x3, xzr");
with_place!(refilled(address: usize, site: Site, index: BinIndex) -> refilled_from, "rcx", "r8", "mov x3, xzr\nmov x4, xzr");
with_place!(slower(index: BinIndex, site: Site) -> slower_from, "rdx", "rcx", "mov x2, xzr\nmov x3, xzr");
with_place!(large(size: usize, site: Site) -> large_from, "rdx", "rcx", "mov x2, xzr\nmov x3, xzr");

/// malloc.
///
/// # Safety
/// 1. None beyond those of C's malloc; `site` may be any number.
#[inline(always)]
pub unsafe fn malloc_at(size: usize, site: Site) -> Pointer {
    path::malloc(Process, size, site)
}

/// calloc.
///
/// # Safety
/// 1. None beyond those of C's calloc.
#[inline(always)]
pub unsafe fn calloc_at(count: usize, size: usize, site: Site) -> Pointer {
    path::calloc(Process, count, size, site)
}

/// aligned allocation; `align` is a power of two.
///
/// # Safety
/// 1. None beyond those of C's aligned_alloc.
pub unsafe fn aligned_at(align: usize, size: usize, site: Site) -> Pointer {
    path::aligned(Process, align, size, site)
}

/// realloc with C's meaning for null and for size zero.
///
/// # Safety
/// 1. As for [`free_for`]; on success the old pointer is not used afterwards.
pub unsafe fn realloc_at(address: Pointer, size: usize, site: Site) -> Pointer {
    path::realloc(Process, address.addr(), size, site)
}

/// free, for whatever call named `call`.
///
/// # Safety
/// 1. `address` is zero, or a live block, or else is named and ends the process: no bad pointer is
///    followed. The program does not use the block afterwards.
#[inline(always)]
pub unsafe fn free_for(address: Pointer, call: Call) {
    path::free(Process, address.addr(), call);
}

/// free, of a block of `size` bytes at a multiple of `align`. Only the secure build checks those.
///
/// # Safety
/// 1. As for [`free_for`].
#[inline(always)]
pub unsafe fn free_sized_for(address: Pointer, size: usize, align: usize, call: Call) {
    path::free_sized(Process, address.addr(), size, align, call);
}

/// free.
///
/// # Safety
/// 1. As for [`free_for`].
#[inline(always)]
pub unsafe fn free(address: Pointer) {
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, Call::Free) }
}

/// free for good: the block's address is never handed out again.
///
/// # Safety
/// 1. As for [`free_for`].
pub unsafe fn free_permanently(address: Pointer) {
    if !address.is_null() {
        ready();
        allocator().requests().free_permanently(address.addr());
    }
}

/// malloc_usable_size.
///
/// # Safety
/// 1. As for [`free_for`], but the block stays.
pub unsafe fn usable_size(address: Pointer) -> usize {
    if address.is_null() {
        return 0;
    }
    ready();
    allocator().requests().usable_size(address.addr(), Call::UsableSize).unwrap_or(0)
}

/// malloc_usable_size, for whatever call named `call`. Returns `None` if the address is no live
/// block and the program goes on after the report.
///
/// # Safety
/// 1. As for [`free_for`], but the block stays.
pub unsafe fn usable_size_for(address: Pointer, call: Call) -> Option<usize> {
    ready();
    allocator().requests().usable_size(address.addr(), call)
}

/// Gives a block another size, which is not zero, if it can stay where it is. Returns the usable
/// bytes that it then has, or `None` if the address is no live block and the program goes on after
/// the report.
///
/// # Safety
/// 1. As for [`free_for`], but the block stays. The program does not use bytes after `size`.
pub unsafe fn resize_in_place(address: Pointer, size: usize, call: Call) -> Option<usize> {
    let heap = heap_or_start()?;
    allocator().in_place().resize_in_place(heap, address.addr(), size, call)
}

/// The call site of a call whose return address is at `stack`, with the frame pointer that it came
/// with: that address, or, where it is in a wrapper, the return address of the wrapper's caller.
///
/// # Safety
/// 1. At `stack` is the return address of a call that has not returned.
pub unsafe extern "C" fn site_behind(stack: usize, frame: usize) -> Site {
    let place = Place { stack, frame };
    // SAFETY: (1) the caller's.
    let site = unsafe { place.site() };
    match heap_or_start() {
        Some(heap) if allocator().wrappers.are_there() => {
            // A sample of this call begins its stack from here.
            heap.set_call(stack, frame);
            allocator().call_sites().site_behind(heap, place)
        }
        _ => site,
    }
}
