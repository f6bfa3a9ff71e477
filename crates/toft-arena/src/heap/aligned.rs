//! Blocks that are more aligned than all are.
//!
//! A chunk may begin anywhere, so before the block there may be a gap, which is nothing or a free
//! chunk. A chunk that has room for the largest gap always serves; smaller ones may, where they lie
//! well. In this order:
//!
//! 1. The first chunk of the bin of this size: where blocks of one layout come and go, it is one.
//! 2. `rest`.
//! 3. The first chunk of the lowest bin of which every chunk has room for any gap. One search.
//! 4. `top`.
//! 5. All chunks of all bins that could: no request fails that could be met.

use super::Heap;
use crate::bins::{index, list};
use crate::chunk::{BELOW_FREE, LIVE};
use crate::shape::{Shape, Sizes};
use crate::space::Space;
use crate::table::Tables;

impl<S: Shape> Heap<S> {
    #[inline(never)]
    pub(super) fn take_aligned(&mut self, size: usize, align: usize) -> usize {
        let Some(largest) = align.checked_add(size).and_then(|sum| sum.checked_add(S::MIN)) else {
            return 0;
        };
        if Self::parks(size) {
            let bin = index::of_free::<S>(size);
            let parked = self.bins.parked(bin);
            if self.bins.waiting(bin) != 0 && self.gap(parked, size, size, align) == Some(0) {
                return self.take_parked(size);
            }
        }
        let bin = index::of_free::<S>(size);
        let own = self.bins.first(bin);
        if own != 0 {
            // SAFETY: the first of a list is a free chunk, in a span.
            let whole = unsafe { self.memory.free_size(own) };
            if let Some(gap) = self.gap(own, whole, size, align) {
                return self.take_behind(bin, own, whole, gap, size, align);
            }
            self.probed();
        }
        if let Some(gap) = self.gap(self.rest, self.rest_size, size, align) {
            let (chunk, whole) = (self.rest, self.rest_size);
            (self.rest, self.rest_size) = (0, 0);
            // SAFETY: the rest was a free chunk, and is in no register now.
            return unsafe { self.split_behind(chunk, whole, gap, size) };
        }
        let any = match largest < S::LIMIT {
            true => index::of_request::<S>(S::rounded(largest)),
            false => S::Bins::BINS,
        };
        // The first chunk of the last bin may serve, though some there are too small.
        if let Some(bin) = self.bins.find(any.min(S::Bins::BINS - 1)) {
            let chunk = self.bins.first(bin);
            // SAFETY: as above.
            let whole = unsafe { self.memory.free_size(chunk) };
            if let Some(gap) = self.gap(chunk, whole, size, align) {
                return self.take_behind(bin, chunk, whole, gap, size, align);
            }
        }
        if let Some(gap) = self.gap(self.top, self.top_size, size, align) {
            if self.is_parked_better(gap + size) {
                self.settle();
                return self.take_aligned(size, align);
            }
            let chunk = self.top + gap;
            if gap != 0 {
                let below = self.top;
                (self.top, self.top_size) = (chunk, self.top_size - gap);
                self.take_top(size);
                // SAFETY: the gap is not in use, is at least `MIN`, and what is after it says so.
                unsafe {
                    self.mark_below(chunk, true);
                    self.file(below, gap);
                }
                return chunk;
            }
            return self.take_top(size);
        }
        self.take_any(size, align)
    }

    /// The size of the gap before an aligned block in `[chunk, chunk + whole)`. `None` if it does
    /// not fit.
    #[inline(always)]
    pub(super) fn gap(
        &self,
        chunk: usize,
        whole: usize,
        size: usize,
        align: usize,
    ) -> Option<usize> {
        let gap = self.gap_at(chunk, align);
        if size <= whole && gap <= whole - size { Some(gap) } else { None }
    }

    /// The size of the gap before an aligned block in a chunk: nothing, or at least a chunk.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn gap_at(&self, chunk: usize, align: usize) -> usize {
        let block = self.memory.space.address(chunk + S::WORD);
        let to = |from: usize| from.wrapping_neg() & (align - 1);
        match to(block) {
            // An alignment is at most half of all addresses.
            1.. if to(block) < S::MIN => S::MIN + to(block.wrapping_add(S::MIN)),
            gap => gap,
        }
    }

    /// Takes a chunk out of its list, and a live one out of that. If it does not belong there, its
    /// bin is given up, and all is tried again: there are finitely many.
    fn take_behind(
        &mut self,
        bin: usize,
        chunk: usize,
        whole: usize,
        gap: usize,
        size: usize,
        align: usize,
    ) -> usize {
        // SAFETY: the chunk is in the list of its size, and then in none. Its size is looked at
        // again from its other end, where checks are on.
        unsafe {
            if let Err(broken) = self.take_listed(chunk, whole) {
                self.give_up_bin(bin, broken);
                return self.take_aligned(size, align);
            }
            self.split_behind(chunk, whole, gap, size)
        }
    }

    /// Makes `[chunk + gap, .. + size)` live; what is before and behind is free.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + whole)` is a free chunk in no list and no register.
    /// 2. `gap` is 0 or at least `MIN`, and `gap + size <= whole`.
    unsafe fn split_behind(
        &mut self,
        chunk: usize,
        whole: usize,
        gap: usize,
        size: usize,
    ) -> usize {
        let (start, end) = (chunk + gap, chunk + whole);
        let left = whole - gap - size;
        let flags = if gap == 0 { LIVE } else { LIVE | BELOW_FREE };
        // SAFETY: none of it is in use, and after a free chunk is a live one or a fence.
        unsafe {
            if left < S::MIN {
                self.memory.put(start, (size + left) | flags);
                self.mark_below(end, false);
            } else {
                self.memory.put(start, size | flags);
                if self.rest_size == 0 {
                    (self.rest, self.rest_size) = (start + size, left);
                } else {
                    self.file(start + size, left);
                }
            }
            if gap != 0 {
                self.file(chunk, gap);
            }
        }
        start
    }

    /// Tries every chunk that is large enough.
    #[cold]
    #[inline(never)]
    fn take_any(&mut self, size: usize, align: usize) -> usize {
        let mut bin = self.bins.find(index::of_free::<S>(size));
        while let Some(own) = bin {
            // SAFETY: `first` and `next` check what they follow, where checks are on.
            unsafe {
                let mut found = list::first::<S>(&self.bins, &self.memory, own);
                loop {
                    let chunk = match found {
                        Ok(0) => break,
                        Ok(chunk) => chunk,
                        Err(broken) => {
                            self.give_up_bin(own, broken);
                            break;
                        }
                    };
                    let whole = self.memory.free_size(chunk);
                    if let Some(gap) = self.gap(chunk, whole, size, align) {
                        return self.take_behind(own, chunk, whole, gap, size, align);
                    }
                    self.probed();
                    found = list::next(&self.memory, chunk);
                }
            }
            bin = self.bins.find(own + 1);
        }
        0
    }
}
