//! The invariants of a slab, verified.

use super::slab::{GROUP_SLOTS, GROUPS, PENDING, SLOTS_MAX, Slab, valid_bits};
use super::states::DIRTY_FRESH;
use crate::policy::HARDENED;
use crate::sync::Ordering::Relaxed;

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl Slab {
    /// Verifies I1 to I10. Holder of the owning heap only, with no other thread freeing.
    pub fn check(&self) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let slots = self.slots();
        ensure(slots <= SLOTS_MAX && slots > 0, "I1: slots")?;
        let claim = self.claimed();
        ensure(claim == 0 || self.claimed_group() < GROUPS, "I5: claimed group")?;
        ensure(self.uncounted() == 0 || !self.is_awake(), "I9: awake but not counted")?;
        let fresh = self.fresh.load(Relaxed) as usize;
        for group in 0..GROUPS {
            let lent = self.lent_bits(group);
            let live = !self.free_bits(group) & valid_bits(slots, group) & !lent;
            ensure(lent & !valid_bits(slots, group) == 0, "I1: lent beyond the end")?;
            ensure(lent == 0 || self.is_shared() || HARDENED, "I8: lent, but not shared")?;
            let remote = self.remote_bits(group);
            let claimed = if claim != 0 && self.claimed_group() == group { claim } else { 0 };
            let dirty = self.dirty_bits(group);
            let in_use = live | claimed | dirty;
            // Pages that were readied for what was never handed out count as not zero.
            let readied = dirty & !claimed & self.fresh_bits(group);
            let free = self.free_bits(group) | remote;
            ensure((in_use | free) & !valid_bits(slots, group) == 0, "I1: beyond the end")?;
            ensure(claimed & (live | remote) == 0, "I2: claimed and in use")?;
            ensure(remote & !live == 0, "I3: remote but not live")?;
            let in_use = if self.is_shared() { live | claimed } else { in_use & !readied };
            ensure(in_use & !valid_bits(fresh, group) == 0, "I4: in use but fresh")?;
        }
        ensure(fresh <= GROUPS * GROUP_SLOTS, "I4: fresh")?;
        ensure(!HARDENED || self.has_its_reserved(), "I10: reserved slots")?;
        if !self.has_owner() {
            return self.check_nobodys();
        }
        let shares = self.shares.iter().any(|share| share.load(Relaxed) != 0);
        ensure(shares == self.is_shared(), "I8: shares and the flag")?;
        if !self.is_listed() {
            ensure(claim == 0, "I6: claim without a list")?;
            let told = self.disturbed.load(Relaxed) != 0 || self.is_shared();
            ensure(told || self.credit.load(Relaxed) == self.missing(), "I6: credit")?;
            let told = self.disturbed.load(Relaxed) != 0 && !self.is_shared();
            let pending = self.owner.load(Relaxed) & PENDING != 0;
            ensure(!told || pending, "I6: disturbed and not announced")?;
        }
        Ok(())
    }

    /// Verifies I7, of a slab that no heap owns.
    fn check_nobodys(&self) -> Result<(), Violation> {
        if self.is_listed() || self.claimed() != 0 || !self.is_empty() {
            return Err(Violation("I7: nobody's, but in use"));
        }
        Ok(())
    }

    /// A bit for each slot of a group that was never handed out, but may be other than zero.
    fn fresh_bits(&self, group: usize) -> u64 {
        (0..GROUP_SLOTS.min(SLOTS_MAX)).fold(0, |bits, bit| {
            let state = self.state_of(group * GROUP_SLOTS + bit).load(Relaxed);
            bits | u64::from(state == DIRTY_FRESH) << bit
        })
    }
}
