//! Compaction: lets sparse slabs of one (partition, class) share pages.
//!
//! ```text
//! choose    slabs that are at most half full, in order of (partition, class), up to 64 at a time
//! hold      all their free slots, so that no slab becomes fuller (slab/pinning, page_sharing.rs)
//! leave     units in which a slab has no block left get separate pages
//! join      two units that use no common slot become views of one store            (os/share.rs)
//! empty     unused pages of stores are returned to the OS
//! let go    of the slots, and notify the owners of frees that they have missed
//! ```
//!
//! No block changes its address: a slab keeps its partition and class for ever (law 1). The memory
//! of a slot belongs to one slab at a time (G3). All pages are made private again before a fork.

mod batch;
mod units;
mod unshare;

use crate::allocator::{Allocator, handle};
use crate::keeper::sweeper::Which;
use crate::os::seccomp::Calls;
use crate::os::{Os, Sharing};
use crate::reclaim::{BATCH, Entry, Shared, Status, Turn, sort};
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, ReentrancyGuard};
use batch::Batch;

handle!(Compactor, compactor);

/// A slab is sparse if at most one in this number of its slots is in use.
const SPARSE: u32 = 2;

/// The result of a compaction pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of pages returned to the OS: computed, not measured.
    pub bytes: usize,
    /// True if the pass skipped slabs in use, so that a later pass may return more.
    pub more: bool,
}

/// The schedule of the reclaimer's compaction passes.
///
/// A pass is due every `INTERVAL_MIN` sweeps. Each pass that returns no pages doubles the interval,
/// up to `INTERVAL_MAX`. A pass is also due before the reclaimer rests if the last pass skipped
/// slabs in use, which may be idle by then, or if the program has freed memory since.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// Sweeps until the next pass.
    sweeps_left: u32,
    /// Sweeps between two passes.
    interval: u32,
    /// True if the last pass skipped slabs in use.
    has_skipped: bool,
    /// True if a sweep since the last pass has returned memory.
    has_changed: bool,
}

/// Bounds of the interval in sweeps.
const INTERVAL_MIN: u32 = 3;
const INTERVAL_MAX: u32 = 63;

impl Passes {
    /// Counts a sweep, and returns true if a pass is due. `rests` is true if the reclaimer has
    /// nothing else to do.
    pub(crate) fn are_due(&mut self, rests: bool) -> bool {
        self.sweeps_left = self.sweeps_left.saturating_sub(1);
        self.has_changed |= !rests;
        if rests && self.has_changed {
            // The program is idle now, as it was not before.
            self.interval = 0;
        }
        self.sweeps_left == 0 || rests && (self.has_skipped || self.has_changed)
    }

    /// Notes the result of a pass. Returns true if a pass soon may return more pages.
    pub(crate) fn note(&mut self, done: Option<Compacted>) -> bool {
        let done = done.unwrap_or_default();
        let useful = done.bytes != 0;
        self.interval = if useful {
            INTERVAL_MIN
        } else {
            (2 * self.interval).clamp(INTERVAL_MIN, INTERVAL_MAX)
        };
        self.sweeps_left = self.interval;
        self.has_skipped = done.more;
        self.has_changed = false;
        (useful || done.more) && self.interval < INTERVAL_MAX
    }
}

impl<O: Os> Compactor<'_, O> {
    /// Lets sparse slabs share pages: all of them, or those that were idle since the previous pass.
    /// Does nothing if the option is off. Returns `None` while another thread sweeps or compacts.
    pub fn compact(self, which: Which) -> Option<Compacted> {
        self.compact_beside(which, Some(self.reclaimer.threads()))
    }

    /// Compacts like `compact`. `own` is the number of Toft's other threads in this process, or
    /// `None` if the calling thread is Toft's.
    pub(crate) fn compact_beside(self, which: Which, own: Option<u32>) -> Option<Compacted> {
        if !self.options.compact || self.os.process() != self.reclaimer.process() {
            return Some(Compacted::default());
        }
        let turn = self.reclaimer.begin()?;
        let mut done = Compacted::default();
        let status = self.compact_all(&turn, which, own, &mut done).err().unwrap_or(Status::Done);
        self.groups.conclude(status, done.bytes);
        Some(done)
    }

    /// Compacts all sparse slabs now, after another thread's sweep if one is in progress. Returns
    /// the number of bytes returned to the OS.
    pub fn compact_now(self, heap: &Heap) -> usize {
        let unclaim = |heap: &Heap, _guard: &ReentrancyGuard| {
            self.for_each_slab(|slab| {
                if heap.owns(slab) && slab.is_shared() {
                    slab.unclaim();
                }
            });
        };
        if self.options.compact {
            // What this thread has freed in slabs of others counts as live until it is published.
            // Claimed slots of this heap and of orphans are free, too. They are unclaimed, so that
            // compaction can hold them.
            if let Some(guard) = heap.enter() {
                self.held_heaps().empty_outbox(heap, &guard);
                unclaim(heap, &guard);
            }
            if let Some(_turn) = self.reclaimer.begin() {
                self.held_heaps().empty_outboxes(false);
            }
            (0..self.heaps.count())
                .for_each(|number| self.held_heaps().with_threadless(number, unclaim));
        }
        for _ in 0..2 {
            if let Some(done) = self.compact(Which::Free) {
                return done.bytes;
            }
            self.reclaimer.wait_for_turn(&self.os);
        }
        0
    }

    /// Returns the figures of shared pages.
    pub fn shared(self) -> Shared {
        self.groups.figures()
    }

    fn compact_all(
        self,
        turn: &Turn,
        which: Which,
        own: Option<u32>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        // The system calls below need a permit, because a filter may forbid them.
        let Some(_permit) = self.permit(Calls::SHARING) else {
            return Err(Status::CannotStopWriters);
        };
        if !self.barrier() {
            return Err(Status::NoBarrier);
        }
        let candidates = self.groups.candidates();
        let mut count = 0;
        let stack_address = (&raw const count).addr();
        self.for_each_slab(|slab| {
            if self.may_be_compacted(slab, which, stack_address, &mut done.more)
                && let Some(place) = candidates.get(count)
            {
                // Units of slabs of different lengths are different.
                let kind = (slab.partition().number() << 9 | slab.slots()) << 6;
                let kind = (kind | slab.class().index()) as u64;
                place.store(kind << 32 | u64::from(self.groups.number(slab)), Relaxed);
                count += 1;
            }
        });
        let candidates = candidates.get(..count).unwrap_or(&[]);
        sort(candidates);
        let mut rest = candidates;
        let mut result = Ok(());
        // A call that stops the reclaimer, whose thread this may be, waits for it.
        while let Some(first) = rest.first()
            && result.is_ok()
            && !self.reclaimer.life().is_held()
        {
            let kind = first.load(Relaxed) >> 32;
            let run = rest.iter().take(BATCH).take_while(|c| c.load(Relaxed) >> 32 == kind).count();
            let slabs = rest.get(..run).unwrap_or(&[]);
            rest = rest.get(run.max(1)..).unwrap_or(&[]);
            let slab_of = |number: u64| self.groups.slab(number as u32);
            if run > 1 || slabs.iter().any(|s| slab_of(s.load(Relaxed)).is_shared()) {
                let slabs = slabs.iter().map(|s| slab_of(s.load(Relaxed)));
                result = self.compact_some(turn, slabs, own, done);
            }
        }
        result
    }

    /// Returns true if a slab is sparse or shares pages already. With `Which::Idle` the slab must
    /// also be idle; one in use sets `more`. `stack_address` is on the calling thread's stack.
    fn may_be_compacted(
        self,
        slab: &Slab,
        which: Which,
        stack_address: usize,
        more: &mut bool,
    ) -> bool {
        // Pages of slots of a page or more are returned to the OS without compaction.
        let wanted = slab.size() < self.os.page_size()
            && !slab.is_dormant()
            && !slab.pages().is_without_tail()
            && self.heaps.owner_of(slab).is_some()
            && (slab.is_shared() || slab.units().is_sparse(SPARSE));
        if !wanted {
            return false;
        }
        if which == Which::Idle && !slab.is_calm() {
            *more = true;
            return false;
        }
        // A thread whose stack is in this slab must not stop its own writes.
        !(slab.base()..slab.base() + slab.span()).contains(&stack_address)
    }

    /// Compacts up to `BATCH` slabs of one (partition, class).
    fn compact_some(
        self,
        turn: &Turn,
        slabs: impl Iterator<Item = &'static Slab> + Clone,
        own: Option<u32>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        let store = slabs.clone().map(|slab| slab.pages().mapped_bytes(self.os.page_size())).sum();
        // A signal handler that forks would wait for this thread, which it has interrupted.
        let signals = self.os.block_signals();
        let mut result = Ok(());
        if let Some(entry) = self.groups.enter() {
            result = match self.os.begin_sharing(own, self.groups.kept(), store) {
                Ok(sharing) => {
                    let result = self.compact_batch(turn, &entry, &sharing, slabs, done);
                    self.os.end_sharing(sharing);
                    result
                }
                Err(_) => Err(Status::CannotStopWriters),
            };
        }
        self.os.restore_signals(signals);
        result
    }

    /// Runs all steps of a pass on one batch of slabs.
    fn compact_batch(
        self,
        turn: &Turn,
        entry: &Entry,
        sharing: &Sharing,
        slabs: impl Iterator<Item = &'static Slab>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        let mut batch = Batch::new(turn, entry, sharing, self.os.page_size());
        self.hold_batch(&mut batch, slabs);
        self.leave_groups(&mut batch);
        self.join_groups(&mut batch);
        self.empty_pages(&mut batch);
        self.unhold_batch(&mut batch);
        done.bytes += batch.bytes;
        if batch.full { Err(Status::Full) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a program is busy, passes become rare. When it becomes idle, a pass precedes the
    /// reclaimer's rest.
    #[test]
    fn a_pass_for_skipped_slabs_precedes_a_rest() {
        let mut passes = Passes::default();
        let busy = Compacted { more: true, ..Compacted::default() };
        let mut made = 0;
        for _ in 0..100 {
            if passes.are_due(false) {
                passes.note(Some(busy));
                made += 1;
            }
        }
        assert!((3..10).contains(&made), "{made}");
        assert!(!passes.are_due(false) && passes.are_due(true));
        assert!(!passes.note(Some(Compacted::default())));
        assert!(!passes.are_due(true), "nothing was skipped");
    }

    /// A program grows, so that no slab is sparse, and then frees most of it.
    #[test]
    fn a_pass_for_freed_memory_precedes_a_rest() {
        let mut passes = Passes::default();
        for _ in 0..20 {
            if passes.are_due(false) {
                passes.note(Some(Compacted::default()));
            }
        }
        assert!(!passes.are_due(false), "the interval is long");
        assert!(passes.are_due(true));
        let skipped = Compacted { more: true, ..Compacted::default() };
        assert!(passes.note(Some(skipped)) && passes.are_due(true), "they may be idle soon");
        assert!(!passes.note(Some(Compacted::default())));
        assert!(!passes.are_due(true), "nothing has changed");
    }
}
