//! What other threads do to a slab, and what its holder does about it.

use super::slab::{Slab, WORD_SLOTS, word_of};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

impl Slab {
    /// Whether a slot may be freed by a thread that is not the owner.
    ///
    /// The slot of a correct program is stably live here: it was handed out before the pointer was
    /// handed over, and nobody changes its bit until it is freed.
    #[inline]
    pub fn is_live(&self, slot: usize) -> bool {
        word_of(&self.live, slot / WORD_SLOTS).load(Acquire) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Sets a slot's remote bit; says whether it was clear.
    #[inline]
    pub fn set_remote(&self, slot: usize) -> bool {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        // remote bit: pairs with `collect`, so that the owner sees what the freer did before.
        word_of(&self.remote, word).fetch_or(bit, SeqCst) & bit == 0
    }

    /// Whether another thread has freed this slot.
    pub fn is_remote(&self, slot: usize) -> bool {
        word_of(&self.remote, slot / WORD_SLOTS).load(Acquire) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Collects what other threads have freed; tells the slots that were not live through `bad`.
    /// Says whether the slab must be listed again. Holder of the owning heap only.
    pub fn collect(&self, mut bad: impl FnMut(usize)) -> bool {
        let mut frees = 0;
        for word in 0..self.slots().div_ceil(WORD_SLOTS) {
            if word_of(&self.remote, word).load(SeqCst) == 0 {
                continue;
            }
            // collect: pairs with `set_remote`.
            let freed = word_of(&self.remote, word).swap(0, SeqCst);
            let live = word_of(&self.live, word).load(Relaxed);
            let good = freed & live;
            word_of(&self.live, word).store(live & !good, Release);
            frees += good.count_ones();
            let mut wrong = freed & !good;
            while wrong != 0 {
                bad(word * WORD_SLOTS + wrong.trailing_zeros() as usize);
                wrong &= wrong - 1;
            }
        }
        self.spend_credit(frees)
    }

    /// Sets flags in `owner`; returns what it was.
    pub fn set_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_or(flag, SeqCst)
    }

    /// Clears flags in `owner`; returns what it was.
    pub fn clear_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_and(!flag, SeqCst)
    }

    /// Hands the slab to another heap, unless a remote free has put it on a pending stack meanwhile.
    pub fn change_owner(&self, from: usize, to: usize) -> bool {
        self.owner.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Slots freed by other threads and not yet collected.
    pub fn remote_slots(&self) -> usize {
        self.remote.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }
}
