//! The requested sizes, slot by slot, in the hardened build: bytes of the slot after the block's
//! end.
//!
//! It is in the descriptor, out of the program's reach, and tells two things: where the block ends,
//! and whether the slot was ever handed out. The default build keeps nothing of it: there a block
//! is its whole slot.

use super::SMALL_MAX;
use super::slab::{GROUP_SLOTS, SLOTS_MAX, Slab};
use super::states::{ARMED, BEING_FREED, DIRTY, LIVE, QUARANTINED, ZERO_CLEAN};
use crate::policy::{HARDENED, SLACK_MIN};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU16, Settled};

/// Slots of which something is kept.
const KEPT: usize = if HARDENED && !cfg!(loom) { SLOTS_MAX } else { 0 };

/// Bytes after the end of each block; zero if the slot was never handed out. Written by the holder
/// of the slab before it hands out the slot, and by the thread that resizes the block; read by the
/// freeing thread, to which the program has handed it over. With AWAY, in between, by the holder
/// who claims the slot.
pub(super) type Slacks = [AtomicU16; KEPT];

/// Set beside the slack of a small slot that is claimed, where its pages have gone since the
/// program had it: malloc finds by the word it reads anyway that the page is to be written to
/// first. Slacks of small slots are less.
const AWAY: u16 = 1 << 15;

const _: () = assert!(SMALL_MAX < AWAY as usize);

impl Slab {
    /// Bytes that the program may use of a slot that it has, or had last.
    #[inline(always)]
    pub fn block_bytes(&self, slot: usize) -> usize {
        let (size, slack) = (self.size(), self.slack(slot));
        // Of a slot that is not live it may say more than the slack.
        let slack = if size <= SMALL_MAX { slack & !usize::from(AWAY) } else { slack };
        size.saturating_sub(slack)
    }

    /// Bytes of a slot after a block of `bytes`: of a small block at a very large alignment, what
    /// can be remembered, so that more may be used.
    #[inline(always)]
    pub fn slack_for(&self, bytes: usize) -> usize {
        self.bytes().saturating_sub(bytes).clamp(SLACK_MIN, u16::MAX as usize)
    }

    /// Bytes after the end of the block that a live slot has; zero if it was never handed out.
    #[inline(always)]
    pub fn slack(&self, slot: usize) -> usize {
        debug_assert!(slot < SLOTS_MAX);
        if KEPT == 0 {
            0
        } else {
            // SAFETY: no slab has more than SLOTS_MAX slots, of which each has one in the hardened
            // build.
            unsafe { self.slacks.get_unchecked(slot) }.load(Relaxed) as usize
        }
    }

    /// As `slack`, of a slot that only the caller has.
    #[inline(always)]
    pub fn own_slack(&self, slot: usize) -> usize {
        debug_assert!(slot < SLOTS_MAX);
        if KEPT == 0 {
            0
        } else {
            // SAFETY: as in `slack`. (1) who has the slot writes it, and that is the caller, or the
            // program has a pointer that it was not given, or gave it to two who free it.
            unsafe { self.slacks.get_unchecked(slot).settled() as usize }
        }
    }

    /// The program gets a slot of which it leaves `slack` bytes.
    #[inline(always)]
    pub fn set_slack(&self, slot: usize, slack: usize) {
        debug_assert!(slot < SLOTS_MAX);
        if KEPT != 0 {
            // SAFETY: as in `slack`.
            unsafe { self.slacks.get_unchecked(slot) }.store(slack as u16, Relaxed);
        }
    }

    /// Whether the program has ever had the slot. No, where nothing is kept.
    #[inline(always)]
    pub fn was_handed_out(&self, slot: usize) -> bool {
        self.slack(slot) != 0
    }

    /// Whether it is the heap's at an address, and has no flag set.
    #[inline(always)]
    pub fn is_owned_plainly(&self, heap: usize) -> bool {
        self.owner.load(Relaxed) == heap
    }

    /// Takes a slot back as `put` does, where nothing follows from it and no slot beside it may be
    /// armed: else it says no, and has done nothing. The slot is named by its number and the
    /// descriptor's address, added, because its state lies so far from there. Owner only.
    ///
    /// # Safety
    /// 1. `entry` is the sum of this descriptor's address and of the number of a slot.
    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    pub unsafe fn put_plainly(&self, entry: usize) -> bool {
        let states = entry + core::mem::offset_of!(Slab, states);
        // SAFETY: duty 1: the slot's state, and the bytes beside it, as in `is_beside_armed`.
        let state = |at: usize| unsafe {
            &*core::ptr::with_exposed_provenance::<crate::sync::AtomicU8>(at)
        };
        // pairs: armed.
        let beside = state(states + 1).load(Acquire) | state(states - 1).load(Acquire);
        // SAFETY: (1) only the owner writes states and touches the credit, and the caller is the
        // owner.
        unsafe {
            if beside & super::states::ARMED_BIT != 0
                || state(states).settled() != QUARANTINED
                || self.credit.settled() <= 1
            {
                return false;
            }
            state(states).store(DIRTY, Relaxed);
            // A signal handler may have taken one since: then the next free finds out.
            if crate::sync::decrement(&self.credit) == 0 {
                self.postpone();
            }
        }
        true
    }

    /// Returns false: states are no bytes of the descriptor here, or that is not checked.
    #[cfg(any(loom, miri))]
    pub unsafe fn put_plainly(&self, _entry: usize) -> bool {
        false
    }

    /// Whether the program has had the slot, and its pages have not gone since. No, where in doubt.
    #[inline(always)]
    pub fn is_there(&self, slot: usize) -> bool {
        // One comparison with zero: with AWAY it is negative, and of a medium slot with as large a
        // slack.
        (self.own_slack(slot) as i16) > 0
    }

    /// Remembers which of the small slots that are being claimed have lost their pages since the
    /// program had them. Owner, who has not handed them out yet.
    #[inline(always)]
    pub(super) fn note_away(&self, group: usize, claim: u64) {
        if KEPT != 0 {
            let clean = claim & !self.soiled_bits(group);
            if clean != 0 {
                self.note_clean(group, clean);
            }
        }
    }

    #[cold]
    fn note_clean(&self, group: usize, mut clean: u64) {
        while clean != 0 {
            let slot = group * GROUP_SLOTS + clean.trailing_zeros() as usize;
            // What was never handed out shows that already.
            if self.was_handed_out(slot) {
                self.set_slack(slot, self.slack(slot) | usize::from(AWAY));
            }
            clean &= clean - 1;
        }
    }

    /// Whether the program has freed the slot, and it is not free yet.
    pub fn is_quarantined(&self, slot: usize) -> bool {
        self.state_of(slot).load(Relaxed) == QUARANTINED
    }

    /// Takes a live slot from the program, before it becomes free. The thread that succeeds has it
    /// alone, but for another that frees it at the same moment. That one finds out, in `has_taken`,
    /// as a rule; else it is named when both leave their quarantines. An exchange would tell
    /// always, and cost every free as much as all of its checks. Owner of the slab.
    #[inline(always)]
    pub fn take_own(&self, slot: usize) -> bool {
        let state = self.state_of(slot);
        // SAFETY: (1) of what the program has, only the owner writes the state, and the caller is
        // the owner.
        let live = unsafe { state.settled() } == LIVE;
        if live {
            state.store(QUARANTINED, Relaxed);
        }
        live
    }

    /// As `take_own`, for any thread; `has_taken` follows it.
    #[inline(always)]
    pub fn take_others(&self, slot: usize) -> bool {
        self.state_of(slot).compare_exchange(LIVE, BEING_FREED, AcqRel, Relaxed).is_ok()
    }

    /// The thread that took a slot by `take_others` has cleared it. Says no where its owner has
    /// freed it as well: it had seen it live, and has written over the state since.
    #[inline(always)]
    pub fn has_taken(&self, slot: usize) -> bool {
        let state = self.state_of(slot);
        state.compare_exchange(BEING_FREED, QUARANTINED, AcqRel, Relaxed).is_ok()
    }
}

/// What the bytes of a slot must be, as far as one knows at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCare {
    /// The program has so many of them; behind them is a canary, or will be in a moment.
    Canary(usize),
    /// Zero: the program had it, and has given it back.
    Zero,
    /// It is reserved, and carries its pattern.
    Pattern,
    /// Nothing is known.
    Any,
}

impl Slab {
    /// What may be verified of a slot, at this moment, of a slab with its pages. Any thread.
    pub fn care(&self, slot: usize) -> SlotCare {
        match self.state_of(slot).load(Acquire) {
            LIVE if !self.is_remote(slot) && self.was_handed_out(slot) => {
                SlotCare::Canary(self.block_bytes(slot))
            }
            // Of another thread's frees, those that have left its quarantine: what goes in may not
            // be clear yet.
            QUARANTINED if self.is_remote(slot) => SlotCare::Zero,
            DIRTY | ZERO_CLEAN if self.was_handed_out(slot) => SlotCare::Zero,
            ARMED => SlotCare::Pattern,
            _ => SlotCare::Any,
        }
    }
}

#[cfg(all(test, feature = "hardened", not(loom)))]
mod tests {
    use super::*;
    use crate::slab::Class;
    use std::boxed::Box;
    extern crate std;

    fn slab() -> Box<Slab> {
        let slab = Box::new(Slab::nothing());
        let slots = slab.open(1 << 30, 64 << 10, Class::of(64).unwrap(), 0, 0);
        slab.publish(1 << 20, slots);
        (0..slots).for_each(|slot| slab.state_of(slot).store(LIVE, Relaxed));
        slab
    }

    /// What is claimed of a small slab says of each slot whether its pages have gone since the
    /// program had it; and what the block was, whether they have or not.
    #[test]
    fn a_claim_knows_whose_pages_have_gone() {
        let slab = slab();
        let slots = slab.slots();
        for slot in 0..slots {
            let state = if slot % 3 == 0 { DIRTY } else { ZERO_CLEAN };
            slab.state_of(slot).store(state, Relaxed);
            // Every fifth was never handed out.
            slab.set_slack(slot, if slot % 5 == 0 { 0 } else { 14 });
        }
        slab.fresh.store(slots as u16, Relaxed);
        let mut seen = 0;
        while slab.refill(7 << 40, |_| {}) {
            let (group, claim) = (slab.claimed_group(), slab.claimed());
            for slot in (0..GROUP_SLOTS).filter(|slot| claim >> slot & 1 != 0) {
                let slot = group * GROUP_SLOTS + slot;
                let had = !slot.is_multiple_of(5);
                assert_eq!(slab.is_there(slot), had && slot.is_multiple_of(3), "{slot}");
                assert_eq!(slab.was_handed_out(slot), had, "{slot}");
                assert_eq!(slab.block_bytes(slot), if had { 50 } else { 64 }, "{slot}");
                seen += 1;
            }
            // They are handed out: nothing of it is left.
            for number in 0..GROUP_SLOTS {
                if claim >> number & 1 != 0 {
                    slab.hand_out_any(
                        slab.claimed() & !(1 << number),
                        group * GROUP_SLOTS + number,
                    );
                    slab.set_slack(group * GROUP_SLOTS + number, 9);
                    assert!(slab.is_there(group * GROUP_SLOTS + number));
                }
            }
        }
        assert_eq!(seen, slots);
    }

    /// A slack of a medium slot may be as large as the word can say.
    #[test]
    fn large_slacks_are_as_they_were_set() {
        let slab = Box::new(Slab::nothing());
        let class = Class::of(96 << 10).unwrap();
        let slots = slab.open(1 << 30, 1 << 20, class, 0, 0);
        slab.publish(1 << 20, slots);
        for slack in [1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
            slab.set_slack(2, slack);
            assert_eq!(slab.block_bytes(2), slab.size() - slack);
            assert!(slab.was_handed_out(2));
        }
    }

    /// The owner has seen the slot live, another thread takes it, and the owner writes over the
    /// state.
    #[test]
    fn whoever_frees_what_its_owner_frees_at_the_same_moment_finds_out() {
        let slab = slab();
        assert!(slab.take_others(3));
        assert!(!slab.take_own(3) && !slab.take_others(3) && !slab.bury(3));
        slab.state_of(3).store(QUARANTINED, Relaxed);
        assert!(!slab.has_taken(3));
        // No other thread does.
        assert!(slab.take_others(4) && slab.has_taken(4) && slab.is_quarantined(4));
        assert!(slab.take_own(5) && !slab.take_others(5) && slab.is_quarantined(5));
    }
}
