//! Compaction: lets sparse slabs of one (partition, class) share pages.
//!
//! ```text
//! choose    slabs that are at most half full, in order of (partition, class), up to 64 at a time
//! hold      all their free slots: none becomes fuller           (slab/pinning.rs, slab/page_sharing.rs)
//! leave     units in which a slab has nothing any more get separate pages
//! join      units of which no slot is used by both become views of one store       (os/share.rs)
//! empty     unused pages of stores are returned to the OS
//! let go    and tell the owners what they have overlooked
//! ```
//!
//! Addresses stay what they were: a slab is in its partition and class for ever (law 1), and each
//! slot's memory is at one slab's disposal at a time (G3). Before a fork everything is made private
//! again.

mod batch;
mod units;

pub(crate) use units::copy_slot;

use crate::allocator::Allocator;
use crate::keeper::Which;
use crate::os::seccomp::Calls;
use crate::os::{Os, Sharing, wait_for};
use crate::reclaim::{BATCH, Entry, Shared, Status, Turn, sort};
use crate::slab::{FLAGS, Slab};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Seat};
use batch::Batch;

/// Most slots of a slab that may be in use, as a divisor of all.
const SPARSE: u32 = 2;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of pages returned to the OS, by calculation.
    pub bytes: usize,
    /// Whether there may be more for a later pass.
    pub more: bool,
}

/// When the reclaimer's thread compacts: at every fourth sweep, and more rarely while that is of no
/// use. It also compacts before it rests, if the last pass left out slabs in use: they may be idle
/// now.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    left: u32,
    pause: u32,
    /// Whether the last pass has left something out.
    owed: bool,
}

const PAUSE_LEAST: u32 = 3;
const PAUSE_MOST: u32 = 63;

impl Passes {
    /// Whether it is time for a pass, after a sweep; `rests` says that there is nothing else to do.
    pub(crate) fn are_due(&mut self, rests: bool) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0 || rests && self.owed
    }

    /// Notes a pass. Returns true if there may be more for a pass soon.
    pub(crate) fn note(&mut self, done: Option<Compacted>) -> bool {
        let done = done.unwrap_or_default();
        let useful = done.bytes != 0;
        self.pause =
            if useful { PAUSE_LEAST } else { (2 * self.pause).clamp(PAUSE_LEAST, PAUSE_MOST) };
        self.left = self.pause;
        self.owed = done.more;
        (useful || done.more) && self.pause < PAUSE_MOST
    }
}

impl<O: Os> Allocator<O> {
    /// Lets sparse slabs share pages: all, or what has lain idle since the pass before. Does
    /// nothing unless the option says so, or while another thread is at it.
    pub fn compact(&self, which: Which) -> Option<Compacted> {
        self.compact_beside(which, Some(self.reclaimer.threads()))
    }

    /// Compacts where `own` other threads of the process are ours. `None`: the calling thread is
    /// ours.
    pub(crate) fn compact_beside(&self, which: Which, own: Option<u32>) -> Option<Compacted> {
        if !self.options.compact || self.os.process() != self.reclaimer.process() {
            return Some(Compacted::default());
        }
        let turn = self.reclaimer.begin()?;
        let mut done = Compacted::default();
        let status = self.compact_all(&turn, which, own, &mut done).err().unwrap_or(Status::Done);
        self.groups.conclude(status, done.bytes);
        Some(done)
    }

    /// What stops writers is asked for while the program has its rights: our thread has none.
    pub(crate) fn prepare_to_compact(&self) {
        if self.options.compact
            && let Some(_permit) = self.permit(Calls::SHARING)
            && let Ok(sharing) = self.os.begin_sharing(None, self.groups.kept(), 0)
        {
            self.os.end_sharing(sharing);
        }
    }

    /// Compacts everything now, after other threads have had their turn.
    pub fn compact_now(&self, heap: &Heap) -> usize {
        let unclaim = |heap: &Heap, _seat: &Seat| {
            self.for_each_slab(|slab| {
                if heap.owns(slab) && slab.is_shared() {
                    slab.unclaim();
                }
            });
        };
        if self.options.compact {
            // What this thread, and threads that have ended, would have handed out next is free,
            // too.
            if let Some(seat) = heap.sit() {
                unclaim(heap, &seat);
            }
            (0..self.heaps.count()).for_each(|number| self.with_orphan(number, unclaim));
        }
        for _ in 0..2 {
            if let Some(done) = self.compact(Which::Free) {
                return done.bytes;
            }
            wait_for(&self.os, || !self.reclaimer.is_sweeping());
        }
        0
    }

    /// What is shared.
    pub fn shared(&self) -> Shared {
        self.groups.figures()
    }

    fn compact_all(
        &self,
        turn: &Turn,
        which: Which,
        own: Option<u32>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        // Unusual calls are made below.
        let Some(_permit) = self.permit(Calls::SHARING) else {
            return Err(Status::CannotStopWriters);
        };
        if !self.barrier() {
            return Err(Status::NoBarrier);
        }
        let candidates = self.groups.candidates();
        let mut count = 0;
        let here = (&raw const count).addr();
        self.for_each_slab(|slab| {
            if self.may_be_compacted(slab, which, here, &mut done.more)
                && let Some(place) = candidates.get(count)
            {
                let pair = slab.partition() << 8 | slab.class().index();
                place.store((pair as u64) << 32 | u64::from(self.groups.number(slab)), Relaxed);
                count += 1;
            }
        });
        let candidates = candidates.get(..count).unwrap_or(&[]);
        sort(candidates);
        let mut rest = candidates;
        let mut result = Ok(());
        while let Some(first) = rest.first()
            && result.is_ok()
        {
            let pair = first.load(Relaxed) >> 32;
            let same =
                rest.iter().take(BATCH).take_while(|c| c.load(Relaxed) >> 32 == pair).count();
            let slabs = rest.get(..same).unwrap_or(&[]);
            rest = rest.get(same.max(1)..).unwrap_or(&[]);
            let slab_of = |number: u64| self.groups.slab(number as u32);
            if same > 1 || slabs.iter().any(|s| slab_of(s.load(Relaxed)).is_shared()) {
                let slabs = slabs.iter().map(|s| slab_of(s.load(Relaxed)));
                result = self.compact_some(turn, slabs, own, done);
            }
        }
        result
    }

    /// Whether a slab is sparse, or shares pages already; of idle ones only, where that is asked
    /// for.
    fn may_be_compacted(&self, slab: &Slab, which: Which, here: usize, more: &mut bool) -> bool {
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        // Slots of a page or more return their pages to the OS one by one.
        let wanted = slab.size() < self.os.page_size()
            && !slab.is_dormant()
            && self.heaps.heap_at(owner).is_some()
            && (slab.is_shared() || slab.is_sparse(SPARSE));
        if !wanted {
            return false;
        }
        if which == Which::Idle && !slab.is_calm() {
            *more = true;
            return false;
        }
        // A thread whose stack is a block of ours must not stop its own writes.
        !(slab.base()..slab.base() + slab.tier().slab_bytes()).contains(&here)
    }

    /// Compacts slabs of one pair.
    fn compact_some(
        &self,
        turn: &Turn,
        slabs: impl Iterator<Item = &'static Slab> + Clone,
        own: Option<u32>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        let store = slabs.clone().map(|slab| slab.tier().slab_bytes()).sum();
        // A handler that forks would wait for this thread.
        let signals = self.os.shut_out_signals();
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
        self.os.let_in_signals(signals);
        result
    }

    fn compact_batch(
        &self,
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
        self.let_go(&mut batch);
        done.bytes += batch.bytes;
        if batch.full { Err(Status::Full) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a program is busy passes become rare; when it falls idle, one comes before the thread
    /// rests.
    #[test]
    fn what_a_pass_has_left_out_is_looked_at_before_a_rest() {
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
        assert!(!passes.are_due(true), "nothing is left out");
    }
}
