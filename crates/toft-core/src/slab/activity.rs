//! What has happened in a slab since a thread last scanned it. No block depends on it: only the time
//! at which pages are given back or shared.

use super::slab::{GROUP_SLOTS, GROUPS, Slab};
use crate::sync::Ordering::Relaxed;

/// Set in `seen` if the slab is not its bin's current one.
const NOT_CURRENT: u32 = 1 << 31;

/// The result of a scan of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabActivity {
    /// Something has happened since the last scan.
    Busy,
    /// Nothing has happened, and free slots may have pages.
    Idle,
    /// Nothing has happened, and all that could be given back was.
    Discarded,
}

impl Slab {
    /// Checks if anything has happened here since the last call: the slab has become or ceased to
    /// be current, or a current slab had a claim or a free. `is_current` is called if that must be
    /// known exactly. Owner or reclaimer only.
    ///
    /// Frees do not count if malloc does not draw from the slab, because its free slots stay free.
    pub fn scan_activity(&self, is_current: impl FnOnce() -> bool) -> SlabActivity {
        let has_claim = self.claimed() != 0;
        let freed = self.freed_so_far();
        let now = if has_claim { self.activity() & !NOT_CURRENT } else { freed | NOT_CURRENT };
        let before = self.seen.load(Relaxed);
        if before != now {
            self.seen.store(now, Relaxed);
            if has_claim || before & NOT_CURRENT == 0 {
                return SlabActivity::Busy;
            }
        }
        // Pages that were given back since the last free need not be searched again.
        if self.discarded_at.load(Relaxed) == freed {
            return SlabActivity::Discarded;
        }
        // A current slab has no claim at times, because its claim is used up.
        if before != now && is_current() { SlabActivity::Busy } else { SlabActivity::Idle }
    }

    /// Returns a number that changes, except for rare accidents, with a claim, a malloc or a free.
    pub(super) fn activity(&self) -> u32 {
        let claim = self.claimed();
        self.frees_so_far() ^ (claim as u32) ^ (claim >> 32) as u32
    }

    /// Returns a number that changes, except for rare accidents, with a malloc or a free of any
    /// thread. Any thread may call this.
    pub fn activity_ever(&self) -> u32 {
        // Without the rotation, equal changes of the two counts could cancel.
        self.freed_so_far() ^ (self.allocations() as u32).rotate_left(16)
    }

    /// Returns the number of bytes of free slots that may not be zero. Counts at most as many slots
    /// as were freed since the slab's pages were last given back. A hint; any thread may call this.
    pub fn freed_since_discard(&self) -> usize {
        let frees = self.freed_so_far().wrapping_sub(self.discarded_at.load(Relaxed)) as usize;
        if frees == 0 {
            return 0;
        }
        let groups = self.slots().div_ceil(GROUP_SLOTS).min(GROUPS);
        let dirty: u32 = (0..groups).map(|group| self.states.dirty_bits(group).count_ones()).sum();
        frees.min(dirty as usize + self.remote.count()) * self.size()
    }

    /// Returns `frees_so_far`, plus the slots that other threads have freed and the owner has not
    /// counted.
    pub(super) fn freed_so_far(&self) -> u32 {
        self.frees_so_far().wrapping_add(self.remote.count() as u32)
    }

    pub(super) fn frees_so_far(&self) -> u32 {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        // An absorbed free was a remote slot before. The result is off by one, so that zero stands
        // for "never".
        let frees = self.frees.load(Relaxed).wrapping_add(self.absorbed.load(Relaxed)) as u32;
        frees.wrapping_add(spent).wrapping_add(1)
    }

    /// Returns true if pages of claimed slots may be there: slots were claimed since the pages were
    /// given back.
    pub fn may_have_unused(&self) -> bool {
        self.claimed() != 0 && self.unused_at.load(Relaxed) != self.claim_mark()
    }

    /// Records that the pages of claimed slots were given back if `gone`, or that it must be tried
    /// again.
    pub fn note_unused(&self, gone: bool) {
        if gone {
            self.unused_at.store(self.claim_mark(), Relaxed);
        } else {
            self.discarded_at.store(0, Relaxed);
        }
    }
}
