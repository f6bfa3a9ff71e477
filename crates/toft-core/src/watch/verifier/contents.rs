//! Verifies the contents of free slots while other threads run. A write to a free slot comes from a
//! pointer to a freed block.
//!
//! A free slot has the pattern of `TOFT_FILL=free`, or zeros if its pages were returned to the OS.
//! Without the pattern there is nothing to compare. In the secure build a free slot is zero, and
//! `verify_slots.rs` and `verify_others.rs` check it.
//!
//! The program may allocate, write and free a slot during the check (`pieces.rs`). A free writes
//! the pattern before the state says that the slot is free.

use crate::allocator::calls_are_looked_at;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::policy::SECURE;
use crate::slab::{Rest, Slab, SlotIndex};
use crate::watch::reports::damage::Damage;
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;

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
            if sound && extent.covers() {
                let state = |slot, _| is_left(slab, slot).then_some(());
                sound = self.pieces_are_whole(slab, state, |slot, (), piece| {
                    let (offset, part) = piece.part(slab, slot)?;
                    let place = stale(part, slab.has_received())?;
                    Some(Damage::AfterFree(offset + place))
                });
            }
        });
        sound
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
