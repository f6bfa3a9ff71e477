//! Pages that are not in use, although malloc may hand out their slots at any moment: those of
//! slots that a thread has claimed and not used.
//!
//! Each result is true at one moment only. `os/pin.rs` describes how such pages are given back all
//! the same.

use super::pages::SlabPages;
use super::slots::SlotIndex;
use super::states::{SOILED, TAKEN};
use crate::sync::Ordering::Acquire;

impl SlabPages<'_> {
    /// Calls `each` with the address and length of pages that have no byte of a live slot, and some
    /// byte that may not be zero. For a slab that is being held, without its held slots.
    pub fn unused(&self, page: usize, mut each: impl FnMut(usize, usize)) {
        if self.is_shared() || self.is_dormant() {
            return;
        }
        self.runs(
            page,
            |slot| self.is_unused_slot(slot),
            |_, (start, stop)| each(self.base() + start, stop - start),
        );
    }

    /// Returns true if something was written to free slots on pages that `unused` has named.
    /// The pages must be in memory, because reading brings other pages there.
    pub fn is_unused_written(&self, address: usize, len: usize) -> bool {
        let start = address.wrapping_sub(self.base());
        self.is_written((start, start + len))
    }

    /// Returns true if each slot in a range of the slab's addresses was free when its state was
    /// read.
    pub fn is_unused(&self, address: usize, len: usize) -> bool {
        let start = address.wrapping_sub(self.base());
        if start >= self.span() || self.is_shared() || self.is_dormant() {
            return false;
        }
        let size = self.size().max(1);
        let end = (start + len).div_ceil(size).min(self.slots());
        SlotIndex::range(start / size..end).all(|slot| self.is_unused_slot(slot).is_some())
    }

    /// Returns `Some` if a slot is free, claimed or not. The value is true if the slot may not be
    /// zero.
    fn is_unused_slot(&self, slot: SlotIndex) -> Option<bool> {
        let state = self.states.of(slot).load(Acquire);
        (!state.has(TAKEN)).then_some(state.has(SOILED))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::slab::Slab;
    use crate::slab::memory::slab_memory;
    use crate::sync::Ordering::Relaxed;

    const PAGE: usize = 4096;

    /// A hold that leaves the pages of claimed slots records nothing about them.
    #[test]
    fn pages_of_claims_that_were_not_given_back_are_remembered() {
        let slab = Slab::zeroed();
        let slots = slab.open_for_test(slab_memory(), 2048);
        slab.publish(64, slots);
        // As if all slots had been written to.
        slab.wake(false);
        slab.claim.store(0b1111, Relaxed);
        assert!(slab.pinning().hold(PAGE, true), "it has a claim");
        slab.note_unused(true);
        slab.pinning().leave();
        assert!(!slab.may_have_unused());
        // The owner allocates and frees the same slots: the claim is as before.
        slab.pinning().hold(PAGE, false);
        slab.pinning().leave();
        assert!(slab.may_have_unused());
    }
}
