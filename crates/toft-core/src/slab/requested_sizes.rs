//! The requested sizes of blocks, in the secure build, as the *slack* of each slot: the number of
//! bytes after the block's end.
//!
//! The slack is in the descriptor, out of the program's reach. It shows where the block ends, and
//! if the slot was ever handed out. The default build does not have it: a block there is its whole
//! slot.

use super::SMALL_MAX;
use super::slab::SLOTS_MAX;
use super::slots::SlotIndex;
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU16, Settled};

/// The number of slots whose slack is kept.
const KEPT: usize = if SECURE && !cfg!(loom) { SLOTS_MAX } else { 0 };

/// The largest slack that is kept. It stands for any larger one, too: that of a block that became
/// smaller in its place, because there was no memory. A request that would have as much gets a
/// large block.
pub const SLACK_MOST: usize = u16::MAX as usize;

/// Set beside the slack of a claimed small slot whose pages were given back since the program had
/// it. Malloc reads this word anyway, and sees by it that the page must be written to first. Slacks
/// of small slots are smaller.
const NON_RESIDENT: u16 = 1 << 15;

const _: () = assert!(SMALL_MAX < NON_RESIDENT as usize);

/// The number of bytes after the end of each block, or zero if the slot was never handed out. The
/// holder of the slab writes it before it hands out the slot. The thread that resizes the block
/// also writes it. The freeing thread, which has the block from the program, reads it. In between,
/// the holder that claims the slot may add NON_RESIDENT.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(transparent)]
pub struct Slacks([AtomicU16; KEPT]);

impl Slacks {
    /// Returns the word of a slot. The default build has none.
    #[inline(always)]
    fn word(&self, slot: SlotIndex) -> Option<&AtomicU16> {
        debug_assert!(slot.number() < SLOTS_MAX);
        // SAFETY: no slab has more than SLOTS_MAX slots, and each has a word in the secure build.
        (KEPT != 0).then(|| unsafe { self.0.get_unchecked(slot.number()) })
    }

    /// Returns the number of bytes of a slot of `size` bytes that the program may use, if it has
    /// the slot or had it last.
    #[inline(always)]
    pub(super) fn block_bytes(&self, slot: SlotIndex, size: usize) -> usize {
        let slack = self.of(slot);
        // The word of a slot that is not live may also have NON_RESIDENT.
        let slack = if size <= SMALL_MAX { slack & !usize::from(NON_RESIDENT) } else { slack };
        size.saturating_sub(slack)
    }

    /// Returns the number of bytes after the block of a live slot. Zero if it was never handed out.
    #[inline(always)]
    pub fn of(&self, slot: SlotIndex) -> usize {
        self.word(slot).map_or(0, |word| word.load(Relaxed) as usize)
    }

    /// Returns the slack, as `of` does, of a slot that only the caller has.
    #[inline(always)]
    pub fn of_own(&self, slot: SlotIndex) -> usize {
        // SAFETY: (1) only the thread that has the slot writes it. That is the caller, unless the
        // program uses a pointer that it was not given, or two threads free it.
        self.word(slot).map_or(0, |word| unsafe { word.settled() as usize })
    }

    /// Records that the program gets a slot and leaves `slack` bytes of it.
    #[inline(always)]
    pub fn set(&self, slot: SlotIndex, slack: usize) {
        if let Some(word) = self.word(slot) {
            word.store(slack as u16, Relaxed);
        }
    }

    /// Returns true if the program has ever had the slot. Always false in the default build.
    #[inline(always)]
    pub fn was_handed_out(&self, slot: SlotIndex) -> bool {
        self.of(slot) != 0
    }

    /// Returns true if the program has had the slot, and its pages were not given back since.
    /// Returns false in doubt.
    #[inline(always)]
    pub fn is_there(&self, slot: SlotIndex) -> bool {
        // One comparison with zero is enough. With NON_RESIDENT the number is negative; so is an
        // equally large slack of a medium slot.
        (self.of_own(slot) as i16) > 0
    }

    /// Records that small slots of a group, which the owner is about to claim, have lost their
    /// pages since the program had them.
    #[cold]
    pub(super) fn note_non_resident(&self, group: usize, mut slots: u64) {
        while slots != 0 {
            let slot = SlotIndex::in_group(group, slots.trailing_zeros());
            // A slot that was never handed out shows that by its slack, which is zero.
            if self.was_handed_out(slot) {
                self.set(slot, self.of(slot) | usize::from(NON_RESIDENT));
            }
            slots &= slots - 1;
        }
    }
}

#[cfg(all(test, feature = "secure-light", not(loom)))]
mod tests {
    use super::*;
    use crate::slab::states::{DIRTY, LIVE, ZERO_CLEAN};
    use crate::slab::{SizeClass, Slab};
    use std::boxed::Box;
    extern crate std;

    fn slab() -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(1 << 30, 64);
        slab.publish(1 << 20, slots);
        slab.all_slots().for_each(|slot| slab.states.of(slot).store(LIVE, Relaxed));
        slab
    }

    /// A claim of a small slab records for each slot if its pages were given back since the program
    /// had it. The size of the block stays known in both cases.
    #[test]
    fn a_claim_knows_whose_pages_have_gone() {
        let slab = slab();
        let slots = slab.slots();
        for slot in slab.all_slots() {
            let state = if slot.number() % 3 == 0 { DIRTY } else { ZERO_CLEAN };
            slab.states.of(slot).store(state, Relaxed);
            // Every fifth slot was never handed out.
            slab.slacks.set(slot, if slot.number() % 5 == 0 { 0 } else { 14 });
        }
        slab.fresh.store(slots as u16, Relaxed);
        let mut seen = 0;
        while slab.refill(7 << 40, |_| {}) {
            let (group, claim) = (slab.claimed_group(), slab.claimed());
            let slots = (0..u64::BITS).filter(|bit| claim >> bit & 1 != 0);
            for slot in slots.clone().map(|bit| SlotIndex::in_group(group, bit)) {
                let had = !slot.number().is_multiple_of(5);
                let there = had && slot.number().is_multiple_of(3);
                assert_eq!(slab.slacks.is_there(slot), there, "{slot:?}");
                assert_eq!(slab.slacks.was_handed_out(slot), had, "{slot:?}");
                assert_eq!(slab.block_bytes(slot), if had { 50 } else { 64 }, "{slot:?}");
                seen += 1;
            }
            // Handing a slot out overwrites NON_RESIDENT.
            for slot in slots.map(|bit| SlotIndex::in_group(group, bit)) {
                slab.hand_out_any(slab.claimed() & !slot.bit(), slot);
                slab.slacks.set(slot, 9);
                assert!(slab.slacks.is_there(slot));
            }
        }
        assert_eq!(seen, slots);
    }

    /// The slack of a medium slot may be as large as its word allows.
    #[test]
    fn large_slacks_are_as_they_were_set() {
        let slab = Box::new(Slab::zeroed());
        let class = SizeClass::of(96 << 10).unwrap();
        let slots = slab.open_for_test(1 << 30, class.size());
        slab.publish(1 << 20, slots);
        for slack in [1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
            let slot = SlotIndex::new(2);
            slab.slacks.set(slot, slack);
            assert_eq!(slab.block_bytes(slot), slab.size() - slack);
            assert!(slab.slacks.was_handed_out(slot));
        }
    }
}
