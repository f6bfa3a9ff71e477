//! A range of memory in parts of one size, and whose each is: the stripes' common stock.
//!
//! ```text
//! | 0 | 0 | 0 |   |   | 1 | 1 |   |   |   | 2 |   |   |   | 0 | 0 |
//! ```
//!
//! A stripe takes parts side by side when it has no memory, and gives back those in which nothing
//! is live. It begins to look where its own share would begin if all had the same, so that most
//! often it finds those that continue what it has.

use core::ops::Range;
use core::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// The most parts. A part is a power of two, so there are at least half as many where the range is
/// not small.
const MOST: usize = 256;
/// The smallest part.
const LEAST: usize = 4096;
/// The owner of a part that is unowned.
const NOBODY: u8 = u8::MAX;

/// The parts of a range. Places are counted from its start.
///
/// Invariant: only its owner uses a part that has one, from the moment at which the owner takes it
/// (`Acquire`) until it gives it back (`Release`). So the next owner sees all that was written
/// there. A thread that has a block of a part may read the part's owner without ordering, because
/// the owner took it before there was the block.
pub(super) struct Parts {
    size: usize,
    /// A part has `1 << bits` bytes; the last one may have fewer.
    bits: u32,
    owners: [AtomicU8; MOST],
}

impl Parts {
    /// The parts of a range of this many bytes, all unowned.
    pub(super) const fn new(size: usize) -> Self {
        let mut bits = LEAST.trailing_zeros();
        while size >> bits >= MOST {
            bits += 1;
        }
        Self { size, bits, owners: [const { AtomicU8::new(NOBODY) }; MOST] }
    }

    /// How many parts there are.
    pub(super) fn count(&self) -> usize {
        self.holding(self.size)
    }

    /// The number of the part that has this place.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn number(&self, place: usize) -> usize {
        place >> self.bits
    }

    /// How many parts have as many bytes.
    pub(super) fn holding(&self, bytes: usize) -> usize {
        self.number(bytes.saturating_add((1 << self.bits) - 1))
    }

    /// Where some parts lie.
    pub(super) fn places(&self, parts: &Range<usize>) -> Range<usize> {
        parts.start << self.bits..(parts.end << self.bits).min(self.size)
    }

    /// Whose part a place is in; `None` if it is unowned or outside.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn owner(&self, place: usize) -> Option<usize> {
        let owner = self.owners.get(self.number(place))?.load(Relaxed);
        (owner != NOBODY).then_some(usize::from(owner))
    }

    /// Whether a part is this owner's.
    pub(super) fn is_of(&self, part: usize, owner: usize) -> bool {
        self.owners.get(part).is_some_and(|own| usize::from(own.load(Relaxed)) == owner)
    }

    /// So many parts side by side, for this owner, at or behind `from` if there are such.
    pub(super) fn take(&self, owner: usize, many: usize, from: usize) -> Option<Range<usize>> {
        let last = self.count().checked_sub(many)?;
        let from = from.min(last);
        (from..=last).chain(0..from).find_map(|first| self.take_at(owner, first..first + many))
    }

    /// Takes these parts, if all of them are unowned.
    fn take_at(&self, owner: usize, parts: Range<usize>) -> Option<Range<usize>> {
        let own = u8::try_from(owner).ok()?;
        for part in parts.clone() {
            let taken = self.owners[part].compare_exchange(NOBODY, own, Acquire, Relaxed);
            if taken.is_err() {
                self.give(parts.start..part);
                return None;
            }
        }
        Some(parts)
    }

    /// Makes parts unowned.
    pub(super) fn give(&self, parts: Range<usize>) {
        parts.for_each(|part| self.owners[part].store(NOBODY, Release));
    }
}
