//! What reserved slots carry (`slab/reserved.rs`), and when it is checked, in the secure build.
//!
//! That is a word again and again, made from the secret and the slot's address. So it does not
//! reveal what another slot carries, and the whole slot is compared by vectors. It is compared:
//!
//! - when a block beside the slot is freed, and when that block leaves the quarantine,
//! - when the slab becomes empty, and when a thread takes it again,
//! - before its pages are given back, and on demand.

use crate::harden::is_filled;
use crate::os::{Os, wait_for};
use crate::policy::RESERVE;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::watch::reports::damage::Damage;
use crate::watch::slot_checks::SlotChecks;

const WORD: usize = size_of::<u64>();

impl<O: Os> SlotChecks<'_, O> {
    /// The byte that the reserved slot at `begin` carries at an address.
    pub(crate) fn reserved_byte(self, begin: usize, address: usize) -> u8 {
        (self.secret.reserved_word(begin) >> (8 * (address % WORD))) as u8
    }

    /// Malloc has claimed slots of a slab: the reserved ones that it has passed carry their pattern
    /// from here on. The caller holds the slab's heap, with its reentrancy guard.
    #[inline]
    pub(crate) fn arm_reserved(self, slab: &Slab) {
        if RESERVE {
            for slot in slab.reserved().unarmed() {
                self.write_pattern(slab, slot);
                slab.reserved().arm(slot);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn write_pattern(self, slab: &Slab, slot: SlotIndex) {
        let begin = slab.slot_address(slot);
        let value = self.secret.reserved_word(begin);
        for address in (begin..begin + slab.size()).step_by(WORD) {
            let word: *mut u64 = core::ptr::with_exposed_provenance_mut(address);
            // SAFETY: a word of a reserved slot, of a slab whose pages are mapped: it has claimed
            // slots, or what it carries was read a moment ago. Both ends are multiples of 16.
            unsafe { word.write_volatile(value) };
        }
    }

    /// Which byte of an armed slot is not as it must be, if one is not.
    fn reserved_damage(self, slab: &Slab, slot: SlotIndex) -> Option<usize> {
        let (begin, bytes) = (slab.slot_address(slot), slab.size());
        let value = self.secret.reserved_word(begin);
        // SAFETY: (1) a slot of a slab whose pages are mapped, as above. A write there is the
        // mistake that is looked for; (2) the processor was asked.
        if unsafe { is_filled(begin, bytes, value, self.long_vectors) } {
            return None;
        }
        slab.reserved().damage(slot, value)
    }

    /// A block is freed, or leaves the quarantine: what is reserved beside it is looked at.
    #[inline(always)]
    pub(crate) fn check_neighbours(self, slab: &Slab, slot: SlotIndex, call: Call) {
        if RESERVE && slab.reserved().beside(slot).may_be_armed() != 0 {
            self.verify_beside(slab, slot, call);
        }
    }

    #[cold]
    #[inline(never)]
    fn verify_beside(self, slab: &Slab, slot: SlotIndex, call: Call) {
        for other in slot.beside() {
            self.verify_reserved_slot(slab, other, call);
        }
    }

    /// Checks all reserved slots of a slab whose pages are mapped; returns true if nothing is
    /// wrong. The caller holds its heap, or has the reclaimer's turn.
    #[inline]
    pub(crate) fn verify_reserved(self, slab: &Slab, call: Call) -> bool {
        if !RESERVE || slab.is_dormant() {
            return true;
        }
        slab.reserved().all().all(|slot| self.verify_reserved_slot(slab, slot, call))
    }

    /// Checks what is reserved in a slab that is being held, before its pages go.
    pub(crate) fn verify_held(self, slab: &Slab) {
        if RESERVE {
            for slot in slab.reserved().held_armed() {
                if let Some(place) = self.reserved_damage(slab, slot) {
                    self.reports().damaged(Call::Verify, slab, slot, Damage::Reserved(place));
                    self.write_pattern(slab, slot);
                }
            }
        }
    }

    fn verify_reserved_slot(self, slab: &Slab, slot: SlotIndex, call: Call) -> bool {
        // Its pages may be going at this moment, which the state will say.
        let holds =
            || !slab.reserved().is_armed(slot) || self.reserved_damage(slab, slot).is_none();
        if holds() || wait_for(&self.os, holds) {
            return true;
        }
        let damage = self.reserved_damage(slab, slot).filter(|_| slab.reserved().is_armed(slot));
        let Some(place) = damage else { return true };
        self.reports().damaged(call, slab, slot, Damage::Reserved(place));
        // Where misuse is only named, it is named once.
        self.write_pattern(slab, slot);
        false
    }
}
