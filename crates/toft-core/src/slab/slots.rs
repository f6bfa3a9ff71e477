//! The slots of a slab: the slot that begins at an address, the state of each slot, and their
//! counts.

use super::slab::{GROUP_SLOTS, GROUPS, SLOTS_MAX, Slab};
use super::states::{DIRTY_FRESH, HELD, LIVE, SAMPLED, ZERO_FRESH, free_state};
use super::{Tier, TierNumber};
use crate::sync::{AtomicU8, Ordering, Settled};
use Ordering::{Acquire, Relaxed};

/// The state of a slot, as far as callers may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Never handed out.
    Fresh,
    /// Freed, or claimed for a later malloc.
    Free,
    /// The program has it.
    Live,
    /// Freed by another thread and not yet collected.
    Remote,
}

impl Slab {
    /// Returns the slot that begins `offset` bytes after the slab's base, if one does. A descriptor
    /// that is not a slab has none.
    ///
    /// It has one multiplication, one rotation and one comparison: see
    /// [`SizeClass::multiplier`](super::SizeClass::multiplier).
    #[inline(always)]
    pub fn slot_at<const TIER: TierNumber>(&self, offset: usize) -> Option<usize> {
        // SAFETY: (1) written once, before the program gets any pointer into the slab. If a wild
        // pointer points into a slab that is being opened, the slots may be visible and not the
        // multiplier. `has_slot_at` checks again before another thread's slab is changed.
        let slots = unsafe { self.slots.settled() };
        let slot = self.slot_number::<TIER>(offset);
        (slot < slots).then_some(slot as usize)
    }

    /// Returns the number of the slot at an offset, or a number above all slots if none begins
    /// there.
    #[inline(always)]
    fn slot_number<const TIER: TierNumber>(&self, offset: usize) -> u64 {
        // SAFETY: (1) as for the slots in `slot_at`.
        let multiplier = unsafe { self.multiplier.settled() };
        (offset as u64).wrapping_mul(multiplier).rotate_right(Tier::of(TIER).slot_bits)
    }

    /// Returns true if the slab is open and the slot begins at the address. Unlike `slot_at`, it
    /// never reads an incomplete descriptor.
    pub fn has_slot_at(&self, slot: usize, address: usize) -> bool {
        // pairs: publish slab.
        let slots = self.slots.load(Acquire) as usize;
        slot < slots && self.base() + slot * self.size() == address
    }

    /// Returns the state of a slot, as far as the caller may see it.
    pub fn state(&self, slot: usize) -> SlotState {
        if self.is_remote(slot) {
            return SlotState::Remote;
        }
        let state = free_state(self.state_of(slot).load(Acquire));
        match if state & HELD == HELD { state & !HELD } else { state } {
            LIVE | SAMPLED => SlotState::Live,
            ZERO_FRESH | DIRTY_FRESH => SlotState::Fresh,
            _ => SlotState::Free,
        }
    }

    /// Returns the state of a slot, without code that may panic. Slot numbers come from `slot_at`,
    /// or from a loop over the slots that exist.
    #[inline(always)]
    pub(super) fn state_of(&self, slot: usize) -> &AtomicU8 {
        debug_assert!(slot < SLOTS_MAX);
        // SAFETY: no slab has more than SLOTS_MAX slots.
        unsafe { self.states.0.get_unchecked(slot) }
    }

    /// Returns the number of slots that the program has, without those that other threads have
    /// freed.
    #[inline(never)]
    pub fn live_slots(&self) -> usize {
        let live = |group| {
            self.live_bits(group) & !self.remote_bits(group) & valid_bits(self.slots(), group)
        };
        (0..GROUPS).map(|group| live(group).count_ones() as usize).sum()
    }

    /// Returns the number of slots that were ever handed out.
    #[inline(never)]
    pub fn touched_slots(&self) -> usize {
        let fresh = |slot| self.state(slot) == SlotState::Fresh;
        (0..self.slots()).filter(|&slot| !fresh(slot)).count()
    }

    /// Returns true if no slot is live.
    pub fn is_empty(&self) -> bool {
        self.held() == 0
    }

    /// Changes every state that is `from` to `to`. Holder of the owning heap only, with no slot
    /// live.
    #[inline(never)]
    pub(super) fn change_states(&self, from: u8, to: u8) {
        debug_assert!(from != LIVE && to != LIVE);
        for slot in 0..self.slots() {
            let state = self.state_of(slot);
            if state.load(Relaxed) == from {
                state.store(to, Relaxed);
            }
        }
    }
}

/// Returns the bits of a group that belong to slots below `slots`.
pub(super) fn valid_bits(slots: usize, group: usize) -> u64 {
    match slots.saturating_sub(group * GROUP_SLOTS) {
        64.. => u64::MAX,
        some => (1 << some) - 1,
    }
}
