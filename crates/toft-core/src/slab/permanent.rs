//! Slots that are freed permanently: their state is PERMANENTLY_FREED for the life of the process.
//!
//! All counts treat such a slot as one that the program never frees. Its slab never becomes empty,
//! so no other heap ever gets the slab. For queries about blocks the slot is not live, and was
//! freed.

use super::pages::SlabPages;
use super::slots::SlotIndex;

impl SlabPages<'_> {
    /// Returns the pages that have bytes of a slot, and of no slot that may still be handed out.
    /// The result is the offset in the slab and the length.
    pub fn permanently_freed(&self, slot: SlotIndex, page: usize) -> (usize, usize) {
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
    use crate::slab::states::LIVE;
    use crate::slab::{Slab, SlotState};
    use crate::sync::Ordering::Relaxed;
    use std::boxed::Box;
    extern crate std;

    fn slab(size: usize) -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(1 << 30, size);
        slab.publish(1 << 20, slots);
        slab.all_slots().for_each(|slot| slab.states.of(slot).store(LIVE, Relaxed));
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
            let (start, bytes) = slab.pages().permanently_freed(slot, 4096);
            assert_eq!(bytes, wanted.1, "{slot:?}");
            assert!(bytes == 0 || start == wanted.0);
        }
    }
}
