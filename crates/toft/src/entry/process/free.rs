//! free in all its forms. Straight code for a small block of the calling thread's own; each
//! function behind it is for the blocks that the one before has not settled.

use super::Pointer;
use crate::entry::Call;
use crate::entry::start::{allocator, heap_or_start, ready};
use crate::policy::HARDENED;
use crate::thread::{Heap, current_heap};

/// free, for whatever call named `call`.
///
/// # Safety
/// 1. `address` is zero, or a live block, or else is named and ends the process: no bad pointer is
///    followed. The program does not use the block afterwards.
#[inline(always)]
pub unsafe fn free_for(address: Pointer, call: Call) {
    let address = address.addr();
    if HARDENED {
        if !allocator().free_own_small(current_heap(), address, call, |_| true) {
            free_hardened(address, call);
        }
    } else if !allocator().free_small(heap_to_free, address, call) {
        free_not_small(address, call);
    }
}

/// What the hardened build frees and what is not a small block of this thread's own, with nothing
/// wrong.
#[inline(never)]
fn free_hardened(address: usize, call: Call) {
    if !allocator().free_own_medium(current_heap(), address, call, |_| true)
        && !allocator().free_small(heap_to_free, address, call)
    {
        free_not_small(address, call);
    }
}

/// In the hardened build a thread that only frees has a quarantine, too, and so a heap.
#[inline(always)]
fn heap_to_free() -> &'static Heap {
    if HARDENED { heap_or_start().unwrap_or_else(current_heap) } else { current_heap() }
}

#[inline(never)]
fn free_not_small(address: usize, call: Call) {
    if !allocator().free_medium(heap_to_free, address, call) {
        free_not_a_slot(address, call);
    }
}

#[cold]
#[inline(never)]
fn free_not_a_slot(address: usize, call: Call) {
    if address != 0 {
        // The first call of a process may be a bad free: the options must be known to treat it.
        ready();
        allocator().free_other(address, call);
    }
}

/// free, of a block of `size` bytes at a multiple of `align`. Only the hardened build checks those.
///
/// # Safety
/// 1. As for [`free_for`].
#[inline(always)]
pub unsafe fn free_sized_for(address: Pointer, size: usize, align: usize, call: Call) {
    if HARDENED {
        let fits = |asked| asked == size;
        if !allocator().free_own_small(current_heap(), address.addr(), call, fits) {
            free_sized_slow(address.addr(), size, align, call);
        }
        return;
    }
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, call) }
}

/// Frees a block whose size does not match at once, or which is not a small one of this thread.
#[inline(never)]
fn free_sized_slow(address: usize, size: usize, align: usize, call: Call) {
    if address == 0 {
        return;
    }
    ready();
    if allocator().size_fits(address, size, align, call) {
        free_hardened_any(address, call);
    }
}

/// Any block at all.
fn free_hardened_any(address: usize, call: Call) {
    if !allocator().free_own_small(current_heap(), address, call, |_| true) {
        free_hardened(address, call);
    }
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
        allocator().free_for_good(address.addr());
    }
}
