//! Verifies the contents of free slots while other threads run. A write to a free slot comes from a
//! pointer to a freed block.
//!
//! A free slot has the pattern of `TOFT_FILL=free`, or zeros if its pages were returned to the OS.
//! Without the pattern there is nothing to compare. In the secure build a free slot is zero, and
//! `verify_slots.rs` and `verify_others.rs` check it.
//!
//! The program may allocate, write and free a slot during the check. So the check reads the slot's
//! state before and after its bytes. The kernel reads the bytes, because the page may vanish. A
//! byte counts as overwritten only if every check in a fifth of a second finds it overwritten. A
//! free writes the pattern before the state says that the slot is free.

use crate::allocator::calls_are_looked_at;
use crate::os::process::peek;
use crate::os::seccomp::Calls;
use crate::os::{Os, wait_for};
use crate::policy::SECURE;
use crate::report::Call;
use crate::slab::{Rest, Slab, SlotIndex};
use crate::watch::reports::damage::Damage;
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;

/// The number of bytes read at a time.
const PIECE: usize = 4096;

/// The byte of `TOFT_FILL` for freed blocks.
pub(crate) const STALE: u8 = 0xDF;

impl<O: Os> Verifier<'_, O> {
    /// Checks all free slots, and reports the first overwritten byte. Returns true if there is
    /// none. Also returns true if there is no pattern, or the kernel may not read memory for Toft.
    pub(crate) fn verify_contents(self, extent: &Extent<'_>) -> bool {
        let filled =
            self.thread_body.is_some() && self.options.fill.of_stale() && !self.options.compact;
        if SECURE || !filled || !calls_are_looked_at() {
            return true;
        }
        let Some(_permit) = self.filter().permit(&self.os, Calls::REPORT, true) else {
            return true;
        };
        let mut sound = true;
        self.visit_slabs(extent, |slab| {
            if sound
                && extent.covers()
                && let Some((slot, place)) = self.overwritten(slab)
            {
                self.reports().damaged(Call::Verify, slab, slot, Damage::AfterFree(place));
                sound = false;
            }
        });
        sound
    }

    /// Returns a free slot with an overwritten byte, and the offset of that byte in the slot.
    fn overwritten(self, slab: &Slab) -> Option<(SlotIndex, usize)> {
        let (size, end) = (slab.size(), slab.slots() * slab.size());
        let mut at = 0;
        while at < end && !slab.is_dormant() {
            let beyond = ((at + PIECE - 1) / size + 1).min(slab.slots());
            let slots = SlotIndex::range(at / size..beyond);
            let mut bytes = [0u8; PIECE];
            let mut wanted = slots.clone().filter(|&slot| is_left(slab, slot));
            if let Some(first) = wanted.next()
                && peek(slab.base() + at, &mut bytes) == PIECE
            {
                let from_first = slots.skip_while(|&slot| slot < first);
                for slot in from_first.filter(|&slot| self.is_bad(slab, slot, at, &bytes)) {
                    // The slot seems damaged. Its state may have been read only after the bytes.
                    // `looks_bad` reads it before and after them.
                    let looks_bad = || {
                        let mut bytes = [0u8; PIECE];
                        let bad = is_left(slab, slot)
                            && peek(slab.base() + at, &mut bytes) == PIECE
                            && self.is_bad(slab, slot, at, &bytes);
                        if bad { self.place_of(slab, slot, at, &bytes) } else { None }
                    };
                    if !wait_for(&self.os, || looks_bad().is_none())
                        && let Some(place) = looks_bad()
                    {
                        return Some((slot, place));
                    }
                }
            }
            at += PIECE;
        }
        None
    }

    /// Returns true if a slot is still free and has an overwritten byte among `bytes`, which were
    /// read at offset `at` of the slab.
    fn is_bad(self, slab: &Slab, slot: SlotIndex, at: usize, bytes: &[u8; PIECE]) -> bool {
        self.place_of(slab, slot, at, bytes).is_some() && is_left(slab, slot)
    }

    /// Returns the offset in a slot of its first overwritten byte among `bytes`, which were read at
    /// offset `at` of the slab.
    fn place_of(
        self,
        slab: &Slab,
        slot: SlotIndex,
        at: usize,
        bytes: &[u8; PIECE],
    ) -> Option<usize> {
        let begin = slot.begin(slab.size());
        let first = begin.max(at);
        let end = (begin + slab.size()).min(at + PIECE);
        let part = bytes.get(first.checked_sub(at)?..end.checked_sub(at)?)?;
        let bad = if is_left(slab, slot) { stale(part, slab.has_received()) } else { None };
        bad.map(|place| first - begin + place)
    }
}

/// Returns true if a free slot must still have the pattern, or zeros of returned pages.
fn is_left(slab: &Slab, slot: SlotIndex) -> bool {
    slab.rest(slot) == Rest::Left
}

/// Returns the offset of the first byte that is neither the pattern nor a zero of a returned page.
/// Zeros next to pattern bytes are allowed only if `mixed` is set.
fn stale(part: &[u8], mixed: bool) -> Option<usize> {
    let filled = part.contains(&STALE);
    part.iter().position(|&byte| match byte {
        STALE => false,
        0 => filled && !mixed,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_pattern_or_is_zero() {
        let mut part = [STALE; 64];
        assert_eq!(stale(&part, false), None);
        assert_eq!(stale(&[0; 64], false), None);
        part[9] = 0;
        assert_eq!((stale(&part, false), stale(&part, true)), (Some(9), None));
        part[9] = 7;
        assert_eq!((stale(&part, false), stale(&part, true)), (Some(9), Some(9)));
    }
}
