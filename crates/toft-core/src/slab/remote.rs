//! The slots of a slab that other threads have freed and the holder has not collected.

use super::slab::GROUPS;
use super::slots::SlotIndex;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

/// A bit for each slot that another thread has freed. Other threads set a bit by one atomic
/// operation, and the holder of the slab takes a whole word. The thread that takes a bit has the
/// slot alone.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(transparent)]
pub struct RemoteBits([AtomicU64; GROUPS]);

impl RemoteBits {
    #[inline]
    fn word(&self, group: usize) -> &AtomicU64 {
        debug_assert!(group < GROUPS);
        // The remainder is the group, and costs less than a comparison and a panic.
        &self.0[group % GROUPS]
    }

    /// Returns a bit for each slot of a group that another thread has freed.
    pub(super) fn of_group(&self, group: usize) -> u64 {
        self.word(group).load(Relaxed)
    }

    /// Sets a slot's bit. Returns true if it was clear.
    #[inline]
    pub fn set(&self, slot: SlotIndex) -> bool {
        let bit = slot.bit();
        // remote bit: pairs with `take_group`, so that the owner sees what the freer did before.
        self.word(slot.group()).fetch_or(bit, SeqCst) & bit == 0
    }

    /// Sets the bits of several slots of a group. Returns those that were set already.
    pub(super) fn publish(&self, group: usize, marks: u64) -> u64 {
        // remote bit.
        self.word(group).fetch_or(marks, SeqCst) & marks
    }

    /// Returns true if another thread has freed this slot, and has published that.
    pub fn has(&self, slot: SlotIndex) -> bool {
        self.word(slot.group()).load(Acquire) & slot.bit() != 0
    }

    /// Clears a slot's bit. Returns true if it was set.
    pub(super) fn take(&self, slot: SlotIndex) -> bool {
        let bit = slot.bit();
        // pairs: remote bit.
        self.word(slot.group()).fetch_and(!bit, SeqCst) & bit != 0
    }

    /// Clears the bits of a group, and returns them.
    pub(super) fn take_group(&self, group: usize) -> u64 {
        let word = self.word(group);
        // collect: pairs with `set`.
        if word.load(SeqCst) == 0 { 0 } else { word.swap(0, SeqCst) }
    }

    /// Returns the number of slots that other threads have freed and the owner has not collected.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }
}
