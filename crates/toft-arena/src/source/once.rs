//! One range of memory, claimed with the first request: what a static heap is.

use super::Source;
use crate::fault::NoMemory;
use crate::heap::Heap;
use crate::shape::Shape;
use core::alloc::Layout;

/// A range of memory that is claimed when the first block is asked for.
#[derive(Debug)]
pub struct Once {
    start: *mut u8,
    size: usize,
    zeroed: bool,
}

// SAFETY: the range is for the one heap that claims it, in whatever thread.
unsafe impl Send for Once {}

impl Once {
    /// A range of memory.
    ///
    /// # Safety
    /// 1. As [`Heap::claim`], from now on.
    #[must_use]
    pub const unsafe fn new(start: *mut u8, size: usize) -> Self {
        Self { start, size, zeroed: false }
    }

    /// A range of memory that is full of zeros.
    ///
    /// # Safety
    /// 1. As [`Heap::claim_zeroed`], from now on.
    #[must_use]
    pub const unsafe fn zeroed(start: *mut u8, size: usize) -> Self {
        Self { start, size, zeroed: true }
    }
}

// SAFETY: 1. it claims only. 2. as `new` was promised.
unsafe impl<S: Shape> Source<S> for Once {
    unsafe fn more(&mut self, heap: &mut Heap<S>, _: Layout) -> Result<(), NoMemory> {
        let size = core::mem::take(&mut self.size);
        if size == 0 {
            return Err(NoMemory);
        }
        // SAFETY: as `new` or `zeroed` was promised; the size is 0 from now on.
        let claimed = unsafe {
            if self.zeroed {
                heap.claim_zeroed(self.start, size)
            } else {
                heap.claim(self.start, size)
            }
        };
        claimed.map(|_| ()).map_err(|_| NoMemory)
    }
}
