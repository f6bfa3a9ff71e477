//! A shared arena as a program's global allocator.

use super::{Exclusive, Shared};
#[cfg(target_has_atomic = "8")]
use super::{Spread, Striped};
use crate::shape::Shape;
use crate::source::Source;
#[cfg(target_has_atomic = "8")]
use crate::space::Anywhere;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

macro_rules! global {
    ($type:ty, $($generics:tt)*) => {
        // SAFETY: blocks are of their layout, and live until they are freed; nothing unwinds: a
        // fault hook that panics aborts.
        unsafe impl<$($generics)*> GlobalAlloc for $type {
            #[inline]
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                self.allocate(layout).map_or(null_mut(), NonNull::as_ptr)
            }

            #[inline]
            unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
                self.allocate_zeroed(layout).map_or(null_mut(), NonNull::as_ptr)
            }

            #[inline]
            unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
                // SAFETY: the caller frees a live block of this layout, which is not null.
                unsafe { self.deallocate_sized(NonNull::new_unchecked(block), layout) };
            }

            #[inline]
            unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
                // SAFETY: the caller resizes a live block of this layout, which is not null.
                unsafe { self.reallocate(NonNull::new_unchecked(block), layout, size) }
                    .map_or(null_mut(), NonNull::as_ptr)
            }
        }
    };
}

global!(Shared<S, F, L>, S: Shape, F: Source<S>, L: Exclusive);
#[cfg(target_has_atomic = "8")]
global!(
    Striped<S, L, N, H>,
    S: Shape<Space = Anywhere>, L: Exclusive, const N: usize, H: Spread
);
