//! The limit, held: who may grow, and what is done before a request is refused.
//!
//! ```text
//! counted   slots of slabs that have pages, but for those set aside as untouched (`aside.rs`)
//!           large blocks: live, behind them, kept       descriptors, heaps
//! over?     1. what is kept goes, as much as is needed
//!           2. slabs of the thread with any free slot are listed, and drawn from
//!           3. every slab is counted exactly, and set aside
//!           4. pages of free slots go, of all threads, and all is counted again
//!           5. the request is refused
//! ```
//!
//! Only growth is asked about: a slab that gets pages, one that is called back, a large block. What a
//! count has said stays said: in the counters, until malloc draws from the slab again.

use super::{Allocator, Which};
use crate::os::{Os, wait_for};
use crate::reclaim::{Promise, is_tight, release};
use crate::slab::{Class, MEDIUM, SLOTS_MAX, SMALL, SMALL_CLASSES, Slab, Tier};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Seat};
use core::cell::Cell;

/// Steps of making way, in order of cost.
#[derive(Clone, Copy)]
enum Step {
    DropKept,
    List,
    Count,
    Purge,
}

impl<O: Os> Allocator<O> {
    /// Bytes that count against the limit.
    pub fn counted_bytes(&self) -> usize {
        let descriptors = self.small.descriptor_bytes() + self.medium.descriptor_bytes();
        let metadata = descriptors + self.heaps.mapped_bytes();
        self.pool.bytes() + self.large.counted_bytes() + metadata
    }

    /// A promise of so many bytes if they can be had as things are.
    #[inline]
    pub(super) fn promise(&self, bytes: usize) -> Result<Promise<'_>, usize> {
        self.limit.promise(bytes, || self.counted_bytes())
    }

    /// The same, with whatever can be done about it, or nothing where the caller is `done` after some
    /// step without it. The caller has the heap's seat, or can do without.
    #[cold]
    #[inline(never)]
    pub(super) fn promise_hard(
        &self,
        heap: &Heap,
        seat: Option<&Seat>,
        bytes: usize,
        mut done: impl FnMut() -> bool,
    ) -> Option<Promise<'_>> {
        let mut excess = match self.promise(bytes) {
            Ok(promise) => return Some(promise),
            Err(excess) => excess,
        };
        // More than everything: nothing needs to go for it.
        if bytes <= self.limit.bytes() {
            for step in [Step::DropKept, Step::List, Step::Count, Step::Purge] {
                self.make_way(heap, seat, step, excess);
                if done() {
                    return None;
                }
                match self.promise(bytes) {
                    Ok(promise) => return Some(promise),
                    Err(still) => excess = still,
                }
            }
            // What some thread has had promised a moment ago may count twice.
            if self.limit.is_promised() {
                wait_for(&self.os, || !self.limit.is_promised());
                if let Ok(promise) = self.promise(bytes) {
                    return Some(promise);
                }
            }
        }
        self.limit.note_refusal();
        None
    }

    fn make_way(&self, heap: &Heap, seat: Option<&Seat>, step: Step, excess: usize) {
        match step {
            Step::DropKept => {
                let dropped = self.pool.drop_some(&self.os, excess, false);
                self.large.give_back(&self.os, excess.saturating_sub(dropped));
            }
            Step::List => {
                if let Some(seat) = seat {
                    self.list_all(heap, seat);
                }
            }
            Step::Count => self.count_slabs(heap, seat),
            Step::Purge => {
                if seat.is_some() {
                    self.for_each_slab(|slab| {
                        if heap.owns(slab) && !slab.is_dormant() {
                            self.give_back_own(slab);
                        }
                    });
                }
                // Before anything is refused nothing is believed to be tidy.
                self.for_each_slab(Slab::is_not_tidy);
                self.sweep(Which::Free);
                self.count_slabs(heap, seat);
            }
        }
    }

    /// Lists every slab of a heap that the caller holds which has a free slot: to use that costs nothing,
    /// and a program that has room waits until there are more.
    fn list_all(&self, heap: &Heap, seat: &Seat) {
        self.for_each_slab(|slab| {
            if heap.owns(slab) && !slab.is_listed() && !slab.is_dormant() && slab.has_free() {
                heap.relist(seat, slab);
            }
        });
    }

    /// Sets every slab aside that has untouched pages, so that they do not count. Waits a moment for
    /// another thread that is at it.
    fn count_slabs(&self, heap: &Heap, seat: Option<&Seat>) {
        let turn = Cell::new(None);
        let begun = wait_for(&self.os, || {
            let begun = self.reclaimer.begin();
            let is_begun = begun.is_some();
            turn.set(begun);
            is_begun
        });
        if !begun {
            return;
        }
        self.limit.note_count();
        let page = self.os.page_size();
        let reaches = self.barrier();
        let mine = |slab: &Slab| seat.is_some() && heap.owns(slab);
        let mut any = false;
        self.for_each_slab(|slab| {
            let may = slab.has_owner() && (reaches || mine(slab));
            let can = || slab.is_dormant() || slab.untouched_bytes(page) != 0 && slab.set_aside();
            any |= may && can();
        });
        // Owners either see that a slab is aside before they claim from it, or are seen to claim.
        if !any || reaches && !self.barrier() {
            return;
        }
        self.for_each_slab(|slab| {
            if !slab.has_owner()
                || !slab.must_be_asked_for()
                || !(mine(slab) || reaches && self.is_quiet(slab))
            {
                return;
            }
            let dormant = slab.is_dormant();
            let bytes = if dormant { slab.slot_bytes() } else { slab.untouched_bytes(page) };
            self.pool.leave_uncounted(slab, bytes);
        });
    }

    /// Counts every slab exactly, for a heap that the caller holds.
    pub fn count_exactly(&self, heap: &Heap) {
        self.count_slabs(heap, heap.sit().as_ref());
    }

    /// Requests that the limit has refused, and how often everything was counted.
    pub fn limit_figures(&self) -> (usize, usize) {
        self.limit.figures()
    }

    /// Makes a slab of the caller's usable, if the limit and the system allow that: calls it back where it
    /// was set aside, maps its pages where it is dormant.
    pub(super) fn wake(&self, slab: &Slab) -> bool {
        let Ok(_promise) = self.promise(slab.uncounted()) else { return false };
        self.pool.call_back(slab);
        if slab.is_dormant() {
            if self.os.map(slab.base(), slab.tier().slab_bytes()).is_err() {
                return false;
            }
            slab.wake(true);
            self.pool.call_back(slab);
        }
        true
    }

    /// Gives the pages of an empty slab of a heap that the caller holds back, and its address space.
    pub(super) fn release_own(&self, slab: &Slab) {
        release(&self.os, slab, true);
        if slab.is_awake() {
            self.pool.call_back(slab);
        }
    }
}

/// Ticks between two looks at the group, and milliseconds after which it is looked whether that is
/// due: about a second.
const LOOK: u32 = 40;
const SLICE: u32 = 1000;

impl<O: Os> Allocator<O> {
    /// Looks how the group of processes is off that this one belongs to, if that was long ago, and
    /// keeps much or little accordingly. The reclaimer's thread.
    pub fn look_at_group(&self) {
        if !self.limit.is_due(self.os.ticks(), LOOK) {
            return;
        }
        let was = self.limit.is_tight();
        let tight = is_tight(was, self.os.group());
        if tight != was {
            self.limit.set_tight(tight);
            self.pool.set_lean(tight);
            self.large.set_lean(tight);
        }
    }

    /// Sleeps for so many milliseconds, unless the reclaimer is woken or the group becomes short of
    /// memory. The reclaimer's thread.
    pub(super) fn sleep_and_look(&self, milliseconds: u32) {
        let word = self.reclaimer.word();
        let mut left = milliseconds;
        while left != 0 && word.load(Relaxed) == 0 {
            let slice = left.min(SLICE);
            self.os.sleep_on(word, 0, slice);
            left -= slice;
            if left != 0 {
                self.look_at_group();
                left = if self.limit.is_tight() { 0 } else { left };
            }
        }
    }

    /// What the reclaimer's thread sweeps: whatever is free, while the group is short of memory.
    pub fn to_sweep(&self) -> Which {
        if self.limit.is_tight() { Which::Free } else { Which::Idle }
    }
}

/// What a large block is promised while it is made or changed.
pub(super) struct Grant<'a, O> {
    allocator: &'a Allocator<O>,
    heap: &'a Heap,
    promise: Cell<Option<Promise<'a>>>,
    refused: Cell<bool>,
}

impl<'a, O: Os> Grant<'a, O> {
    /// Nothing as yet.
    pub(super) fn new(allocator: &'a Allocator<O>, heap: &'a Heap) -> Grant<'a, O> {
        Grant { allocator, heap, promise: Cell::new(None), refused: Cell::new(false) }
    }

    /// Whether the last answer was no.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.get()
    }

    /// Whether a block of so many resident bytes may be; in place of what it was promised before.
    pub(super) fn admit(&self, bytes: usize) -> bool {
        if !self.allocator.limit.is_set() {
            return true;
        }
        self.promise.set(None);
        let promise = self.allocator.promise(bytes).ok();
        let promise = promise.or_else(|| {
            let seat = self.heap.sit();
            self.allocator.promise_hard(self.heap, seat.as_ref(), bytes, || false)
        });
        let admitted = promise.is_some();
        self.promise.set(promise);
        self.refused.set(!admitted);
        admitted
    }
}

/// Bytes of the slots of a slab of a class.
pub(super) fn slot_bytes(class: usize) -> usize {
    let tier = Tier::of(if class < SMALL_CLASSES { SMALL } else { MEDIUM });
    let size = Class::new(class).size();
    (tier.slab_bytes() / size).min(SLOTS_MAX) * size
}
