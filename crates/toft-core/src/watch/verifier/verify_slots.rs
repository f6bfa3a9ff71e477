//! Verifies the slots of the calling thread's slabs on demand, and those of any slab that the
//! reclaimer has taken hold of (`verify_share.rs`). Secure build only.
//!
//! The checks cover the canaries of live blocks, the zeros in free slots, the last bytes of slots
//! that were never handed out, the slots in the thread's quarantine, and the patterns of reserved
//! slots.
//!
//! Other threads may allocate, free or resize a block during a check, and the reclaimer may hold a
//! slot. So a slot counts as damaged only if it stays damaged, in the same state, for a fifth of a
//! second.

use crate::harden::first_nonzero;
use crate::os::{Os, wait_for};
use crate::policy::{CANARY, SECURE, WIPE};
use crate::report::Call;
use crate::slab::{Slab, SlotCare, SlotIndex};
use crate::thread::{Heap, ReentrancyGuard};
use crate::watch::reports::damage::Damage;
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;
use crate::watch::verifier::present::Present;

impl<O: Os> Verifier<'_, O> {
    /// Verifies the slots of all slabs of a heap, and reports what is damaged. Returns true if no
    /// damage was found. The caller holds the heap and its reentrancy guard.
    pub(crate) fn slots_are_whole(
        self,
        heap: &Heap,
        guard: &ReentrancyGuard,
        extent: &Extent<'_>,
    ) -> bool {
        if !SECURE {
            return true;
        }
        let mut whole = true;
        self.visit_slabs(extent, |slab| {
            if heap.owns(slab) && !slab.is_dormant() && extent.covers() {
                whole &= self.slot_checks().verify_reserved(slab, Call::Verify);
                let present = self.present_for_ends(slab);
                for slot in slab.all_slots() {
                    whole &= !may_read(slab, slot, &present) || self.slot_is_whole(slab, slot);
                }
            }
        });
        if !WIPE || !extent.covers() {
            return whole;
        }
        heap.quarantine().each(guard, |entry| {
            let (slab, slot) = crate::thread::entry_slot(entry);
            let (address, bytes) = (slab.slot_address(slot), slab.size());
            // SAFETY: (1) a slot that has not left the quarantine has its pages, and no thread uses
            // it.
            if let Some(place) = unsafe { first_nonzero(address, bytes) } {
                self.reports().damaged(Call::Verify, slab, slot, Damage::AfterFree(place));
                whole = false;
            }
        });
        whole
    }

    /// Returns the pages of a slab that are in memory, if it has slots of which only the last byte
    /// is verified. Such a page may never have been written.
    pub(super) fn present_for_ends(self, slab: &Slab) -> Option<Present> {
        let has_ends = slab.all_slots().any(|slot| slab.care(slot) == SlotCare::LastByte);
        if has_ends { Present::of(self, slab) } else { None }
    }

    pub(crate) fn slot_is_whole(self, slab: &Slab, slot: SlotIndex) -> bool {
        let care = slab.care(slot);
        let damage = || self.slot_damage(slab, slot, care);
        let holds = || damage().is_none() || slab.care(slot) != care;
        if holds() || wait_for(&self.os, holds) {
            return true;
        }
        // The state is read before and after the bytes.
        let Some(damage) = damage().filter(|_| slab.care(slot) == care) else { return true };
        self.reports().damaged(Call::Verify, slab, slot, damage);
        false
    }

    fn slot_damage(self, slab: &Slab, slot: SlotIndex, care: SlotCare) -> Option<Damage> {
        let (address, bytes) = (slab.slot_address(slot), slab.size());
        match care {
            SlotCare::Canary(asked) if CANARY && asked < bytes => {
                // SAFETY: (1) a slot of a slab whose pages are mapped. The thread that has the
                // block may be changing the canary. The damage then does not last.
                unsafe { self.slot_checks().canary(slab, slot).damage(address, asked, bytes) }
                    .map(Damage::Behind)
            }
            SlotCare::Zero => {
                // SAFETY: (1) as above. The freeing thread may be clearing the slot.
                unsafe { first_nonzero(address, bytes) }.map(Damage::AfterFree)
            }
            SlotCare::LastByte => {
                // SAFETY: (1) as above. `care` leaves out the ends of slots on guard pages.
                let sound = unsafe { self.slot_checks().has_sound_end(slab, slot) };
                (!sound).then_some(Damage::Unused)
            }
            _ => None,
        }
    }
}

/// Returns true if the bytes that show if a slot is whole may be read. A last byte is read only if
/// its page is in memory.
pub(super) fn may_read(slab: &Slab, slot: SlotIndex, present: &Option<Present>) -> bool {
    let end = slot.end(slab.size());
    slab.care(slot) != SlotCare::LastByte
        || present.as_ref().is_some_and(|present| present.has_all(&(end - 1..end)))
}
