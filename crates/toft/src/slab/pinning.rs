//! Giving back pages of free slots without their owner's help: the slots are *held*, out of
//! malloc's reach, while their pages go.
//!
//! ```text
//! hold      owner |= HOLDING;  free slot: its state |= HELD;  remote slot: its bit is taken, REMOTE_HELD
//!           a barrier that every thread passes
//! settle    the owner is in the middle of something, or has claimed a slot meanwhile: let go of it
//!           the pages of what is still held are discarded
//! finish    states say what is zero now;  remote bits are set again
//! a barrier
//! leave     what the owner has overlooked meanwhile it is told of;  owner &= !HOLDING
//! ```
//!
//! Why no block is lost. The owner claims slots under its heap's seat, and reads their states after
//! it has said `busy`. So when every thread has passed the barrier, there are three cases. The
//! owner will see HELD, which is odd as LIVE is, and pass the slot by. Or it is still `busy`, and
//! everything is let go of. Or it is not any more, and what it has claimed can be seen. Malloc
//! writes LIVE before it takes the slot off the claim, so at every moment one of the two shows that
//! the slot is not free. A slab whose owner word has a flag changes hands by no way. A remote
//! slot's bit is taken by one atomic, as the owner takes it: the thread that has it, alone has the
//! slot.

use super::slab::{FLAGS, GROUP_SLOTS, HOLDING, PENDING, SHARED, Slab};
use super::states::{
    ARMED, DIRTY, DIRTY_FRESH, GONE, HELD, LEFT, REMOTE_CLEAN, REMOTE_HELD, RESERVED, SOILED,
    TAKEN, WALL, ZERO_CLEAN, ZERO_FRESH,
};
use crate::policy::HARDENED;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

impl Slab {
    /// Takes slots out of malloc's reach that fill whole pages of which some byte may not be zero.
    /// Whether there are any; or, where pages of what is `claimed` are to go as well
    /// (`keeper/discard.rs`), may be. One thread at a time; not the owner's business.
    pub fn hold(&self, page: usize, claimed: bool) -> bool {
        self.tidy_at.store(self.freed_so_far(), Relaxed);
        self.unused_at.store(self.claim_mark(), Relaxed);
        // Most slabs have too little for a single page: counting shows that, and a scan that writes
        // nothing.
        let free = self.slots() as u32 - self.held() + self.remote_slots() as u32;
        let mut any = false;
        if free as usize * self.size() >= page {
            let claim = if claimed { (0, 0) } else { self.claim_and_group() };
            self.spare_runs(page, claim, |_, _| any = true);
        }
        if !any {
            return false;
        }
        let owner = self.owner.load(Relaxed);
        if owner & SHARED != 0 {
            return false;
        }
        if owner & !FLAGS == 0
            || owner & HOLDING != 0
            || self.owner.compare_exchange(owner, owner | HOLDING, AcqRel, Relaxed).is_err()
        {
            self.tidy_at.store(0, Relaxed);
            return false;
        }
        any = false;
        if !self.is_dormant() {
            self.spare_runs(page, self.claim_and_group(), |(first, end), (start, stop)| {
                for slot in first..end {
                    let begin = slot * self.size();
                    if begin < stop && begin + self.size() > start {
                        any |= self.hold_slot(slot);
                    }
                }
            });
        }
        if claimed && self.claimed() != 0 {
            any = true;
            // Until they have gone.
            self.unused_at.store(0, Relaxed);
        }
        if !any {
            self.clear_owner_flag(HOLDING);
        }
        any
    }

    /// Runs of slots that are free, but for those that are claimed, or freed by other threads.
    fn spare_runs(
        &self,
        page: usize,
        claim: (usize, u64),
        each: impl FnMut((usize, usize), (usize, usize)),
    ) {
        self.runs(page, |slot| self.is_spare(slot, claim), each);
    }

    /// Whether slots of the slab may be held, so that its pages must stay mapped. Asked by its
    /// holder with the seat: where the reclaimer comes later, it finds the holder busy, or what it
    /// has done.
    pub fn is_being_held(&self) -> bool {
        self.owner.load(Relaxed) & HOLDING != 0
    }

    /// Whether a slot is free and not claimed, or freed by another thread; and if so, whether it
    /// may be other than zero.
    pub(super) fn is_spare(&self, slot: usize, (group, claim): (usize, u64)) -> Option<bool> {
        match self.state_of(slot).load(Acquire) {
            LEFT => self.is_remote(slot).then_some(true),
            REMOTE_CLEAN => Some(false),
            // What lies around a wall may go together, and around what is gone for good, and what
            // is reserved with it.
            WALL | RESERVED if HARDENED => Some(false),
            ARMED if HARDENED => Some(true),
            GONE => Some(false),
            state if state & TAKEN == 0 => {
                let claimed = slot / GROUP_SLOTS == group && claim >> (slot % GROUP_SLOTS) & 1 != 0;
                (!claimed).then_some(state & SOILED != 0)
            }
            _ => None,
        }
    }

    pub(super) fn claim_and_group(&self) -> (usize, u64) {
        // In this order: of a claim that changes in between nothing is believed anyway, because its
        // owner is busy or will be seen to have claimed.
        let group = self.claimed_group();
        // pairs: hand out. Who does not see a slot on the claim any more sees that it is live.
        (group, self.claim.load(Acquire))
    }

    /// A number that differs, but for rare accidents, after a new claim. Not zero where anything is
    /// claimed.
    pub(super) fn claim_mark(&self) -> u16 {
        let (group, claim) = self.claim_and_group();
        let mixed = claim.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(group as u32);
        (mixed >> 48) as u16 | u16::from(claim != 0)
    }

    pub(super) fn hold_slot(&self, slot: usize) -> bool {
        let state = self.state_of(slot);
        let seen = state.load(Acquire);
        if seen & TAKEN == 0 || HARDENED && (seen == RESERVED || seen == ARMED) {
            return state.compare_exchange(seen, seen | HELD, AcqRel, Relaxed).is_ok();
        }
        if seen != LEFT && seen != REMOTE_CLEAN || !self.take_remote(slot) {
            return false;
        }
        // Now the slot is ours alone, unless the program frees it a second time: then its bit says
        // so again, and the owner will name it.
        let seen = state.load(Acquire);
        let held = (seen == LEFT || seen == REMOTE_CLEAN)
            && state.compare_exchange(seen, REMOTE_HELD, AcqRel, Relaxed).is_ok();
        if !held {
            self.set_remote(slot);
        }
        true
    }

    /// After the barrier: lets go of the free slots that malloc may have seen, which are all where
    /// the owner is not `quiet`.
    pub fn settle(&self, quiet: bool) {
        let keep = quiet && !self.is_dormant();
        if !keep {
            self.tidy_at.store(0, Relaxed);
        }
        let (group, claim) = self.claim_and_group();
        for slot in 0..self.slots() {
            let claimed = slot / GROUP_SLOTS == group && claim >> (slot % GROUP_SLOTS) & 1 != 0;
            if !keep || claimed {
                self.let_go_free(slot, false);
            }
        }
    }

    /// The pages to discard, each range by its address and length.
    pub fn held_pages(&self, page: usize, mut each: impl FnMut(usize, usize)) {
        self.runs(
            page,
            |slot| self.is_held(slot),
            |_, (start, stop)| {
                each(self.base() + start, stop - start);
            },
        );
    }

    pub(super) fn is_held(&self, slot: usize) -> Option<bool> {
        match self.state_of(slot).load(Acquire) {
            REMOTE_HELD => Some(true),
            WALL if HARDENED => Some(false),
            GONE => Some(false),
            state if state & HELD == HELD => Some(state & SOILED != 0),
            _ => None,
        }
    }

    /// Lets go of everything; the pages that `held_pages` has named are `gone`, or are not. Says
    /// which slot another thread has freed that was freed already, if any was.
    pub fn finish(&self, page: usize, gone: bool) -> Option<usize> {
        let mut twice = None;
        let mut let_go = |slot, zero| {
            self.let_go_free(slot, zero);
            if self.let_go_remote(slot, zero) == Some(false) {
                twice = Some(slot);
            }
        };
        if gone {
            self.runs(
                page,
                |slot| self.is_held(slot),
                |(first, end), (start, stop)| {
                    for slot in first..end {
                        let begin = slot * self.size();
                        if begin >= start && begin + self.size() <= stop {
                            let_go(slot, true);
                        }
                    }
                },
            );
        }
        (0..self.slots()).for_each(|slot| let_go(slot, false));
        self.is_not_counted();
        twice
    }

    pub(super) fn let_go_free(&self, slot: usize, zero: bool) {
        let state = self.state_of(slot);
        let held = state.load(Acquire);
        if held & HELD != HELD {
            return;
        }
        if HARDENED && held & RESERVED == RESERVED {
            // No other thread writes it. A part of its pages may have gone: it is armed again when
            // malloc comes by.
            return state.store(RESERVED, Release);
        }
        let free = match held & !HELD {
            DIRTY if zero => ZERO_CLEAN,
            DIRTY_FRESH if zero => ZERO_FRESH,
            free => free,
        };
        // It fails where malloc hands out what it had claimed before it could know.
        let _ = state.compare_exchange(held, free, AcqRel, Relaxed);
    }

    /// Returns true if no other thread has freed the slot meanwhile; `None` if it was not held.
    pub(super) fn let_go_remote(&self, slot: usize, zero: bool) -> Option<bool> {
        let state = self.state_of(slot);
        if state.load(Acquire) != REMOTE_HELD {
            return None;
        }
        // No other thread writes it: to every other thread a slot in this state is not live.
        state.store(if zero { REMOTE_CLEAN } else { LEFT }, Release);
        Some(self.set_remote(slot))
    }

    /// After another barrier: returns true if the owner must be told to collect. Either there are
    /// remote slots of which it has not been told since they were held, or the slab is `disturbed`.
    /// Or it is on no list and has more room than its credit says, or will have when what its owner
    /// is `busy` with is done: the owner read it while that was held.
    pub fn is_overlooked(&self, busy: bool) -> bool {
        if busy || self.is_behind() {
            self.disturbed.store(1, Release);
            return true;
        }
        self.owner.load(SeqCst) & PENDING == 0
            && (self.disturbed.load(Relaxed) != 0 || self.remote_slots() != 0)
    }

    /// The slab may change hands again.
    pub fn leave(&self) {
        self.clear_owner_flag(HOLDING);
    }

    /// In the child of a fork: the thread that held slots is no more.
    pub fn let_go_after_fork(&self) {
        for slot in 0..self.slots() {
            self.let_go_free(slot, false);
            self.let_go_remote(slot, false);
        }
        self.disturbed.store(1, Relaxed);
        self.tidy_at.store(0, Relaxed);
        self.is_not_counted();
        self.leave();
    }

    fn take_remote(&self, slot: usize) -> bool {
        let bit = 1u64 << (slot % GROUP_SLOTS);
        // pairs: remote bit.
        self.remote_word(slot / GROUP_SLOTS).fetch_and(!bit, SeqCst) & bit != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::Class;
    use crate::slab::memory::slab_memory;
    use crate::slab::states::LIVE;
    use std::boxed::Box;
    extern crate std;

    const PAGE: usize = 4096;
    /// The address of some heap.
    const OWNER: usize = 1 << 20;

    /// A slab of 256 slots of half a page: the first is live, the others were freed.
    fn slab() -> Box<Slab> {
        let slab = Box::new(Slab::nothing());
        let class = Class::of(2048).unwrap();
        let slots = slab.open(slab_memory(), 512 << 10, class, 0, 0);
        slab.publish(OWNER, slots);
        for slot in 0..slots {
            slab.state_of(slot).store(if slot == 0 { LIVE } else { DIRTY }, Relaxed);
        }
        slab.fresh.store(slots as u16, Relaxed);
        slab
    }

    fn named(slab: &Slab) -> usize {
        let mut bytes = 0;
        slab.held_pages(PAGE, |_, length| bytes += length);
        bytes
    }

    /// The owner has seen slots free, they are held, and then it claims them: it was quick, and is
    /// not busy any more when it is looked at.
    #[test]
    fn what_was_claimed_before_the_barrier_is_let_go_of() {
        let slab = slab();
        assert!(slab.hold(PAGE, true));
        let all = named(&slab);
        assert_eq!(all, 255 / 2 * PAGE);
        let states = slab.states.0.as_ptr().expose_provenance();
        slab.claim_states.store(states + GROUP_SLOTS, Relaxed);
        slab.claim.store(0xFF, Relaxed);
        slab.settle(true);
        assert_eq!(named(&slab), all - 4 * PAGE);
        // It hands one out, and frees another, in the meantime.
        slab.hand_out(slab.claimed());
        assert_eq!(slab.finish(PAGE, true), None);
        slab.leave();
        for slot in GROUP_SLOTS..GROUP_SLOTS + 8 {
            let expected = if slot == GROUP_SLOTS { LIVE } else { DIRTY };
            assert_eq!(slab.state_of(slot).load(Relaxed), expected, "{slot}");
        }
        assert_eq!(slab.state_of(100).load(Relaxed), ZERO_CLEAN);
    }

    /// While the reclaimer is at a slab, its claim is not taken away, not even for a moment; a slot
    /// that is held is not claimed.
    #[test]
    fn no_slot_is_put_in_front_of_the_claim_while_slots_are_held() {
        let slab = slab();
        slab.claim_states.store(slab.states.0.as_ptr().expose_provenance(), Relaxed);
        slab.claim.store(1 << 40, Relaxed);
        assert!(slab.hold(PAGE, true));
        for held in [true, false] {
            slab.state_of(7).store(if held { DIRTY | HELD } else { DIRTY }, Relaxed);
            slab.claim_freed(7, || panic!("the claim is being changed"));
        }
        assert_eq!(slab.claimed(), 1 << 40);
        slab.finish(PAGE, false);
        slab.leave();
        // A signal handler has got it since it was freed.
        slab.state_of(7).store(LIVE, Relaxed);
        slab.claim_freed(7, || panic!("a live slot is claimed"));
        slab.state_of(7).store(DIRTY, Relaxed);
        slab.claim_freed(7, || {});
        assert_eq!(slab.claimed(), 1 << 40 | 1 << 7);
    }

    /// A slab of so few slots that one free is enough for it to be listed: its owner has looked
    /// while all were held, and there is no live slot whose free would list it again.
    #[test]
    fn an_empty_slab_on_no_list_is_overlooked() {
        let slab = Box::new(Slab::nothing());
        let class = Class::of(128 << 10).unwrap();
        let slots = slab.open(slab_memory(), 512 << 10, class, 0, 0);
        slab.publish(OWNER, slots);
        (0..slots).for_each(|slot| slab.state_of(slot).store(DIRTY, Relaxed));
        slab.fresh.store(slots as u16, Relaxed);
        slab.relist();
        assert_eq!((slots, slab.threshold()), (4, 1));
        assert!(slab.hold(PAGE, true) && !slab.refill(0, |_| {}));
        slab.unlist();
        slab.settle(true);
        slab.finish(PAGE, true);
        assert!(slab.is_overlooked(false));
        slab.leave();
        assert_eq!(slab.collect(|_| {}), crate::slab::Spent::List);
        // What is listed knows of its room, and what has none has none to know of.
        slab.relist();
        assert!(!slab.is_behind());
        (0..slots).for_each(|slot| slab.state_of(slot).store(LIVE, Relaxed));
        slab.unlist();
        assert!(!slab.is_behind());
    }

    /// What was claimed when a sweep called the slab tidy, that sweep has passed by.
    #[test]
    fn a_slab_that_loses_its_claim_is_not_tidy() {
        use crate::slab::Look;
        let slab = slab();
        slab.give_back_pages(PAGE, |_, _| true);
        slab.look(|| false);
        slab.note_count();
        assert!(slab.look(|| false) == Look::Tidy && slab.is_counted());
        slab.unclaim();
        assert!(slab.look(|| false) == Look::Tidy && slab.is_counted(), "it had none");
        slab.claim.store(1 << 40, Relaxed);
        slab.unclaim();
        assert!(slab.look(|| false) == Look::Idle && !slab.is_counted());
    }

    /// A slab that holds nothing can change hands; one that holds something cannot.
    #[test]
    fn what_is_held_stays_with_its_owner() {
        let slab = slab();
        assert!(slab.hold(PAGE, true) && slab.is_being_held());
        assert!(!slab.hold(PAGE, true), "one at a time");
        assert!(!slab.change_owner(OWNER, 2 * OWNER));
        slab.settle(false);
        assert_eq!(named(&slab), 0);
        slab.finish(PAGE, false);
        slab.leave();
        assert!(slab.change_owner(OWNER, 0));
        assert!(!slab.hold(PAGE, true), "nobody's");
    }
}
