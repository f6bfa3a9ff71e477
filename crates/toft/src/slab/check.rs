//! The invariants of a slab, verified.

use super::slab::{SLOTS_MAX, Slab, WORD_SLOTS, WORDS, valid_bits, word_of};
use crate::sync::Ordering::Relaxed;

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl Slab {
    /// Verifies I1 to I6. Holder of the owning heap only, with no other thread freeing.
    pub fn check(&self) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let slots = self.slots();
        ensure(slots <= SLOTS_MAX && slots > 0, "I1: slots")?;
        let claim = self.claim.load(Relaxed);
        let live_word = self.live_word.load(Relaxed) as usize;
        ensure(live_word < WORDS, "I5: claimed word")?;
        let mut used = 0;
        for word in 0..WORDS {
            let live = word_of(&self.live, word).load(Relaxed);
            let remote = word_of(&self.remote, word).load(Relaxed);
            let claimed = if live_word == word { claim } else { 0 };
            ensure((live | claimed) & !valid_bits(slots, word) == 0, "I1: beyond the end")?;
            ensure(claimed & (live | remote) == 0, "I2: claimed and in use")?;
            ensure(remote & !live == 0, "I3: remote but not live")?;
            let fresh = (self.fresh.load(Relaxed) as usize).saturating_sub(word * WORD_SLOTS);
            let untouched = if fresh >= 64 { 0 } else { u64::MAX << fresh };
            ensure(live & untouched == 0, "I4: live but fresh")?;
            used += live.count_ones();
        }
        if claim != 0 {
            let base = self.base() + live_word * WORD_SLOTS * self.size();
            ensure(base == self.claim_base.load(Relaxed), "I5: claim base")?;
        }
        if !self.is_listed() {
            ensure(claim == 0, "I6: claim without a list")?;
            let free = slots as u32 - used;
            let missing = self.threshold().saturating_sub(free).max(1);
            let credit = self.credit.load(Relaxed);
            ensure(credit == missing, "I6: credit")?;
        }
        Ok(())
    }
}
