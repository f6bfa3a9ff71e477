//! Blocks that change their size in place, and blocks with a greater alignment.

use super::{Heap, count};
use crate::chunk::{BELOW_FREE, Chunk, LIVE, SMALLEST, WORD, size_for};
use crate::variant::Variant;
use std::ptr::null_mut;

impl<V: Variant> Heap<V> {
    /// Changes the size of a block where it is. Returns false, and changes nothing, if that cannot
    /// be.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap.
    pub unsafe fn resize(&mut self, block: *mut u8, request: usize) -> bool {
        let Some(size) = size_for(request) else { return false };
        // SAFETY: (1).
        unsafe {
            let (chunk, mut has, tag) = self.live(block);
            if size > has {
                let above = chunk.above(has);
                if above == self.top {
                    if !self.reach(size - has) {
                        return false;
                    }
                    self.top = chunk.above(size);
                    self.memory.set_tag(chunk, size | LIVE | (tag & BELOW_FREE));
                    return true;
                }
                if self.memory.tag(above) & LIVE != 0 || has + self.free_size(above) < size {
                    return false;
                }
                has += self.withdraw(above);
                count!(self.merged);
                self.memory.set_tag(chunk, has | LIVE | (tag & BELOW_FREE));
                let after = chunk.above(has);
                let known = self.memory.tag(after);
                self.memory.set_tag(after, known & !BELOW_FREE);
            }
            self.cut(chunk, has, size);
        }
        true
    }

    /// Returns a block at a multiple of `align`, a power of two from 16 on, or null if there is no
    /// memory.
    pub fn allocate_aligned(&mut self, align: usize, request: usize) -> *mut u8 {
        debug_assert!(align.is_power_of_two() && align >= 16);
        let room = size_for(request).and_then(|size| size.checked_add(align + SMALLEST));
        let Some(room) = room.filter(|room| *room <= isize::MAX as usize) else {
            return null_mut();
        };
        let block = self.allocate(room);
        if block.is_null() {
            return block;
        }
        // SAFETY: `block` is live; what is before the aligned place, and after its end, is free
        // again. `room` has space for both.
        unsafe {
            let (mut chunk, mut has, tag) = self.live(block);
            let first = block.addr().next_multiple_of(align);
            let mut gap = first - block.addr();
            if gap != 0 && gap < SMALLEST {
                gap += align;
            }
            if gap != 0 {
                let lower = chunk;
                chunk = chunk.above(gap);
                has -= gap;
                self.memory.set_tag(chunk, has | LIVE);
                self.memory.set_tag(lower, gap | LIVE | (tag & BELOW_FREE));
                self.free_chunk(lower, gap, gap | LIVE | (tag & BELOW_FREE));
            }
            let size = size_for(request).unwrap_or(has);
            self.cut(chunk, has, size);
            self.memory.pointer(chunk.0 + WORD)
        }
    }

    /// Frees what a live chunk has beyond `size`, if that is a chunk.
    ///
    /// # Safety
    /// 1. `chunk` is live and has `has` bytes, of which those beyond `size` are not used.
    unsafe fn cut(&mut self, chunk: Chunk, has: usize, size: usize) {
        let left = has - size;
        if left < SMALLEST {
            return;
        }
        // SAFETY: (1): both parts are chunks; the upper one is freed as any other.
        unsafe {
            let tag = self.memory.tag(chunk);
            self.memory.set_tag(chunk, size | LIVE | (tag & BELOW_FREE));
            self.memory.set_tag(chunk.above(size), left | LIVE);
            self.free_chunk(chunk.above(size), left, left | LIVE);
        }
    }
}
