//! The index of a bin.

use super::bins::{BIN_WORDS, ROW_WORDS};
use crate::region::Partition;
use crate::slab::{CLASSES, SizeClass};

/// The index of a bin in the bins of any heap, in words: the first word of the partition's row,
/// plus the bin's place in the row. Below `partitions * ROW_WORDS`, and a multiple of `BIN_WORDS`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct BinIndex(usize);

impl BinIndex {
    /// Returns the bin at an index in words.
    #[inline(always)]
    pub(crate) const fn at_word(words: usize) -> BinIndex {
        BinIndex(words)
    }

    /// Returns the bin with a number, which counts bins.
    pub(crate) fn numbered(number: usize) -> BinIndex {
        BinIndex(number * BIN_WORDS)
    }

    /// Returns the first bin of a partition's row.
    #[inline(always)]
    pub fn row(partition: Partition) -> BinIndex {
        BinIndex(partition.number() * ROW_WORDS)
    }

    /// Returns the bin of a class in this row, which is the index of the row's first bin.
    #[inline(always)]
    pub fn of_class(self, class: usize) -> BinIndex {
        BinIndex(self.0 + class * BIN_WORDS)
    }

    /// Returns the bin of the class of `bin`, which is in row 0, in this row.
    #[inline(always)]
    pub(crate) fn of_class_of(self, bin: BinIndex) -> BinIndex {
        BinIndex(self.0 + bin.0)
    }

    /// Returns all bins of a heap with `partitions`.
    pub fn all(partitions: usize) -> impl Iterator<Item = BinIndex> {
        (0..partitions * CLASSES).map(BinIndex::numbered)
    }

    /// Returns the index in words.
    #[inline(always)]
    pub(crate) fn words(self) -> usize {
        self.0
    }

    /// Returns the bin's number, which counts bins.
    pub(crate) fn number(self) -> usize {
        self.0 / BIN_WORDS
    }

    /// Returns the partition whose row the bin is in.
    #[inline]
    pub fn partition(self) -> Partition {
        Partition::new(self.0 / ROW_WORDS)
    }

    /// Returns the class of the bin's slots.
    #[inline]
    pub fn class(self) -> SizeClass {
        SizeClass::new(self.0 % ROW_WORDS / BIN_WORDS)
    }

    /// Returns true for the first bin of row 0, which is unowned in exact mode.
    #[inline(always)]
    pub(crate) fn is_row_0(self) -> bool {
        self.0 == 0
    }
}
