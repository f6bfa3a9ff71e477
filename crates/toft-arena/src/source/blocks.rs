//! Another allocator: large blocks of it become spans, and are returned when they are free.

use super::{Source, room_for};
use crate::fault::NoMemory;
use crate::heap::{Heap, Span};
use crate::shape::Shape;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

/// A source of blocks of another allocator. Blocks that are all free are returned, except one.
#[derive(Debug)]
pub struct Blocks<A: GlobalAlloc> {
    allocator: A,
    /// The last block; each begins with a [`Header`].
    last: *mut Header,
    least: usize,
}

/// In front of each block.
#[repr(C, align(16))]
struct Header {
    next: *mut Header,
    size: usize,
}

const ALIGN: usize = 4096;

// SAFETY: the blocks are the source's own, and bound to no thread.
unsafe impl<A: GlobalAlloc + Send> Send for Blocks<A> {}

impl<A: GlobalAlloc> Blocks<A> {
    /// A source of blocks of at least this many bytes.
    #[must_use]
    pub const fn new(allocator: A, least: usize) -> Self {
        let least = if least < 2 * ALIGN { 2 * ALIGN } else { least };
        Self { allocator, last: null_mut(), least }
    }

    /// Gives back the blocks that are free, but for `keep` of them.
    fn give_back<S: Shape>(&mut self, heap: &mut Heap<S>, mut keep: usize) {
        let mut at = &raw mut self.last;
        // SAFETY: `at` is the field, or that of a block that is still there; so is what it points
        // to. A block whose span has been released is not in use.
        unsafe {
            while !(*at).is_null() {
                let block = *at;
                let span = Self::span(block);
                let free = heap.reserved(span).is_ok_and(|reserved| reserved.size == 0);
                if free && keep > 0 {
                    keep -= 1;
                } else if free && heap.release_span(span).is_ok() {
                    *at = (*block).next;
                    self.give(block);
                    continue;
                }
                at = &raw mut (*block).next;
            }
        }
    }

    /// # Safety
    /// 1. `block` is one of this source's.
    unsafe fn span(block: *mut Header) -> Span {
        let header = size_of::<Header>();
        // SAFETY: by 1 it has a header. The first places of it may be lost to alignment, so the
        // span is named by its middle.
        unsafe {
            let half = ((*block).size - header) / 2;
            Span::new(block.cast::<u8>().add(header + half), half)
        }
    }

    /// # Safety
    /// 1. `block` is one of this source's, and is not used any more.
    unsafe fn give(&self, block: *mut Header) {
        // SAFETY: it was allocated with this layout.
        unsafe {
            let layout = Layout::from_size_align_unchecked((*block).size, ALIGN);
            self.allocator.dealloc(block.cast(), layout);
        }
    }
}

// SAFETY: 1. it claims and releases only. 2. blocks are given back after their span was released,
// or in `drop`.
unsafe impl<S: Shape, A: GlobalAlloc> Source<S> for Blocks<A> {
    const TAKES_BACK: bool = true;

    unsafe fn more(&mut self, heap: &mut Heap<S>, layout: Layout) -> Result<(), NoMemory> {
        let header = size_of::<Header>();
        let need = room_for::<S>(layout)?.checked_add(header).ok_or(NoMemory)?;
        let size = need.max(self.least).checked_next_multiple_of(ALIGN).ok_or(NoMemory)?;
        let layout = Layout::from_size_align(size, ALIGN).map_err(|_| NoMemory)?;
        // SAFETY: the layout has a size.
        let block = unsafe { self.allocator.alloc(layout) }.cast::<Header>();
        if block.is_null() {
            return Err(NoMemory);
        }
        // SAFETY: the block is this source's, and large enough for a header and a span.
        unsafe {
            block.write(Header { next: self.last, size });
            if heap.claim(block.cast::<u8>().add(header), size - header).is_err() {
                self.give(block);
                return Err(NoMemory);
            }
        }
        self.last = block;
        Ok(())
    }

    unsafe fn less(&mut self, heap: &mut Heap<S>) -> usize {
        self.give_back(heap, 1);
        // No block is free before a chunk is as large as the smallest one, nearly.
        self.least - ALIGN
    }

    unsafe fn least(&mut self, heap: &mut Heap<S>) {
        self.give_back(heap, 0);
    }
}

impl<A: GlobalAlloc> Drop for Blocks<A> {
    fn drop(&mut self) {
        // A heap that outlives its source has lost its memory; `Arena` owns both.
        while !self.last.is_null() {
            let block = self.last;
            // SAFETY: one of this source's, whose header is read before it goes.
            unsafe {
                self.last = (*block).next;
                self.give(block);
            }
        }
    }
}
