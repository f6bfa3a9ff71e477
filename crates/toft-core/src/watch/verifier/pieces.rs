//! Verifies the slots of a slab by copies of its bytes.
//!
//! Other threads run meanwhile, and pages may vanish. So the kernel reads the memory ([`peek`]). A
//! slot counts as damaged only if every check in a fifth of a second finds damage, with the same
//! state before and after it.

use crate::os::process::peek;
use crate::os::{Os, wait_for};
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::watch::reports::damage::Damage;
use crate::watch::verifier::Verifier;

/// The number of bytes read at a time.
pub(super) const PIECE: usize = 4096;

/// A copy of some of a slab's bytes.
pub(super) struct Piece {
    begin: usize,
    bytes: [u8; PIECE],
}

impl Piece {
    fn read(begin: usize) -> Option<Piece> {
        let mut bytes = [0; PIECE];
        (peek(begin, &mut bytes) == PIECE).then_some(Piece { begin, bytes })
    }

    /// Returns true if the copy has the byte at `address`.
    pub(super) fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.begin) < PIECE
    }

    /// Returns the byte at `address` from the copy. A byte outside the copy is read from memory
    /// now.
    pub(super) fn byte(&self, address: usize) -> Option<u8> {
        if let Some(&byte) = self.bytes.get(address.wrapping_sub(self.begin)) {
            return Some(byte);
        }
        let mut byte = [0];
        (peek(address, &mut byte) == 1).then_some(byte[0])
    }

    /// Returns the bytes of a slot that the copy has, and the offset of the first one in the slot.
    pub(super) fn part(&self, slab: &Slab, slot: SlotIndex) -> Option<(usize, &[u8])> {
        let begin = slab.slot_address(slot);
        let first = begin.max(self.begin);
        let end = (begin + slab.size()).min(self.begin + PIECE);
        let part = self.bytes.get(first - self.begin..end.checked_sub(self.begin)?)?;
        Some((first - begin, part))
    }
}

impl<O: Os> Verifier<'_, O> {
    /// Checks the slots of a slab, and reports the first damage. Returns true if there is none.
    ///
    /// `state` returns the state of a slot, or `None` if its bytes before an offset of the slab
    /// need no check. `wrong` returns the damage of a slot in that state, as far as a copy shows
    /// it.
    pub(super) fn pieces_are_whole<S: Copy + PartialEq>(
        self,
        slab: &Slab,
        state: impl Fn(SlotIndex, usize) -> Option<S>,
        wrong: impl Fn(SlotIndex, S, &Piece) -> Option<Damage>,
    ) -> bool {
        let (size, end) = (slab.size(), slab.slots() * slab.size());
        for at in (0..end).step_by(PIECE) {
            if slab.is_dormant() {
                break;
            }
            let read = || Piece::read(slab.base() + at);
            let state = |slot| state(slot, at + PIECE);
            let beyond = ((at + PIECE - 1) / size + 1).min(slab.slots());
            let slots = SlotIndex::range(at / size..beyond);
            let wanted = slots.clone().any(|slot| state(slot).is_some());
            let Some(piece) = wanted.then(read).flatten() else { continue };
            for slot in slots {
                if state(slot).and_then(|now| wrong(slot, now, &piece)).is_none() {
                    continue;
                }
                // The slot seems damaged. Its state may have been read only after the bytes. `look`
                // reads it before and after them.
                let look = || {
                    let before = state(slot)?;
                    let damage = wrong(slot, before, &read()?);
                    damage.filter(|_| state(slot) == Some(before))
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
}
