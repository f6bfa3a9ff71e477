//! The way of a freed block. The branch that the experiment is about is in [`Heap::place_freed`].

use super::{Heap, count};
use crate::bins::{self, UNSORTED};
use crate::chunk::{ALIGN, BELOW_FREE, Chunk, FLAGS, LARGE, LIVE, SMALLEST, WORD};
use crate::fault::{Fault, stop};
use crate::links::{FIRST, head};
use crate::variant::{To, Variant, unlikely};

impl<V: Variant> Heap<V> {
    /// Frees a block.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, and is not used any more. Some mistakes are seen,
    ///    and stop the process.
    #[inline(always)]
    pub unsafe fn free(&mut self, block: *mut u8) {
        // SAFETY: (1).
        unsafe {
            let (chunk, size, tag) = self.live(block);
            self.free_chunk(chunk, size, tag);
        }
    }

    /// Merges a chunk with its free neighbours, and puts it where the variant wants it.
    ///
    /// # Safety
    /// 1. `chunk` is live, has these `size` and `tag`, and is not used any more.
    #[inline(never)]
    pub(crate) unsafe fn free_chunk(&mut self, mut chunk: Chunk, mut size: usize, tag: usize) {
        let above = chunk.above(size);
        let before = size;
        // SAFETY: (1): the chunk is below `top`; neighbours are checked before they are used.
        unsafe {
            if tag & BELOW_FREE != 0 {
                let below = self.below(chunk);
                chunk = Chunk(chunk.0 - below);
                size += below;
            }
            if above == self.top {
                self.join_top(chunk);
                return;
            }
            let tag = self.memory.tag(above);
            if tag & LIVE == 0 {
                size += self.withdraw(above);
                count!(self.merged);
            } else {
                if tag & BELOW_FREE != 0 || tag & !FLAGS < SMALLEST {
                    stop(V::NAME, Fault::Tag { block: self.named(above) });
                }
                self.memory.set_tag(above, tag | BELOW_FREE);
            }
            self.set_free_size(chunk, size);
            if V::CHOICES.runs && size > before {
                self.keep_run(chunk);
            } else {
                self.place_freed(chunk, size);
            }
        }
    }

    /// Takes the free chunk below this one out of its list, and returns its size.
    ///
    /// # Safety
    /// 1. `chunk` is live, and its tag has [`BELOW_FREE`].
    #[inline(always)]
    unsafe fn below(&mut self, chunk: Chunk) -> usize {
        // SAFETY: (1): the word before it is the size of the free chunk.
        let size = unsafe { self.memory.get(chunk.0 - WORD) };
        if !(SMALLEST..=chunk.0 - FIRST).contains(&size) || !size.is_multiple_of(ALIGN) {
            stop(V::NAME, Fault::Tag { block: self.named(chunk) });
        }
        // SAFETY: between the first chunk and `top`; its state and sizes are checked.
        let found = unsafe { self.withdraw(Chunk(chunk.0 - size)) };
        if found != size {
            stop(V::NAME, Fault::Size { block: self.named(Chunk(chunk.0 - size)) });
        }
        count!(self.merged);
        size
    }

    /// Puts a freed chunk where the variant wants it: the branch that glibc's patch added.
    ///
    /// # Safety
    /// 1. `chunk` is free, has both sizes, and is in no list.
    #[inline(always)]
    pub(super) unsafe fn place_freed(&mut self, chunk: Chunk, size: usize) {
        let place = if size < LARGE {
            if V::CHOICES.inverted {
                unlikely();
            }
            V::CHOICES.small
        } else {
            V::CHOICES.large
        };
        // SAFETY: (1).
        unsafe {
            match place {
                To::Bin => self.file(chunk, size),
                To::Unsorted => self.put_unsorted(chunk, size),
            }
        }
    }

    /// Writes both sizes of a free chunk.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is free, and a chunk.
    #[inline(always)]
    pub(super) unsafe fn set_free_size(&mut self, chunk: Chunk, size: usize) {
        // SAFETY: (1): both words are in it.
        unsafe {
            self.memory.set_tag(chunk, size);
            self.memory.put(chunk.0 + size - WORD, size);
        }
    }

    /// Puts a chunk at the front of the unsorted list.
    ///
    /// # Safety
    /// 1. `chunk` is free, has both sizes of `size`, and is in no list.
    #[inline(always)]
    pub(super) unsafe fn put_unsorted(&mut self, chunk: Chunk, size: usize) {
        count!(self.unsorted);
        // SAFETY: (1), and a head. A large chunk has room for the links of a leader.
        unsafe {
            if size >= LARGE {
                self.set_leader(chunk, Chunk::NONE, Chunk::NONE);
            }
            self.insert(chunk, head(UNSORTED));
        }
    }

    /// Puts a chunk straight into the bin of its size.
    ///
    /// # Safety
    /// 1. `chunk` is free, has both sizes of `size`, and is in no list.
    #[inline(always)]
    pub(super) unsafe fn file(&mut self, chunk: Chunk, size: usize) {
        count!(self.filed);
        // SAFETY: (1).
        unsafe { self.put_in_bin(chunk, size) };
    }

    /// Puts a chunk into the bin of its size.
    ///
    /// # Safety
    /// 1. As `file`.
    #[inline(always)]
    pub(super) unsafe fn put_in_bin(&mut self, chunk: Chunk, size: usize) {
        // SAFETY: (1), and heads.
        unsafe {
            if size < LARGE {
                self.marks.set(bins::small(size));
                self.insert(chunk, head(bins::small(size)));
            } else {
                self.put_in_large_bin(chunk, size);
            }
        }
    }
}
