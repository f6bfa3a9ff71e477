//! Slabs of one (partition, class) that share pages: what each of them may use.
//!
//! A slab is cut into [`UNITS`] units. A unit may share its pages with the same unit of other
//! slabs: a *group*. Of each slot's memory in a group at most one slab has the use; in all others
//! the slot is LENT: free, and out of malloc's reach until the memory is its own again. Slots that
//! lie across the border of two units are lent where either says so.
//!
//! Who compacts holds *all* free slots of a slab first (`hold_all`, then a barrier and `settle`, as
//! in `pinning.rs`), so that it becomes no fuller meanwhile. Only a slot that is held can be lent,
//! and only who compacts changes what is lent: so a slot is lent in no two minds. A slab that
//! shares has SHARED set in its owner word: it changes hands by no way, and its pages are no
//! sweep's business.

use super::slab::{FLAGS, GROUP_SLOTS, GROUPS, HOLDING, SHARED, Slab, UNITS};
use super::slots::{SlotState, valid_bits};
use super::states::{
    DIRTY, DIRTY_FRESH, HELD, LENT, REMOTE_HELD, SOILED, TAKEN, ZERO_CLEAN, ZERO_FRESH,
};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A bit for each slot of a slab.
pub type SlotSet = [u64; GROUPS];

impl Slab {
    /// Whether the slab shares pages with others.
    pub fn is_shared(&self) -> bool {
        self.owner.load(Relaxed) & SHARED != 0
    }

    /// Whether the reclaimer holds slots here, or the slab shares pages.
    pub fn is_engaged(&self) -> bool {
        self.owner.load(Relaxed) & (SHARED | HOLDING) != 0
    }

    /// Bytes of a unit.
    pub fn unit_bytes(&self, page: usize) -> usize {
        (self.tier().slab_bytes() / UNITS).max(page)
    }

    /// Units of the slab.
    pub fn units(&self, page: usize) -> usize {
        self.tier().slab_bytes() / self.unit_bytes(page).max(1)
    }

    /// The group that a unit is in, or zero.
    pub fn share(&self, unit: usize) -> u32 {
        self.shares.get(unit).map_or(0, |share| u32::from(share.load(Relaxed)))
    }

    /// Puts a unit into a group, or with zero into none. Returns true if the slab shares anything
    /// then, and marks its owner word so.
    pub fn set_share(&self, unit: usize, group: u32) -> bool {
        if let Some(share) = self.shares.get(unit) {
            share.store(group as u16, Relaxed);
        }
        let any = self.shares.iter().any(|share| share.load(Relaxed) != 0);
        if any {
            self.set_owner_flag(SHARED);
        } else {
            self.clear_owner_flag(SHARED);
            // No sweep has looked at its pages while it shared some.
            self.tidy_at.store(0, Relaxed);
            self.is_not_counted();
        }
        any
    }

    /// The first slot of which some byte lies within the bytes `start..stop`, and the one after the
    /// last.
    pub fn slots_within(&self, start: usize, stop: usize) -> (usize, usize) {
        let size = self.size();
        ((start / size).min(self.slots()), stop.div_ceil(size).min(self.slots()))
    }

    /// Takes all free slots out of malloc's reach, those that others have freed among them. Whether
    /// the slab can be held at all.
    pub fn hold_all(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        if owner & !FLAGS == 0
            || owner & HOLDING != 0
            || self.is_dormant()
            || self.owner.compare_exchange(owner, owner | HOLDING, AcqRel, Relaxed).is_err()
        {
            return false;
        }
        let claim = self.claim_and_group();
        for slot in (0..self.slots()).filter(|&slot| self.is_spare(slot, claim).is_some()) {
            self.hold_slot(slot);
        }
        true
    }

    /// After `settle`: lets go of what is held still. Says which slot another thread has freed that
    /// was freed already, if any was.
    pub fn let_go_all(&self) -> Option<usize> {
        let mut twice = None;
        for slot in 0..self.slots() {
            self.let_go_free(slot, false);
            if self.let_go_remote(slot, false) == Some(false) {
                twice = Some(slot);
            }
        }
        twice
    }

    /// The slots of `first..end` of which this slab uses the memory, or may begin to: all that are
    /// neither held nor lent.
    pub fn occupied(&self, (first, end): (usize, usize)) -> SlotSet {
        core::array::from_fn(|group| {
            let within = valid_bits(end, group) & !valid_bits(first, group);
            within & !self.held_bits(group) & !self.lent_bits(group) & !self.remote_held_bits(group)
        })
    }

    /// Slots that are lent.
    pub fn lent(&self) -> u32 {
        (0..GROUPS).map(|group| self.lent_bits(group).count_ones()).sum()
    }

    /// Slots that are lent, and how many of them were ever handed out. For statistics.
    #[inline(never)]
    pub fn lent_slots(&self) -> (usize, usize) {
        let lent = |slot: &usize| self.is_lent(*slot);
        let touched = |slot: &usize| self.state(*slot) != SlotState::Fresh;
        let lent = (0..self.slots()).filter(lent);
        (lent.clone().count(), lent.filter(touched).count())
    }

    /// Whether another slab has the memory of the slot.
    pub fn is_lent(&self, slot: usize) -> bool {
        self.state_of(slot).load(Acquire) & LENT == LENT
    }

    /// Whether the slot is held, and may not be zero.
    pub fn is_held_soiled(&self, slot: usize) -> bool {
        let state = self.state_of(slot).load(Acquire);
        state & HELD == HELD && state & SOILED != 0
    }

    /// Lends a slot that is held; one that is not stays as it is.
    pub fn lend(&self, slot: usize) {
        let state = self.state_of(slot);
        let held = state.load(Acquire);
        if held & HELD == HELD {
            state.store(held & !HELD | LENT, Release);
        } else if held == REMOTE_HELD {
            // The free of another thread takes effect here, not when the owner collects. When the
            // slab shares no more, it counts again.
            state.store(DIRTY | LENT, Release);
            self.absorbed.fetch_add(1, Relaxed);
        }
    }

    /// A lent slot has its memory again, which may not be zero. It is `held` from then on, or free.
    pub fn redeem(&self, slot: usize, held: bool) {
        let state = self.state_of(slot);
        let lent = state.load(Acquire);
        if lent & LENT != LENT {
            return;
        }
        let free = match lent & !LENT {
            ZERO_FRESH | DIRTY_FRESH => DIRTY_FRESH,
            _ => DIRTY,
        };
        state.store(if held { free | HELD } else { free }, Release);
    }

    /// A slot that is held has zero memory again.
    pub fn is_zero_again(&self, slot: usize) {
        let state = self.state_of(slot);
        match state.load(Acquire) {
            held if held == DIRTY | HELD => state.store(ZERO_CLEAN | HELD, Release),
            held if held == DIRTY_FRESH | HELD => state.store(ZERO_FRESH | HELD, Release),
            _ => {}
        }
    }

    /// All lent slots have separate memory again, and it is zero where nothing was copied to it.
    pub fn redeem_all(&self) {
        for slot in 0..self.slots() {
            let state = self.state_of(slot);
            let lent = state.load(Acquire);
            if lent & LENT == LENT {
                // Where it was zero when it was lent, it is so again. Part of it may be in a unit
                // that was never shared: where that is dirty, the state says so.
                state.store(lent & !LENT, Release);
            }
        }
        self.is_private_again();
    }

    /// The slab shares nothing any more, and what was never handed out is zero: I4.
    pub fn is_private_again(&self) {
        for slot in (self.fresh.load(Relaxed) as usize)..self.slots() {
            for flag in [0, HELD] {
                let (from, to) = (DIRTY_FRESH | flag, ZERO_FRESH | flag);
                // It fails where malloc hands the slot out just now.
                let _ = self.state_of(slot).compare_exchange(from, to, AcqRel, Relaxed);
            }
        }
    }

    /// Free slots may have come without a free: the owner counts again when it collects next. The
    /// caller announces the slab, or asks [`is_overlooked`](Slab::is_overlooked), which then
    /// returns true.
    pub fn disturb(&self) {
        self.disturbed.store(1, Release);
    }

    /// Whether nothing has happened here since the last time that this was asked.
    pub fn is_calm(&self) -> bool {
        let now = self.activity().wrapping_add(self.remote_slots() as u32).max(1);
        let before = self.calm.load(Relaxed);
        self.calm.store(now, Relaxed);
        now == before
    }

    /// Whether the program has at most a share of the slots, as a divisor, and some.
    pub fn is_sparse(&self, share: u32) -> bool {
        let held = self.held().saturating_sub(self.remote_slots() as u32);
        held != 0 && held.saturating_mul(share) <= self.slots() as u32
    }

    /// Whether the slot's memory is needed: it is the slab's own, and not free. Where writers have
    /// been stopped before, what this says no to may be handed out meanwhile, but has not been
    /// written to.
    pub fn needs(&self, slot: usize) -> bool {
        let state = self.state_of(slot).load(Acquire);
        state & TAKEN != 0 && state & LENT != LENT
    }
}

/// Whether two sets of slots have none in common.
pub fn are_disjoint(a: &SlotSet, b: &SlotSet) -> bool {
    a.iter().zip(b).all(|(a, b)| a & b == 0)
}

/// The slots of either set.
pub fn either(a: &SlotSet, b: &SlotSet) -> SlotSet {
    core::array::from_fn(|group| {
        a.get(group).copied().unwrap_or(0) | b.get(group).copied().unwrap_or(0)
    })
}

/// Whether a slot is in the set.
pub fn has_slot(set: &SlotSet, slot: usize) -> bool {
    set.get(slot / GROUP_SLOTS).is_some_and(|bits| bits >> (slot % GROUP_SLOTS) & 1 != 0)
}
