//! The credit of a slab: a counter of frees that reaches zero when the slab must be listed again,
//! or may be empty. It costs free one instruction, which decrements it in place.

use super::slab::{AWAKE, DORMANT, GROUP_SLOTS, GROUPS, OUTGROWN, REPLACED, SLOTS_MAX, Slab};
use super::slots::SlotIndex;
use super::states::{
    ARMED, DIRTY, DIRTY_FRESH, LEFT, REMOTE_CLEAN, RESERVED, ZERO_CLEAN, ZERO_FRESH,
};
use crate::policy::SECURE;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// The minimum credit of a listed slab that was found not empty, as a multiple of its slots. A slab
/// with few blocks then does not ask at every free.
const LISTED_MIN: u32 = 2;
/// The share of its slots that must be free, as a shift, before a full slab is listed again. With a
/// smaller share, every free and every malloc of a steady program would change a list. Law 4 counts
/// with this slack (decision 0003).
const RELIST_SHIFT: u32 = 2;

/// What to do with a slab whose credit is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing.
    Nothing,
    /// The slab must be put on its bin's list. It has this number of live slots.
    List(u32),
    /// No slot is live.
    Empty,
}

impl Slab {
    pub(super) fn set_credit(&self, credit: u32) {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        self.frees.store(self.frees.load(Relaxed) + u64::from(spent), Relaxed);
        self.credit_start.store(credit, Relaxed);
        self.credit.store(credit, Relaxed);
    }

    pub(super) fn threshold(&self) -> u32 {
        (self.slots() as u32 >> RELIST_SHIFT).max(1)
    }

    /// Marks a slab that has no free slot left as unlisted. It is listed again after `threshold`
    /// frees.
    pub fn unlist(&self) {
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(self.threshold());
    }

    /// Marks a slab with too few free slots to be listed as unlisted, and returns true. It is
    /// listed again when it has enough.
    pub fn leave_list(&self) -> bool {
        let missing = self.shortfall();
        if missing == 0 {
            return false;
        }
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(missing);
        true
    }

    /// Returns the number of frees until the slab reaches the threshold for being listed.
    fn shortfall(&self) -> u32 {
        let free = self.slots() as u32 - self.held() - self.lent();
        self.threshold().saturating_sub(free)
    }

    /// Returns the credit of a slab that is rightly on no list: its `shortfall`, and at least one
    /// (I6).
    pub(super) fn missing(&self) -> u32 {
        self.shortfall().max(1)
    }

    /// Returns true if a slab that is on no list waits for more frees than it needs. For example,
    /// it waits for one although it should be listed already, and may have no live slot that could
    /// be freed. For the reclaimer, the result may also be true while a free is being counted.
    pub(super) fn is_behind(&self) -> bool {
        !self.is_listed() && self.credit.load(Relaxed) > self.shortfall()
    }

    /// Marks the slab as listed. From here on the credit watches for emptiness: it is the number of
    /// live slots, which must all be freed.
    pub fn relist(&self) {
        self.relist_counted(self.held());
    }

    /// Marks the slab as listed. The caller has counted the live slots.
    pub fn relist_counted(&self, live: u32) {
        debug_assert_eq!(live, self.held());
        self.listed.store(1, Relaxed);
        self.set_credit(live.max(1));
    }

    /// Prepares an empty slab to leave its owner: it has no claim, and is on no list.
    pub fn retire(&self) {
        debug_assert_eq!(self.held(), 0);
        self.unclaim();
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(1);
    }

    /// Returns the number of live slots, including those that other threads have freed. Slots that
    /// the reclaimer holds count as free, and lent slots do not count as live. Exact for the owner
    /// only.
    #[inline(never)]
    pub(super) fn held(&self) -> u32 {
        let slots = self.slots();
        let groups = slots.div_ceil(GROUP_SLOTS).clamp(1, GROUPS);
        let beyond = (groups * GROUP_SLOTS).min(SLOTS_MAX) - slots;
        self.states.in_use(groups).saturating_sub(beyond as u32)
    }

    /// Returns what to do with a slab whose credit is spent. If `exact`, emptiness is reported as
    /// soon as it occurs, at the price of more calls. Owner only.
    pub fn credit_spent(&self, exact: bool) -> Spent {
        let held = self.held();
        self.count_credit();
        if !self.is_listed() && held != 0 {
            return Spent::List(held);
        }
        self.set_credit(held.max(if exact { 1 } else { LISTED_MIN * self.slots() as u32 }));
        if held == 0 { Spent::Empty } else { Spent::Nothing }
    }

    /// Postpones the decision about a spent credit, because nothing can be done now. The next free
    /// spends the credit again.
    pub fn postpone(&self) {
        self.set_credit(1);
    }

    /// Returns true if slots may be claimed.
    pub fn is_awake(&self) -> bool {
        self.awake.load(Relaxed) == AWAKE
    }

    /// Returns true if the slab has no pages, or none that malloc knows of.
    pub fn is_dormant(&self) -> bool {
        self.awake.load(Relaxed) == DORMANT
    }

    /// Makes an empty slab dormant, before its pages are given back. From here on no slot may be
    /// claimed. Owner only.
    pub fn make_dormant(&self) {
        debug_assert_eq!(self.held(), 0);
        self.unclaim();
        self.awake.store(DORMANT, Relaxed);
        // The pages will be zero when they are mapped again.
        self.states.change(self.slots(), DIRTY, ZERO_CLEAN);
        self.states.change(self.slots(), DIRTY_FRESH, ZERO_FRESH);
        if SECURE {
            self.states.change(self.slots(), ARMED, RESERVED);
        }
        self.fresh.store(0, Relaxed);
    }

    /// Makes a dormant slab usable again. Its pages were mapped again and are `zero`, or were still
    /// mapped and may not be.
    pub fn wake(&self, zero: bool) {
        if !zero {
            self.states.change(self.slots(), ZERO_CLEAN, DIRTY);
            self.states.change(self.slots(), ZERO_FRESH, DIRTY_FRESH);
            self.fresh.store(self.slots() as u16, Relaxed);
        }
        // In one order with the changes of `uncounted` (`suspended.rs`).
        self.awake.store(AWAKE, SeqCst);
    }

    /// Returns the number of bytes from the slab's start on that may not be zero. If the slab has
    /// received pages of another slab, that may be more than all slots.
    pub fn touched_bytes(&self) -> usize {
        let fresh = self.fresh.load(Relaxed) as usize;
        if fresh == self.slots() && self.has_received() {
            return self.span();
        }
        // After the slots that were handed out there may be prefaulted pages.
        let soiled = |&slot: &SlotIndex| self.states.of(slot).load(Relaxed) == DIRTY_FRESH;
        let end = SlotIndex::range(fresh..self.slots()).rev().find(soiled);
        let end = end.map_or(fresh, |slot| slot.number() + 1);
        end * self.size()
    }

    /// Records that the slab has received pages whose first `bytes` bytes may not be zero. The slab
    /// is clean. Holder only.
    pub fn receive(&self, bytes: usize) {
        let slots = bytes.div_ceil(self.size()).min(self.slots());
        for slot in SlotIndex::range(0..slots) {
            let state = self.states.of(slot);
            let dirty = if state.load(Relaxed) == ZERO_FRESH { DIRTY_FRESH } else { DIRTY };
            state.store(dirty, Relaxed);
        }
        self.fresh.store(slots as u16, Relaxed);
        self.received.store(1, Relaxed);
        // There are pages to give back, although no slot was freed.
        self.scan_again();
    }

    /// Returns the number of slabs of the greatest length that a bin has filled in a row after it
    /// has filled this one, its current slab. At most 255. Returns zero for a shorter slab and for
    /// the sentinel slab.
    pub fn row_behind(&self) -> u8 {
        let is_short = self.slots() < self.class().slots();
        if is_short { 0 } else { self.row.load(Relaxed).saturating_add(1) }
    }

    /// Returns true if the slab's bin should go on to a longer one, although this one may have free
    /// slots. Owner only.
    #[inline(always)]
    pub fn is_outgrown(&self) -> bool {
        !SECURE && self.outgrown.load(Relaxed) == OUTGROWN
    }

    /// Returns true if the slab's bin has gone on to a longer one. This one is used only when that
    /// has no free slot, so that it becomes empty.
    #[inline(always)]
    pub fn is_replaced(&self) -> bool {
        !SECURE && self.outgrown.load(Relaxed) == REPLACED
    }

    /// Notes that the bin has got another slab. An outgrown one gets it once.
    pub fn note_replaced(&self) {
        self.outgrown.store(REPLACED, Relaxed);
    }

    /// Counts a spent credit. That of a listed slab is twice as many frees as it has slots, that of
    /// a slab that was full a quarter as many. A short slab with many is too short for its bin: its
    /// claims are small, and there were many.
    fn count_credit(&self) {
        let credits = self.outgrown.load(Relaxed);
        if credits < OUTGROWN && self.slots() < self.class().slots() {
            self.outgrown.store(credits + 1, Relaxed);
        }
    }

    /// Counts credits from zero again: only a bin that is busy outgrows a slab. Any thread.
    pub(super) fn forget_credits(&self) {
        let credits = self.outgrown.load(Relaxed);
        if (1..OUTGROWN).contains(&credits) {
            // If it fails, the owner has counted one more meanwhile.
            let _ = self.outgrown.compare_exchange(credits, 0, Relaxed, Relaxed);
        }
    }

    /// Records that pages under the first `bytes` bytes of a never-used slab were prefaulted. Those
    /// that stay unused are given back like any page of free slots. Claims stay small, so that they
    /// do not prevent it. Holder only.
    pub fn note_prefault(&self, bytes: usize) {
        let slots = bytes.div_ceil(self.size()).min(self.slots());
        for slot in SlotIndex::range(0..slots) {
            // A slot that the reclaimer holds stays held. If the reclaimer holds the slot between
            // the load and the store, the store releases it. The reclaimer then does not discard
            // it, because it discards only slots that it finds held.
            let state = self.states.of(slot);
            if state.load(Relaxed) == ZERO_FRESH {
                state.store(DIRTY_FRESH, Relaxed);
            }
        }
        // There are pages to give back, although no slot was freed. A sweep may have searched the
        // slab already.
        self.scan_again();
    }

    /// Returns true if the slab has ever received pages of another slab.
    pub fn has_received(&self) -> bool {
        self.received.load(Relaxed) != 0
    }

    /// Returns true if a slab without live slots has given its pages back, or has tried to.
    pub fn is_clean(&self) -> bool {
        let dirty = (0..GROUPS).any(|group| self.states.dirty_bits(group) != 0);
        !dirty || self.fresh.load(Relaxed) as usize == self.slots()
    }

    /// Returns true if the slab is on its bin's list.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Relaxed) != 0
    }

    /// Collects what other threads have freed. Calls `bad` for each slot that was not live. Returns
    /// the number of slots, and what to do about the slab's credit. Holder of the owning heap only.
    pub fn collect(&self, mut bad: impl FnMut(SlotIndex)) -> (u32, Spent) {
        let mut frees = 0;
        for group in 0..self.slots().div_ceil(GROUP_SLOTS) {
            let mut freed = self.remote.take_group(group);
            if freed != 0 {
                // Slots that two threads have freed, of which one has not published that yet.
                let mut twice = freed & self.remote_frees().unpublished(group);
                freed &= !twice;
                while twice != 0 {
                    bad(SlotIndex::in_group(group, twice.trailing_zeros()));
                    twice &= twice - 1;
                }
            }
            while freed != 0 {
                let slot = SlotIndex::in_group(group, freed.trailing_zeros());
                freed &= freed - 1;
                let state = self.states.of(slot).load(Relaxed);
                if state == REMOTE_CLEAN {
                    self.states.of(slot).store(ZERO_CLEAN, Release);
                } else if state == LEFT {
                    self.states.of(slot).store(DIRTY, Release);
                } else {
                    bad(slot);
                    continue;
                }
                frees += 1;
            }
        }
        if self.disturbed.load(Relaxed) != 0 {
            self.frees.store(self.frees.load(Relaxed) + u64::from(frees), Relaxed);
            return (frees, self.recount());
        }
        (frees, self.spend_credit(frees))
    }

    /// Records that slots may have become free without a free. The owner then counts again at its
    /// next collection. The caller announces the slab, or calls
    /// `Pinning::is_overlooked`, which returns true if the slab is not announced yet.
    pub fn disturb(&self) {
        self.disturbed.store(1, Release);
    }

    /// Counts the free slots again, because some became free without a counted free. Returns what
    /// to do. Owner only.
    #[cold]
    pub(super) fn recount(&self) -> Spent {
        // A swap, because it reads the last 1 that was stored. The slots that became free before
        // that 1 are then counted here. A store could overwrite a 1 whose slots are not visible
        // below yet. pairs: the stores of 1, Release.
        self.disturbed.swap(0, Acquire);
        let held = self.held();
        if self.is_listed() {
            self.set_credit(held.max(1));
            return if held == 0 { Spent::Empty } else { Spent::Nothing };
        }
        let free = self.slots() as u32 - held - self.lent();
        match self.threshold().checked_sub(free) {
            Some(missing) if missing > 0 => {
                self.set_credit(missing);
                Spent::Nothing
            }
            _ => Spent::List(held),
        }
    }

    /// Spends the credit for frees by other threads. Returns what to do.
    pub(super) fn spend_credit(&self, frees: u32) -> Spent {
        let credit = self.credit.load(Relaxed);
        if frees < credit {
            self.credit.store(credit - frees, Relaxed);
            return Spent::Nothing;
        }
        self.frees.store(self.frees.load(Relaxed) + u64::from(frees - credit), Relaxed);
        self.credit.store(0, Relaxed);
        self.credit_spent(false)
    }
}
