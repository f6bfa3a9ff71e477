//! The requested sizes of blocks, in the secure build, as the *slack* of each slot: the number of
//! bytes after the block's end.
//!
//! The slack is in the descriptor, out of the program's reach. It shows where the block ends, and
//! if the slot was ever handed out. The default build does not have it: a block there is its whole
//! slot.

use super::SMALL_MAX;
use super::slab::{SLOTS_MAX, Slab};
use super::slots::SlotIndex;
use super::states::{ARMED, BEING_FREED, DIRTY, LIVE, QUARANTINED, ZERO_CLEAN};
use crate::policy::{SECURE, SLACK_MIN, WIPE};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU16, Settled};

/// The number of slots whose slack is kept.
const KEPT: usize = if SECURE && !cfg!(loom) { SLOTS_MAX } else { 0 };

/// The number of bytes after the end of each block, or zero if the slot was never handed out. The
/// holder of the slab writes it before it hands out the slot. The thread that resizes the block
/// also writes it. The freeing thread, which has the block from the program, reads it. In between,
/// the holder that claims the slot may add NON_RESIDENT.
pub(super) type Slacks = [AtomicU16; KEPT];

/// Set beside the slack of a claimed small slot whose pages were given back since the program had
/// it. Malloc reads this word anyway, and sees by it that the page must be written to first. Slacks
/// of small slots are smaller.
const NON_RESIDENT: u16 = 1 << 15;

const _: () = assert!(SMALL_MAX < NON_RESIDENT as usize);

impl Slab {
    /// Returns the number of bytes that the program may use of a slot that it has, or had last.
    #[inline(always)]
    pub fn block_bytes(&self, slot: SlotIndex) -> usize {
        let (size, slack) = (self.size(), self.slack(slot));
        // The word of a slot that is not live may also have NON_RESIDENT.
        let slack = if size <= SMALL_MAX { slack & !usize::from(NON_RESIDENT) } else { slack };
        size.saturating_sub(slack)
    }

    /// Returns the number of bytes of a slot after a block of `bytes` bytes. A small block at a
    /// very large alignment gets the largest number that can be kept, so the program may use more
    /// bytes.
    #[inline(always)]
    pub fn slack_for(&self, bytes: usize) -> usize {
        self.bytes().saturating_sub(bytes).clamp(SLACK_MIN, u16::MAX as usize)
    }

    /// Returns the number of bytes after the block of a live slot. Zero if it was never handed out.
    #[inline(always)]
    pub fn slack(&self, slot: SlotIndex) -> usize {
        debug_assert!(slot.number() < SLOTS_MAX);
        if KEPT == 0 {
            0
        } else {
            // SAFETY: no slab has more than SLOTS_MAX slots, and each has a slack in the secure
            // build.
            unsafe { self.slacks.get_unchecked(slot.number()) }.load(Relaxed) as usize
        }
    }

    /// Returns the slack, as `slack` does, of a slot that only the caller has.
    #[inline(always)]
    pub fn own_slack(&self, slot: SlotIndex) -> usize {
        debug_assert!(slot.number() < SLOTS_MAX);
        if KEPT == 0 {
            0
        } else {
            // SAFETY: as in `slack`. (1) only the thread that has the slot writes it. That is the
            // caller, unless the program uses a pointer that it was not given, or two threads free
            // it.
            unsafe { self.slacks.get_unchecked(slot.number()).settled() as usize }
        }
    }

    /// Records that the program gets a slot and leaves `slack` bytes of it.
    #[inline(always)]
    pub fn set_slack(&self, slot: SlotIndex, slack: usize) {
        debug_assert!(slot.number() < SLOTS_MAX);
        if KEPT != 0 {
            // SAFETY: as in `slack`.
            unsafe { self.slacks.get_unchecked(slot.number()) }.store(slack as u16, Relaxed);
        }
    }

    /// Returns true if the program has ever had the slot. Always false in the default build.
    #[inline(always)]
    pub fn was_handed_out(&self, slot: SlotIndex) -> bool {
        self.slack(slot) != 0
    }

    /// Returns true if the heap at an address owns the slab, and no flag is set.
    #[inline(always)]
    pub fn is_owned_plainly(&self, heap: usize) -> bool {
        self.owner.load(Relaxed) == heap
    }

    /// Takes a slot back like `put`, if nothing else must be done and no slot beside it may be
    /// armed. Otherwise it does nothing, and returns false. Owner only. The slot is named by the
    /// sum of its number and the descriptor's address, because its state is at a fixed distance
    /// from there.
    ///
    /// # Safety
    /// 1. `entry` is the sum of this descriptor's address and of the number of a slot.
    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    pub unsafe fn put_plainly(&self, entry: usize) -> bool {
        let states = entry + core::mem::offset_of!(Slab, states);
        // SAFETY: duty 1: the slot's state, and the bytes beside it, as in `may_be_beside_armed`.
        let state = |at: usize| unsafe {
            &*core::ptr::with_exposed_provenance::<crate::sync::AtomicU8>(at)
        };
        // pairs: armed.
        let beside = state(states + 1).load(Acquire) | state(states - 1).load(Acquire);
        // SAFETY: (1) only the owner writes states and touches the credit, and the caller is the
        // owner.
        unsafe {
            if beside & super::states::ARMED_BIT != 0
                || state(states).settled() != QUARANTINED.bits()
                || self.credit.settled() <= 1
            {
                return false;
            }
            state(states).store(DIRTY.bits(), Relaxed);
            // A signal handler may have spent credit since. Then the next free finds the credit
            // spent.
            if crate::sync::decrement(&self.credit) == 0 {
                self.postpone();
            }
        }
        true
    }

    /// Returns false: states are not bytes of the descriptor here, or that is not checked.
    #[cfg(any(loom, miri))]
    pub unsafe fn put_plainly(&self, _entry: usize) -> bool {
        false
    }

    /// Returns true if the program has had the slot, and its pages were not given back since.
    /// Returns false in doubt.
    #[inline(always)]
    pub fn is_there(&self, slot: SlotIndex) -> bool {
        // One comparison with zero is enough. With NON_RESIDENT the number is negative; so is an
        // equally large slack of a medium slot.
        (self.own_slack(slot) as i16) > 0
    }

    /// Records which small slots of a new claim have lost their pages since the program had them.
    /// Called by the owner, before it hands them out.
    #[inline(always)]
    pub(super) fn note_non_resident(&self, group: usize, claim: u64) {
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
            let slot = SlotIndex::in_group(group, clean.trailing_zeros());
            // A slot that was never handed out shows that by its slack, which is zero.
            if self.was_handed_out(slot) {
                self.set_slack(slot, self.slack(slot) | usize::from(NON_RESIDENT));
            }
            clean &= clean - 1;
        }
    }

    /// Returns true if the program has freed the slot, and the slot is not free yet.
    pub fn is_quarantined(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).load(Relaxed) == QUARANTINED
    }

    /// Takes a live slot from the program, before it becomes free. Returns false if the slot is not
    /// live. Owner of the slab only.
    ///
    /// The thread that succeeds has the slot alone, unless another thread frees it at the same
    /// moment. The other thread usually finds out in `has_taken`. Otherwise the double free is
    /// reported when both leave their quarantines. An exchange would always find it, but it would
    /// cost every free as much as all of its checks.
    #[inline(always)]
    pub fn take_own(&self, slot: SlotIndex) -> bool {
        let state = self.state_of(slot);
        // SAFETY: (1) only the owner writes the state of a slot that the program has, and the
        // caller is the owner.
        let live = unsafe { state.settled() } == LIVE;
        if live {
            state.store(QUARANTINED, Relaxed);
        }
        live
    }

    /// Takes a live slot from the program, like `take_own`, but for any thread. `has_taken`
    /// follows.
    #[inline(always)]
    pub fn take_from_any_thread(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).exchange(LIVE, BEING_FREED, AcqRel, Relaxed)
    }

    /// Completes `take_from_any_thread`, after the thread has cleared the slot. Returns false if
    /// the slot's owner has freed it as well: the owner saw it live, and has overwritten the state
    /// since.
    #[inline(always)]
    pub fn has_taken(&self, slot: SlotIndex) -> bool {
        let state = self.state_of(slot);
        state.exchange(BEING_FREED, QUARANTINED, AcqRel, Relaxed)
    }
}

/// What the bytes of a slot must be, as far as is known at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCare {
    /// The program has this number of bytes. A canary is after them, or will be in a moment.
    Canary(usize),
    /// All bytes are zero: the program had the slot, and has freed it.
    Zero,
    /// The slot is reserved, and carries its pattern.
    Pattern,
    /// Nothing is known.
    Any,
}

impl Slab {
    /// Returns what can be verified of a slot at this moment. The slab has its pages. Any thread.
    pub fn care(&self, slot: SlotIndex) -> SlotCare {
        match self.state_of(slot).load(Acquire) {
            LIVE if !self.is_remote(slot) && self.was_handed_out(slot) => {
                SlotCare::Canary(self.block_bytes(slot))
            }
            ARMED => SlotCare::Pattern,
            _ if !WIPE => SlotCare::Any,
            // A slot that another thread has freed, and that has left its quarantine. A slot that
            // enters a quarantine may not be clear yet.
            QUARANTINED if self.is_remote(slot) => SlotCare::Zero,
            DIRTY | ZERO_CLEAN if self.was_handed_out(slot) => SlotCare::Zero,
            _ => SlotCare::Any,
        }
    }
}

#[cfg(all(test, feature = "secure-light", not(loom)))]
mod tests {
    use super::*;
    use crate::slab::SizeClass;
    use std::boxed::Box;
    extern crate std;

    fn slab() -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(1 << 30, 64 << 10, 64);
        slab.publish(1 << 20, slots);
        slab.all_slots().for_each(|slot| slab.state_of(slot).store(LIVE, Relaxed));
        slab
    }

    /// A claim of a small slab records for each slot if its pages were given back since the program
    /// had it. The size of the block stays known in both cases.
    #[test]
    fn a_claim_knows_whose_pages_have_gone() {
        let slab = slab();
        let slots = slab.slots();
        for slot in slab.all_slots() {
            let state = if slot.number() % 3 == 0 { DIRTY } else { ZERO_CLEAN };
            slab.state_of(slot).store(state, Relaxed);
            // Every fifth slot was never handed out.
            slab.set_slack(slot, if slot.number() % 5 == 0 { 0 } else { 14 });
        }
        slab.fresh.store(slots as u16, Relaxed);
        let mut seen = 0;
        while slab.refill(7 << 40, |_| {}) {
            let (group, claim) = (slab.claimed_group(), slab.claimed());
            let slots = (0..u64::BITS).filter(|bit| claim >> bit & 1 != 0);
            for slot in slots.clone().map(|bit| SlotIndex::in_group(group, bit)) {
                let had = !slot.number().is_multiple_of(5);
                let there = had && slot.number().is_multiple_of(3);
                assert_eq!(slab.is_there(slot), there, "{slot:?}");
                assert_eq!(slab.was_handed_out(slot), had, "{slot:?}");
                assert_eq!(slab.block_bytes(slot), if had { 50 } else { 64 }, "{slot:?}");
                seen += 1;
            }
            // Handing a slot out overwrites NON_RESIDENT.
            for slot in slots.map(|bit| SlotIndex::in_group(group, bit)) {
                slab.hand_out_any(slab.claimed() & !slot.bit(), slot);
                slab.set_slack(slot, 9);
                assert!(slab.is_there(slot));
            }
        }
        assert_eq!(seen, slots);
    }

    /// The slack of a medium slot may be as large as its word allows.
    #[test]
    fn large_slacks_are_as_they_were_set() {
        let slab = Box::new(Slab::zeroed());
        let class = SizeClass::of(96 << 10).unwrap();
        let slots = slab.open_for_test(1 << 30, 1 << 20, class.size());
        slab.publish(1 << 20, slots);
        for slack in [1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
            let slot = SlotIndex::new(2);
            slab.set_slack(slot, slack);
            assert_eq!(slab.block_bytes(slot), slab.size() - slack);
            assert!(slab.was_handed_out(slot));
        }
    }

    /// The owner sees the slot live, another thread takes it, and then the owner overwrites the
    /// state.
    #[test]
    fn whoever_frees_what_its_owner_frees_at_the_same_moment_finds_out() {
        let slab = slab();
        let [first, second, third] = [3, 4, 5].map(SlotIndex::new);
        assert!(slab.take_from_any_thread(first));
        assert!(
            !slab.take_own(first)
                && !slab.take_from_any_thread(first)
                && !slab.free_permanently(first)
        );
        slab.state_of(first).store(QUARANTINED, Relaxed);
        assert!(!slab.has_taken(first));
        // No other thread frees this one.
        assert!(
            slab.take_from_any_thread(second)
                && slab.has_taken(second)
                && slab.is_quarantined(second)
        );
        assert!(
            slab.take_own(third) && !slab.take_from_any_thread(third) && slab.is_quarantined(third)
        );
    }
}
