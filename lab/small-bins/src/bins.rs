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
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_the_order_of_their_sizes_and_none_is_left_out() {
        assert_eq!((of(32), of(1008), of(1024)), (2, 63, 64));
        let mut last = of(32);
        for size in (32..1 << 20).step_by(16) {
            let list = of(size);
            assert!(list == last || list == last + 1, "{size}");
            last = list;
        }
        assert_eq!(of(usize::MAX), LISTS - 1);
        assert_eq!(of((1 << 36) - 16), LISTS - 1);
    }

    #[test]
    fn the_next_mark_is_found_across_words() {
        let mut marks = Marks::none();
        assert_eq!(marks.next(0), None);
        for list in [2, 63, 64, LISTS - 1] {
            marks.set(list);
        }
        let next = [0, 3, 64, 65].map(|list| marks.next(list).unwrap());
        assert_eq!(next, [2, 63, 64, LISTS - 1]);
        marks.clear(LISTS - 1);
        assert_eq!((marks.next(65), marks.next(LISTS)), (None, None));
    }
}
