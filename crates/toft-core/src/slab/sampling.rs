//! Blocks that were sampled. The state records that, so no path has a cost if there are none.
//!
//! `free` finds a state other than LIVE, and checks which it is on the path that reports double
//! frees.

use super::slots::SlotIndex;
use super::states::{LIVE, SAMPLED, States};
use crate::sync::Ordering::{AcqRel, Relaxed, Release};

impl States {
    /// Marks a live slot as sampled. The program does not have the slot yet. Called by the thread
    /// that has taken the slot.
    pub fn mark_sampled(&self, slot: SlotIndex) {
        self.of(slot).store(SAMPLED, Release);
    }

    /// Returns true if a slot was sampled, and clears the mark. Any thread. If several threads free
    /// the slot at the same moment, one gets true.
    pub fn take_sampled(&self, slot: SlotIndex) -> bool {
        self.of(slot).exchange(SAMPLED, LIVE, AcqRel, Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::{Put, Slab, SlotState};
    use std::boxed::Box;
    extern crate std;

    #[test]
    #[cfg_attr(feature = "secure-light", ignore = "the secure build has no probes")]
    fn what_was_sampled_is_live_and_taken_once() {
        let (slab, slot) = (Box::new(Slab::zeroed()), SlotIndex::new(3));
        slab.states.of(slot).store(LIVE, Relaxed);
        assert!(!slab.states.take_sampled(slot));
        slab.states.mark_sampled(slot);
        assert_eq!(slab.state(slot), SlotState::Live);
        assert!(slab.is_live(slot) && slab.states.live_bits(0) >> 3 & 1 == 1);
        assert_eq!(slab.put(slot), Put::NotLive);
        assert!(slab.states.take_sampled(slot) && !slab.states.take_sampled(slot));
        assert_ne!(slab.put(slot), Put::NotLive);
        assert!(!slab.states.take_sampled(slot) && !slab.is_live(slot));
    }
}
