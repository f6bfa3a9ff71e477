//! Checks of what a free has cleared, in the full build.

use crate::harden::{first_nonzero, is_zero, wipe};
use crate::os::Os;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::watch::reports::damage::Damage;
use crate::watch::slot_checks::SlotChecks;

impl<O: Os> SlotChecks<'_, O> {
    /// Names a byte of a slot that was written to since it was cleared, and clears it again.
    #[inline(always)]
    pub(crate) fn find_writes(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        let bytes = slab.size();
        // SAFETY: (1) malloc has taken the slot and not handed it out, or the slot leaves its
        // quarantine. A write to it by the program is the mistake that is looked for.
        unsafe {
            if is_zero(address, bytes, self.long_vectors) {
                return;
            }
            if let Some(place) = first_nonzero(address, bytes) {
                self.reports().damaged(call, slab, slot, Damage::AfterFree(place));
                wipe(address, bytes, self.long_vectors);
            }
        }
    }
}
