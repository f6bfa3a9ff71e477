//! A module that allocates, frees and resizes with one allocator, and does nothing else.
#![no_std]

use core::alloc::Layout;
use core::ptr::NonNull;
#[allow(unused_imports, reason = "the empty module needs none")]
use core::ptr::null_mut;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

const SIZE: usize = 1 << 20;
static mut MEMORY: [u64; SIZE / 8] = [0; SIZE / 8];

/// An allocator over the memory.
trait Heap {
    fn begin(&mut self);
    unsafe fn allocate(&mut self, layout: Layout) -> *mut u8;
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout);
    unsafe fn resize(&mut self, block: NonNull<u8>, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: two live blocks, neither shorter than what is copied.
        unsafe {
            let new = self.allocate(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block.as_ptr(), layout.size().min(size));
                self.free(block, layout);
            }
            new
        }
    }
}

macro_rules! toft {
    ($feature:literal, $shape:ident) => {
        #[cfg(feature = $feature)]
        mod heap {
            use super::*;
            pub type Own = toft_arena::Heap<toft_arena::shape::$shape>;
            pub const NEW: Own = Own::new(toft_arena::Anywhere);
            impl Heap for Own {
                fn begin(&mut self) {
                    let _ = unsafe { self.claim((&raw mut MEMORY).cast(), SIZE) };
                }
                unsafe fn allocate(&mut self, layout: Layout) -> *mut u8 {
                    Own::allocate(self, layout).map_or(null_mut(), NonNull::as_ptr)
                }
                unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
                    unsafe { self.deallocate_sized(block, layout) };
                }
                unsafe fn resize(
                    &mut self,
                    block: NonNull<u8>,
                    layout: Layout,
                    size: usize,
                ) -> *mut u8 {
                    unsafe { self.reallocate(block, layout, size) }
                        .map_or(null_mut(), NonNull::as_ptr)
                }
            }
        }
    };
}

toft!("small", Small);
toft!("packed", Packed);
toft!("standard", Standard);
toft!("fast", Fast);
toft!("bare", Bare);
toft!("checked", Checked);

#[cfg(feature = "talc")]
mod heap {
    use super::*;
    pub type Own = talc::base::Talc<talc::source::Manual, talc::base::binning::DefaultBinning>;
    pub const NEW: Own = Own::new(talc::source::Manual);
    impl Heap for Own {
        fn begin(&mut self) {
            unsafe { self.claim((&raw mut MEMORY).cast(), SIZE) };
        }
        unsafe fn allocate(&mut self, layout: Layout) -> *mut u8 {
            unsafe { Own::allocate(self, layout) }.map_or(null_mut(), NonNull::as_ptr)
        }
        unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
            unsafe { self.deallocate(block.as_ptr(), layout) };
        }
        unsafe fn resize(&mut self, block: NonNull<u8>, layout: Layout, size: usize) -> *mut u8 {
            unsafe {
                if self.try_realloc_in_place(block.as_ptr(), layout, size) {
                    return block.as_ptr();
                }
                let new =
                    Heap::allocate(self, Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    new.copy_from_nonoverlapping(block.as_ptr(), layout.size().min(size));
                    Heap::free(self, block, layout);
                }
                new
            }
        }
    }
}

/// talc links `alloc`, which wants one; nothing is ever asked of it.
#[cfg(feature = "talc")]
mod none {
    use core::alloc::{GlobalAlloc, Layout};

    struct None;

    // SAFETY: it has no blocks.
    unsafe impl GlobalAlloc for None {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            core::ptr::null_mut()
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[global_allocator]
    static NONE: None = None;
}

#[cfg(feature = "rlsf")]
mod heap {
    use super::*;
    pub type Own = rlsf::Tlsf<'static, u32, u32, 24, 32>;
    pub const NEW: Own = Own::new();
    impl Heap for Own {
        fn begin(&mut self) {
            let all = core::ptr::slice_from_raw_parts_mut((&raw mut MEMORY).cast(), SIZE);
            unsafe { self.insert_free_block_ptr(NonNull::new_unchecked(all)) };
        }
        unsafe fn allocate(&mut self, layout: Layout) -> *mut u8 {
            Own::allocate(self, layout).map_or(null_mut(), NonNull::as_ptr)
        }
        unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
            unsafe { self.deallocate(block, layout.align()) };
        }
        unsafe fn resize(&mut self, block: NonNull<u8>, layout: Layout, size: usize) -> *mut u8 {
            unsafe {
                self.reallocate(block, Layout::from_size_align_unchecked(size, layout.align()))
            }
            .map_or(null_mut(), NonNull::as_ptr)
        }
    }
}

#[cfg(not(any(
    feature = "small",
    feature = "packed",
    feature = "standard",
    feature = "fast",
    feature = "bare",
    feature = "checked",
    feature = "talc",
    feature = "rlsf"
)))]
mod heap {
    use super::*;
    pub struct Own;
    pub const NEW: Own = Own;
    impl Heap for Own {
        fn begin(&mut self) {}
        unsafe fn allocate(&mut self, _: Layout) -> *mut u8 {
            (&raw mut MEMORY).cast()
        }
        unsafe fn free(&mut self, _: NonNull<u8>, _: Layout) {}
    }
}

static mut HEAP: heap::Own = heap::NEW;

fn heap() -> &'static mut heap::Own {
    // SAFETY: a module has one thread, and nothing here calls back.
    unsafe { &mut *(&raw mut HEAP) }
}

#[unsafe(no_mangle)]
pub extern "C" fn begin() {
    heap().begin();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocate(size: usize, align: usize) -> *mut u8 {
    unsafe { Heap::allocate(heap(), Layout::from_size_align_unchecked(size, align)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: NonNull<u8>, size: usize, align: usize) {
    unsafe { Heap::free(heap(), block, Layout::from_size_align_unchecked(size, align)) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn resize(
    block: NonNull<u8>,
    size: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    unsafe { Heap::resize(heap(), block, Layout::from_size_align_unchecked(size, align), new) }
}
