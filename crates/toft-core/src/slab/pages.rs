//! The pages of a slab. Those of free slots are given back while other slots are live.

use super::slab::{Slab, view};
use super::slots::SlotIndex;
use super::states::{DIRTY, DIRTY_FRESH, REMOTE_CLEAN, SOILED, TAKEN, ZERO_CLEAN, ZERO_FRESH};
use crate::policy::SECURE;
use crate::sync::Ordering::{Acquire, Relaxed};

view! {
    /// The pages of a slab, and what is on them.
    SlabPages, pages
}

impl SlabPages<'_> {
    /// Gives back each page that has no byte of a live slot, and returns the number of bytes. Drops
    /// the claim first. `discard` gives a range back, or returns false. Holder of the owning heap
    /// only, with its reentrancy guard.
    pub fn discard(&self, page: usize, mut discard: impl FnMut(usize, usize) -> bool) -> usize {
        if self.is_shared() {
            return 0;
        }
        self.unclaim();
        // Without the slots that other threads have freed. They count as live here, and their pages
        // may be given back after the owner collects them.
        self.note_discard(self.frees_so_far());
        let mut given = 0;
        let free = |slot| {
            // A reserved slot is soiled if it is armed. A guard page is not soiled.
            let lent = SECURE && self.reserved().is_never_handed_out(slot);
            let permanent = self.is_permanently_freed(slot);
            (lent || permanent || self.is_free(slot)).then(|| !permanent && self.is_dirty(slot))
        };
        self.runs(page, free, |(first, end), (start, stop)| {
            if self.is_written((start, stop)) {
                return;
            }
            if SECURE {
                self.reserved().disarm_within(start, stop);
            }
            if discard(self.base() + start, stop - start) {
                self.mark_zero(first, end, (start, stop));
                given += stop - start;
            }
        });
        given
    }

    /// Returns the number of bytes of the slots, without the guard pages among them.
    pub fn slot_bytes(&self) -> usize {
        let guards = self.guard_bytes.first().map_or(0, |bytes| bytes.load(Relaxed) as usize);
        self.slots() * self.size() - guards
    }

    /// Returns the number of bytes of whole pages within the slots that were not written since they
    /// were zero. Pages of claimed slots are left out.
    pub fn untouched_bytes(&self, page: usize) -> usize {
        let claim = self.claimed();
        let bytes = self.untouched_beside(claim, page);
        // A free empties the claim for a moment.
        let now = self.claimed();
        if now & !claim == 0 { bytes } else { self.untouched_beside(now | claim, page) }
    }

    fn untouched_beside(&self, claim: u64, page: usize) -> usize {
        let group = self.claimed_group();
        let untouched = |slot| {
            let state = self.states.of(slot).load(Acquire);
            let zero = !state.has(TAKEN) && !state.has(SOILED) || state == REMOTE_CLEAN;
            let claimed = slot.group() == group && claim & slot.bit() != 0;
            // `Some(true)`, so that `runs` names the page.
            (zero && !claimed).then_some(true)
        };
        let (mut bytes, all) = (0, self.slots() * self.size());
        self.runs(page, untouched, |_, (start, stop)| bytes += stop.min(all).saturating_sub(start));
        bytes
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
            let state = self.states.of(slot);
            match state.load(Relaxed) {
                DIRTY => state.store(ZERO_CLEAN, Relaxed),
                DIRTY_FRESH => state.store(ZERO_FRESH, Relaxed),
                _ => {}
            }
        }
    }

    fn is_free(&self, slot: SlotIndex) -> bool {
        !self.states.of(slot).load(Relaxed).has(TAKEN)
    }

    fn is_dirty(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).load(Relaxed).has(SOILED)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::Put;
    use crate::slab::SlabActivity;
    use crate::slab::memory::slab_memory;
    use crate::slab::states::{LEFT, LIVE};
    use std::boxed::Box;
    use std::vec::Vec;
    extern crate std;

    /// Half a page is a slot of 256 bytes, so that a slab has the most slots.
    const PAGE: usize = 512;

    /// Returns a slab that is not current, of 256 live slots of half a page.
    fn full() -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(slab_memory(), 256);
        slab.publish(64, slots);
        slab.all_slots().for_each(|slot| slab.states.of(slot).store(LIVE, Relaxed));
        slab.fresh.store(slots as u16, Relaxed);
        slab.unlist();
        slab
    }

    fn free(slab: &Slab, slot: usize) {
        let slot = SlotIndex::new(slot);
        slab.states.of(slot).store(LEFT, Relaxed);
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
            slab.pages().discard(PAGE, |start, bytes| {
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
        slab.pages().discard(PAGE, |_, _| true);
        assert_eq!(slab.freed_since_discard(), 0);
        for _ in 0..3 {
            free(&slab, 4);
            slab.states.of(SlotIndex::new(4)).store(LIVE, Relaxed);
        }
        assert_eq!(slab.freed_since_discard(), 0);
        free(&slab, 4);
        free(&slab, 9);
        assert_eq!(slab.freed_since_discard(), 2 * 256);
        slab.pages().discard(PAGE, |_, _| true);
        assert_eq!(slab.freed_since_discard(), 0);
        free(&slab, 5);
        assert_eq!(slab.freed_since_discard(), 256, "what stayed dirty on its page counts no more");
    }

    /// A sweep finds nothing to give back, and then pages are prefaulted.
    #[test]
    fn prefaulted_pages_are_searched_again() {
        let slab = Slab::zeroed();
        let slots = slab.open_for_test(slab_memory(), 256);
        slab.publish(64, slots);
        slab.pages().discard(PAGE, |_, _| panic!("nothing is there"));
        slab.scan_activity(|| false);
        assert_eq!(slab.scan_activity(|| false), SlabActivity::Discarded);
        slab.note_prefault(4 * PAGE);
        assert_eq!(slab.touched_bytes(), 4 * PAGE);
        assert_eq!(slab.scan_activity(|| false), SlabActivity::Idle);
        let mut gone = 0;
        slab.pages().discard(PAGE, |_, bytes| {
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
