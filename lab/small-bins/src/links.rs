//! The lists. Each is a ring through its head, so that no end is a special case. A head has the two
//! links of a chunk, and is at the base of the heap.
//!
//! A link is checked before it is followed: it leads into the usable memory, to a place where a
//! chunk can begin, and the chunk there links back. A link that fails stops the process.

use crate::bins::LISTS;
use crate::chunk::{ALIGN, BELOW_FREE, Chunk, LARGE, LIVE, SMALLEST, WORD};
use crate::fault::{Fault, stop};
use crate::heap::Heap;
use crate::variant::Variant;

/// The offset of the first chunk, above the heads.
pub(crate) const FIRST: usize = LISTS * ALIGN + 2 * ALIGN + WORD;

/// The head of a list, as the chunk whose links it has.
#[inline(always)]
pub(crate) fn head(list: usize) -> Chunk {
    Chunk(list * ALIGN + WORD)
}

/// A direction of a ring.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Next = WORD as isize,
    Previous = 2 * WORD as isize,
    /// From leader to leader of a large bin (`large.rs`).
    Larger = 3 * WORD as isize,
    Smaller = 4 * WORD as isize,
}

impl<V: Variant> Heap<V> {
    /// Makes every ring empty.
    ///
    /// # Safety
    /// 1. The usable part holds the heads, and no chunk is in a list.
    pub(crate) unsafe fn empty_lists(&mut self) {
        for list in 0..LISTS {
            // SAFETY: (1).
            unsafe {
                self.set_link(head(list), Way::Next, head(list));
                self.set_link(head(list), Way::Previous, head(list));
            }
        }
    }

    /// The address of a chunk's block, for messages.
    #[cold]
    pub(crate) fn named(&self, chunk: Chunk) -> usize {
        self.memory.pointer(chunk.block()).addr()
    }

    /// Reads a link, and stops the process if no chunk can be where it leads.
    ///
    /// # Safety
    /// 1. `from` is a free chunk or a head.
    #[inline(always)]
    pub(crate) unsafe fn link(&self, from: Chunk, way: Way) -> Chunk {
        // SAFETY: (1): both links are in it.
        let to = unsafe { self.memory.get(from.0 + way as usize) };
        // Chunks and heads are below `top`; five words from there are usable.
        if to.wrapping_sub(WORD) >= self.top.0 - WORD || to % ALIGN != WORD {
            stop(V::NAME, Fault::Link { block: self.named(from), link: to });
        }
        Chunk(to)
    }

    /// Writes a link.
    ///
    /// # Safety
    /// 1. `from` is a free chunk or a head.
    #[inline(always)]
    pub(crate) unsafe fn set_link(&mut self, from: Chunk, way: Way, to: Chunk) {
        // SAFETY: (1): both links are in it, and not in a block.
        unsafe { self.memory.put(from.0 + way as usize, to.0) };
    }

    /// The neighbour in a ring, which is known to link back.
    ///
    /// # Safety
    /// 1. `from` is a free chunk or a head, and `way` is along the list.
    #[inline(always)]
    pub(crate) unsafe fn neighbour(&self, from: Chunk, way: Way) -> Chunk {
        let back = match way {
            Way::Next => Way::Previous,
            _ => Way::Next,
        };
        // SAFETY: (1); what `link` returns may be read by five words, whatever is there.
        unsafe {
            let to = self.link(from, way);
            if self.memory.get(to.0 + back as usize) != from.0 {
                let (block, link) = (self.named(from), self.named(to));
                stop(V::NAME, Fault::Back { block, link });
            }
            to
        }
    }

    /// Puts a chunk into a ring, after `before`.
    ///
    /// # Safety
    /// 1. `chunk` is free, and in no list.
    /// 2. `before` is a head, or a chunk in a list.
    #[inline(always)]
    pub(crate) unsafe fn insert(&mut self, chunk: Chunk, before: Chunk) {
        // SAFETY: (1, 2), and a neighbour is a chunk or a head.
        unsafe {
            let after = self.neighbour(before, Way::Next);
            self.set_link(chunk, Way::Next, after);
            self.set_link(chunk, Way::Previous, before);
            self.set_link(before, Way::Next, chunk);
            self.set_link(after, Way::Previous, chunk);
        }
    }

    /// Takes a chunk out of its ring, and returns its size. All its links and both its sizes are
    /// checked.
    ///
    /// # Safety
    /// 1. `chunk` is between the first chunk and `top`, and is free.
    #[inline(always)]
    pub(crate) unsafe fn unlink(&mut self, chunk: Chunk) -> usize {
        // SAFETY: (1).
        unsafe {
            let size = self.free_size(chunk);
            let next = self.neighbour(chunk, Way::Next);
            let previous = self.neighbour(chunk, Way::Previous);
            if size >= LARGE {
                self.unlead(chunk, previous, size);
            }
            self.set_link(previous, Way::Next, next);
            self.set_link(next, Way::Previous, previous);
            size
        }
    }

    /// The size of a free chunk. Stops the process if its two sizes differ, or the chunk above does
    /// not know that it is free.
    ///
    /// # Safety
    /// 1. `chunk` is between the first chunk and `top`.
    #[inline(always)]
    pub(crate) unsafe fn free_size(&self, chunk: Chunk) -> usize {
        // SAFETY: (1); the last word, and the chunk above, are read only if they are below `top`.
        unsafe {
            let size = self.memory.tag(chunk);
            if size & LIVE != 0 {
                stop(V::NAME, Fault::State { block: self.named(chunk) });
            }
            // No free chunk touches `top`.
            let fits =
                size >= SMALLEST && size < self.top.0 - chunk.0 && size.is_multiple_of(ALIGN);
            if !fits
                || self.memory.get(chunk.0 + size - WORD) != size
                || self.memory.tag(chunk.above(size)) & (LIVE | BELOW_FREE) != LIVE | BELOW_FREE
            {
                stop(V::NAME, Fault::Size { block: self.named(chunk) });
            }
            size
        }
    }
}
