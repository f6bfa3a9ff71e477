//! Giving back the pages of free slots, while others of the slab are live.

use super::slab::Slab;
use super::states::{DIRTY, DIRTY_FRESH, SOILED, TAKEN, ZERO_CLEAN, ZERO_FRESH};
use crate::sync::Ordering::Relaxed;

/// What a slab that is not its bin's current one looks like, at every look.
const NOT_CURRENT: u32 = u32::MAX;

impl Slab {
    /// Looks whether anything has happened here since the last look: whether the slab has become
    /// current, or ceased to be, or, where it is, whether a claim or a free has come. Owner.
    ///
    /// Frees do not count where malloc does not draw from the slab: what is free there stays so.
    pub fn look(&self, is_current: bool) -> Look {
        let seen = if is_current { self.activity() } else { NOT_CURRENT };
        if self.seen.load(Relaxed) != seen {
            self.seen.store(seen, Relaxed);
            return Look::Busy;
        }
        // What has been given back since the last free need not be searched for again.
        if self.tidy_at.load(Relaxed) == self.freed_so_far() { Look::Tidy } else { Look::Idle }
    }

    /// A number that differs, but for rare accidents, after a claim, a malloc or a free.
    pub(super) fn activity(&self) -> u32 {
        let claim = self.claimed();
        let number = self.frees_so_far() ^ (claim as u32) ^ (claim >> 32) as u32;
        number.min(NOT_CURRENT - 1)
    }

    /// The same, with what other threads have freed and the owner has not counted yet.
    pub(super) fn freed_so_far(&self) -> u32 {
        self.frees_so_far().wrapping_add(self.remote_slots() as u32)
    }

    fn frees_so_far(&self) -> u32 {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        // Off by one, so that zero stands for "never".
        (self.frees.load(Relaxed) as u32).wrapping_add(spent).wrapping_add(1)
    }

    /// Gives back each page of which no byte belongs to a slot that is live, and says how many bytes
    /// went. What malloc would have handed out next is not claimed any more. Holder of the owning
    /// heap only, with its seat. `discard` gives a range back, or says no.
    pub fn give_back_pages(
        &self,
        page: usize,
        mut discard: impl FnMut(usize, usize) -> bool,
    ) -> usize {
        if self.is_shared() {
            return 0;
        }
        self.unclaim();
        // Not with what others have freed: that is taken for live here, and may go when it is collected.
        self.tidy_at.store(self.frees_so_far(), Relaxed);
        let mut given = 0;
        let free = |slot| self.is_free(slot).then(|| self.is_dirty(slot));
        self.runs(page, free, |(first, end), (start, stop)| {
            if discard(self.base() + start, stop - start) {
                self.mark_zero(first, end, (start, stop));
                given += stop - start;
            }
        });
        given
    }

    /// Names each run of slots for which `wanted` says something and which has whole pages, if it says
    /// of one of them that it is soiled: the slots `first..end`, and the offsets of the pages.
    pub(super) fn runs(
        &self,
        page: usize,
        wanted: impl Fn(usize) -> Option<bool>,
        mut each: impl FnMut((usize, usize), (usize, usize)),
    ) {
        let mut slot = 0;
        while slot < self.slots() {
            let (first, mut soiled) = (slot, false);
            while slot < self.slots()
                && let Some(is_soiled) = wanted(slot)
            {
                soiled |= is_soiled;
                slot += 1;
            }
            if soiled {
                let (start, stop) = self.pages_of(first, slot, page);
                if start < stop {
                    each((first, slot), (start, stop));
                }
            }
            slot += usize::from(slot == first);
        }
    }

    /// Offsets of the pages within the slots `first..end`, the pages behind the last slot included.
    fn pages_of(&self, first: usize, end: usize, page: usize) -> (usize, usize) {
        let start = (first * self.size() + page - 1) & !(page - 1);
        let bytes = self.tier().slab_bytes();
        let end = if end == self.slots() { bytes } else { end * self.size() };
        (start, end & !(page - 1))
    }

    /// Slots of `first..end` that lie within the bytes `start..stop` are zero again.
    fn mark_zero(&self, first: usize, end: usize, (start, stop): (usize, usize)) {
        for slot in first..end {
            let begin = slot * self.size();
            if begin < start || begin + self.size() > stop {
                continue;
            }
            let state = self.state_of(slot);
            match state.load(Relaxed) {
                DIRTY => state.store(ZERO_CLEAN, Relaxed),
                DIRTY_FRESH => state.store(ZERO_FRESH, Relaxed),
                _ => {}
            }
        }
    }

    fn is_free(&self, slot: usize) -> bool {
        self.state_of(slot).load(Relaxed) & TAKEN == 0
    }

    fn is_dirty(&self, slot: usize) -> bool {
        self.state_of(slot).load(Relaxed) & SOILED != 0
    }
}

/// What a look at a slab has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Something has happened since the last look.
    Busy,
    /// Nothing has happened, and free slots may have pages.
    Idle,
    /// Nothing has happened, and what could be given back has been.
    Tidy,
}
