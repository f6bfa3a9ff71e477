//! Remote operations on a slab: frees by other threads, and their collection by the holder.

use super::Spent;
use super::slab::{GROUP_SLOTS, GROUPS, Slab};
use super::slots::SlotIndex;
use super::states::{DIRTY, LEFT, LIVE, REMOTE_CLEAN, SAMPLED_BIT, ZERO_CLEAN};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

impl Slab {
    /// Returns true if a thread that is not the owner may free the slot.
    ///
    /// The slot of a correct program stays live here. It was handed out before the program passed
    /// the pointer on, and no thread changes its state until it is freed.
    #[inline]
    pub fn is_live(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).load(Acquire).without(SAMPLED_BIT) == LIVE
    }

    /// Returns true if a slot is live as in `is_live`, and was not reported to a probe.
    #[inline]
    pub fn is_plainly_live(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).load(Acquire) == LIVE
    }

    #[inline]
    pub(super) fn remote_word(&self, group: usize) -> &AtomicU64 {
        debug_assert!(group < GROUPS);
        // SAFETY: callers' groups come from a loop over GROUPS, or from a slot of the slab.
        unsafe { self.remote.get_unchecked(group) }
    }

    /// Returns a bit for each slot of a group that another thread has freed.
    pub(super) fn remote_bits(&self, group: usize) -> u64 {
        self.remote_word(group).load(Relaxed)
    }

    /// Sets a slot's remote bit. Returns true if it was clear.
    #[inline]
    pub fn set_remote(&self, slot: SlotIndex) -> bool {
        let bit = slot.bit();
        // remote bit: pairs with `collect`, so that the owner sees what the freer did before.
        let before = self.remote_word(slot.group()).fetch_or(bit, SeqCst);
        before & bit == 0
    }

    /// Returns true if another thread has freed this slot.
    pub fn is_remote(&self, slot: SlotIndex) -> bool {
        self.remote_word(slot.group()).load(Acquire) & slot.bit() != 0
    }

    /// Collects what other threads have freed. Calls `bad` for each slot that was not live. Returns
    /// what to do about the slab's credit. Holder of the owning heap only.
    pub fn collect(&self, mut bad: impl FnMut(SlotIndex)) -> Spent {
        let mut frees = 0;
        for group in 0..self.slots().div_ceil(GROUP_SLOTS) {
            if self.remote_word(group).load(SeqCst) == 0 {
                continue;
            }
            // collect: pairs with `set_remote`.
            let mut freed = self.remote_word(group).swap(0, SeqCst);
            while freed != 0 {
                let slot = SlotIndex::in_group(group, freed.trailing_zeros());
                freed &= freed - 1;
                let state = self.state_of(slot).load(Relaxed);
                if state == REMOTE_CLEAN {
                    self.state_of(slot).store(ZERO_CLEAN, Release);
                } else if state == LEFT {
                    self.state_of(slot).store(DIRTY, Release);
                } else {
                    bad(slot);
                    continue;
                }
                frees += 1;
            }
        }
        if self.disturbed.load(Relaxed) != 0 {
            self.frees.store(self.frees.load(Relaxed) + u64::from(frees), Relaxed);
            return self.recount();
        }
        self.spend_credit(frees)
    }

    /// Sets flags in `owner`. Returns the previous value.
    pub fn set_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_or(flag, SeqCst)
    }

    /// Clears flags in `owner`. Returns the previous value.
    pub fn clear_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_and(!flag, SeqCst)
    }

    /// Hands the slab to another heap. Returns false if the owner word has a flag: for example, a
    /// remote free has put the slab on a pending stack meanwhile.
    pub fn change_owner(&self, from: usize, to: usize) -> bool {
        self.owner.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Returns true if the program has the slot: it is live, and no thread has freed it.
    #[inline]
    pub fn is_in_use(&self, slot: SlotIndex) -> bool {
        self.is_live(slot) && !self.is_remote(slot)
    }

    /// Returns the number of slots that other threads have freed and the owner has not collected.
    pub fn remote_slots(&self) -> usize {
        self.remote.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }
}
