//! Guard pages inside a slab and at its end, in the secure build: pages that fault.
//!
//! ```text
//! slab   | slot slot slot [guard] slot slot slot slot [guard] slot slot .... [guard] | next slab
//!          <-- at most 56 KiB -->                                               ^ at least a page
//! ```
//!
//! A guard page takes the place of slots, which are never handed out. The slots are chosen at
//! random when the slab is opened, and their states mark them for ever. The states determine which
//! pages are guard pages, so these can be set up again after the slab was unmapped. The last byte
//! of such slots is not on the guard page.

use super::slab::{Slab, view};
use super::slots::SlotIndex;
use super::states::GUARD_PAGE;
use crate::policy::GUARD_PAGE_DISTANCE;
use crate::sync::Ordering::Relaxed;

/// The minimum number of pages of a slab that gets guard pages.
const PAGES_LEAST: usize = 8;
/// `guard_bytes` counts in units of this number of bytes.
const COUNTED: usize = 4096;

view! {
    /// The guard pages of a slab.
    GuardPages, guard_pages
}

impl GuardPages<'_> {
    /// Returns true if a guard page takes the place of the slot. Secure build only: it does not
    /// compact, so no other slot has this state.
    fn is_guard_page(&self, slot: SlotIndex) -> bool {
        self.states.of(slot).load(Relaxed) == GUARD_PAGE
    }

    /// Chooses the slots whose place guard pages take, while the slab is being opened. `below`
    /// returns a random number below its argument.
    pub fn choose(&self, page: usize, slots: usize, mut below: impl FnMut(usize) -> usize) {
        let (size, all, page) = (self.size().max(1), self.span(), page.max(1));
        if all < PAGES_LEAST * page {
            return;
        }
        let last = all - page;
        self.set_guard_pages(last / size, slots);
        let tier = usize::from(!self.class().is_small());
        let (least, most) = GUARD_PAGE_DISTANCE.get(tier).copied().unwrap_or((0, 0));
        let end = (slots * size).min(last);
        let mut first = 0;
        // A linear overflow from the end of the first slot must not pass more than `most` bytes.
        while end.saturating_sub((first + 1) * size) > most {
            let reach = least + below(most - least);
            let start = up((first + 1 + reach / size) * size, page);
            if start + page >= end {
                break;
            }
            // The last byte is not on the guard page, because a free of the block after it may read
            // that.
            let stop = (start + page) / size + 1;
            self.set_guard_pages(start / size, stop.min(slots));
            first = stop;
        }
        let (mut bytes, end) = (0, self.base() + slots * size);
        self.for_each_run_of(page, slots, &mut |start, len, _| {
            bytes += len.min(end.saturating_sub(start))
        });
        if let Some(counted) = self.guard_bytes.first() {
            counted.store((bytes / COUNTED * COUNTED) as u32, Relaxed);
        }
    }

    fn set_guard_pages(&self, first: usize, end: usize) {
        for slot in SlotIndex::range(first..end) {
            self.states.of(slot).store(GUARD_PAGE, Relaxed);
        }
    }

    /// Calls `each` with the address and length of each run of guard pages, and with true if it is
    /// the run at the slab's end.
    pub fn for_each_run(&self, page: usize, mut each: impl FnMut(usize, usize, bool)) {
        self.for_each_run_of(page.max(1), self.slots(), &mut each);
    }

    fn for_each_run_of(
        &self,
        page: usize,
        slots: usize,
        each: &mut impl FnMut(usize, usize, bool),
    ) {
        let (size, all) = (self.size(), self.pages().mapped_bytes(page));
        if self.span() < PAGES_LEAST * page {
            return;
        }
        let is_guard_page = |slot| self.is_guard_page(SlotIndex::new(slot));
        let mut slot = 0;
        while slot < slots {
            let first = slot;
            while slot < slots && is_guard_page(slot) {
                slot += 1;
            }
            // The rest after the last slot is a guard page, too. Elsewhere the last byte is not on
            // one.
            let stop =
                if slot == slots { all } else { (slot * size).saturating_sub(1) & !(page - 1) };
            let start = up(first * size, page);
            if first < slot && start < stop {
                each(self.base() + start, stop - start, slot == slots);
            }
            slot += usize::from(slot == first);
        }
        let start = up(slots * size, page);
        if slots != 0 && !is_guard_page(slots - 1) && start < all {
            each(self.base() + start, all - start, true);
        }
    }

    /// Returns the number of bytes from the slab's start to the first guard page.
    pub fn bytes_before_first(&self, page: usize) -> usize {
        let mut bytes = self.pages().mapped_bytes(page);
        self.for_each_run(page, |start, _, _| bytes = bytes.min(start - self.base()));
        bytes
    }
}

/// Rounds `bytes` up to a multiple of `page`, a power of two.
fn up(bytes: usize, page: usize) -> usize {
    (bytes + page - 1) & !(page - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::SizeClass;
    extern crate std;
    use std::boxed::Box;
    use std::vec::Vec;

    const PAGE: usize = 4096;

    fn guarded(class: SizeClass, seed: u64) -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(1 << 30, class.size());
        let mut state = seed;
        slab.guard_pages().choose(PAGE, slots, |limit| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) as usize % limit
        });
        slab.publish(1 << 20, slots);
        slab
    }

    /// From the end of each remaining slot there is a guard page within 64 KiB, before the slab's
    /// end. No remaining slot has a byte on a guard page. At least half of the slots remain.
    #[test]
    #[cfg_attr(
        not(feature = "secure-light"),
        ignore = "slabs of the default build have no guard pages"
    )]
    fn every_slot_has_a_guard_page_within_reach_and_none_on_it() {
        for class in SizeClass::all() {
            for seed in 0..50 {
                let slab = guarded(class, seed);
                let (size, all) = (slab.size(), slab.span());
                let mut guards = Vec::new();
                slab.guard_pages().for_each_run(PAGE, |start, len, end| {
                    guards.push((start - slab.base(), len, end))
                });
                assert!(guards.iter().all(|&(start, len, _)| {
                    start % PAGE == 0 && len % PAGE == 0 && len > 0 && start + len <= all
                }));
                let ends: Vec<_> = guards.iter().filter(|guard| guard.2).collect();
                assert!(ends.len() == 1 && ends[0].0 + ends[0].1 == all, "{class:?} {guards:?}");
                let mut left = 0;
                for slot in slab.all_slots() {
                    if slab.states.of(slot).load(Relaxed) == GUARD_PAGE {
                        continue;
                    }
                    left += 1;
                    let (begin, end) = (slot.begin(size), slot.end(size));
                    assert!(
                        guards.iter().all(|&(start, len, _)| end <= start || start + len <= begin)
                    );
                    let before = begin.saturating_sub(1);
                    let on_guard =
                        |&(start, len, _): &(_, _, _)| (start..start + len).contains(&before);
                    assert!(
                        begin == 0 || !guards.iter().any(on_guard),
                        "{class:?}: a guard page up to a slot"
                    );
                    let next =
                        guards.iter().map(|guard| guard.0).filter(|&start| start >= end).min();
                    let reach = next.expect("there is a guard page behind each slot") - end;
                    assert!(reach <= 64 << 10, "{class:?} {slot:?}: {reach}");
                }
                assert!(left * 2 >= slab.slots(), "{class:?}: {left} slots are left");
                assert_eq!(slab.live_slots(), 0);
                assert!(slab.is_empty());
            }
        }
    }

    #[test]
    #[cfg_attr(
        not(feature = "secure-light"),
        ignore = "slabs of the default build have no guard pages"
    )]
    fn guard_pages_are_at_random_places() {
        let mut places: Vec<_> = (0..100)
            .map(|seed| {
                guarded(SizeClass::of(240).unwrap(), seed).guard_pages().bytes_before_first(PAGE)
                    / PAGE
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        // The first guard page is one of the seventh to the thirteenth page.
        assert!(places.len() >= 5, "{places:?}");
    }

    #[test]
    fn systems_with_large_pages_have_none() {
        let slab = Slab::zeroed();
        let slots = slab.open_for_test(1 << 30, 64);
        slab.guard_pages().choose(64 << 10, slots, |_| 0);
        slab.guard_pages().for_each_run(64 << 10, |_, _, _| panic!("a guard page"));
    }
}
