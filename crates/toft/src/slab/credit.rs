//! When a slab is listed again, and when it is empty: told by counting frees down to zero, which
//! costs free one instruction in place.

use super::slab::{GROUPS, Slab};
use super::states::{DIRTY, ZERO_CLEAN};
use crate::sync::Ordering::Relaxed;

/// Least credit of a listed slab, so that one with few blocks does not ask at every free.
const LISTED_MIN: u32 = 512;
/// The share of its slots that must be free, as a shift, before a slab that was full is listed
/// again. With less, every free and every malloc of a steady program would change a list; this is
/// the slack that law 4 counts with (decision 0003).
const RELIST_SHIFT: u32 = 2;

/// What follows when a slab's credit is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing.
    Nothing,
    /// The slab must be put on its bin's list.
    List,
    /// The slab is on its list, and no slot is live.
    Empty,
}

impl Slab {
    pub(super) fn set_credit(&self, credit: u32) {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        self.frees.store(self.frees.load(Relaxed) + u64::from(spent), Relaxed);
        self.credit_start.store(credit, Relaxed);
        self.credit.store(credit, Relaxed);
    }

    pub(super) fn threshold(&self) -> u32 {
        (self.slots() as u32 >> RELIST_SHIFT).max(1)
    }

    /// The slab has no free slot left and leaves its list: it comes back after so many frees.
    pub fn unlist(&self) {
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(self.threshold());
    }

    /// The slab goes on its list. From here on the credit watches for emptiness: as many frees as
    /// there are live slots now.
    pub fn relist(&self) {
        self.listed.store(1, Relaxed);
        self.set_credit(self.held().max(1));
    }

    /// Slots that are live, those freed by others included. Owner.
    pub(super) fn held(&self) -> u32 {
        let free: u32 = (0..GROUPS).map(|group| self.free_bits(group).count_ones()).sum();
        (self.slots() as u32).saturating_sub(free)
    }

    /// What to do about a slab whose credit is spent. `exact` asks to be told of emptiness as soon
    /// as it is there, at the price of more such questions. Owner.
    pub fn credit_spent(&self, exact: bool) -> Spent {
        if !self.is_listed() {
            return Spent::List;
        }
        let held = self.held();
        self.set_credit(held.max(if exact { 1 } else { LISTED_MIN }));
        if held == 0 { Spent::Empty } else { Spent::Nothing }
    }

    /// The credit is spent at a moment when nothing can be done: one more free brings it up again.
    pub fn postpone(&self) {
        self.set_credit(1);
    }

    /// Whether the pages of the slab are unmapped.
    pub fn is_dormant(&self) -> bool {
        self.awake.load(Relaxed) == 0
    }

    /// Nothing may be claimed from here on: the pages are about to go. Owner, of an empty slab.
    pub fn lie_dormant(&self) {
        debug_assert_eq!(self.held(), 0);
        self.unclaim();
        self.awake.store(0, Relaxed);
        // What comes back will be zero.
        self.change_states(DIRTY, ZERO_CLEAN);
        self.fresh.store(0, Relaxed);
    }

    /// The pages are mapped again; or still, and then they may not be zero.
    pub fn wake(&self, zero: bool) {
        if !zero {
            self.change_states(ZERO_CLEAN, DIRTY);
            self.fresh.store(self.slots() as u16, Relaxed);
        }
        self.awake.store(1, Relaxed);
    }

    /// Whether the slab is on its bin's list.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Relaxed) != 0
    }

    /// Counts frees by other threads; says whether the slab must be listed now.
    pub(super) fn spend_credit(&self, frees: u32) -> bool {
        let credit = self.credit.load(Relaxed);
        if frees < credit {
            self.credit.store(credit - frees, Relaxed);
            return false;
        }
        self.frees.store(self.frees.load(Relaxed) + u64::from(frees - credit), Relaxed);
        self.credit.store(0, Relaxed);
        self.credit_spent(false) == Spent::List
    }
}
