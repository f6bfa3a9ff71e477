//! The head before the bins of a heap: the sentinel slab that empty bins point to, and data that
//! every malloc reads or that the heap's holder keeps there.

use super::bins::BIN_WORDS;
use super::{BinIndex, Distance};
use crate::harden::Dice;
use crate::slab::{NO_SLOTS, SMALL_STEPS, Slab, SmallSize, small_classes};
use crate::sync::AtomicUsize;

/// The head before a heap's bins.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct BinsHead {
    /// The current slab of an empty bin. It never has a claim, and is never written.
    pub(super) sentinel: Slab,
    /// A small request's class in words, by `(size + 15) / 16`. Zero bytes have a class whose bins
    /// are empty.
    small: [u8; SMALL_STEPS],
    /// Thrown by the holder of the heap.
    dice: Dice,
    /// The distance to the next allocation that is reported.
    distance: Distance,
    /// Where the call of the program lies that this thread is in, as far as that is known: its
    /// return address's address, and its frame pointer. Zeros otherwise, and of a call that did not
    /// say so.
    call: [AtomicUsize; 2],
}

impl BinsHead {
    /// The head of empty bins.
    pub const fn new() -> BinsHead {
        BinsHead {
            sentinel: Slab::zeroed(),
            small: const { small_classes(NO_SLOTS, BIN_WORDS) },
            dice: Dice::new(),
            distance: Distance::new(),
            call: [const { AtomicUsize::new(0) }; 2],
        }
    }

    /// The heap's dice.
    #[inline(always)]
    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    /// Where the call lies that this thread is in. Holder only.
    pub fn call(&self) -> &[AtomicUsize; 2] {
        &self.call
    }

    /// The distance to the next allocation that is reported. Holder only.
    #[inline]
    pub fn distance(&self) -> &Distance {
        &self.distance
    }

    /// Returns the bin in row 0 of a small request.
    #[inline(always)]
    pub fn small_bin(&self, size: SmallSize) -> BinIndex {
        BinIndex::at_word(size.read(&self.small))
    }
}

impl Default for BinsHead {
    fn default() -> BinsHead {
        BinsHead::new()
    }
}
