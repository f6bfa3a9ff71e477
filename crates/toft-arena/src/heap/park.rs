//! Parked chunks: small blocks that were freed, kept for the next request of exactly their size, in a shape
//! that has a place for them ([`Tables::PARKS`]).
//!
//! ```text
//! parked   | size + flags  | next          | depth         | ...
//! ```
//!
//! For its neighbours such a chunk is live, so that parking and taking touch nothing but the chunk; no merge,
//! no split, no bit. The depth in the first of a list is its length, and a list has [`DEPTH`] at most: beyond
//! it chunks are freed as in any other shape. All of them are freed so before a request fails, or an end of a
//! span moves.

use super::Heap;
use crate::bins::list::Broken;
use crate::chunk::{BELOW_FREE, LIVE, PARKED};
use crate::shape::{Checks, Shape, Sizes};
use crate::table::Tables;

/// The most chunks of one size that are parked.
pub(super) const DEPTH: usize = 16;

impl<S: Shape> Heap<S> {
    /// Whether chunks of this size are parked at all.
    #[inline(always)]
    pub(super) fn parks(size: usize) -> bool {
        size >> S::ALIGN.trailing_zeros() < S::Bins::PARKS
    }

    /// Parks a live chunk, if there is room.
    ///
    /// # Safety
    /// 1. `chunk` is live, this is its tag, its size parks, and its block is not used any more.
    #[inline(always)]
    pub(super) unsafe fn park(&mut self, chunk: usize, tag: usize) -> bool {
        let bin = (tag & !S::FLAGS) >> S::ALIGN.trailing_zeros();
        let first = self.bins.parked(bin);
        // SAFETY: a chunk has three words, and the first of a list is one.
        unsafe {
            let depth = if first == 0 { 0 } else { self.memory.get(first + 2 * S::WORD) };
            if depth >= DEPTH {
                return false;
            }
            self.memory.put(chunk, tag | PARKED);
            self.memory.put(chunk + S::WORD, first);
            self.memory.put(chunk + 2 * S::WORD, depth + 1);
        }
        self.bins.set_parked(bin, chunk);
        true
    }

    /// A parked chunk of exactly this size, live again; 0 if there is none.
    #[inline(always)]
    pub(super) fn take_parked(&mut self, size: usize) -> usize {
        let bin = size >> S::ALIGN.trailing_zeros();
        let chunk = self.bins.parked(bin);
        if chunk == 0 {
            return 0;
        }
        // SAFETY: the first of a list is a parked chunk: `park` wrote it, and `next` is looked at here before
        // it becomes the first, where checks are on.
        unsafe {
            let tag = self.memory.get(chunk);
            let next = self.memory.get(chunk + S::WORD);
            if S::CHECKS >= Checks::Links
                && (tag & !BELOW_FREE != size | LIVE | PARKED
                    || (next != 0 && !self.memory.may_hold(next)))
            {
                self.bins.set_parked(bin, 0);
                self.broken(Broken(chunk));
                return 0;
            }
            self.memory.put(chunk, tag & !PARKED);
            self.bins.set_parked(bin, next);
        }
        chunk
    }

    /// Frees all parked chunks: merges them with their neighbours, and puts them into their bins. Returns
    /// whether there was one. In a shape that sorts, everything is sorted after this.
    #[cold]
    #[inline(never)]
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        for bin in 0..S::Bins::PARKS {
            let size = bin << S::ALIGN.trailing_zeros();
            loop {
                let chunk = self.take_parked(size);
                if chunk == 0 {
                    break;
                }
                any = true;
                // SAFETY: the chunk is live now, and nobody's.
                unsafe {
                    let tag = self.memory.get(chunk);
                    self.insert(chunk, size, tag & BELOW_FREE != 0);
                }
            }
        }
        if S::SORTS {
            any |= self.sort_all();
        }
        any
    }
}
