//! Where free blocks with a mapping wait: a table of places that everybody searches.
//!
//! ```text
//! place  | resident : 14, in 64 KiB | partition : 12 | class : 6 | unit number + 1 : 32 |
//!        zero: nobody's
//! ```
//!
//! A thread that changes a place from a block's word to zero holds the block. A search sees each
//! place at another moment, so what it finds is a hint until the block is taken. That a block was
//! taken and put back in between does no harm: what decides whether it may be had (partition,
//! class, address) never changes, and the holder reads the rest again from the descriptor. The word
//! repeats it so that a search reads no descriptors, which lie far apart.

use crate::region::Partition;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence_between_locations};
use Ordering::{Acquire, Relaxed, SeqCst};

/// Blocks that can wait at once (decision 0066). A search reads all places that were ever in use.
pub const PLACES: usize = if cfg!(loom) { 2 } else { 256 };

/// Places that are searched whether they are used or not: not worth a change of `used`.
const FEW: u32 = if cfg!(loom) { 0 } else { 8 };

const CLASS_SHIFT: u32 = 32;
const PARTITION_SHIFT: u32 = 38;
const RESIDENT_SHIFT: u32 = 50;
const RESIDENT_GRAIN: u32 = 16;
/// The bits of a word that say to which partition and class a block belongs.
const OWN: u64 = (1 << RESIDENT_SHIFT) - (1 << CLASS_SHIFT);

/// The bits of a score that say in which place the block is.
const PLACE_BITS: u32 = PLACES.ilog2();
/// Above the score of every block that has enough.
const LACKING: u64 = 1 << 32;
/// The score of no block.
const NONE: u64 = u64::MAX;
const _: () = assert!(PLACES.is_power_of_two());

/// A block as it was seen in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    place: usize,
    word: u64,
}

impl Kept {
    /// The block's unit.
    #[inline]
    pub fn unit(self) -> usize {
        (self.word as u32).wrapping_sub(1) as usize
    }

    /// Whether the block belongs to this partition and class.
    pub fn is_of(self, partition: Partition, class: usize) -> bool {
        self.has(key(partition, class))
    }

    /// Whether the block belongs to the partition and class of a key.
    #[inline]
    fn has(self, key: u64) -> bool {
        (self.word ^ key) & OWN == 0
    }

    /// Whether the block belongs to this partition.
    #[inline]
    pub fn is_from(self, partition: Partition) -> bool {
        let own = self.word & ((1 << RESIDENT_SHIFT) - 1);
        own >> PARTITION_SHIFT == key(partition, 0) >> PARTITION_SHIFT
    }

    /// Resident bytes, rounded down, at most a gibibyte.
    #[inline]
    pub fn resident(self) -> usize {
        ((self.word >> RESIDENT_SHIFT) as usize) << RESIDENT_GRAIN
    }
}

/// The partition keeps only the bits it has room for: the one that no program has (`held.rs`) may
/// look like another, and no request asks for it.
fn key(partition: Partition, class: usize) -> u64 {
    let partition = partition.number() as u64 & ((1 << (RESIDENT_SHIFT - PARTITION_SHIFT)) - 1);
    partition << PARTITION_SHIFT | (class as u64) << CLASS_SHIFT
}

/// The table; zeroed memory is an empty one.
#[derive(Debug)]
pub struct Places {
    /// Written by any thread: from zero by the thread that holds a block, to zero by the one that
    /// takes it.
    places: [AtomicU64; PLACES],
    /// No place from here on is used. Any thread: `put` raises it after writing a place, and `take`
    /// lowers it and then reads the places again, so that one of the two sees the other. A search
    /// with an old value overlooks a block that was put a moment ago.
    used: AtomicU32,
}

/// In the allocator's tables zeroed memory is an empty table.
#[cfg(loom)]
impl Default for Places {
    fn default() -> Places {
        Places { places: core::array::from_fn(|_| AtomicU64::new(0)), used: AtomicU32::new(0) }
    }
}

impl Places {
    /// Puts a block that the caller holds into a free place; no when there is none.
    pub fn put(&self, unit: usize, partition: Partition, class: usize, resident: usize) -> bool {
        let grains = (resident >> RESIDENT_GRAIN).min((1 << (u64::BITS - RESIDENT_SHIFT)) - 1);
        let word = (grains as u64) << RESIDENT_SHIFT | key(partition, class) | (unit as u64 + 1);
        for (number, place) in self.places.iter().enumerate() {
            // put block: pairs with the acquires of `take` and `all`.
            if place.load(Relaxed) == 0 && place.compare_exchange(0, word, SeqCst, Relaxed).is_ok()
            {
                fence_between_locations();
                if self.used.load(SeqCst) <= number as u32 {
                    self.used.fetch_max(number as u32 + 1, SeqCst);
                }
                return true;
            }
        }
        false
    }

    /// Takes a block that was seen in a place; returns false if another thread was first.
    pub fn take(&self, kept: Kept) -> bool {
        let place = self.places.get(kept.place);
        let taken = place
            .is_some_and(|place| place.compare_exchange(kept.word, 0, Acquire, Relaxed).is_ok());
        let used = self.used.load(Relaxed);
        if taken && kept.place as u32 + 1 == used && used > FEW {
            self.lower(used);
        }
        taken
    }

    /// The last place in use is empty: searches need not look so far.
    #[cold]
    fn lower(&self, used: u32) {
        let last = self.last(used);
        if self.used.compare_exchange(used, last, SeqCst, Relaxed).is_ok() {
            fence_between_locations();
            let now = self.last(used);
            if now > last {
                self.used.fetch_max(now, SeqCst);
            }
        }
    }

    /// One more than the last place below `end` that is not empty.
    fn last(&self, end: u32) -> u32 {
        let places = self.places.iter().take(end as usize);
        places.rev().position(|place| place.load(SeqCst) != 0).map_or(0, |back| end - back as u32)
    }

    /// Returns the best block for `bytes` by resident bytes: the smallest that has enough, else the
    /// largest. First of this partition, and of this class or the next, in the units that `fits`
    /// accepts; then of all. A hint, as in `all`.
    ///
    /// Which of them it is cannot be predicted, so nothing branches on it. An empty place is worse
    /// than any block.
    #[inline(always)]
    pub fn best(
        &self,
        bytes: usize,
        (partition, class): (Partition, usize),
        fits: impl Fn(usize) -> bool,
    ) -> [Option<Kept>; 2] {
        let wanted = (bytes >> RESIDENT_GRAIN) as u64;
        let (larger, key) = (key(partition, class + 1), key(partition, class));
        let is_own = |kept: Kept| (kept.has(key) | kept.has(larger)) & fits(kept.unit());
        let [mut own, mut any] = [NONE; 2];
        for kept in self.places.iter().take(self.used.load(Relaxed) as usize).enumerate() {
            let kept = Kept { place: kept.0, word: kept.1.load(Acquire) };
            let resident = kept.word >> RESIDENT_SHIFT;
            let more = resident.wrapping_sub(wanted);
            let score = if resident < wanted { LACKING.wrapping_sub(more) } else { more };
            let score = score << PLACE_BITS | kept.place as u64;
            let is_own = is_own(kept) & (kept.word as u32 != 0);
            any = any.min(score);
            own = own.min(if is_own { score } else { NONE });
        }
        let seen = |score| (score != NONE).then(|| self.at(score as usize % PLACES)).flatten();
        // Another block may be in the place by now.
        [seen(own).filter(|&kept| is_own(kept)), seen(any)]
    }

    /// Returns the block in a place, if there is one.
    fn at(&self, place: usize) -> Option<Kept> {
        let word = self.places.get(place)?.load(Acquire);
        (word != 0).then_some(Kept { place, word })
    }

    /// What is in the places, each at its own moment.
    #[inline]
    pub fn all(&self) -> impl Iterator<Item = Kept> {
        let used = self.used.load(Relaxed) as usize;
        let places = self.places.iter().take(used).enumerate();
        places
            .map(|(place, word)| Kept { place, word: word.load(Acquire) })
            .filter(|kept| kept.word != 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A search finds what a reader of all places would choose.
    #[test]
    fn the_best_block_is_found() {
        let places =
            Places { places: [const { AtomicU64::new(0) }; PLACES], used: AtomicU32::new(0) };
        let mut random = 1u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % end
        };
        let partition = |number: u64| Partition::new(number as usize);
        for unit in 0..4000 {
            let (owner, class) = (partition(below(3)), below(4) as usize);
            places.put(unit, owner, class, (below(40) as usize) << RESIDENT_GRAIN);
            let (owner, class) = (partition(below(3)), below(4) as usize);
            let bytes = (below(40) as usize) << RESIDENT_GRAIN;
            let is_even = |unit: usize| unit.is_multiple_of(2);
            let rank = |kept: &Kept| {
                let lacks = kept.resident() < bytes;
                (lacks, kept.resident().abs_diff(bytes), kept.place)
            };
            let is_own = |kept: &Kept| kept.is_of(owner, class) || kept.is_of(owner, class + 1);
            let own = places.all().filter(|kept| is_own(kept) && is_even(kept.unit()));
            let expected = [own.min_by_key(rank), places.all().min_by_key(rank)];
            assert_eq!(places.best(bytes, (owner, class), is_even), expected);
            // Places are used and left empty.
            if below(3) != 0
                && let Some(kept) = places.all().nth(below(60) as usize)
            {
                assert!(places.take(kept) && !places.take(kept));
            }
        }
    }
}
