//! A shared arena as an allocator of single collections: the stable mirror of the standard library's
//! `Allocator`.

use super::{Exclusive, Shared};
use crate::shape::Shape;
use crate::source::Source;
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::ptr::{NonNull, slice_from_raw_parts_mut, without_provenance_mut};

/// A slice of what was asked for. Nothing has an address of its own, which is aligned and no block's.
fn slice(block: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    NonNull::new(slice_from_raw_parts_mut(block, size)).ok_or(AllocError)
}

fn nothing(layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    slice(without_provenance_mut(layout.align()), 0)
}

impl<S: Shape, F: Source<S>, L: Exclusive> Shared<S, F, L> {
    /// # Safety
    /// 1. As `Allocator::grow` and `shrink`.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by 1 the block is live, unless its layout has no size. Where the new alignment is not
        // met by where the block is, it moves, and only as many bytes are copied as both have.
        unsafe {
            if old.size() == 0 {
                return Allocator::allocate(&self, new);
            }
            if new.size() == 0 {
                self.deallocate_sized(block, old);
                return nothing(new);
            }
            if block.as_ptr().addr() % new.align() == 0 && new.align() <= old.align() {
                let same = self.reallocate(block, old, new.size()).map_err(|_| AllocError)?;
                return slice(same.as_ptr(), new.size());
            }
            let moved = self.allocate(new).map_err(|_| AllocError)?;
            let kept = old.size().min(new.size());
            moved.as_ptr().copy_from_nonoverlapping(block.as_ptr(), kept);
            self.deallocate_sized(block, old);
            slice(moved.as_ptr(), new.size())
        }
    }
}

// SAFETY: blocks are of their layout, stay where they are until they are freed or resized, and any copy of
// the reference frees what another has allocated.
unsafe impl<S: Shape, F: Source<S>, L: Exclusive> Allocator for &Shared<S, F, L> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return nothing(layout);
        }
        let block = Shared::allocate(self, layout).map_err(|_| AllocError)?;
        slice(block.as_ptr(), layout.size())
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return nothing(layout);
        }
        let block = Shared::allocate_zeroed(self, layout).map_err(|_| AllocError)?;
        slice(block.as_ptr(), layout.size())
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller frees a live block of this layout.
            unsafe { self.deallocate_sized(block, layout) };
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises; the block has the bytes of the new layout.
        unsafe {
            let grown = self.resize(block, old, new)?;
            let start = grown.cast::<u8>().as_ptr();
            start.add(old.size()).write_bytes(0, new.size() - old.size());
            Ok(grown)
        }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises.
        unsafe { self.resize(block, old, new) }
    }
}
