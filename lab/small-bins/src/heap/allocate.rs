//! The way of a request.

use super::{Heap, count};
use crate::bins::{self, FIRST_LARGE, LISTS};
use crate::chunk::{Chunk, LARGE, LIVE, SMALLEST, size_for};
use crate::links::{Way, head};
use crate::variant::{Order, To, Variant};
use std::ptr::null_mut;

impl<V: Variant> Heap<V> {
    /// Returns a block of at least `request` bytes, or null if there is no memory.
    #[inline(always)]
    pub fn allocate(&mut self, request: usize) -> *mut u8 {
        match size_for(request) {
            Some(size) => self.allocate_chunk(size),
            None => null_mut(),
        }
    }

    /// Returns a block whose chunk has at least `size` bytes, or null if there is no memory.
    #[inline(always)]
    pub(crate) fn allocate_chunk(&mut self, size: usize) -> *mut u8 {
        self.take_exact(size).unwrap_or_else(|| self.search(size))
    }

    /// Returns a block whose chunk has at least `size` bytes, if one is found without a search.
    pub(crate) fn allocate_ready(&mut self, size: usize) -> Option<*mut u8> {
        self.take_exact(size).or_else(|| self.take_run(size))
    }

    /// Returns a block of the exact bin of a size.
    #[inline(always)]
    fn take_exact(&mut self, size: usize) -> Option<*mut u8> {
        if size >= LARGE || self.memory.usable == 0 {
            return None;
        }
        let head = head(bins::small(size));
        let end = match V::CHOICES.order {
            Order::Queue => Way::Previous,
            Order::Stack => Way::Next,
        };
        // SAFETY: a head; and what is in its list is a free chunk.
        unsafe {
            let chunk = self.link(head, end);
            if chunk == head {
                return None;
            }
            self.unlink(chunk);
            Some(self.hand_out(chunk, size))
        }
    }

    /// What no exact bin serves.
    #[inline(never)]
    fn search(&mut self, size: usize) -> *mut u8 {
        if self.memory.usable == 0 && !self.begin() {
            return null_mut();
        }
        if V::CHOICES.runs
            && let Some(block) = self.take_run(size)
        {
            return block;
        }
        if V::CHOICES.sorts()
            && let Some(block) = self.sort(size)
        {
            return block;
        }
        if let Some((chunk, found)) = self.take_larger(size) {
            // SAFETY: it has just left its list.
            return unsafe { self.split(chunk, found, size) };
        }
        self.take_top(size)
    }

    /// Takes the smallest free chunk of at least `size` bytes out of its bin.
    fn take_larger(&mut self, size: usize) -> Option<(Chunk, usize)> {
        // The exact bin of a small size is known to be empty.
        let mut list = bins::of(size) + usize::from(size < LARGE);
        while let Some(next) = self.marks.next(list) {
            // SAFETY: a list of this heap.
            if let Some(fit) = unsafe { self.fit(next, size) } {
                return Some(fit);
            }
            list = next + 1;
        }
        debug_assert!(list <= LISTS);
        None
    }

    /// Takes the smallest chunk of at least `size` bytes out of one bin.
    ///
    /// # Safety
    /// 1. `list` is a bin, not the unsorted list, and not the exact bin of a smaller size.
    unsafe fn fit(&mut self, list: usize, size: usize) -> Option<(Chunk, usize)> {
        // SAFETY: (1); a head, and the last chunk of its list, which is free.
        unsafe {
            let chunk = self.link(head(list), Way::Previous);
            if chunk == head(list) {
                self.marks.clear(list);
                return None;
            }
            if list < FIRST_LARGE {
                return Some((chunk, self.unlink(chunk)));
            }
            self.fit_large(list, size)
        }
    }

    /// Hands out the first `size` bytes of a chunk. The rest, if it is a chunk, goes to the place
    /// of remainders.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + found)` is free and in no list, and `found >= size`.
    pub(super) unsafe fn split(&mut self, chunk: Chunk, found: usize, size: usize) -> *mut u8 {
        let left = found - size;
        if left < SMALLEST {
            // SAFETY: (1).
            return unsafe { self.hand_out(chunk, found) };
        }
        count!(self.split);
        let rest = chunk.above(size);
        if V::CHOICES.sorts() && size < LARGE {
            self.rest = rest;
        }
        // SAFETY: (1); both parts are chunks, and the chunk above knows that one below is free.
        unsafe {
            self.memory.set_tag(chunk, size | LIVE);
            self.place_remainder(rest, left);
        }
        self.memory.pointer(chunk.block())
    }

    /// Puts what is left of a split chunk where the variant wants it.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is free, in no list, and has the size of a chunk.
    #[inline]
    unsafe fn place_remainder(&mut self, chunk: Chunk, size: usize) {
        // SAFETY: (1).
        unsafe {
            self.set_free_size(chunk, size);
            match V::CHOICES.remainders {
                To::Bin => self.file(chunk, size),
                To::Unsorted => self.put_unsorted(chunk, size),
            }
        }
    }
}
