//! Parked chunks: small blocks that were freed, kept for the next request of exactly their size, in
//! a shape that has a place for them ([`Tables::PARKS`]).
//!
//! ```text
//! parked   | size + flags  | next          | ...
//! ```
//!
//! For its neighbours such a chunk is live, so parking and taking touch only the chunk: no merge,
//! no split, no bit. The length of a list is in the table and not in its chunks, so that a free
//! does not wait for what the one before it has written.
//!
//! What can be parked is bounded: [`DEPTH`] chunks of a size below [`Shape::EXACT`], and of larger
//! sizes as many bytes as the longest list of small ones. All parked chunks are freed
//!
//! - before a request fails, and before an end of a span moves;
//! - before `top` reaches into memory that no block has had, if none of them is larger than the
//!   request (else that one is cut);
//! - each time that a quarter of `top` has been used;
//! - each time that half of the blocks have been freed.
//!
//! A request that would fail says that memory is short. The next [`PAUSE`] freed blocks or more are
//! not parked then, for they would only be freed for the next such request.

use super::Heap;
use crate::bins::{index, list::Broken};
use crate::chunk::{BELOW_FREE, LIVE, PARKED};
use crate::shape::{Checks, Shape, Sizes};
use crate::table::Tables;

/// The most chunks of one size below `EXACT` that are parked. Of each larger doubling half as many
/// are, and one at least.
const DEPTH: u8 = 16;

/// How many freed blocks are not parked after a request would have failed; twice as many each time
/// that some have been parked since, up to the most.
const PAUSE: usize = 256;
const LONGEST: usize = 4096;

impl<S: Shape> Heap<S> {
    /// Whether chunks of this size are parked at all.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn parks(size: usize) -> bool {
        S::Bins::PARKS != 0 && size < Self::PARK_BELOW
    }

    /// Chunks of this size and of larger ones are not parked.
    const PARK_BELOW: usize = Self::parked_size(S::Bins::PARKS);

    /// The size of the chunks that are parked beside a bin: the smallest that it has.
    pub(super) const fn parked_size(bin: usize) -> usize {
        let exact = S::EXACT / S::ALIGN;
        if bin < exact {
            return bin * S::ALIGN;
        }
        let (above, steps) = (bin - exact, 1 << S::STEPS);
        (steps + above % steps) << (above / steps) << (S::EXACT.trailing_zeros() - S::STEPS)
    }

    /// The most chunks of this size that are parked.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn depth(size: usize) -> u8 {
        if size < S::EXACT { DEPTH } else { (DEPTH >> (size / S::EXACT).ilog2()).max(1) }
    }

    /// Parks a live chunk, if there is room.
    ///
    /// # Safety
    /// 1. `chunk` is live, this is its tag, its size parks, and its block is not used any more.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) unsafe fn park(&mut self, chunk: usize, tag: usize) -> bool {
        let size = tag & !S::FLAGS;
        if self.unparked != 0 {
            return false;
        }
        // Blocks that have grown or shrunk, or were all that there was, may have any size.
        if S::rounded(size) != size {
            return false;
        }
        let bin = index::of_free::<S>(size);
        let waiting = self.bins.waiting(bin);
        if waiting >= Self::depth(size) {
            return false;
        }
        // SAFETY: the words of a chunk that is not in use.
        unsafe {
            self.memory.put(chunk, tag | PARKED);
            self.memory.put(chunk + S::WORD, self.bins.parked(bin));
        }
        self.bins.set_parked(bin, chunk);
        self.bins.set_waiting(bin, waiting + 1);
        self.unsettled = true;
        true
    }

    /// Counts a block that was not parked in a pause. What was parked before is freed first.
    pub(super) fn passed_by(&mut self) {
        if self.unparked != 0 {
            self.unparked -= 1;
            if self.unsettled {
                self.settle();
            }
        }
    }

    /// Unparks when a quarter of `top` has been used. All parked chunks are freed with the next
    /// block that is freed, to be merged while there is still something else to take. Chunks freed
    /// after it are not parked for a while.
    #[cold]
    #[inline(never)]
    pub(super) fn ebbs(&mut self) {
        self.set_marks();
        self.unparked = self.unparked.max(2 * PAUSE);
    }

    /// Frees what is parked when half of the blocks have been freed since the marks were set. A
    /// heap that has been cleared is then one chunk again, and not cut up by what is parked.
    /// Returns the size of the chunk that was just made free, or that of a larger one.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn settle_if_low(&mut self, free: usize) -> usize {
        if S::Bins::PARKS != 0 && self.live < self.low { self.settle_low(free) } else { free }
    }

    #[cold]
    #[inline(never)]
    fn settle_low(&mut self, free: usize) -> usize {
        self.settle();
        self.set_marks();
        free.max(self.top_size)
    }

    /// Sets the marks at which what is parked is freed again: a quarter of `top` used, or half of
    /// the blocks freed.
    pub(super) fn set_marks(&mut self) {
        if S::Bins::PARKS != 0 {
            self.ebb = self.top_size / 4 * 3;
            self.low = self.live / 2;
        }
    }

    /// A parked chunk of exactly this size, live again; 0 if there is none.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn take_parked(&mut self, size: usize) -> usize {
        let bin = index::of_free::<S>(size);
        let waiting = self.bins.waiting(bin);
        if waiting == 0 {
            return 0;
        }
        let chunk = self.bins.parked(bin);
        // SAFETY: the first of a list is a parked chunk: `park` wrote it, and `next` is looked at
        // here before it becomes the first, where checks are on.
        unsafe {
            let tag = self.memory.get(chunk);
            let next = self.memory.get(chunk + S::WORD);
            if S::CHECKS >= Checks::Links
                && (tag & !BELOW_FREE != size | LIVE | PARKED
                    || (waiting != 1 && !self.memory.may_hold(next)))
            {
                self.bins.set_waiting(bin, 0);
                self.broken(Broken(chunk));
                return 0;
            }
            self.memory.put(chunk, tag & !PARKED);
            self.bins.set_parked(bin, next);
            self.bins.set_waiting(bin, waiting - 1);
        }
        chunk
    }

    /// Frees all parked chunks: merges them with their neighbours, and puts them into their bins.
    /// Returns true if there was one.
    #[cold]
    #[inline(never)]
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        // Most often nothing is parked where this is asked again and again.
        let bins = if core::mem::take(&mut self.unsettled) { S::Bins::PARKS } else { 0 };
        for bin in 0..bins {
            let size = Self::parked_size(bin);
            // A link that was written over leaves none.
            while self.bins.waiting(bin) != 0 {
                let chunk = self.take_parked(size);
                if chunk == 0 {
                    break;
                }
                any = true;
                // SAFETY: the chunk is live now, and has no user.
                unsafe {
                    let tag = self.memory.get(chunk);
                    self.insert(chunk, size, tag & BELOW_FREE != 0);
                }
            }
        }
        any
    }

    /// As `settle`, because a request is not met.
    pub(super) fn settle_for_want(&mut self) -> bool {
        if S::Bins::PARKS != 0 {
            if self.unparked == 0 {
                self.pause = (2 * self.pause).clamp(PAUSE, LONGEST);
            }
            self.unparked = self.unparked.max(self.pause);
            self.low = self.live / 2;
        }
        self.settle()
    }
}
