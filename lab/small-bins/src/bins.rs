//! Which list a size belongs to, and which lists may hold chunks.
//!
//! List 0 is the unsorted list. Lists 2 to 63 are exact bins: the chunks of list `n` have `16 * n`
//! bytes. Every further list is a large bin, an eighth of a doubling wide and sorted by size.

use crate::chunk::{ALIGN, LARGE};

/// The list of chunks that are not sorted yet.
pub(crate) const UNSORTED: usize = 0;
/// The first large bin.
pub(crate) const FIRST_LARGE: usize = LARGE / ALIGN;
/// Large bins per doubling.
const STEPS: usize = 8;
/// The doublings that have large bins: sizes from 1 KiB to below 64 GiB.
const DOUBLINGS: usize = 26;
/// All lists.
pub(crate) const LISTS: usize = FIRST_LARGE + STEPS * DOUBLINGS;

/// The bin of a chunk of less than [`LARGE`] bytes.
#[inline(always)]
pub(crate) fn small(size: usize) -> usize {
    size / ALIGN
}

/// The bin of a chunk of at least [`LARGE`] bytes.
#[inline(always)]
pub(crate) fn large(size: usize) -> usize {
    let doubling = size.ilog2() as usize - LARGE.ilog2() as usize;
    let step = (size >> (size.ilog2() - STEPS.ilog2())) - STEPS;
    (FIRST_LARGE + doubling * STEPS + step).min(LISTS - 1)
}

/// The bin of a size.
#[inline(always)]
pub(crate) fn of(size: usize) -> usize {
    if size < LARGE { small(size) } else { large(size) }
}

/// The bins that may hold chunks, one bit each. A bin with a chunk always has its bit; the bit of
/// an emptied bin stays until a search finds the bin empty.
#[derive(Debug)]
pub(crate) struct Marks([u64; LISTS.div_ceil(64)]);

impl Marks {
    pub(crate) const fn none() -> Self {
        Self([0; LISTS.div_ceil(64)])
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, list: usize) {
        self.0[list / 64] |= 1 << (list % 64);
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self, list: usize) {
        self.0[list / 64] &= !(1 << (list % 64));
    }

    /// Returns true if the bin may hold chunks.
    pub(crate) fn has(&self, list: usize) -> bool {
        self.0[list / 64] & (1 << (list % 64)) != 0
    }

    /// The first marked bin that is not below `list`.
    #[inline]
    pub(crate) fn next(&self, list: usize) -> Option<usize> {
        if list >= LISTS {
            return None;
        }
        let mut word = list / 64;
        let mut bits = self.0[word] & (u64::MAX << (list % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(64 * word + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
#[path = "../tests/unit/bins.rs"]
mod tests;
