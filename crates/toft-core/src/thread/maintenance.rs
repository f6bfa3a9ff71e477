//! The return of idle pages by a thread for its own slabs, if no reclaimer does it for all threads.
//!
//! Each list of slabs is scanned twice, some ticks apart. A slab that did not change meanwhile
//! gives back the pages of its free slots. The work is done in pieces on slow paths, so no call
//! takes long. A thread that sleeps does nothing.

use super::{Heap, ReentrancyGuard};
use crate::bin::BinIndex;
use crate::os::Os;
use crate::slab::{CLASSES, SlabActivity};
use crate::sync::Ordering::Relaxed;

/// The most bytes that one call gives back, and the most bins that it scans.
const BYTES_MOST: usize = 4 << 20;
const BINS_MOST: usize = 8192;

impl Heap {
    /// Scans for idle slabs, if `ticks` have passed since the last scan, and gives back the pages
    /// of their free slots. Holder only.
    #[inline]
    pub fn maintain(
        &self,
        guard: &ReentrancyGuard,
        os: &impl Os,
        partitions: usize,
        now: u32,
        ticks: u32,
    ) {
        let next = self.maintain_next.load(Relaxed);
        if next != 0 || now.wrapping_sub(self.maintained_at.load(Relaxed)) >= ticks {
            self.maintain_bins(guard, os, partitions, now, next as usize);
        }
    }

    /// Lets the next scan begin a whole period after `now`. For the child of a fork: most end
    /// sooner, and a scan writes to the descriptor of each listed slab, of which the child would
    /// get a copy. Holder only.
    pub(crate) fn maintain_later(&self, now: u32) {
        if !self.is_sentinel() {
            self.maintained_at.store(now, Relaxed);
            self.maintain_next.store(0, Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn maintain_bins(
        &self,
        _guard: &ReentrancyGuard,
        os: &impl Os,
        partitions: usize,
        now: u32,
        first: usize,
    ) {
        if first == 0 {
            self.maintained_at.store(now, Relaxed);
        }
        let bins = self.bins();
        let all = partitions * CLASSES;
        let end = all.min(first + BINS_MOST);
        let page = os.page_size();
        let mut given = 0;
        let mut number = first;
        while number < end && given < BYTES_MOST {
            let mut is_current = true;
            for slab in bins.listed(BinIndex::numbered(number)) {
                if !slab.is_dormant() && slab.scan_activity(|| is_current) == SlabActivity::Idle {
                    given += slab.pages().discard(page, |start, bytes| {
                        // SAFETY: (1) the pages belong to free slots, which no thread can claim
                        // during this call.
                        unsafe { os.discard(start, bytes) }.is_ok()
                    });
                }
                is_current = false;
                if given >= BYTES_MOST {
                    break;
                }
            }
            // A list that was not finished is scanned again. A slab that has given back its pages
            // costs only a check.
            number += usize::from(given < BYTES_MOST);
        }
        self.maintain_next.store(if number < all { number as u32 } else { 0 }, Relaxed);
    }
}
