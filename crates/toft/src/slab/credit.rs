//! When a slab is listed again, and when it is empty: told by counting frees down to zero, which
//! costs free one instruction in place.

use super::slab::{AWAKE, DORMANT, GROUPS, Slab};
use super::states::{ARMED, DIRTY, DIRTY_FRESH, RESERVED, ZERO_CLEAN, ZERO_FRESH};
use crate::policy::HARDENED;
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

/// Least credit of a listed slab that was found not empty, as a multiple of its slots: one with few
/// blocks does not ask at every free.
const LISTED_MIN: u32 = 2;
/// The share of its slots that must be free, as a shift, before a slab that was full is listed
/// again. With less, every free and every malloc of a steady program would change a list; this is
/// the slack that law 4 counts with (decision 0003).
const RELIST_SHIFT: u32 = 2;

/// What follows when a slab's credit is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing.
    Nothing,
    /// The slab must be put on its bin's list.
    List,
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

    /// The slab has no free slot left and leaves its list: it comes back after `threshold` frees.
    pub fn unlist(&self) {
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(self.threshold());
    }

    /// Frees by which a slab falls short of the threshold for being listed.
    fn shortfall(&self) -> u32 {
        let free = self.slots() as u32 - self.held() - self.lent();
        self.threshold().saturating_sub(free)
    }

    /// As `shortfall`, of a slab that is on no list, and rightly so: one at least. I6.
    pub(super) fn missing(&self) -> u32 {
        self.shortfall().max(1)
    }

    /// Whether a slab that is on no list waits for more frees than it need: for one, where it
    /// should be listed already, and perhaps has no live slot that could be freed. Also for the
    /// reclaimer, to which a free that is just being counted may look like one too many.
    pub(super) fn is_behind(&self) -> bool {
        !self.is_listed() && self.credit.load(Relaxed) > self.shortfall()
    }

    /// The slab goes on its list. From here on the credit watches for emptiness: as many frees as
    /// there are live slots now.
    pub fn relist(&self) {
        self.listed.store(1, Relaxed);
        self.set_credit(self.held().max(1));
    }

    /// The empty slab leaves its owner, off all lists.
    pub fn retire(&self) {
        debug_assert_eq!(self.held(), 0);
        self.unclaim();
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(1);
    }

    /// Slots that are live, those freed by others included. Owner. What the reclaimer holds is as
    /// free as what it does not, and what is lent is not live.
    #[inline(never)]
    pub(super) fn held(&self) -> u32 {
        let free: u32 = (0..GROUPS).map(|group| self.idle_bits(group).count_ones()).sum();
        (self.slots() as u32).saturating_sub(free)
    }

    /// What to do about a slab whose credit is spent. `exact` asks for a report of emptiness as
    /// soon as it is there, at the price of more such questions. Owner.
    pub fn credit_spent(&self, exact: bool) -> Spent {
        let held = self.held();
        if !self.is_listed() && held != 0 {
            return Spent::List;
        }
        self.set_credit(held.max(if exact { 1 } else { LISTED_MIN * self.slots() as u32 }));
        if held == 0 { Spent::Empty } else { Spent::Nothing }
    }

    /// The credit is spent at a moment when nothing can be done: one more free brings it up again.
    pub fn postpone(&self) {
        self.set_credit(1);
    }

    /// Whether the pages of the slab are unmapped.
    pub fn is_dormant(&self) -> bool {
        self.awake.load(Relaxed) == DORMANT
    }

    /// Nothing may be claimed from here on: the pages are about to go. Owner, of an empty slab.
    pub fn lie_dormant(&self) {
        debug_assert_eq!(self.held(), 0);
        self.unclaim();
        self.awake.store(DORMANT, Relaxed);
        // What comes back will be zero.
        self.change_states(DIRTY, ZERO_CLEAN);
        self.change_states(DIRTY_FRESH, ZERO_FRESH);
        if HARDENED {
            self.change_states(ARMED, RESERVED);
        }
        self.fresh.store(0, Relaxed);
    }

    /// The pages are mapped again; or still, and then they may not be zero.
    pub fn wake(&self, zero: bool) {
        if !zero {
            self.change_states(ZERO_CLEAN, DIRTY);
            self.change_states(ZERO_FRESH, DIRTY_FRESH);
            self.fresh.store(self.slots() as u16, Relaxed);
        }
        // In one order with what is uncounted: `suspended.rs`.
        self.awake.store(AWAKE, SeqCst);
    }

    /// Bytes from the slab's start on that may not be zero. Where pages of another slab came here,
    /// that may be more than all slots.
    pub fn touched_bytes(&self) -> usize {
        let fresh = self.fresh.load(Relaxed) as usize;
        if fresh == self.slots() && self.has_received() {
            return self.tier().slab_bytes();
        }
        // Behind what was handed out there may be pages that were readied.
        let soiled = |&slot: &usize| self.state_of(slot).load(Relaxed) == DIRTY_FRESH;
        let end = (fresh..self.slots()).rev().find(soiled).map_or(fresh, |slot| slot + 1);
        end * self.size()
    }

    /// The slab has got pages whose first `bytes` may not be zero. Holder, of a clean slab.
    pub fn receive(&self, bytes: usize) {
        let slots = bytes.div_ceil(self.size()).min(self.slots());
        for slot in 0..slots {
            let state = self.state_of(slot);
            let dirty = if state.load(Relaxed) == ZERO_FRESH { DIRTY_FRESH } else { DIRTY };
            state.store(dirty, Relaxed);
        }
        self.fresh.store(slots as u16, Relaxed);
        self.received.store(1, Relaxed);
        // There is something to give back that no free has brought.
        self.tidy_at.store(0, Relaxed);
        self.is_not_counted();
    }

    /// Slabs that a bin has filled in a row when it is done with this one, its current slab, up to
    /// a limit; none, if it has none.
    pub fn row_behind(&self) -> u8 {
        if self.slots() == 0 { 0 } else { self.row.load(Relaxed).saturating_add(1) }
    }

    /// Pages were put under the first `bytes` of a slab that was never used. Those that stay unused
    /// are given back like any page of free slots; claims stay small, so that they are no obstacle.
    /// Holder.
    pub fn become_ready(&self, bytes: usize) {
        let slots = bytes.div_ceil(self.size()).min(self.slots());
        for slot in 0..slots {
            // One that the reclaimer holds just now stays so; one that it holds between the load
            // and the store is let go of by the store, and it discards nothing but what it finds
            // held.
            let state = self.state_of(slot);
            if state.load(Relaxed) == ZERO_FRESH {
                state.store(DIRTY_FRESH, Relaxed);
            }
        }
        // There is something to give back that no free has brought, and that may have been searched
        // for.
        self.tidy_at.store(0, Relaxed);
        self.is_not_counted();
    }

    /// Whether the slab has ever got pages of another.
    pub fn has_received(&self) -> bool {
        self.received.load(Relaxed) != 0
    }

    /// Whether a slab without live slots has given its pages back, or has tried to.
    pub fn is_clean(&self) -> bool {
        let dirty = (0..GROUPS).any(|group| self.dirty_bits(group) != 0);
        !dirty || self.fresh.load(Relaxed) as usize == self.slots()
    }

    /// Whether the slab is on its bin's list.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Relaxed) != 0
    }

    /// Free slots have come that no free has counted. Owner.
    #[cold]
    pub(super) fn count_anew(&self) -> Spent {
        // A swap, because it reads the last 1 that was stored: the slots that came before that are
        // then counted here. A store could overwrite a 1 of which nothing below is seen yet. pairs:
        // the stores of 1, Release.
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
            _ => Spent::List,
        }
    }

    /// Counts frees by other threads; says what follows.
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
