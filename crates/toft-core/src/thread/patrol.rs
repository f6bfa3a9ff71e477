//! The place at which a heap's next check of a few free slots begins, for
//! `watch/slot_checks/patrol.rs`.

use crate::region::{Partition, PlotPlace, SlabPlace};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// The number of bytes that malloc claims for each byte of a free slot that is checked.
const SHARE: usize = 32;
/// The most bytes that may be left to check. A slot of any size can then be paid for.
const MOST: usize = 1 << 20;
/// The fewest bytes for which a check is begun.
const LEAST: usize = 2 << 10;

/// The number of words of the bits of one tier. If there are more partitions than bits, some share
/// a bit.
const WORDS: usize = 32;
const WORD_BITS: usize = u64::BITS as usize;

/// The place of a heap's next check, and the bytes that it may check. All zero at first. Holder of
/// the heap, with its seat.
#[derive(Debug)]
pub(crate) struct Patrol {
    /// Not zero if the next slab is a medium one.
    medium: AtomicU32,
    plot: AtomicU32,
    slab: AtomicU32,
    slot: AtomicU32,
    credit: AtomicU32,
    /// For each tier, a bit for each partition of which the heap has had a slab.
    had: [[AtomicU64; WORDS]; 2],
}

impl Patrol {
    /// Counts `bytes` bytes that malloc has claimed. Returns true if a check is due.
    #[inline(always)]
    pub(crate) fn earn(&self, bytes: usize) -> bool {
        let credit = (self.credit() + bytes / SHARE).min(MOST);
        self.credit.store(credit as u32, Relaxed);
        credit >= LEAST
    }

    /// Returns the number of bytes that may be checked.
    pub(crate) fn credit(&self) -> usize {
        self.credit.load(Relaxed) as usize
    }

    /// Takes off bytes that were checked, of those that `credit` returned.
    pub(crate) fn spend(&self, bytes: usize) {
        self.credit.store(self.credit().saturating_sub(bytes) as u32, Relaxed);
    }

    /// Notes that the heap has a slab of a partition.
    #[inline(always)]
    pub(crate) fn note(&self, medium: bool, partition: Partition) {
        let number = partition.number();
        let [small_words, medium_words] = &self.had;
        let words = if medium { medium_words } else { small_words };
        let Some(word) = words.get(number / WORD_BITS % WORDS) else { return };
        let (seen, bit) = (word.load(Relaxed), 1 << (number % WORD_BITS));
        if seen & bit == 0 {
            word.store(seen | bit, Relaxed);
        }
    }

    /// Returns the first partition from number `from` on of which the heap may have a slab, or
    /// `end` if there is none before.
    pub(crate) fn next_had(&self, medium: bool, from: usize, end: usize) -> usize {
        let [small_words, medium_words] = &self.had;
        let words = if medium { medium_words } else { small_words };
        let mut number = from;
        while number < end {
            let word = words.get(number / WORD_BITS % WORDS).map_or(0, |word| word.load(Relaxed));
            match (word >> (number % WORD_BITS)).trailing_zeros() {
                u64::BITS => number = (number / WORD_BITS + 1) * WORD_BITS,
                zeros => return end.min(number + zeros as usize),
            }
        }
        end
    }

    /// Returns the place of the next slab, and the number of the slot in it.
    pub(crate) fn place(&self) -> (SlabPlace, usize) {
        let (plot, slab) = (self.plot.load(Relaxed) as usize, self.slab.load(Relaxed) as usize);
        let medium = self.medium.load(Relaxed) != 0;
        let place = SlabPlace { medium, place: PlotPlace { plot, slab } };
        (place, self.slot.load(Relaxed) as usize)
    }

    /// Sets what `place` returns.
    pub(crate) fn go_to(&self, place: SlabPlace, slot: usize) {
        self.medium.store(u32::from(place.medium), Relaxed);
        self.plot.store(place.place.plot as u32, Relaxed);
        self.slab.store(place.place.slab as u32, Relaxed);
        self.slot.store(slot as u32, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::array::from_fn;

    #[test]
    fn partitions_of_the_heap_are_found_in_order() {
        let numbers = || [(); 5].map(|()| AtomicU32::new(0));
        let [medium, plot, slab, slot, credit] = numbers();
        let had = from_fn(|_| from_fn(|_| AtomicU64::new(0)));
        let patrol = Patrol { medium, plot, slab, slot, credit, had };
        assert_eq!(patrol.next_had(false, 0, 2048), 2048);
        for number in [0, 5, 63, 64, 700, 2047] {
            patrol.note(false, Partition::new(number));
        }
        patrol.note(true, Partition::new(6));
        for (from, next) in [(0, 0), (1, 5), (6, 63), (64, 64), (65, 700), (701, 2047)] {
            assert_eq!(patrol.next_had(false, from, 2048), next);
        }
        assert_eq!((patrol.next_had(true, 0, 2048), patrol.next_had(true, 7, 2048)), (6, 2048));
        // The last is the end, and those beyond the bits share them.
        assert_eq!(
            (patrol.next_had(false, 65, 300), patrol.next_had(false, 2048, 4096)),
            (300, 2048)
        );
    }
}
