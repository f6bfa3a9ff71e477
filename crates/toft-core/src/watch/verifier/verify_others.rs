//! Verifies slots of other threads and of unowned slabs on demand. Secure build only.
//!
//! The checks cover the canaries of live blocks, reserved slots, the zeros in free slots, and the
//! slots in quarantines.
//!
//! Other threads run meanwhile, and pages may vanish. So the kernel reads the memory ([`peek`]). A
//! slot counts as damaged only if every check in a fifth of a second finds damage, with the same
//! state before and after. A thread that is stopped for longer causes no false alarm either:
//!
//! ```text
//! live          malloc writes LIVE after the canary. While realloc changes a canary, the slack is
//!               zero, and the canary is not checked. free changes the state first of all
//! free          cleared before the state says free
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

/// The number of bytes read at a time.
const PIECE: usize = 4096;

/// A copy of some of a slab's bytes.
struct Piece {
    begin: usize,
    bytes: [u8; PIECE],
}

impl Piece {
    fn read(begin: usize) -> Option<Piece> {
        let mut bytes = [0; PIECE];
        (peek(begin, &mut bytes) == PIECE).then_some(Piece { begin, bytes })
    }

    fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.begin) < PIECE
    }

    /// Returns the byte at `address` from the copy. A byte outside the copy is read from memory
    /// now.
    fn byte(&self, address: usize) -> Option<u8> {
        if let Some(&byte) = self.bytes.get(address.wrapping_sub(self.begin)) {
            return Some(byte);
        }
        let mut byte = [0];
        (peek(address, &mut byte) == 1).then_some(byte[0])
    }
}

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
        let (size, end) = (slab.size(), slab.slots() * slab.size());
        for at in (0..end).step_by(PIECE) {
            if slab.is_dormant() {
                break;
            }
            let begin = slab.base() + at;
            let beyond = ((at + PIECE - 1) / size + 1).min(slab.slots());
            let slots = SlotIndex::range(at / size..beyond);
            let ends_here = |slot: SlotIndex| slot.end(size) <= at + PIECE;
            let wanted = |slot: SlotIndex| match slab.care(slot) {
                SlotCare::Canary(_) => ends_here(slot),
                SlotCare::Pattern | SlotCare::Zero => true,
                SlotCare::Any => false,
            };
            let Some(piece) = slots.clone().any(wanted).then(|| Piece::read(begin)).flatten()
            else {
                continue;
            };
            for slot in slots.filter(|&slot| wanted(slot)) {
                if self.wrong_in(slab, slot, slab.care(slot), &piece).is_none() {
                    continue;
                }
                // The slot seems damaged. `look` also compares its state before and after the
                // bytes.
                let look = || {
                    let care = slab.care(slot);
                    let wrong = self.wrong_in(slab, slot, care, &Piece::read(begin)?);
                    wrong.filter(|_| slab.care(slot) == care)
                };
                if !wait_for(&self.os, || look().is_none())
                    && let Some(damage) = look()
                {
                    self.reports().damaged(Call::Verify, slab, slot, damage);
                    return false;
                }
            }
        }
        true
    }

    /// Returns the damage of a slot whose bytes must be as `care` says, as far as `piece` shows it.
    fn wrong_in(
        self,
        slab: &Slab,
        slot: SlotIndex,
        care: SlotCare,
        piece: &Piece,
    ) -> Option<Damage> {
        let (begin, size) = (slab.slot_address(slot), slab.size());
        let (first, end) = (begin.max(piece.begin), (begin + size).min(piece.begin + PIECE));
        let find = |must: &dyn Fn(usize) -> u8| {
            let differs = |&address: &usize| piece.byte(address) != Some(must(address));
            (first..end).find(differs).map(|address| address - begin)
        };
        match care {
            SlotCare::Canary(asked) if asked < size && piece.has(begin + size - 1) => {
                let read = |place| piece.byte(begin + asked + place);
                self.slot_checks()
                    .canary(slab, slot)
                    .damage_read(size - asked, read)
                    .map(Damage::Behind)
            }
            SlotCare::Zero => find(&|_| 0).map(Damage::AfterFree),
            SlotCare::Pattern => find(&|address| self.slot_checks().reserved_byte(begin, address))
                .map(Damage::Reserved),
            SlotCare::Canary(_) | SlotCare::Any => None,
        }
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
