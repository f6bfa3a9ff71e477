//! Slots that are freed permanently: their state is PERMANENTLY_FREED for the life of the process.
//!
//! All counts treat such a slot as one that the program never frees. Its slab never becomes empty,
//! so no other heap ever gets the slab. For queries about blocks the slot is not live, and was
//! freed.

use super::slab::Slab;
use super::slots::SlotIndex;
use super::states::{DIRTY, LEFT, LIVE, PERMANENTLY_FREED};
use crate::sync::Ordering::{AcqRel, Acquire};

/// The contents of a slot, for a check of what a free left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// What the free left there, unchanged; or zeros, if the pages were given back.
    Left,
    /// Something else: contents of the program, or unknown contents.
    Other,
}

impl Slab {
    /// Frees a live slot permanently. Returns false if the slot is not live. Any thread. If several
    /// threads free the slot at the same moment, one succeeds, or the owner finds the double free.
    pub fn free_permanently(&self, slot: SlotIndex) -> bool {
        let state = self.state_of(slot);
        // If the owner frees the slot at the same moment, the owner may win. That double free is
        // reported when the slot leaves the quarantine.
        !self.remote.has(slot) && state.exchange(LIVE, PERMANENTLY_FREED, AcqRel, Acquire)
    }

    /// Returns true if a slot was freed permanently.
    pub fn is_permanently_freed(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).load(Acquire) == PERMANENTLY_FREED
    }

    /// Returns what a slot contains at this moment. Any thread.
    pub fn rest(&self, slot: SlotIndex) -> Rest {
        let state = self.state_of(slot).load(Acquire);
        // A slot that another thread has freed has its mark, which is set after all changes to the
        // block.
        let left = state == DIRTY || state == LEFT && self.remote.has(slot);
        if left { Rest::Left } else { Rest::Other }
    }

    /// Returns the pages that have bytes of a slot, and of no slot that may still be handed out.
    /// The result is the offset in the slab and the length.
    pub fn permanently_freed_pages(&self, slot: SlotIndex, page: usize) -> (usize, usize) {
        let (size, slots) = (self.size(), self.slots());
        let page = page.max(1);
        let all_freed = |at: usize| {
            let last = ((at + page - 1) / size).min(slots - 1);
            SlotIndex::range(at / size..last + 1).all(|slot| self.is_permanently_freed(slot))
        };
        let first = slot.begin(size) / page * page;
        let end = (slot.end(size)).next_multiple_of(page);
        let start = if all_freed(first) { first } else { first + page };
        let stop = if end > start && all_freed(end - page) { end } else { end - page };
        (start, stop.saturating_sub(start))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::SlotState;
    use crate::sync::Ordering::Relaxed;
    use std::boxed::Box;
    extern crate std;

    fn slab(size: usize) -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(1 << 30, 64 << 10, size);
        slab.publish(1 << 20, slots);
        slab.all_slots().for_each(|slot| slab.state_of(slot).store(LIVE, Relaxed));
        slab.fresh.store(slots as u16, Relaxed);
        slab
    }

    #[test]
    fn permanently_freed_slots_are_neither_live_nor_free() {
        let (slab, slot) = (slab(256), SlotIndex::new(3));
        assert!(
            slab.free_permanently(slot)
                && !slab.free_permanently(slot)
                && slab.is_permanently_freed(slot)
        );
        assert_eq!(slab.state(slot), SlotState::Free);
        assert_eq!(slab.live_slots(), slab.slots() - 1);
        assert_eq!(slab.held() as usize, slab.slots(), "its slab is as full as before");
        assert_eq!(
            slab.states.free_bits(0) | slab.states.dirty_bits(0) | slab.states.remote_held_bits(0),
            0
        );
        assert!(!slab.remote.set(slot) || !slab.is_in_use(slot));
    }

    #[test]
    fn a_page_goes_with_the_last_slot_on_it() {
        let slab = slab(512);
        for slot in SlotIndex::range(8..16) {
            assert!(slab.free_permanently(slot));
            let wanted = if slot.number() == 15 { (4096, 4096) } else { (8192, 0) };
            let (start, bytes) = slab.permanently_freed_pages(slot, 4096);
            assert_eq!(bytes, wanted.1, "{slot:?}");
            assert!(bytes == 0 || start == wanted.0);
        }
    }
}
