//! A shared arena as an allocator of single collections: core's `Allocator`, and its mirror for
//! stable compilers. Both are the calls of `GlobalAlloc`, and zero-size blocks.

use super::{Exclusive, Shared};
#[cfg(target_has_atomic = "8")]
use super::{Spread, Striped};
use crate::fault::NoMemory;
use crate::shape::Shape;
use crate::source::Source;
#[cfg(target_has_atomic = "8")]
use crate::space::Anywhere;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, slice_from_raw_parts_mut, without_provenance_mut};

type Slice = Result<NonNull<[u8]>, NoMemory>;

/// A slice of the requested size. A zero-size one has an aligned address that is no block's.
fn slice(block: *mut u8, size: usize) -> Slice {
    NonNull::new(slice_from_raw_parts_mut(block, size)).ok_or(NoMemory)
}

fn nothing(layout: Layout) -> Slice {
    slice(without_provenance_mut(layout.align()), 0)
}

fn allocate(blocks: &impl GlobalAlloc, layout: Layout) -> Slice {
    if layout.size() == 0 {
        return nothing(layout);
    }
    // SAFETY: the layout has a size.
    slice(unsafe { blocks.alloc(layout) }, layout.size())
}

fn allocate_zeroed(blocks: &impl GlobalAlloc, layout: Layout) -> Slice {
    if layout.size() == 0 {
        return nothing(layout);
    }
    // SAFETY: the layout has a size.
    slice(unsafe { blocks.alloc_zeroed(layout) }, layout.size())
}

/// # Safety
/// 1. As `Allocator::deallocate`.
unsafe fn deallocate(blocks: &impl GlobalAlloc, block: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: by 1 it is a live block of this layout.
        unsafe { blocks.dealloc(block.as_ptr(), layout) };
    }
}

/// # Safety
/// 1. As `Allocator::grow` and `shrink`.
unsafe fn resize(blocks: &impl GlobalAlloc, block: NonNull<u8>, old: Layout, new: Layout) -> Slice {
    // SAFETY: by 1 the block is live, unless its layout has no size. Where the new alignment is not
    // met by where the block is, it moves, and only as many bytes are copied as both have.
    unsafe {
        let is_kept = block.as_ptr().addr() % new.align() == 0 && new.align() <= old.align();
        if is_kept && old.size() != 0 && new.size() != 0 {
            return slice(blocks.realloc(block.as_ptr(), old, new.size()), new.size());
        }
        let moved = allocate(blocks, new)?;
        let kept = old.size().min(new.size());
        moved.cast::<u8>().as_ptr().copy_from_nonoverlapping(block.as_ptr(), kept);
        deallocate(blocks, block, old);
        Ok(moved)
    }
}

/// # Safety
/// 1. As `Allocator::grow_zeroed`.
unsafe fn grow_zeroed(
    blocks: &impl GlobalAlloc,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Slice {
    // SAFETY: by 1; the block has the bytes of the new layout.
    unsafe {
        let grown = resize(blocks, block, old, new)?;
        let start = grown.cast::<u8>().as_ptr();
        start.add(old.size()).write_bytes(0, new.size() - old.size());
        Ok(grown)
    }
}

macro_rules! allocator {
    (@resizing $error:path, $($method:ident: $function:ident),*) => {$(
        unsafe fn $method(
            &self,
            block: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, $error> {
            // SAFETY: as the caller promises.
            unsafe { $function(*self, block, old, new) }.map_err(|_| $error)
        }
    )*};
    ($trait:path, $error:path, $type:ty, $($generics:tt)*) => {
        // SAFETY: blocks are of their layout, stay where they are until they are freed or resized,
        // and any copy of the reference frees what another has allocated.
        unsafe impl<$($generics)*> $trait for &$type {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                allocate(*self, layout).map_err(|_| $error)
            }
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                allocate_zeroed(*self, layout).map_err(|_| $error)
            }
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: as the caller promises.
                unsafe { deallocate(*self, block, layout) };
            }
            allocator!(@resizing $error, grow: resize, grow_zeroed: grow_zeroed, shrink: resize);
        }
    };
}

macro_rules! both {
    ($trait:path, $error:path) => {
        allocator!($trait, $error, Shared<S, F, L>, S: Shape, F: Source<S>, L: Exclusive);
        #[cfg(target_has_atomic = "8")]
        allocator!(
            $trait,
            $error,
            Striped<S, L, N, H>,
            S: Shape<Space = Anywhere>, L: Exclusive, const N: usize, H: Spread
        );
    };
}

#[cfg(feature = "allocator-api2")]
both!(allocator_api2::alloc::Allocator, allocator_api2::alloc::AllocError);
#[cfg(feature = "nightly")]
both!(core::alloc::Allocator, core::alloc::AllocError);
