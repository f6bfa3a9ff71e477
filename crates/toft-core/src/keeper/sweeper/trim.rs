//! `malloc_trim`: purges if enough was freed, so that a program may call it often.
//!
//! A purge scans every slab, and what it returns is often faulted in again at once. So a trim
//! purges only in these cases:
//!
//! 1. Nothing was purged yet; or the last purge was a second ago, and 32 times as long as it took.
//! 2. Empty slabs and free large blocks are a quarter of the program's memory.
//! 3. These, and what was freed in other slabs since their pages were last returned, are a quarter.
//!
//! The third case needs a count over all slabs, which takes tens of nanoseconds for each. The
//! program runs 16 times as long as the last count took before the next one is made.

use crate::keeper::sweeper::Sweeper;
use crate::os::{Os, SECOND};
use crate::slab::FLAGS;
use crate::sync::Ordering::Relaxed;

/// The share of memory that must be free, as a divisor. A program that frees and allocates in turn
/// stays below it: malloc draws from a slab that is a quarter free (decision 0003).
const SHARE: usize = 4;
/// If little was freed, the next purge comes no sooner than this many times the time of the last
/// one. The page faults after a purge take about as long as the purge.
const PURGE_PATIENCE: u64 = 32;
/// Free bytes for which a trim purges earlier, at least.
const LEAST: usize = 256 << 10;
/// The next count comes no sooner than this many times the time of the last one.
const COUNT_PATIENCE: u64 = 16;

impl<O: Os> Sweeper<'_, O> {
    /// Returns true if a trim is to purge.
    pub fn is_trim_due(self) -> bool {
        let trims = self.reclaimer.trims();
        let now = self.os.counter();
        if trims.are_first() || trims.are_late(self.os.ticks(), SECOND, now, PURGE_PATIENCE) {
            return true;
        }
        let kept = self.pool.kept_bytes() + self.large.figures().kept_bytes();
        let all = self.pool.bytes()
            + self.large.figures().live_bytes()
            + self.large.figures().kept_bytes();
        let enough = (all / SHARE).max(LEAST);
        if kept >= enough {
            return true;
        }
        if !trims.may_count(now, COUNT_PATIENCE) {
            return false;
        }
        let freed = self.freed_bytes();
        trims.note_count(now, self.os.counter());
        kept + freed >= enough
    }

    /// Bytes of slots of owned slabs that were freed since the slab's pages were last returned, and
    /// are still free. A hint.
    fn freed_bytes(self) -> usize {
        let mut bytes = 0;
        self.for_each_slab(|slab| {
            if slab.owner.load(Relaxed) & !FLAGS != 0 && !slab.is_dormant() {
                bytes += slab.freed_since_discard();
            }
        });
        bytes
    }
}
