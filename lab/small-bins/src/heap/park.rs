//! The cache: some blocks of each small size, which their neighbours take for live. It stands for a
//! thread's cache and the fast bins of glibc, but all threads share it, under the heap's lock.

use super::{Heap, count};
use crate::bins;
use crate::chunk::{ALIGN, Chunk, FLAGS, LARGE, PARKED, WORD};
use crate::fault::{Fault, stop};
use crate::links::FIRST;
use crate::variant::Variant;

impl<V: Variant> Heap<V> {
    /// Puts a freed block into the cache. Returns false if there is no room, or no cache.
    ///
    /// # Safety
    /// 1. `chunk` is live, has these `size` and `tag`, and is not used any more.
    #[inline(always)]
    pub(super) unsafe fn park(&mut self, chunk: Chunk, size: usize, tag: usize) -> bool {
        if V::CHOICES.parked == 0 || size >= LARGE {
            return false;
        }
        let (first, count) = self.parked[bins::small(size)];
        if count == V::CHOICES.parked_of(size) {
            return false;
        }
        count!(self.parked);
        // SAFETY: (1): both words are of a chunk that is no block any more.
        unsafe {
            self.memory.set_tag(chunk, tag | PARKED);
            self.memory.put(chunk.block(), first.0);
        }
        self.parked[bins::small(size)] = (chunk, count + 1);
        true
    }

    /// Takes a block of this size out of the cache.
    #[inline(always)]
    pub(super) fn unpark(&mut self, size: usize) -> Option<*mut u8> {
        if V::CHOICES.parked == 0 {
            return None;
        }
        let (chunk, count) = self.parked[bins::small(size)];
        if count == 0 {
            return None;
        }
        let next = self.next_parked(chunk, size);
        self.parked[bins::small(size)] = (next, count - 1);
        // SAFETY: `next_parked` has checked that it is a parked chunk.
        unsafe {
            let tag = self.memory.tag(chunk);
            self.memory.set_tag(chunk, tag & !PARKED);
        }
        Some(self.memory.pointer(chunk.block()))
    }

    /// Checks a parked chunk, and returns the one that its link leads to.
    #[inline(always)]
    pub(super) fn next_parked(&self, chunk: Chunk, size: usize) -> Chunk {
        // SAFETY: `chunk` was checked when it was the link of the one before, or has just been
        // parked: it is between the first chunk and `top`.
        let (tag, next) = unsafe { (self.memory.tag(chunk), self.memory.get(chunk.block())) };
        if tag & PARKED == 0 || tag & !FLAGS != size {
            stop(V::NAME, Fault::State { block: self.named(chunk) });
        }
        let inside = next.wrapping_sub(FIRST) < self.top.0 - FIRST && next % ALIGN == WORD;
        if !inside && next != Chunk::NONE.0 {
            stop(V::NAME, Fault::Link { block: self.named(chunk), link: next });
        }
        Chunk(next)
    }
}
