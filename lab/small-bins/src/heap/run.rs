//! The chunk that grows. Blocks that are freed in the order of their addresses join one chunk. With
//! each of them it would leave one bin for the next. So a chunk that has grown is in no list until
//! another one grows. Requests are cut from it without a list, too.

use super::{Heap, count};
use crate::chunk::{Chunk, SMALLEST};
use crate::links::FIRST;
use crate::variant::Variant;

impl<V: Variant> Heap<V> {
    /// Takes a free chunk out of its list, or out of `run`, and returns its size.
    ///
    /// # Safety
    /// 1. `chunk` is between the first chunk and `top`, and is free.
    #[inline(always)]
    pub(super) unsafe fn withdraw(&mut self, chunk: Chunk) -> usize {
        // SAFETY: (1).
        unsafe {
            if V::CHOICES.runs && chunk == self.run {
                self.run = Chunk::NONE;
                return self.free_size(chunk);
            }
            self.unlink(chunk)
        }
    }

    /// Makes a chunk that has grown the `run`. The one before goes to its place.
    ///
    /// # Safety
    /// 1. `chunk` is free, has both sizes, and is in no list.
    #[inline(always)]
    pub(super) unsafe fn keep_run(&mut self, chunk: Chunk) {
        let before = std::mem::replace(&mut self.run, chunk);
        if before != Chunk::NONE {
            // SAFETY: (1): `before` was kept as such a chunk.
            unsafe {
                let size = self.free_size(before);
                self.place_freed(before, size);
            }
        }
    }

    /// Cuts a block from the front of `run`, if there is one that is large enough.
    #[inline(always)]
    pub(super) fn take_run(&mut self, size: usize) -> Option<*mut u8> {
        if self.run.0 < FIRST {
            return None;
        }
        // SAFETY: `run` is free and in no list; what is left of it is free, too.
        unsafe {
            let found = self.free_size(self.run);
            if found < size {
                return None;
            }
            let chunk = self.run;
            if found - size < SMALLEST {
                self.run = Chunk::NONE;
                return Some(self.hand_out(chunk, found));
            }
            count!(self.split);
            self.run = chunk.above(size);
            self.set_free_size(self.run, found - size);
            self.memory.set_tag(chunk, size | crate::chunk::LIVE);
            Some(self.memory.pointer(chunk.block()))
        }
    }
}
