//! Blocks that were sampled. The state records that, so no path has a cost if there are none.
//!
//! `free` finds a state other than LIVE, and checks which it is on the path that reports double
//! frees.

use super::slab::{GROUP_SLOTS, Slab};
use super::slots::SlotIndex;
use super::states::{LIVE, SAMPLED};
use crate::sync::Ordering::{AcqRel, Relaxed, Release, SeqCst};
use crate::sync::compiler_fence;

impl Slab {
    /// Marks a live slot as sampled. The program does not have the slot yet. Called by the thread
    /// that has taken the slot.
    pub fn mark_sampled(&self, slot: SlotIndex) {
        self.state_of(slot).store(SAMPLED, Release);
    }

    /// Returns true if a slot was sampled, and clears the mark. Any thread. If several threads free
    /// the slot at the same moment, one gets true.
    pub fn take_sampled(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).exchange(SAMPLED, LIVE, AcqRel, Relaxed)
    }

    /// Records that the slot that is claimed next has a sampled byte at `place`. Owner only.
    pub fn set_due(&self, place: u64) {
        self.due.store(place as u32, Relaxed);
    }

    /// Returns the place of the sampled byte in the slot that was just claimed, if the claim before
    /// was shortened for it. Clears the record. Owner only.
    pub fn take_due(&self) -> Option<usize> {
        let place = self.due.load(Relaxed);
        self.due.store(0, Relaxed);
        (place != 0).then_some(place as usize)
    }

    /// Leaves only the lowest `count` slots in the claim; the others are free as before. Owner
    /// only, with the heap's seat, as in `claim_freed`. Returns false if slots must be left out
    /// while the reclaimer holds slots of the slab, and then does nothing.
    pub fn claim_at_most(&self, count: usize) -> bool {
        let claim = self.claimed();
        let rest = (0..count.min(GROUP_SLOTS)).fold(claim, |rest, _| rest & rest.wrapping_sub(1));
        if rest == 0 || self.is_being_held() {
            return rest == 0;
        }
        // The last scan skipped those slots.
        self.discarded_at.store(0, Relaxed);
        self.is_not_counted();
        self.claim.store(0, Relaxed);
        compiler_fence(SeqCst);
        self.claim.store(claim & !rest, Release);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::{Put, SlotState};
    use std::boxed::Box;
    extern crate std;

    #[test]
    #[cfg_attr(feature = "secure-light", ignore = "the secure build has no probes")]
    fn what_was_sampled_is_live_and_taken_once() {
        let (slab, slot) = (Box::new(Slab::zeroed()), SlotIndex::new(3));
        slab.state_of(slot).store(LIVE, Relaxed);
        assert!(!slab.take_sampled(slot));
        slab.mark_sampled(slot);
        assert_eq!(slab.state(slot), SlotState::Live);
        assert!(slab.is_live(slot) && slab.live_bits(0) >> 3 & 1 == 1);
        assert_eq!(slab.put(slot), Put::NotLive);
        assert!(slab.take_sampled(slot) && !slab.take_sampled(slot));
        assert_ne!(slab.put(slot), Put::NotLive);
        assert!(!slab.take_sampled(slot) && !slab.is_live(slot));
    }

    #[test]
    fn a_claim_keeps_its_lowest_slots() {
        let slab = Box::new(Slab::zeroed());
        slab.claim.store(0b1011_0100, Relaxed);
        assert!(slab.claim_at_most(9) && slab.claimed() == 0b1011_0100);
        assert!(slab.claim_at_most(2) && slab.claimed() == 0b0001_0100);
        assert!(slab.claim_at_most(0) && slab.claimed() == 0);
    }
}
