//! Verifies slots of other threads and of unowned slabs on demand. Secure build only.
//!
//! The checks cover the canaries of live blocks, reserved slots, the zeros in free slots, and the
//! slots in quarantines.
//!
//! Other threads run meanwhile (`pieces.rs`). A thread that is stopped for longer than the checks
//! take causes no false alarm either:
//!
//! ```text
//! live          malloc writes LIVE after the canary. While realloc changes a canary, the slack is
//!               zero, and the canary is not checked. free changes the state first of all
//! free          cleared before the state says free
//! never used    the state changes before malloc writes to the slot
//! reserved      checked only while the state says that the pattern is complete. That state ends
//!               before pages may vanish
//! quarantined   cleared before it is put in, and checked only while it is there
//! ```

use crate::os::process::peek;
use crate::os::seccomp::Calls;
use crate::os::{Os, wait_for};
use crate::policy::{SECURE, WIPE};
use crate::report::Call;
use crate::slab::{Slab, SlotCare, SlotIndex};
use crate::thread::Heap;
use crate::watch::reports::damage::Damage;
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;
use crate::watch::verifier::pieces::PIECE;
use crate::watch::verifier::verify_slots::may_read;

impl<O: Os> Verifier<'_, O> {
    /// Checks everything that does not belong to `heap`, the caller's heap, and reports the first
    /// damage. Returns true if no damage was found, or the kernel may not read memory for Toft.
    pub(crate) fn others_are_whole(self, heap: &Heap, extent: &Extent<'_>) -> bool {
        if !SECURE {
            return true;
        }
        let Some(_permit) = self.filter().permit(&self.os, Calls::REPORT, true) else {
            return true;
        };
        let mut whole = true;
        self.visit_slabs(extent, |slab| {
            if whole && !heap.owns(slab) && extent.covers() {
                whole = self.slots_of_others(slab);
            }
        });
        if !WIPE {
            return whole;
        }
        let others = || self.heaps.all().filter(|other| other.address() != heap.address());
        whole && others().all(|other| !extent.covers() || self.waiting_of_others(other))
    }

    fn slots_of_others(self, slab: &Slab) -> bool {
        let size = slab.size();
        let present = self.present_for_ends(slab);
        let care = |slot: SlotIndex, end| {
            let care = slab.care(slot);
            let is_checked = match care {
                SlotCare::Canary(_) => slot.end(size) <= end,
                SlotCare::Pattern | SlotCare::Zero => true,
                SlotCare::LastByte => slot.end(size) <= end && may_read(slab, slot, &present),
                SlotCare::Any => false,
            };
            is_checked.then_some(care)
        };
        self.pieces_are_whole(slab, care, |slot, care, piece| {
            let begin = slab.slot_address(slot);
            let find = |must: &dyn Fn(usize) -> u8| {
                let (offset, part) = piece.part(slab, slot)?;
                let differs = |&(at, byte): &(usize, &u8)| *byte != must(begin + at);
                (offset..).zip(part).find(differs).map(|(at, _)| at)
            };
            match care {
                SlotCare::Canary(asked) if asked < size && piece.has(begin + size - 1) => {
                    let read = |place| piece.byte(begin + asked + place);
                    let canary = self.slot_checks().canary(slab, slot);
                    canary.damage_read(size - asked, read).map(Damage::Behind)
                }
                SlotCare::Zero => find(&|_| 0).map(Damage::AfterFree),
                SlotCare::Pattern => {
                    find(&|address| self.slot_checks().reserved_byte(begin, address))
                        .map(Damage::Reserved)
                }
                SlotCare::LastByte => {
                    let byte = piece.byte(begin + size - 1)?;
                    let sound = self.slot_checks().is_sound_end(slab, slot, byte);
                    (!sound).then_some(Damage::Unused)
                }
                SlotCare::Canary(_) | SlotCare::Any => None,
            }
        })
    }

    /// Checks the slots in the quarantine of another heap, whose thread may have exited. Returns
    /// true if no damage was found.
    pub(crate) fn waiting_of_others(self, other: &Heap) -> bool {
        let quarantine = other.quarantine();
        quarantine.waiting().all(|(place, entry)| {
            let (slab, slot) = crate::thread::entry_slot(entry);
            let waits = || {
                quarantine.entry_at(place) == entry
                    && slab.states.is_quarantined(slot)
                    && !slab.remote.has(slot)
            };
            // A filter may be installed at any moment, so the permit is for one reading.
            let look = || {
                let _permit = self.filter().permit(&self.os, Calls::READ, true)?;
                let written = if waits() { first_written(slab, slot) } else { None };
                written.filter(|_| waits())
            };
            if look().is_none() || wait_for(&self.os, || look().is_none()) {
                return true;
            }
            let Some(byte) = look() else { return true };
            self.reports().damaged(Call::Verify, slab, slot, Damage::AfterFree(byte));
            false
        })
    }
}

/// Returns the offset of the first byte of a slot that is not zero.
fn first_written(slab: &Slab, slot: SlotIndex) -> Option<usize> {
    let begin = slab.slot_address(slot);
    let mut bytes = [0u8; PIECE];
    (0..slab.size()).step_by(PIECE).find_map(|at| {
        let part = bytes.get_mut(..PIECE.min(slab.size() - at))?;
        let got = peek(begin + at, part);
        let place = part.get(..got)?.iter().position(|&byte| byte != 0)?;
        Some(at + place)
    })
}
