//! Slabs of one (partition, class) that share pages: the memory that each of them may use.
//!
//! A slab is divided into [`UNITS`] units. A unit may share its pages with the same unit of other
//! slabs, which form a *group*. At most one slab of a group uses the memory of a given slot. In all
//! others the slot is LENT: it is free, and malloc cannot use it until the slab has the memory
//! again. A slot that spans two units is lent if either of them requires it.
//!
//! The compacting thread first holds *all* free slots of a slab, so that the slab becomes no fuller
//! meanwhile. It calls `hold_all`, passes a barrier and calls `settle`, as in `pinning.rs`. Only a
//! held slot can be lent, and only the compacting thread changes which slots are lent. So no two
//! threads can disagree about a lent slot. A slab that shares pages has SHARED set in its owner
//! word. Such a slab never changes owner, and no sweep gives its pages back.

use super::slab::{GROUPS, SHARED, Slab, UNITS, view};
use super::slots::{SlotIndex, SlotState, valid_bits};
use super::states::{
    DIRTY, DIRTY_FRESH, HELD, LENT, REMOTE_HELD, SOILED, TAKEN, ZERO_CLEAN, ZERO_FRESH,
};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A bit for each slot of a slab.
pub type SlotSet = [u64; GROUPS];

view! {
    /// The units of a slab, and its slots that are lent. For the compacting thread.
    Units, units
}

impl Units<'_> {
    /// Returns the number of bytes in a unit.
    pub fn unit_bytes(&self, page: usize) -> usize {
        (self.span() / UNITS).next_multiple_of(page.max(1)).max(page)
    }

    /// Returns the start of a unit, as an offset, and its number of bytes. The last unit ends with
    /// the slab.
    pub fn range(&self, unit: usize, page: usize) -> (usize, usize) {
        let bytes = self.unit_bytes(page);
        let rest = self.pages().mapped_bytes(page).saturating_sub(unit * bytes);
        (unit * bytes, bytes.min(rest))
    }

    /// Returns the number of units in the slab.
    pub fn count(&self, page: usize) -> usize {
        self.span().div_ceil(self.unit_bytes(page).max(1))
    }

    /// Returns the group that a unit is in, or zero.
    pub fn share(&self, unit: usize) -> u32 {
        self.scans.shares.get(unit).map_or(0, |share| u32::from(share.load(Relaxed)))
    }

    /// Returns the units that share pages.
    pub fn sharing(self, page: usize) -> impl Iterator<Item = usize> {
        (0..self.count(page)).filter(move |&unit| self.share(unit) != 0)
    }

    /// Puts a unit into a group, or into none if `group` is zero. Returns true if a unit of the
    /// slab then shares pages, and sets or clears SHARED accordingly.
    pub fn set_share(&self, unit: usize, group: u32) -> bool {
        if let Some(share) = self.scans.shares.get(unit) {
            share.store(group as u16, Relaxed);
        }
        let any = self.scans.shares.iter().any(|share| share.load(Relaxed) != 0);
        if any {
            self.set_owner_flag(SHARED);
        } else {
            self.clear_owner_flag(SHARED);
            // No sweep has scanned the slab's pages while it shared some.
            self.scan_again();
        }
        any
    }

    /// Returns the first slot that has a byte within the bytes `start..stop`, and the slot after
    /// the last one.
    pub fn slots_within(&self, start: usize, stop: usize) -> (usize, usize) {
        let size = self.size();
        ((start / size).min(self.slots()), stop.div_ceil(size).min(self.slots()))
    }

    /// Returns the slots of `first..end` whose memory this slab uses, or may begin to use: all that
    /// are neither held nor lent.
    pub fn occupied(&self, (first, end): (usize, usize)) -> SlotSet {
        core::array::from_fn(|group| {
            let within = valid_bits(end, group) & !valid_bits(first, group);
            within
                & !self.states.held_bits(group)
                & !self.states.lent_bits(group)
                & !self.states.remote_held_bits(group)
        })
    }

    /// Returns the number of lent slots, and of those that were ever handed out. For statistics.
    #[inline(never)]
    pub fn lent_slots(&self) -> (usize, usize) {
        let lent = |slot: &SlotIndex| self.is_lent(*slot);
        let touched = |slot: &SlotIndex| self.state(*slot) != SlotState::Fresh;
        let lent = self.all_slots().filter(lent);
        (lent.clone().count(), lent.filter(touched).count())
    }

    /// Returns true if another slab has the memory of the slot.
    pub fn is_lent(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).load(Acquire).has(LENT)
    }

    /// Returns true if the slot is held and may not be zero.
    pub fn is_held_soiled(&self, slot: SlotIndex) -> bool {
        let state = self.states.of(slot).load(Acquire);
        state.has(HELD) && state.has(SOILED)
    }

    /// Lends a held slot. Does nothing if the slot is not held.
    pub fn lend(&self, slot: SlotIndex) {
        let state = self.states.of(slot);
        let held = state.load(Acquire);
        if held.has(HELD) {
            state.store(held.without(HELD).with(LENT), Release);
        } else if held == REMOTE_HELD {
            // The free by the other thread takes effect here, not when the owner collects. The
            // owner counts the free slots again when the slab stops sharing.
            state.store(DIRTY.with(LENT), Release);
            self.absorbed.fetch_add(1, Relaxed);
        }
    }

    /// Gives a lent slot its memory again, which may not be zero. The slot is then held if `held`,
    /// else free.
    pub fn redeem(&self, slot: SlotIndex, held: bool) {
        let state = self.states.of(slot);
        let lent = state.load(Acquire);
        if !lent.has(LENT) {
            return;
        }
        // A slot from `fresh` on was perhaps handed out before all of the slab was zero again (I4).
        let fresh = slot.number() >= self.fresh.load(Relaxed) as usize;
        let free = match lent.without(LENT) {
            ZERO_FRESH | DIRTY_FRESH => DIRTY_FRESH,
            _ if fresh => DIRTY_FRESH,
            _ => DIRTY,
        };
        state.store(if held { free.with(HELD) } else { free }, Release);
    }

    /// Records that the memory of a held slot is zero again.
    pub fn is_zero_again(&self, slot: SlotIndex) {
        let state = self.states.of(slot);
        match state.load(Acquire) {
            held if held == DIRTY.with(HELD) => state.store(ZERO_CLEAN.with(HELD), Release),
            held if held == DIRTY_FRESH.with(HELD) => state.store(ZERO_FRESH.with(HELD), Release),
            _ => {}
        }
    }

    /// Records that all lent slots have separate memory again, which is zero where nothing was
    /// copied.
    pub fn redeem_all(&self) {
        for slot in self.all_slots() {
            let state = self.states.of(slot);
            let lent = state.load(Acquire);
            if lent.has(LENT) {
                // A slot that was zero when it was lent is zero again. A part of it may be in a
                // unit that was never shared. If that part is dirty, the state says so.
                state.store(lent.without(LENT), Release);
            }
        }
        self.is_private_again();
    }

    /// Marks slots that were never handed out as zero (I4), because the slab shares nothing any
    /// more.
    pub fn is_private_again(&self) {
        for slot in SlotIndex::range(self.fresh.load(Relaxed) as usize..self.slots()) {
            for flag in [ZERO_FRESH, HELD] {
                let (from, to) = (DIRTY_FRESH.with(flag), ZERO_FRESH.with(flag));
                // The exchange fails if malloc is handing the slot out.
                let _ = self.states.of(slot).exchange(from, to, AcqRel, Relaxed);
            }
        }
    }

    /// Returns true if the program has some slots, but at most one in `share`.
    pub fn is_sparse(&self, share: u32) -> bool {
        let held = self.held().saturating_sub(self.remote.count() as u32);
        held != 0 && held.saturating_mul(share) <= self.slots() as u32
    }

    /// Returns true if the slot's memory is needed: the slab has it, and the slot is not free. If
    /// writers were stopped before, malloc may hand out a slot after the result false. No thread
    /// has written to that slot yet.
    pub fn needs(&self, slot: SlotIndex) -> bool {
        let state = self.states.of(slot).load(Acquire);
        state.has(TAKEN) && !state.has(LENT)
    }
}

/// Returns true if two sets have no slot in common.
pub fn are_disjoint(a: &SlotSet, b: &SlotSet) -> bool {
    a.iter().zip(b).all(|(a, b)| a & b == 0)
}

/// Returns the slots of either set.
pub fn either(a: &SlotSet, b: &SlotSet) -> SlotSet {
    core::array::from_fn(|group| {
        a.get(group).copied().unwrap_or(0) | b.get(group).copied().unwrap_or(0)
    })
}

/// Returns true if a slot is in the set.
pub fn has_slot(set: &SlotSet, slot: SlotIndex) -> bool {
    set.get(slot.group()).is_some_and(|bits| bits & slot.bit() != 0)
}
