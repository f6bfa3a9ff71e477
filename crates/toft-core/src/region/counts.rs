//! The word that records how far a plot's slabs are mapped and handed out.
//!
//! ```text
//! growing : 1 | blocked : 1 | mapped : 30 | next : 32
//! ```
//!
//! Slabs below `next` were handed out. Slabs from `next` up to `mapped` are mapped, and any thread
//! takes the first of them by compare and exchange. A thread sets `growing` before it changes
//! `mapped`, and clears it afterwards. It sets `growing` only together with `next == mapped`, so no
//! other thread changes the word until that thread clears the bit. A mapping that the thread finds
//! in its way is therefore foreign. It then sets `blocked`.
//!
//! - P3 `next <= mapped`: only mapped slabs are handed out, each once.
//! - P4 while `growing` is set, only the thread that has set it changes the word. In the child of a
//!   fork that thread may not exist, and `end_exited` clears the bit.
//!
//! No thread waits for the bit. Another thread that finds it set goes to another plot.

use crate::sync::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Set while a thread maps or unmaps slabs after `next`.
const GROWING: u64 = 1 << 63;
/// Set if the last thread that tried to map slabs found a foreign mapping there.
const BLOCKED: u64 = 1 << 62;

/// The word. Any thread changes it, by compare and exchange (P4).
#[derive(Debug)]
pub struct PlotCounts(AtomicU64);

/// The value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The number of slabs that were handed out.
    pub next: u32,
    /// The number of slabs that are mapped.
    pub mapped: u32,
    /// True while a thread maps or unmaps slabs.
    pub growing: bool,
    /// True if a foreign mapping was in the way of the last growth.
    pub blocked: bool,
}

/// The right to change `mapped`, until this value is ended. It is not ended if its thread stops.
#[derive(Debug)]
#[must_use]
pub struct Growing<'a> {
    word: &'a AtomicU64,
    /// The counts before the claim.
    before: Counts,
}

impl PlotCounts {
    /// Returns the counts of a plot without slabs. Zeroed memory is the same.
    #[cfg(loom)]
    pub fn new() -> PlotCounts {
        PlotCounts(AtomicU64::new(0))
    }

    /// Returns the counts.
    pub fn now(&self) -> Counts {
        // pairs: publish step.
        Counts::of(self.0.load(Acquire))
    }

    /// Takes the next mapped slab, and returns its number in the plot. Fails with the counts if no
    /// slab is mapped ahead.
    pub fn take(&self) -> Result<u32, Counts> {
        loop {
            let seen = self.now();
            if seen.next >= seen.mapped {
                return Err(seen);
            }
            // An exchange fails only if another thread has taken a slab or has claimed the rest.
            if self.change(seen, Counts { next: seen.next + 1, ..seen }) {
                return Ok(seen.next);
            }
        }
    }

    /// Claims the right to change `mapped`. Returns `None` if the counts are not `seen`, or another
    /// thread has the right. If slabs are mapped ahead, they are the claimant's to unmap, and are
    /// not in `mapped` meanwhile.
    pub fn claim(&self, seen: Counts) -> Option<Growing<'_>> {
        let claimed = Counts { mapped: seen.next, growing: true, ..seen };
        (!seen.growing && self.change(seen, claimed))
            .then_some(Growing { word: &self.0, before: seen })
    }

    /// Ends the claim of a thread that does not exist in this child of a fork. What that thread has
    /// mapped is in the way of the next growth.
    pub fn end_exited(&self) {
        let seen = self.now();
        if seen.growing {
            self.0.store(Counts { growing: false, ..seen }.word(), Release);
        }
    }

    /// Changes the counts from `from` to `to`. Returns true if they were `from`.
    fn change(&self, from: Counts, to: Counts) -> bool {
        self.0.compare_exchange(from.word(), to.word(), AcqRel, Relaxed).is_ok()
    }

    /// Acts like a thread that stops for ever while it grows the plot.
    #[cfg(all(test, not(loom)))]
    pub(super) fn stop_growing_for_ever(&self) {
        self.0.fetch_or(GROWING, AcqRel);
    }
}

#[cfg(loom)]
impl Default for PlotCounts {
    fn default() -> PlotCounts {
        PlotCounts::new()
    }
}

impl Growing<'_> {
    /// Ends the claim with `mapped` mapped slabs, and notes if a foreign mapping was in the way.
    /// Returns false in the child of a fork in a signal handler that interrupted this thread here:
    /// the repair in the child has ended the claim. What was mapped is then not handed out.
    pub fn end(self, mapped: u32, blocked: bool) -> bool {
        let claimed = Counts { mapped: self.before.next, growing: true, ..self.before };
        let ended = Counts { mapped, growing: false, blocked, ..self.before };
        // publish step: pairs with `now`.
        self.word.compare_exchange(claimed.word(), ended.word(), AcqRel, Relaxed).is_ok()
    }
}

impl Counts {
    fn of(word: u64) -> Counts {
        let mapped = ((word & !(GROWING | BLOCKED)) >> 32) as u32;
        let (growing, blocked) = (word & GROWING != 0, word & BLOCKED != 0);
        Counts { next: word as u32, mapped, growing, blocked }
    }

    fn word(self) -> u64 {
        let growing = if self.growing { GROWING } else { 0 };
        let blocked = if self.blocked { BLOCKED } else { 0 };
        u64::from(self.next) | u64::from(self.mapped) << 32 | growing | blocked
    }
}
