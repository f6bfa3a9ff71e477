//! The slots of a slab: the slot that begins at an address, the state of each slot, and their
//! counts.

use super::class::SLOT_BITS;
use super::requested_sizes::SLACK_MOST;
use super::slab::{GROUP_SLOTS, GROUPS, Slab};
use super::states::{
    ARMED, BEING_MADE, DIRTY, DIRTY_FRESH, FROM_CLAIM, GUARD_PAGE, HELD, LEFT, LIVE, NO_SLOT,
    PERMANENTLY_FREED, QUARANTINED, RESERVED, SAMPLED, SAMPLED_BIT, TAKEN, ZERO_CLEAN, ZERO_FRESH,
    free_state,
};
use crate::policy::{CANARY, SLACK_MIN, WIPE};
use crate::sync::{Ordering, Settled};
use Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::ops::Range;

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

/// What the bytes of a slot must be, as far as is known at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCare {
    /// The program has this number of bytes, and a canary is after them.
    Canary(usize),
    /// All bytes are zero: the program had the slot, and has freed it.
    Zero,
    /// The slot is reserved, and carries its pattern.
    Pattern,
    /// The last byte is zero: the slot was never handed out. In the light build, or it is free. If
    /// the slot is reserved, its pattern may be there.
    LastByte,
    /// Nothing is known.
    Any,
}

/// What the last byte of a slot may be, besides zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastByte {
    /// Nothing else: the slot is free, or is never handed out.
    Zero,
    /// The last byte of the slot's canary: the slot is in use, or was until a moment ago.
    Canary,
    /// The last byte of the pattern of a reserved slot, which is perhaps just being written.
    Pattern,
    /// Anything: the slot is compared with its pattern as a whole.
    Any,
}

/// The contents of a slot, for a check of what a free left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// What the free left there, unchanged; or zeros, if the pages were given back.
    Left,
    /// Something else: contents of the program, or unknown contents.
    Other,
}

/// The number of a slot in its slab, counted from the slab's base. Below the slab's number of
/// slots, and so below [`SLOTS_MAX`](super::SLOTS_MAX), if there is such a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct SlotIndex(usize);

impl SlotIndex {
    /// Returns the slot with a number.
    #[inline(always)]
    pub const fn new(number: usize) -> SlotIndex {
        SlotIndex(number)
    }

    /// Returns the slot of a group that has a bit, by the number of the bit.
    #[inline(always)]
    pub(super) fn in_group(group: usize, bit: u32) -> SlotIndex {
        SlotIndex(group * GROUP_SLOTS + bit as usize)
    }

    /// Returns the slots with these numbers.
    #[inline(always)]
    pub fn range(numbers: Range<usize>) -> impl DoubleEndedIterator<Item = SlotIndex> + Clone {
        numbers.map(SlotIndex)
    }

    /// Returns the slot's number.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0
    }

    /// Returns the slot's group.
    #[inline(always)]
    pub(super) fn group(self) -> usize {
        self.0 / GROUP_SLOTS
    }

    /// Returns the slot's bit in a word for its group.
    #[inline(always)]
    pub(super) fn bit(self) -> u64 {
        1 << (self.0 % GROUP_SLOTS)
    }

    /// Returns the offset of the slot's first byte in a slab of slots of `size` bytes.
    #[inline(always)]
    pub fn begin(self, size: usize) -> usize {
        self.0 * size
    }

    /// Returns the offset of the first byte after the slot.
    #[inline(always)]
    pub fn end(self, size: usize) -> usize {
        (self.0 + 1) * size
    }

    /// Returns the slot before this one, if there is one.
    #[inline(always)]
    pub fn before(self) -> Option<SlotIndex> {
        self.0.checked_sub(1).map(SlotIndex)
    }

    /// Returns the slots before and after this one. The slab may not have both.
    pub fn beside(self) -> [SlotIndex; 2] {
        [SlotIndex(self.0.wrapping_sub(1)), SlotIndex(self.0 + 1)]
    }
}

impl Slab {
    /// Returns the slot that begins `offset` bytes after the slab's base, if one does. A descriptor
    /// that is not a slab has none.
    ///
    /// It has one multiplication, one rotation and one comparison: see
    /// [`SizeClass::multiplier`](super::SizeClass::multiplier).
    #[inline(always)]
    pub fn slot_at(&self, offset: usize) -> Option<SlotIndex> {
        // SAFETY: (1) written once, before the program gets any pointer into the slab. If a wild
        // pointer points into a slab that is being opened, the slots may be visible and not the
        // multiplier. `has_slot_at` checks again before another thread's slab is changed.
        let slots = unsafe { self.slots.settled() };
        let slot = self.slot_number(offset);
        (slot < slots).then_some(SlotIndex(slot as usize))
    }

    /// Returns the slot that begins at an address, if one does.
    #[inline(always)]
    pub fn slot_of(&self, address: usize) -> Option<SlotIndex> {
        // SAFETY: (1) as for the slots in `slot_at`.
        self.slot_at(address.wrapping_sub(unsafe { self.base.settled() }))
    }

    /// Returns the number of the slot at an offset, or a number above all slots if none begins
    /// there.
    #[inline(always)]
    fn slot_number(&self, offset: usize) -> u64 {
        // SAFETY: (1) as for the slots in `slot_at`.
        let multiplier = unsafe { self.multiplier.settled() };
        (offset as u64).wrapping_mul(multiplier).rotate_right(SLOT_BITS)
    }

    /// Returns true if the slab is open and the slot begins at the address. Unlike `slot_at`, it
    /// never reads an incomplete descriptor.
    pub fn has_slot_at(&self, slot: SlotIndex, address: usize) -> bool {
        // pairs: publish slab.
        let slots = self.slots.load(Acquire) as usize;
        slot.0 < slots && self.slot_address(slot) == address
    }

    /// Returns the slot that contains the byte `offset` bytes after the slab's base, if one does.
    pub fn slot_around(&self, offset: usize) -> Option<SlotIndex> {
        let slot = offset / self.size();
        (slot < self.slots()).then_some(SlotIndex(slot))
    }

    /// Returns the state of a slot, as far as the caller may see it.
    pub fn state(&self, slot: SlotIndex) -> SlotState {
        if self.remote_frees().has(slot) {
            return SlotState::Remote;
        }
        let state = free_state(self.states.of(slot).load(Acquire));
        match if state.has(HELD) { state.without(HELD) } else { state } {
            LIVE | SAMPLED | BEING_MADE => SlotState::Live,
            ZERO_FRESH | DIRTY_FRESH => SlotState::Fresh,
            _ => SlotState::Free,
        }
    }

    /// Returns the slab's slots.
    pub fn all_slots(&self) -> impl DoubleEndedIterator<Item = SlotIndex> + Clone + use<> {
        SlotIndex::range(0..self.slots())
    }

    /// Returns the address of a slot.
    #[inline]
    pub fn slot_address(&self, slot: SlotIndex) -> usize {
        self.base() + slot.begin(self.size())
    }

    /// Returns the number of bytes that the program may use of a slot that it has, or had last.
    #[inline(always)]
    pub fn block_bytes(&self, slot: SlotIndex) -> usize {
        self.slacks.block_bytes(slot, self.size())
    }

    /// Returns the number of bytes of a slot after a block of `bytes` bytes, or the largest number
    /// that can be kept, so that the program may use more bytes.
    #[inline(always)]
    pub fn slack_for(&self, bytes: usize) -> usize {
        self.bytes().saturating_sub(bytes).clamp(SLACK_MIN, SLACK_MOST)
    }

    /// Returns true if a block of `bytes` bytes could have been requested as the one in a slot: of
    /// as many, or of fewer if there are more bytes after it than can be kept. Secure build only.
    pub fn may_have_requested(&self, slot: SlotIndex, bytes: usize) -> bool {
        let kept = self.block_bytes(slot);
        bytes == kept || bytes < kept && self.size() - kept == SLACK_MOST
    }

    /// Returns what can be verified of a slot at this moment. The slab has its pages. Any thread.
    pub fn care(&self, slot: SlotIndex) -> SlotCare {
        match self.states.of(slot).load(Acquire) {
            LIVE if !self.remote_frees().has(slot) && self.slacks.was_handed_out(slot) => {
                SlotCare::Canary(self.block_bytes(slot))
            }
            ARMED => SlotCare::Pattern,
            // A slot that another thread has freed, and that has left its quarantine. A slot that
            // enters a quarantine may not be clear yet.
            QUARANTINED if WIPE && self.remote_frees().has(slot) => SlotCare::Zero,
            DIRTY | ZERO_CLEAN if WIPE && self.slacks.was_handed_out(slot) => SlotCare::Zero,
            GUARD_PAGE if self.is_before_guard_page(slot) => SlotCare::Any,
            GUARD_PAGE | RESERVED if CANARY => SlotCare::LastByte,
            state if CANARY && !state.has(TAKEN) => SlotCare::LastByte,
            _ => SlotCare::Any,
        }
    }

    /// Returns true if the slot after this one is on a guard page, or is none. Then the last byte
    /// of a slot whose place a guard page takes may be on a guard page, too.
    fn is_before_guard_page(&self, slot: SlotIndex) -> bool {
        let [_, after] = slot.beside();
        let state = self.states.get(after).map(|state| state.load(Acquire));
        matches!(state, None | Some(GUARD_PAGE | NO_SLOT))
    }

    /// Returns what the last byte of a slot may be at this moment, if it is not zero. Any thread.
    pub fn last_byte(&self, slot: SlotIndex) -> LastByte {
        let state = self.states.of(slot).load(Acquire);
        match state {
            ARMED => LastByte::Any,
            RESERVED => LastByte::Pattern,
            GUARD_PAGE => LastByte::Zero,
            // Held: it may carry its pattern, and its pages may go at this moment.
            _ if state.has(HELD.with(RESERVED)) => LastByte::Any,
            _ if state.has(TAKEN) => LastByte::Canary,
            _ => LastByte::Zero,
        }
    }

    /// Frees a live slot permanently. Returns false if the slot is not live. Any thread. If several
    /// threads free the slot at the same moment, one succeeds, or the owner finds the double free.
    pub fn free_permanently(&self, slot: SlotIndex) -> bool {
        let state = self.states.of(slot);
        // If the owner frees the slot at the same moment, the owner may win. That double free is
        // reported when the slot leaves the quarantine.
        !self.remote_frees().has(slot) && state.exchange(LIVE, PERMANENTLY_FREED, AcqRel, Acquire)
    }

    /// Returns what a slot contains at this moment. Any thread.
    pub fn rest(&self, slot: SlotIndex) -> Rest {
        let state = self.states.of(slot).load(Acquire);
        // A slot that another thread has freed has its mark, which is set after all changes to the
        // block.
        let left = state == DIRTY || state == LEFT && self.remote_frees().has(slot);
        if left { Rest::Left } else { Rest::Other }
    }

    /// Returns true if a slot was freed permanently.
    pub fn is_permanently_freed(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).load(Acquire) == PERMANENTLY_FREED
    }

    /// Returns the number of slots that the program has, without those that other threads have
    /// freed.
    #[inline(never)]
    pub fn live_slots(&self) -> usize {
        let live = |group| {
            self.states.live_bits(group)
                & !self.remote_frees().of_group(group)
                & valid_bits(self.slots(), group)
        };
        (0..GROUPS).map(|group| live(group).count_ones() as usize).sum()
    }

    /// Returns true if a thread that is not the owner may free the slot.
    ///
    /// The slot of a correct program stays live here. It was handed out before the program passed
    /// the pointer on, and no thread changes its state until it is freed.
    #[inline]
    pub fn is_live(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).load(Acquire).without(SAMPLED_BIT) == LIVE
    }

    /// Returns true if a slot is live as in `is_live`, and was not reported to a probe.
    #[inline]
    pub fn is_plainly_live(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).load(Acquire) == LIVE
    }

    /// Returns true if the program has the slot: it is live, and no thread has freed it.
    #[inline]
    pub fn is_in_use(&self, slot: SlotIndex) -> bool {
        self.is_live(slot) && !self.remote_frees().has(slot)
    }

    /// Returns the number of slots that were ever handed out.
    #[inline(never)]
    pub fn touched_slots(&self) -> usize {
        self.all_slots().filter(|&slot| self.state(slot) != SlotState::Fresh).count()
    }

    /// Returns the number of slots that were ever handed out and have their memory: as
    /// [`Slab::touched_slots`], without lent and reserved slots, by a few instructions for each 64
    /// slots.
    pub fn slots_with_memory(&self) -> usize {
        let with_memory = |group| {
            let without = self.states.fresh_bits(group) | self.states.lent_bits(group);
            !without & valid_bits(self.slots(), group)
        };
        (0..GROUPS).map(|group| with_memory(group).count_ones() as usize).sum()
    }

    /// Returns the number of lent slots.
    pub fn lent(&self) -> u32 {
        (0..GROUPS).map(|group| self.states.lent_bits(group).count_ones()).sum()
    }

    /// Returns true if a slot is free. A hint, unless the caller is the owner.
    pub fn has_free(&self) -> bool {
        (0..GROUPS).any(|group| self.states.free_bits(group) != 0)
    }

    /// Returns true if no slot is live.
    pub fn is_empty(&self) -> bool {
        self.held() == 0
    }

    /// Returns the first slot from `from` on that was freed, whose pages were not given back since,
    /// and that is not claimed. Owner only.
    pub fn next_left(&self, from: SlotIndex) -> Option<SlotIndex> {
        let (claimed, claim) = (self.claimed_group(), self.claimed());
        (from.group()..GROUPS).find_map(|group| {
            let before = if group == from.group() { from.bit() - 1 } else { 0 };
            let claim = if group == claimed { claim } else { 0 };
            let mut slots = self.states.dirty_bits(group) & !claim & !before;
            while slots != 0 {
                let slot = SlotIndex::in_group(group, slots.trailing_zeros());
                if self.states.of(slot).load(Relaxed) == DIRTY {
                    return Some(slot);
                }
                slots &= slots - 1;
            }
            None
        })
    }

    /// Takes a slot that `next_left` has returned, so that nothing else uses it. Returns false if
    /// the reclaimer holds it.
    pub fn take_left(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).exchange(DIRTY, FROM_CLAIM, Acquire, Relaxed)
    }

    /// Ends `take_left`.
    pub fn leave(&self, slot: SlotIndex) {
        self.states.of(slot).store(DIRTY, Release);
    }
}

/// Returns the bits of a group that belong to slots below `slots`.
pub(super) fn valid_bits(slots: usize, group: usize) -> u64 {
    match slots.saturating_sub(group * GROUP_SLOTS) {
        64.. => u64::MAX,
        some => (1 << some) - 1,
    }
}
