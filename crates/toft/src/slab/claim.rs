//! Claiming slots, handing them out, taking them back: what malloc and free do to a slab of their
//! own thread.

use super::SLOTS_MAX;
use super::slab::{PENDING, Slab, WORD_SLOTS, valid_bits, word_of};
use crate::sync::Ordering::{Relaxed, Release};

/// Bytes of slots that a claim may span, so that a rarely used site touches few pages.
const CLAIM_SPAN: usize = 4096;
/// How many doublings a hot slab's claims may grow by.
const HEAT_MAX: u32 = 2;

/// What taking a slot back has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The slot is free.
    Done,
    /// The slot is free, and the slab's credit is spent: `Slab::credit_spent` says what follows.
    Spent,
    /// The slot was not live.
    NotLive,
}

impl Slab {
    /// Hands out a claimed slot. Owner only.
    ///
    /// 5 loads, 2 stores and 1 multiplication. What one call leaves for the next is the claim.
    #[inline(always)]
    pub fn pop(&self) -> Option<usize> {
        let claim = self.claim.load(Relaxed);
        if claim == 0 {
            return None;
        }
        let rest = claim & (claim - 1);
        self.claim.store(rest, Relaxed);
        // SAFETY: `claim_from` has set `live_word` to an index below WORDS.
        let live = unsafe { self.live.get_unchecked(self.live_word.load(Relaxed) as usize) };
        live.store(live.load(Relaxed) | (claim ^ rest), Relaxed);
        let slot = claim.trailing_zeros() as usize;
        let size = self.slot_size.load(Relaxed) as usize;
        Some(self.claim_base.load(Relaxed) + slot * size)
    }

    /// Whether the slot that `pop` has just handed out had never been handed out before.
    #[inline(always)]
    pub fn popped_fresh(&self, address: usize) -> bool {
        // The claim's slots are at most 64, and both operands are exact multiples of the size.
        let offset = address - self.claim_base.load(Relaxed);
        let slot = offset / (self.slot_size.load(Relaxed) as usize).max(1);
        self.claim_fresh.load(Relaxed) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Takes a slot back. Owner only.
    ///
    /// 2 loads and 2 stores.
    #[inline(always)]
    pub fn put(&self, slot: usize) -> Put {
        debug_assert!(slot < SLOTS_MAX);
        // SAFETY: `slot_at` gives slots below SLOTS_MAX only.
        let live = unsafe { self.live.get_unchecked(slot / WORD_SLOTS) };
        let bits = live.load(Relaxed);
        let rest = bits & !(1u64 << (slot % WORD_SLOTS));
        if rest == bits {
            return Put::NotLive;
        }
        live.store(rest, Relaxed);
        // SAFETY: (1) only the owner touches the credit, and the caller is the owner.
        let credit = unsafe { crate::sync::decrement(&self.credit) };
        if credit == 0 { Put::Spent } else { Put::Done }
    }

    /// Claims free slots for `pop`: the lowest free ones of the lowest word that has any, so that a
    /// slab stays packed. Owner only, with the claim used up. False when the slab is full.
    #[inline(always)]
    pub fn refill(&self) -> bool {
        debug_assert_eq!(self.claim.load(Relaxed), 0);
        for (word, live) in self.live.iter().enumerate() {
            let mut free = !live.load(Relaxed);
            if free == 0 {
                continue;
            }
            free &= valid_bits(self.claimable.load(Relaxed) as usize, word);
            if self.owner.load(Relaxed) & PENDING != 0 {
                // A free slot with its remote bit set was freed twice by racing threads. It must
                // not be handed out again before `collect` has named it.
                free &= !word_of(&self.remote, word).load(Relaxed);
            }
            if free != 0 {
                self.claim_from(word, free);
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn claim_from(&self, word: usize, free: u64) {
        let size = self.slot_size.load(Relaxed) as usize;
        let low = word * WORD_SLOTS;
        let fresh = self.fresh.load(Relaxed) as usize;
        let mut claim = free;
        let mut fresh_bits = 0;
        if fresh < self.slots() {
            claim = self.claim_less(free, size);
            let end = low + 64 - claim.leading_zeros() as usize;
            if end > fresh {
                self.fresh.store(end as u32, Relaxed);
                fresh_bits = claim & u64::MAX << fresh.saturating_sub(low);
            }
        }
        self.claim_fresh.store(fresh_bits, Relaxed);
        self.claim_base.store(self.base() + low * size, Relaxed);
        self.live_word.store(word as u32, Relaxed);
        // The claim comes last, so that a signal handler that interrupts here finds the bin empty
        // rather than half made.
        crate::sync::compiler_fence(Release);
        self.claim.store(claim, Relaxed);
    }

    /// A slab with slots that were never used is touched with care: a claim spans a page or little
    /// more, so that what is freed is used again before what is fresh.
    #[cold]
    fn claim_less(&self, free: u64, size: usize) -> u64 {
        let heat = self.heat.load(Relaxed);
        if heat < HEAT_MAX {
            self.heat.store(heat + 1, Relaxed);
        }
        let span = ((CLAIM_SPAN << heat) / size.max(1)).max(1) as u32;
        match free.trailing_zeros() + span {
            end @ 0..64 => free & ((1 << end) - 1),
            _ => free,
        }
    }

    /// Gives an unused claim back. Holder of the owning heap only.
    pub fn unclaim(&self) {
        // Slots are handed out from the lowest up, so that those of the claim that were not are the
        // last of all that count as touched.
        let untouched = self.claim.load(Relaxed) & self.claim_fresh.load(Relaxed);
        if untouched != 0 {
            let low = self.live_word.load(Relaxed) * WORD_SLOTS as u32;
            self.fresh.store(low + untouched.trailing_zeros(), Relaxed);
        }
        self.claim.store(0, Relaxed);
    }
}
