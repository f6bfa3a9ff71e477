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

const CLASS_SHIFT: u32 = 32;
const PARTITION_SHIFT: u32 = 38;
const RESIDENT_SHIFT: u32 = 50;
const RESIDENT_GRAIN: u32 = 16;

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
    #[inline]
    pub fn is_of(self, partition: Partition, class: usize) -> bool {
        let own = (self.word >> CLASS_SHIFT) & ((1 << (RESIDENT_SHIFT - CLASS_SHIFT)) - 1);
        own == key(partition, class) >> CLASS_SHIFT
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
        if taken && kept.place as u32 + 1 == used {
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
