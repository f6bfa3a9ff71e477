//! What has happened in a slab since a thread last scanned it. Only the time at which pages are
//! given back or shared depends on the results.

use super::slab::{GROUP_SLOTS, GROUPS, SECURE_LEN, Slab, UNITS};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32};

/// Set in `seen` if the slab is not its bin's current one.
const NOT_CURRENT: u32 = 1 << 31;

/// The part of a descriptor that only scanning threads use: the reclaimer, the compacting thread,
/// and an owner that returns memory. One of them writes at a time.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct ScanRecord {
    /// Unused. `reserved.rs` may read it as the state of the slot after the last.
    pub(super) _after_states: AtomicU8,
    /// The slab's activity at the last scan (`scan_activity`).
    seen: AtomicU32,
    /// The slab's number of frees when its pages were last given back, or zero.
    discarded_at: AtomicU32,
    /// The slab's activity at the last scan for compaction.
    calm: AtomicU32,
    /// The page idleness at the last scan for cold pages.
    pub(crate) idleness: AtomicU32,
    /// The slab's activity at the last scan for cold pages.
    stamp: AtomicU32,
    /// The group of units that each unit shares pages with, or zero (I8, `page_sharing.rs`).
    pub(super) shares: [AtomicU16; UNITS * (1 - SECURE_LEN)],
}

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
        self.forget_credits();
        let has_claim = self.claimed() != 0;
        let freed = self.freed_so_far();
        let now = if has_claim { self.activity() & !NOT_CURRENT } else { freed | NOT_CURRENT };
        let before = self.scans.seen.load(Relaxed);
        if before != now {
            self.scans.seen.store(now, Relaxed);
            if has_claim || before & NOT_CURRENT == 0 {
                return SlabActivity::Busy;
            }
        }
        // Pages that were given back since the last free need not be searched again.
        if self.scans.discarded_at.load(Relaxed) == freed {
            return SlabActivity::Discarded;
        }
        // A current slab has no claim at times, because its claim is used up.
        if before != now && is_current() { SlabActivity::Busy } else { SlabActivity::Idle }
    }

    /// Returns a number that changes, except for rare accidents, with a claim, a malloc or a free.
    fn activity(&self) -> u32 {
        let claim = self.claimed();
        self.frees_so_far() ^ (claim as u32) ^ (claim >> 32) as u32
    }

    /// Returns true if nothing has happened here since the last call. For scans for compaction.
    pub fn is_calm(&self) -> bool {
        let now = self.activity().wrapping_add(self.remote.count() as u32).max(1);
        let before = self.scans.calm.load(Relaxed);
        self.scans.calm.store(now, Relaxed);
        now == before
    }

    /// Returns true if no thread has called malloc or free here since the last call, except for
    /// rare accidents. For scans for cold pages.
    pub fn is_quiet(&self) -> bool {
        // Without the rotation, equal changes of the two counts could cancel.
        let now = self.freed_so_far() ^ (self.allocations() as u32).rotate_left(16);
        self.scans.stamp.swap(now, Relaxed) == now
    }

    /// Returns the number of bytes of free slots that may not be zero. Counts at most as many slots
    /// as were freed since the slab's pages were last given back. A hint; any thread may call this.
    pub fn freed_since_discard(&self) -> usize {
        let frees =
            self.freed_so_far().wrapping_sub(self.scans.discarded_at.load(Relaxed)) as usize;
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

    /// Returns the number of frees when the slab's pages were last given back, or zero.
    pub(super) fn discarded_at(&self) -> u32 {
        self.scans.discarded_at.load(Relaxed)
    }

    /// Records that the pages of all slots that were free after `frees` frees are given back.
    pub(super) fn note_discard(&self, frees: u32) {
        self.scans.discarded_at.store(frees, Relaxed);
    }

    /// Records that there may be pages to give back, although no slot was freed.
    pub(super) fn search_again(&self) {
        self.scans.discarded_at.store(0, Relaxed);
    }

    /// Records that there may be pages to give back and fewer bytes to count.
    pub(super) fn scan_again(&self) {
        self.search_again();
        self.limit_count().is_not_counted();
    }
}
