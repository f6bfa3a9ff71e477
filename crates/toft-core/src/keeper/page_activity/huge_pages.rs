//! Huge pages for what is dense and has been for some time; for nothing else, and from the
//! reclaimer's thread only (decision 0022).
//!
//! A range of a huge page is *dense* where nearly all of it is live slots, or pages in memory of a
//! live large block. What is huge and becomes sparse later gives its pages back like any other: the
//! slabs' mappings are advised against huge pages, so the system puts none together again.

use crate::bin::slab_at;
use crate::keeper::page_activity::PageActivity;
use crate::large::BlockState;
use crate::options::Huge as HugeOption;
use crate::os::seccomp::Calls;
use crate::os::{HUGE, Os, Pages};
use crate::slab::SlotIndex;
use crate::sync::Ordering::Relaxed;

/// Bytes of a huge page that may be anything else than live, as a divisor.
const SPARE: usize = 16;
/// Scans at which a range must have been dense.
const SCANS: u8 = 4;
/// Huge pages that are tried in one scan, at most: each costs half a millisecond.
const TRIED_MOST: usize = 64;
/// Ticks between two scans.
const PAUSE: u32 = 40;
/// Stands for: it was made huge, or the attempt has failed.
const DONE: u8 = u8::MAX;

/// The results of one scan of everything.
#[derive(Default)]
struct HugePageScan {
    /// Huge pages made, and tried.
    made: usize,
    tried: usize,
    /// Whether something is dense, and not yet for long enough.
    pending: bool,
}

/// A range of addresses with slabs in address order.
#[derive(Clone, Copy, Default)]
struct Window {
    start: usize,
    live: usize,
    /// Whether a slab there shares pages with others, or has none.
    broken: bool,
    /// The first slab of it, as an address, or zero; it remembers for how many scans it has been
    /// dense.
    first: usize,
}

impl<O: Os> PageActivity<'_, O> {
    /// Makes huge what has been dense for some scans, if this is the thread's business and the last
    /// scan, at `scanned_at`, is some time ago. Says when it was, and whether there is more to
    /// come.
    pub(crate) fn make_huge_if_due(self, scanned_at: u32) -> (u32, bool) {
        let now = self.os.ticks();
        if self.options.huge != HugeOption::Dense || self.limit.has_group_pressure() {
            return (scanned_at, false);
        }
        if now.wrapping_sub(scanned_at) < PAUSE {
            return (scanned_at, true);
        }
        let mut scan = HugePageScan::default();
        self.scan_for_dense(&mut scan);
        (now, scan.pending)
    }

    /// Scans once. Returns the number of huge pages made.
    pub fn make_dense_huge(self) -> usize {
        let mut scan = HugePageScan::default();
        self.scan_for_dense(&mut scan);
        scan.made
    }

    fn scan_for_dense(self, scan: &mut HugePageScan) {
        // What is there only the kernel knows.
        let Some(pages) = self.open_pages() else { return };
        // The window of the slab, and what is known of the one after it.
        let (mut window, mut next) = (Window::default(), Window::default());
        self.for_each_slab(|slab| {
            let start = slab.base() & !(HUGE - 1);
            if start != window.start {
                self.at_window(pages, &window, scan);
                let first = (&raw const *slab).expose_provenance();
                let begun = if next.start == start { next } else { Window::default() };
                window = Window { start, first, ..begun };
                next = Window { start: start + HUGE, ..Window::default() };
            }
            let (live, size) = (slab.live_slots() * slab.size(), slab.size());
            let behind = match (slab.base() + slab.span()).checked_sub(next.start) {
                // Slots that begin before the end of the window count there.
                Some(bytes) if bytes != 0 => {
                    let is_behind = |slot: &SlotIndex| slab.slot_address(*slot) >= next.start;
                    slab.all_slots().filter(is_behind).filter(|&slot| slab.is_in_use(slot)).count()
                        * size
                }
                _ => 0,
            };
            window.live += live.saturating_sub(behind);
            next.live += behind;
            // Addresses of a slab that were unmapped may have another mapping by now.
            let broken = slab.is_shared() || slab.is_dormant() || slab.pages().is_without_tail();
            window.broken |= broken;
            next.broken |= broken && slab.base() + slab.span() > next.start;
        });
        self.at_window(pages, &window, scan);
        self.make_blocks_huge(pages, scan);
        self.close_pages(pages);
    }

    fn at_window(self, pages: u32, window: &Window, scan: &mut HugePageScan) {
        let Some(first) = slab_at(window.first) else { return };
        // Where a limit counts memory, free memory counts as absent.
        let spare = if self.limit.is_set() { 0 } else { HUGE / SPARE };
        if window.live < HUGE - spare || window.broken {
            first.scans.dense.store(0, Relaxed);
            return;
        }
        let scans = first.scans.dense.load(Relaxed);
        scan.pending |= scans != DONE;
        if scans < SCANS {
            first.scans.dense.store(scans + 1, Relaxed);
        } else if scans != DONE && scan.tried < TRIED_MOST {
            // Live, but never touched, or out in swap.
            let all = (window.start, HUGE);
            if self.find_pages(pages, Pages::Resident, all, |_, _| {}) < HUGE - HUGE / SPARE {
                first.scans.dense.store(0, Relaxed);
                return;
            }
            // In vain where there is no memory for it; it is not tried again.
            self.make_huge(window.start, self.mapper().keeps_small(), scan);
            first.scans.dense.store(DONE, Relaxed);
        }
    }

    /// Returns true if the range was made huge.
    fn make_huge(self, start: usize, small_pages: bool, scan: &mut HugePageScan) -> bool {
        scan.tried += 1;
        let made = self
            .permit(Calls::HUGE)
            .is_some_and(|_permit| self.os.make_huge(start, HUGE, small_pages).is_ok());
        scan.made += usize::from(made);
        made
    }

    fn make_blocks_huge(self, pages: u32, scan: &mut HugePageScan) {
        self.large.units().for_each(|block| {
            let (seen, address) = (block.since(), self.large.placement().address(block));
            let (start, end) =
                (address.next_multiple_of(HUGE), (address + block.bytes()) & !(HUGE - 1));
            if block.state() != BlockState::Live || start >= end {
                return;
            }
            if !block.has_aged(seen, SCANS.into()) {
                scan.pending = true;
                return;
            }
            for at in (start..end).step_by(HUGE) {
                if scan.tried >= TRIED_MOST {
                    scan.pending = true;
                    return;
                }
                let small = self.find_pages(pages, Pages::Small, (at, HUGE), |_, _| {});
                if small >= HUGE - HUGE / SPARE && !self.make_huge(at, false, scan) {
                    // There is no memory for it, or the pages are watched: not soon again.
                    block.is_young_again();
                    scan.pending = true;
                    return;
                }
            }
        });
    }
}
