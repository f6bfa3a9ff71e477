//! Slots that the program has freed and that are not free yet, in the secure build.
//!
//! ```text
//! LIVE --take_own----------------------------------------> QUARANTINED
//!   '-----take_from_any_thread--> BEING_FREED --has_taken-----^
//! ```

use super::slots::SlotIndex;
use super::states::{BEING_FREED, LIVE, QUARANTINED, States};
use crate::sync::Ordering::{AcqRel, Relaxed};

impl States {
    /// Returns true if the program has freed the slot, and the slot is not free yet.
    pub fn is_quarantined(&self, slot: SlotIndex) -> bool {
        self.of(slot).load(Relaxed) == QUARANTINED
    }

    /// Takes a live slot from the program, before it becomes free. Returns false if the slot is not
    /// live. Owner of the slab only.
    ///
    /// The thread that succeeds has the slot alone, unless another thread frees it at the same
    /// moment. The other thread usually finds out in `has_taken`. Otherwise the double free is
    /// reported when both leave their quarantines. An exchange would always find it, but it would
    /// cost every free as much as all of its checks.
    #[inline(always)]
    pub fn take_own(&self, slot: SlotIndex) -> bool {
        let state = self.of(slot);
        // SAFETY: (1) only the owner writes the state of a slot that the program has, unless
        // another thread frees it at the same moment: see above.
        let live = unsafe { state.settled() } == LIVE;
        if live {
            state.store(QUARANTINED, Relaxed);
        }
        live
    }

    /// Takes a live slot from the program, like `take_own`, but for any thread. `has_taken`
    /// follows.
    #[inline(always)]
    pub fn take_from_any_thread(&self, slot: SlotIndex) -> bool {
        self.of(slot).exchange(LIVE, BEING_FREED, AcqRel, Relaxed)
    }

    /// Completes `take_from_any_thread`, after the thread has cleared the slot. Returns false if
    /// the slot's owner has freed it as well: the owner saw it live, and has overwritten the state
    /// since.
    #[inline(always)]
    pub fn has_taken(&self, slot: SlotIndex) -> bool {
        let state = self.of(slot);
        state.exchange(BEING_FREED, QUARANTINED, AcqRel, Relaxed)
    }
}

#[cfg(all(test, feature = "secure-light", not(loom)))]
mod tests {
    use super::*;
    use crate::slab::Slab;

    /// The owner sees the slot live, another thread takes it, and then the owner overwrites the
    /// state.
    #[test]
    fn whoever_frees_what_its_owner_frees_at_the_same_moment_finds_out() {
        let slab = Slab::zeroed();
        let [first, second, third] = [3, 4, 5].map(SlotIndex::new);
        for slot in [first, second, third] {
            slab.states.of(slot).store(LIVE, Relaxed);
        }
        assert!(slab.states.take_from_any_thread(first));
        assert!(
            !slab.states.take_own(first)
                && !slab.states.take_from_any_thread(first)
                && !slab.free_permanently(first)
        );
        slab.states.of(first).store(QUARANTINED, Relaxed);
        assert!(!slab.states.has_taken(first));
        // No other thread frees this one.
        assert!(
            slab.states.take_from_any_thread(second)
                && slab.states.has_taken(second)
                && slab.states.is_quarantined(second)
        );
        assert!(
            slab.states.take_own(third)
                && !slab.states.take_from_any_thread(third)
                && slab.states.is_quarantined(third)
        );
    }
}
