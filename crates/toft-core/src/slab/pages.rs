//! Gives back the pages of free slots, while other slots of the slab are live.

use super::slab::{GROUP_SLOTS, GROUPS, Slab};
use super::slots::SlotIndex;
use super::states::{DIRTY, DIRTY_FRESH, SOILED, TAKEN, ZERO_CLEAN, ZERO_FRESH};
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;

/// Set in `seen` if the slab is not its bin's current one.
const NOT_CURRENT: u32 = 1 << 31;

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

    fn frees_so_far(&self) -> u32 {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        // An absorbed free was a remote slot before. The result is off by one, so that zero stands
        // for "never".
        let frees = self.frees.load(Relaxed).wrapping_add(self.absorbed.load(Relaxed)) as u32;
        frees.wrapping_add(spent).wrapping_add(1)
    }

    /// Gives back each page that has no byte of a live slot, and returns the number of bytes. Drops
    /// the claim first. `discard` gives a range back, or returns false. Holder of the owning heap
    /// only, with its seat.
    pub fn discard_pages(
        &self,
        page: usize,
        mut discard: impl FnMut(usize, usize) -> bool,
    ) -> usize {
        if self.is_shared() {
            return 0;
        }
        self.unclaim();
        // Without the slots that other threads have freed. They count as live here, and their pages
        // may be given back after the owner collects them.
        self.discarded_at.store(self.frees_so_far(), Relaxed);
        let mut given = 0;
        let free = |slot| {
            // A reserved slot is soiled if it is armed. A guard page is not soiled.
            let lent = SECURE && self.is_never_handed_out(slot);
            let permanent = self.is_permanently_freed(slot);
            (lent || permanent || self.is_free(slot)).then(|| !permanent && self.is_dirty(slot))
        };
        self.runs(page, free, |(first, end), (start, stop)| {
            if self.is_written((start, stop)) {
                return;
            }
            if SECURE {
                self.disarm_within(start, stop);
            }
            if discard(self.base() + start, stop - start) {
                self.mark_zero(first, end, (start, stop));
                given += stop - start;
            }
        });
        given
    }

    /// Calls `each` for each run of slots for which `wanted` returns `Some`, and which has whole
    /// pages. `Some(true)` means that the slot is soiled. The arguments are the slots `first..end`,
    /// and the offsets of the pages. The call is repeated for each stretch of pages that all have a
    /// soiled slot. Each soiled slot of the run that is within whole pages is within a stretch.
    pub(super) fn runs(
        &self,
        page: usize,
        wanted: impl Fn(SlotIndex) -> Option<bool>,
        mut each: impl FnMut((usize, usize), (usize, usize)),
    ) {
        let mut slot = 0;
        while slot < self.slots() {
            let (first, mut soiled) = (slot, false);
            while slot < self.slots()
                && let Some(is_soiled) = wanted(SlotIndex::new(slot))
            {
                soiled |= is_soiled;
                slot += 1;
            }
            let (mut at, stop) = self.pages_of(first, slot, page);
            while soiled && at < stop {
                let start = at;
                while at < stop && self.has_any(at, page, slot, &wanted) {
                    at += page;
                }
                if start < at {
                    each((first, slot), (start, at));
                }
                at += page;
            }
            slot += usize::from(slot == first);
        }
    }

    /// Returns true if a page has a soiled slot, of those before `end`. The bytes after them count
    /// as part of the last one.
    fn has_any(
        &self,
        at: usize,
        page: usize,
        end: usize,
        wanted: impl Fn(SlotIndex) -> Option<bool>,
    ) -> bool {
        let number = |offset: usize| (offset / self.size().max(1)).min(end - 1);
        SlotIndex::range(number(at)..number(at + page - 1) + 1)
            .any(|slot| wanted(slot) == Some(true))
    }

    /// Returns the bounds of the whole pages within the slots `first..end`, as offsets. The page
    /// that contains the end of the slab's last slot is included. No page after it is, because it
    /// may be unmapped (`tail.rs`).
    fn pages_of(&self, first: usize, end: usize, page: usize) -> (usize, usize) {
        let start = (first * self.size() + page - 1) & !(page - 1);
        let rest = if end == self.slots() { page - 1 } else { 0 };
        (start, (end * self.size() + rest) & !(page - 1))
    }

    /// Marks the slots of `first..end` that are within the bytes `start..stop` as zero again.
    fn mark_zero(&self, first: usize, end: usize, (start, stop): (usize, usize)) {
        for slot in SlotIndex::range(first..end) {
            let begin = slot.begin(self.size());
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

    fn is_free(&self, slot: SlotIndex) -> bool {
        !self.state_of(slot).load(Relaxed).has(TAKEN)
    }

    fn is_dirty(&self, slot: SlotIndex) -> bool {
        self.state_of(slot).load(Relaxed).has(SOILED)
    }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::Put;
    use crate::slab::memory::slab_memory;
    use crate::slab::states::{LEFT, LIVE};
    use std::boxed::Box;
    use std::vec::Vec;
    extern crate std;

    const PAGE: usize = 4096;

    /// Returns a slab that is not current, of 256 live slots of half a page.
    fn full() -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(slab_memory(), 512 << 10, 2048);
        slab.publish(64, slots);
        slab.all_slots().for_each(|slot| slab.state_of(slot).store(LIVE, Relaxed));
        slab.fresh.store(slots as u16, Relaxed);
        slab.unlist();
        slab
    }

    fn free(slab: &Slab, slot: usize) {
        let slot = SlotIndex::new(slot);
        slab.state_of(slot).store(LEFT, Relaxed);
        assert_eq!(slab.put(slot), Put::Done);
    }

    /// A page that was given back is not given back again because a neighbour was freed.
    #[test]
    fn only_pages_with_something_on_them_go() {
        let slab = full();
        let gone = |slots: &[usize]| {
            for &slot in slots {
                free(&slab, slot);
            }
            let mut gone = Vec::new();
            slab.discard_pages(PAGE, |start, bytes| {
                gone.push(((start - slab.base()) / PAGE, bytes / PAGE));
                true
            });
            gone
        };
        assert_eq!(gone(&[1, 2, 3, 4, 5, 6]), [(1, 2)]);
        assert_eq!(gone(&[7]), [(3, 1)]);
        assert_eq!(gone(&[0, 8, 10, 11, 12, 9]), [(0, 1), (4, 2)]);
        assert_eq!(gone(&[14]), []);
    }

    /// A slot that is freed and allocated in turn counts once. A slot whose pages were given back
    /// does not count.
    #[test]
    fn what_was_freed_since_the_pages_went_is_counted() {
        let slab = full();
        slab.discard_pages(PAGE, |_, _| true);
        assert_eq!(slab.freed_since_discard(), 0);
        for _ in 0..3 {
            free(&slab, 4);
            slab.state_of(SlotIndex::new(4)).store(LIVE, Relaxed);
        }
        assert_eq!(slab.freed_since_discard(), 0);
        free(&slab, 4);
        free(&slab, 9);
        assert_eq!(slab.freed_since_discard(), 2 * 2048);
        slab.discard_pages(PAGE, |_, _| true);
        assert_eq!(slab.freed_since_discard(), 0);
        free(&slab, 5);
        assert_eq!(
            slab.freed_since_discard(),
            2048,
            "what stayed dirty on its page counts no more"
        );
    }

    /// A sweep finds nothing to give back, and then pages are prefaulted.
    #[test]
    fn prefaulted_pages_are_searched_again() {
        let slab = Slab::zeroed();
        let slots = slab.open_for_test(slab_memory(), 512 << 10, 2048);
        slab.publish(64, slots);
        slab.discard_pages(PAGE, |_, _| panic!("nothing is there"));
        slab.scan_activity(|| false);
        assert_eq!(slab.scan_activity(|| false), SlabActivity::Discarded);
        slab.note_prefault(4 * PAGE);
        assert_eq!(slab.touched_bytes(), 4 * PAGE);
        assert_eq!(slab.scan_activity(|| false), SlabActivity::Idle);
        let mut gone = 0;
        slab.discard_pages(PAGE, |_, bytes| {
            gone += bytes;
            true
        });
        assert_eq!((gone, slab.touched_bytes()), (4 * PAGE, 0));
    }

    /// At many scans the claim of a current slab is used up, and the slab then looks like any
    /// other.
    #[test]
    fn a_current_slab_is_let_be_while_anything_happens() {
        let slab = full();
        slab.scan_activity(|| true);
        for slot in 0..40 {
            free(&slab, slot);
            assert_eq!(slab.scan_activity(|| true), SlabActivity::Busy, "{slot}");
        }
        assert_eq!(slab.scan_activity(|| true), SlabActivity::Idle);
    }
}
