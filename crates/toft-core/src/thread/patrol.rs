//! The place at which a heap's next check of a few free slots begins, for
//! `watch/slot_checks/patrol.rs`.

use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

/// The number of bytes that malloc claims for each byte of a free slot that is checked.
const SHARE: usize = 32;
/// The most bytes that may be left to check. A slot of any size can then be paid for.
const MOST: usize = 1 << 20;
/// The fewest bytes for which a check is begun.
const LEAST: usize = 2 << 10;

/// The place of a heap's next check, and the bytes that it may check. All zero at first. Holder of
/// the heap, with its reentrancy guard.
#[derive(Debug)]
pub(crate) struct Patrol {
    slab: AtomicU32,
    slot: AtomicU32,
    credit: AtomicU32,
}

impl Patrol {
    /// Counts `bytes` bytes that malloc has claimed. Returns true if a check is due.
    #[inline(always)]
    pub(crate) fn earn(&self, bytes: usize) -> bool {
        let credit = (self.credit() + bytes / SHARE).min(MOST);
        self.credit.store(credit as u32, Relaxed);
        credit >= LEAST
    }

    /// Returns the number of bytes that may be checked.
    pub(crate) fn credit(&self) -> usize {
        self.credit.load(Relaxed) as usize
    }

    /// Takes off bytes that were checked, of those that `credit` returned.
    pub(crate) fn spend(&self, bytes: usize) {
        self.credit.store(self.credit().saturating_sub(bytes) as u32, Relaxed);
    }

    /// Returns the numbers of the next slab, and of the slot in it.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.slab.load(Relaxed) as usize, self.slot.load(Relaxed) as usize)
    }

    /// Sets what `place` returns.
    pub(crate) fn go_to(&self, slab: usize, slot: usize) {
        self.slab.store(slab as u32, Relaxed);
        self.slot.store(slot as u32, Relaxed);
    }
}
