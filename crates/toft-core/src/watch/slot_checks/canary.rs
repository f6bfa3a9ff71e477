//! Checks of what is kept beside a live block, when its program gives it back.

use crate::harden::Canary;
use crate::os::Os;
use crate::policy::CANARY;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
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
    #[inline(always)]
    pub(crate) fn verify_before(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        let Some(before) = slot.before().filter(|&before| slab.slacks.was_handed_out(before))
        else {
            return;
        };
        // SAFETY: (1) the end of a slot of the same slab, whose pages are mapped as it has a live
        // block.
        if !unsafe { self.canary(slab, before).fits_last_byte(address) } {
            self.reports().damaged(call, slab, slot, Damage::Before);
        }
    }
}
