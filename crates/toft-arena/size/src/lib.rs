//! A module that allocates, frees and resizes with one allocator, and does nothing else.
#![no_std]

#[allow(dead_code, reason = "one of them is used, or none")]
#[path = "../../benches/versus/adapters.rs"]
mod adapters;

use adapters::{Peer, Start};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

/// talc links `alloc`, which wants one; nothing is ever asked of it.
struct Unused;

// SAFETY: it has no blocks.
unsafe impl GlobalAlloc for Unused {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static UNUSED: Unused = Unused;

const SIZE: usize = 1 << 20;
static mut MEMORY: [u64; SIZE / 8] = [0; SIZE / 8];

macro_rules! own {
    ($($feature:literal: $type:ty,)*) => {
        $(#[cfg(feature = $feature)] type Own = $type;)*

        /// What all are compared with.
        #[cfg(not(any($(feature = $feature),*)))]
        type Own = Nothing;
    };
}

own! {
    "small": toft_arena::Heap<toft_arena::Small>,
    "packed": toft_arena::Heap<toft_arena::shape::Packed>,
    "standard": toft_arena::Heap<toft_arena::shape::Standard>,
    "fast": toft_arena::Heap<toft_arena::Fast>,
    "bare": toft_arena::Heap<toft_arena::shape::Bare>,
    "checked": toft_arena::Heap<toft_arena::Checked>,
    "talc": adapters::Talc,
    "rlsf": adapters::Rlsf,
    "dlmalloc": adapters::Dlmalloc,
    "good_memory_allocator": adapters::Good,
    "buddy_system_allocator": adapters::Buddy,
    "linked_list_allocator": adapters::List,
}

#[allow(dead_code, reason = "only where there is no other")]
struct Nothing;

impl Peer for Nothing {
    fn allocate(&mut self, _: Layout) -> *mut u8 {
        (&raw mut MEMORY).cast()
    }
    fn free(&mut self, _: *mut u8, _: Layout) {}
}

impl Start for Nothing {
    const NEW: Self = Nothing;
    unsafe fn start(&mut self, _: *mut u8, _: usize) {}
}

static mut HEAP: Own = Own::NEW;

fn heap() -> &'static mut Own {
    // SAFETY: a module has one thread, and nothing here calls back.
    unsafe { &mut *(&raw mut HEAP) }
}

#[unsafe(no_mangle)]
pub extern "C" fn begin() {
    // SAFETY: only the allocator uses the memory.
    unsafe { heap().start((&raw mut MEMORY).cast(), SIZE) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocate(size: usize, align: usize) -> *mut u8 {
    Peer::allocate(heap(), unsafe { Layout::from_size_align_unchecked(size, align) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut u8, size: usize, align: usize) {
    Peer::free(heap(), block, unsafe { Layout::from_size_align_unchecked(size, align) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn resize(block: *mut u8, size: usize, align: usize, new: usize) -> *mut u8 {
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    Peer::resize(heap(), block, layout, new)
}
