//! Gives back pages of free slots without help from their owner. The slots are *held*, out of
//! malloc's reach, while their pages are given back.
//!
//! ```text
//! hold      owner |= HOLDING;  free slot: state |= HELD;  remote slot: take its bit, REMOTE_HELD
//!           a barrier that every thread passes
//! settle    slots that the owner has claimed meanwhile are released; all, if the owner is busy
//!           the pages of what is still held are discarded
//! finish    states say what is zero now;  remote bits are set again
//! a barrier
//! leave     the owner is notified of what it has overlooked meanwhile;  owner &= !HOLDING
//! ```
//!
//! Why no block is lost. The owner claims slots under its heap's reentrancy guard, and reads their
//! states after it has set the word `busy`. So when every thread has passed the barrier, there are
//! three cases:
//!
//! - The owner will see HELD, which is odd like LIVE, and will skip the slot.
//! - The owner is still `busy`, and all slots are released.
//! - The owner is not `busy` any more, and its claim can be seen.
//!
//! Malloc writes LIVE (BEING_MADE in the secure build) before it takes the slot off the claim. So
//! at every moment the state or the claim shows that the slot is not free. A slab whose owner word
//! has a flag cannot change owner. A remote slot's bit is taken by one atomic operation, as the
//! owner takes it. The thread that takes the bit has the slot alone.

use super::slab::{HOLDING, PENDING, Slab, view};
use super::slots::SlotIndex;
use super::states::{
    ARMED, DIRTY, DIRTY_FRESH, GUARD_PAGE, HELD, LEFT, PERMANENTLY_FREED, REMOTE_CLEAN,
    REMOTE_HELD, RESERVED, SOILED, TAKEN, ZERO_CLEAN, ZERO_FRESH,
};
use crate::policy::{CHECK_PAGES, SECURE};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

view! {
    /// The steps of a thread that holds slots of a slab: the reclaimer, or the compacting thread.
    Pinning, pinning
}

impl Pinning<'_> {
    /// Takes slots out of malloc's reach that fill whole pages, of which some byte may not be zero.
    /// Claimed slots stay within its reach. Returns true if slots are held. One thread at a time,
    /// without the owner's help.
    pub fn hold(&self, page: usize) -> bool {
        self.note_discard(self.freed_so_far());
        // Most slabs have too few free bytes for a single page. A count shows that, and then a scan
        // that writes nothing.
        let free = self.slots() as u32 - self.held() + self.remote.count() as u32;
        let mut any = false;
        if free as usize * self.size() >= page {
            self.spare_runs(page, self.claim_and_group(), |_, _| any = true);
        }
        if !any || self.is_shared() {
            return false;
        }
        if !self.set_holding() {
            self.search_again();
            return false;
        }
        any = false;
        if !self.is_dormant() {
            self.spare_runs(page, self.claim_and_group(), |(first, end), (start, stop)| {
                for slot in SlotIndex::range(first..end) {
                    let begin = slot.begin(self.size());
                    if begin < stop && begin + self.size() > start {
                        any |= self.hold_slot(slot);
                    }
                }
            });
        }
        if !any {
            self.leave();
        }
        any
    }

    /// Takes hold of the slab without holding a slot. If its owner is quiet after a barrier, and
    /// the slab is not dormant, its pages then stay mapped until `leave`. Returns false if the slab
    /// cannot be held.
    pub fn engage(&self) -> bool {
        !self.is_shared() && self.set_holding()
    }

    /// Calls `each` for the runs of slots that are free and not claimed, or freed by other threads.
    fn spare_runs(
        &self,
        page: usize,
        claim: (usize, u64),
        each: impl FnMut((usize, usize), (usize, usize)),
    ) {
        self.pages().runs(page, |slot| self.is_spare(slot, claim), each);
    }

    /// Returns `Some` if a slot is free and not claimed, or freed by another thread. The value is
    /// true if the slot may not be zero.
    fn is_spare(&self, slot: SlotIndex, (group, claim): (usize, u64)) -> Option<bool> {
        match self.states.of(slot).load(Acquire) {
            LEFT => self.remote.has(slot).then_some(true),
            REMOTE_CLEAN => Some(false),
            // A run may include guard pages, slots that were freed permanently, and reserved slots.
            GUARD_PAGE | RESERVED if SECURE => Some(false),
            ARMED if SECURE => Some(true),
            PERMANENTLY_FREED => Some(false),
            state if !state.has(TAKEN) => {
                let claimed = slot.group() == group && claim & slot.bit() != 0;
                (!claimed).then_some(state.has(SOILED))
            }
            _ => None,
        }
    }

    pub(super) fn hold_slot(&self, slot: SlotIndex) -> bool {
        let state = self.states.of(slot);
        let seen = state.load(Acquire);
        if !seen.has(TAKEN) || SECURE && (seen == RESERVED || seen == ARMED) {
            return state.exchange(seen, seen.with(HELD), AcqRel, Relaxed);
        }
        if seen != LEFT && seen != REMOTE_CLEAN || !self.remote.take(slot) {
            return false;
        }
        // Now only this thread has the slot, unless the program frees it a second time. Then its
        // bit is set again, and the owner reports it.
        let seen = state.load(Acquire);
        let held = (seen == LEFT || seen == REMOTE_CLEAN)
            && state.exchange(seen, REMOTE_HELD, AcqRel, Relaxed);
        if !held {
            self.remote.set(slot);
        }
        true
    }

    /// Releases the held slots that malloc may have seen free, after the barrier. If the owner is
    /// not `quiet`, these are all held free slots.
    pub fn settle(&self, quiet: bool) {
        let keep = quiet && !self.is_dormant();
        if !keep {
            self.search_again();
        }
        let (group, claim) = self.claim_and_group();
        for slot in self.all_slots() {
            let claimed = slot.group() == group && claim & slot.bit() != 0;
            if !keep || claimed {
                self.unhold_free(slot, false);
            }
        }
    }

    /// Calls `each` with the address and length of each range of pages to discard.
    pub fn held_pages(&self, page: usize, mut each: impl FnMut(usize, usize)) {
        self.held_runs(page, |_, (start, stop)| each(self.base() + start, stop - start));
    }

    fn held_runs(&self, page: usize, each: impl FnMut((usize, usize), (usize, usize))) {
        self.pages().runs(page, |slot| self.is_held(slot), each);
    }

    fn is_held(&self, slot: SlotIndex) -> Option<bool> {
        match self.states.of(slot).load(Acquire) {
            REMOTE_HELD => Some(true),
            GUARD_PAGE if SECURE => Some(false),
            PERMANENTLY_FREED => Some(false),
            state if state.has(HELD) => Some(state.has(SOILED)),
            _ => None,
        }
    }

    /// Releases all held slots. `gone` is true if the pages that `held_pages` named were discarded.
    /// Returns a slot that other threads have freed twice, if there is one.
    pub fn finish(&self, page: usize, gone: bool) -> Option<SlotIndex> {
        let mut twice = None;
        if gone {
            self.held_runs(page, |(first, end), (start, stop)| {
                for slot in SlotIndex::range(first..end) {
                    let begin = slot.begin(self.size());
                    if begin >= start && begin + self.size() <= stop {
                        twice = self.let_go(slot, true).or(twice);
                    }
                }
            });
        }
        let twice = self.let_go_all().or(twice);
        self.limit_count().is_not_counted();
        twice
    }

    /// Releases a held slot. Returns it if other threads have freed it twice.
    fn let_go(&self, slot: SlotIndex, zero: bool) -> Option<SlotIndex> {
        self.unhold_free(slot, zero);
        (self.unhold_remote(slot, zero) == Some(false)).then_some(slot)
    }

    pub(super) fn unhold_free(&self, slot: SlotIndex, zero: bool) {
        let state = self.states.of(slot);
        let held = state.load(Acquire);
        if !held.has(HELD) {
            return;
        }
        if SECURE && held.has(RESERVED) {
            // No other thread writes this state. A part of the slot's pages may have been
            // discarded, so malloc arms the slot again when it next passes.
            return state.store(RESERVED, Release);
        }
        let free = match held.without(HELD) {
            DIRTY if zero => ZERO_CLEAN,
            DIRTY_FRESH if zero => ZERO_FRESH,
            free => free,
        };
        // The exchange fails if malloc hands out a slot that it had claimed before it could see
        // HELD.
        let _ = state.exchange(held, free, AcqRel, Relaxed);
    }

    /// Releases a held slot that another thread has freed. Returns true if no other thread has
    /// freed it again meanwhile, and `None` if it was not held.
    fn unhold_remote(&self, slot: SlotIndex, zero: bool) -> Option<bool> {
        let state = self.states.of(slot);
        if state.load(Acquire) != REMOTE_HELD {
            return None;
        }
        // No other thread writes this state, because all others treat the slot as not live.
        state.store(if zero { REMOTE_CLEAN } else { LEFT }, Release);
        Some(self.remote.set(slot))
    }

    /// Returns true if the owner must be notified to collect. Called after another barrier. There
    /// are three cases:
    ///
    /// - The owner is `busy`, so it may have read states of held slots, and count too little room.
    /// - The slab is on no list and has more room than its credit says, for the same reason.
    /// - The slab has remote slots or is `disturbed`, and the owner was not notified since.
    ///
    /// In the first two cases the slab becomes `disturbed`.
    pub fn is_overlooked(&self, busy: bool) -> bool {
        if busy || self.is_behind() {
            self.disturbed.store(1, Release);
            return true;
        }
        self.owner.load(SeqCst) & PENDING == 0
            && (self.disturbed.load(Relaxed) != 0 || self.remote.count() != 0)
    }

    /// Lets the slab change owner again.
    pub fn leave(&self) {
        self.clear_owner_flag(HOLDING);
    }

    /// Releases the held slots on pages where something was written. These pages stay, so that
    /// malloc finds the write. Returns a slot that other threads have freed twice, if there is one.
    ///
    /// Called after the barrier and `settle`. Before, the owner may be unmapping the slab.
    pub fn keep_written(&self, page: usize) -> Option<SlotIndex> {
        let (mut twice, size) = (None, self.size());
        if CHECK_PAGES {
            self.held_runs(page, |(first, end), (start, stop)| {
                if !self.pages().is_written((start, stop)) {
                    return;
                }
                for slot in SlotIndex::range(first..end)
                    .filter(|slot| slot.begin(size) < stop && slot.end(size) > start)
                {
                    twice = self.let_go(slot, false).or(twice);
                }
            });
        }
        twice
    }

    /// Takes all free slots out of malloc's reach, including those that other threads have freed.
    /// Returns false if the slab cannot be held.
    pub fn hold_all(&self) -> bool {
        if self.is_dormant() || !self.set_holding() {
            return false;
        }
        let claim = self.claim_and_group();
        for slot in self.all_slots().filter(|&slot| self.is_spare(slot, claim).is_some()) {
            self.hold_slot(slot);
        }
        true
    }

    /// Releases all slots that are still held after `settle`. Returns a slot that other threads
    /// have freed twice, if there is one.
    pub fn let_go_all(&self) -> Option<SlotIndex> {
        self.all_slots().fold(None, |twice, slot| self.let_go(slot, false).or(twice))
    }

    /// Releases all held slots in the child of a fork, which does not have the thread that held
    /// them.
    pub fn unhold_after_fork(&self) {
        self.let_go_all();
        self.disturbed.store(1, Relaxed);
        self.scan_again();
        self.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::memory::slab_memory;
    use crate::slab::states::LIVE;
    use crate::slab::{GROUP_SLOTS, SizeClass};
    use std::boxed::Box;
    extern crate std;

    /// Half a page is a slot of 256 bytes, so that a slab has the most slots.
    const PAGE: usize = 512;
    /// The address of a heap.
    const OWNER: usize = 1 << 20;

    /// Returns a slab of 256 slots of half a page. The first is live, and the others were freed.
    fn slab() -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let class = SizeClass::of(256).unwrap();
        let slots = slab.open_for_test(slab_memory(), class.size());
        slab.publish(OWNER, slots);
        for slot in slab.all_slots() {
            slab.states.of(slot).store(if slot.number() == 0 { LIVE } else { DIRTY }, Relaxed);
        }
        slab.fresh.store(slots as u16, Relaxed);
        slab
    }

    fn named(slab: &Slab) -> usize {
        let mut bytes = 0;
        slab.pinning().held_pages(PAGE, |_, length| bytes += length);
        bytes
    }

    /// The owner sees free slots, the reclaimer holds them, and then the owner claims them. The
    /// owner is not busy any more when the reclaimer checks.
    #[test]
    fn what_was_claimed_before_the_barrier_is_let_go_of() {
        let slab = slab();
        assert!(slab.pinning().hold(PAGE));
        let all = named(&slab);
        assert_eq!(all, 255 / 2 * PAGE);
        let states = slab.states.address();
        slab.claim_states.store(states + GROUP_SLOTS, Relaxed);
        slab.claim.store(0xFF, Relaxed);
        slab.pinning().settle(true);
        assert_eq!(named(&slab), all - 4 * PAGE);
        // The owner hands one out meanwhile.
        slab.hand_out(slab.claimed());
        assert_eq!(slab.pinning().finish(PAGE, true), None);
        slab.pinning().leave();
        for slot in SlotIndex::range(GROUP_SLOTS..GROUP_SLOTS + 8) {
            let expected = if slot.number() == GROUP_SLOTS { LIVE } else { DIRTY };
            assert_eq!(slab.states.of(slot).load(Relaxed), expected, "{slot:?}");
        }
        assert_eq!(slab.states.of(SlotIndex::new(100)).load(Relaxed), ZERO_CLEAN);
    }

    /// While the reclaimer is at a slab, its claim is never empty, not even for a moment. A slot
    /// that is held is not claimed.
    #[test]
    fn no_slot_is_put_in_front_of_the_claim_while_slots_are_held() {
        let (slab, slot) = (slab(), SlotIndex::new(7));
        slab.claim_states.store(slab.states.address(), Relaxed);
        slab.claim.store(1 << 40, Relaxed);
        assert!(slab.pinning().hold(PAGE));
        for held in [true, false] {
            slab.states.of(slot).store(if held { DIRTY.with(HELD) } else { DIRTY }, Relaxed);
            slab.claim_freed(slot, || panic!("the claim is being changed"));
        }
        assert_eq!(slab.claimed(), 1 << 40);
        slab.pinning().finish(PAGE, false);
        slab.pinning().leave();
        // A signal handler has allocated the slot since it was freed.
        slab.states.of(slot).store(LIVE, Relaxed);
        slab.claim_freed(slot, || panic!("a live slot is claimed"));
        slab.states.of(slot).store(DIRTY, Relaxed);
        slab.claim_freed(slot, || {});
        assert_eq!(slab.claimed(), 1 << 40 | 1 << 7);
    }

    /// A slab with so few slots that one free is enough to list it. Its owner reads the states
    /// while all slots are held, and no live slot is left whose free would list the slab again.
    #[test]
    fn an_empty_slab_on_no_list_is_overlooked() {
        let slab = Box::new(Slab::zeroed());
        let class = SizeClass::of(128 << 10).unwrap();
        let slots = slab.open_for_test(slab_memory(), class.size());
        slab.publish(OWNER, slots);
        slab.all_slots().for_each(|slot| slab.states.of(slot).store(DIRTY, Relaxed));
        slab.fresh.store(slots as u16, Relaxed);
        slab.relist();
        assert_eq!((slots, slab.threshold()), (4, 1));
        assert!(slab.pinning().hold(PAGE) && !slab.refill(0, |_| {}));
        slab.unlist();
        slab.pinning().settle(true);
        slab.pinning().finish(PAGE, true);
        assert!(slab.pinning().is_overlooked(false));
        slab.pinning().leave();
        assert!(matches!(slab.collect(|_| {}), (_, crate::slab::Spent::List(_))));
        // A listed slab is not behind, and neither is a slab without room.
        slab.relist();
        assert!(!slab.is_behind());
        slab.all_slots().for_each(|slot| slab.states.of(slot).store(LIVE, Relaxed));
        slab.unlist();
        assert!(!slab.is_behind());
    }

    /// A sweep that finds nothing to discard has skipped the slots that were claimed then.
    #[test]
    fn a_slab_that_loses_its_claim_is_scanned_again() {
        use crate::slab::SlabActivity;
        let slab = slab();
        slab.pages().discard(PAGE, |_, _| true);
        slab.scan_activity(|| false);
        slab.limit_count().note_count();
        assert!(
            slab.scan_activity(|| false) == SlabActivity::Discarded
                && slab.limit_count().is_counted()
        );
        slab.unclaim();
        assert!(
            slab.scan_activity(|| false) == SlabActivity::Discarded
                && slab.limit_count().is_counted(),
            "it had none"
        );
        slab.claim.store(1 << 40, Relaxed);
        slab.unclaim();
        assert!(
            slab.scan_activity(|| false) == SlabActivity::Idle && !slab.limit_count().is_counted()
        );
    }

    /// A slab that holds slots cannot change owner. A slab that holds none can.
    #[test]
    fn what_is_held_stays_with_its_owner() {
        let slab = slab();
        assert!(slab.pinning().hold(PAGE) && slab.is_being_held());
        assert!(!slab.pinning().hold(PAGE), "one at a time");
        assert!(!slab.change_owner(OWNER, 2 * OWNER));
        slab.pinning().settle(false);
        assert_eq!(named(&slab), 0);
        slab.pinning().finish(PAGE, false);
        slab.pinning().leave();
        assert!(slab.change_owner(OWNER, 0));
        assert!(!slab.pinning().hold(PAGE), "it has no owner");
    }
}
