//! Sorting what has not been sorted: in the control groups of the small-bin experiment, whose freed
//! chunks and remainders do not all go straight to their bins (`Shape::ROUTING`). No other shape
//! has any of this code.

use super::Heap;
use crate::bins::index::{self, UNSORTED};
use crate::bins::list;
use crate::bins::list::Broken;
use crate::chunk::{BELOW_FREE, LIVE};
use crate::shape::{Checks, Shape};
use crate::table::Tables;

/// How many chunks one request sorts at most, as in glibc.
const MOST: usize = 10_000;

impl<S: Shape> Heap<S> {
    /// A chunk of the bin of exactly this size; or one that is found to have this size while others
    /// are sorted. 0 if there is none.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn take_sorting(&mut self, size: usize, from: usize) -> usize {
        if size < S::EXACT && self.bins.first(from) != 0 {
            return self.take_exact(from, size);
        }
        if self.bins.first(UNSORTED) == 0 {
            return 0;
        }
        self.sort(size, MOST)
    }

    /// Sorts everything; returns whether there was anything.
    pub(super) fn sort_all(&mut self) -> bool {
        let any = self.bins.first(UNSORTED) != 0;
        // No chunk has the size 0.
        self.sort(0, usize::MAX);
        any
    }

    /// Puts chunks that have yet to be sorted into the bins of their sizes, until one has exactly
    /// this size: that is live then, and returned. Else 0.
    #[inline(never)]
    fn sort(&mut self, size: usize, most: usize) -> usize {
        for _ in 0..most {
            if self.bins.first(UNSORTED) == 0 {
                return 0;
            }
            // SAFETY: the list has a chunk; it is in none after `pop`. Its size is compared with
            // the one at its other end, where checks are on, before memory is given by it. Behind
            // it is a live one or a fence.
            unsafe {
                let (chunk, whole) = match list::pop::<S>(&mut self.bins, &self.memory, UNSORTED) {
                    Ok(found) => found,
                    Err(broken) => {
                        self.broken(broken);
                        return 0;
                    }
                };
                // As glibc, which checks both sizes, and what the chunk after this one says of it.
                if S::CHECKS >= Checks::Links
                    && (!self.is_whole(chunk, whole)
                        || self.memory.get(chunk + whole) & (LIVE | BELOW_FREE)
                            != LIVE | BELOW_FREE)
                {
                    return self.give_up_bin(UNSORTED, Broken(chunk));
                }
                if whole == size {
                    self.memory.put(chunk, size | LIVE);
                    self.mark_below(chunk + size, false);
                    return chunk;
                }
                self.probed();
                let bin = index::of_sorted::<S>(whole);
                if let Err(broken) =
                    list::link::<S>(&mut self.bins, &self.memory, bin, chunk, whole)
                {
                    self.broken(broken);
                }
            }
        }
        0
    }
}
