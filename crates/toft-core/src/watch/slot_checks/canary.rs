//! Checks of what is kept beside a live block, when its program gives it back.

use crate::harden::Canary;
use crate::os::{Os, wait_for};
use crate::policy::CANARY;
use crate::report::Call;
use crate::slab::{LastByte, Slab, SlotIndex};
use crate::watch::reports::damage::Damage;
use crate::watch::slot_checks::SlotChecks;

impl<O: Os> SlotChecks<'_, O> {
    #[inline(always)]
    pub(crate) fn canary(self, slab: &Slab, slot: SlotIndex) -> Canary {
        Canary::new(slab.canary_seeds.word(slot))
    }

    /// Checks the canary of a live block.
    #[inline(always)]
    pub(crate) fn verify_canary(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        let (asked, bytes) = (slab.block_bytes(slot), slab.size());
        if asked < bytes {
            // SAFETY: (1) the slot of a live block that is the caller's to free or to resize.
            let damage = unsafe { self.canary(slab, slot).damage(address, asked, bytes) };
            if let Some(place) = damage {
                self.reports().damaged(call, slab, slot, Damage::Behind(place));
            }
        }
    }

    /// Checks what is kept beside a live block that its program gives back.
    #[inline(always)]
    pub(crate) fn verify_at_free(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        if CANARY {
            self.verify_canary(slab, slot, address, call);
            self.verify_before(slab, slot, address, call);
        }
        self.check_neighbours(slab, slot, call);
    }

    /// Checks the last byte of the slot before a live block's: it belongs to no block.
    ///
    /// The byte may be on a page that was never written. A read brings no memory there, but the
    /// page of zeros that all processes share.
    #[inline(always)]
    pub(crate) fn verify_before(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        // The byte before a slab is on a guard page, or no slot's.
        let Some(before) = slot.before() else { return };
        // SAFETY: (1) the end of a slot of the same slab, whose pages are mapped as it has a live
        // block. No guard page reaches up to a slot that is handed out.
        if unsafe { Canary::last_byte(address) } != 0 {
            self.verify_end(slab, before, slot, call);
        }
    }

    /// Reports the byte before a block unless it is as it must be, at some moment of a fifth of a
    /// second: another thread may be handing out or freeing the slot before.
    #[inline(never)]
    fn verify_end(self, slab: &Slab, before: SlotIndex, slot: SlotIndex, call: Call) {
        // SAFETY: (1) as in `verify_before`.
        let holds = || unsafe { self.has_sound_end(slab, before) };
        if !holds() && !wait_for(&self.os, holds) {
            self.reports().damaged(call, slab, slot, Damage::Before);
        }
    }

    /// Returns true if the last byte of a slot is zero, or is as its state allows.
    ///
    /// # Safety
    /// 1. The last byte of the slot is mapped, and not on a guard page.
    pub(crate) unsafe fn has_sound_end(self, slab: &Slab, slot: SlotIndex) -> bool {
        // SAFETY: (1) duty 1.
        let byte = unsafe { Canary::last_byte(slab.slot_address(slot) + slab.size()) };
        self.is_sound_end(slab, slot, byte)
    }

    /// Returns true if a byte may be the last one of a slot: it is zero, or as the state allows.
    #[inline(always)]
    pub(crate) fn is_sound_end(self, slab: &Slab, slot: SlotIndex, byte: u8) -> bool {
        let begin = slab.slot_address(slot);
        byte == 0
            || match slab.last_byte(slot) {
                LastByte::Any => true,
                LastByte::Zero => false,
                LastByte::Canary => self.canary(slab, slot).last() == byte,
                LastByte::Pattern => self.reserved_byte(begin, begin + slab.size() - 1) == byte,
            }
    }
}
