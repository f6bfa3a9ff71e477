//! The limit, held: who may grow, and what is done before a request is refused.
//!
//! ```text
//! counted   slots of slabs that have pages, without uncounted ones (`slab/suspended.rs`)
//!           large blocks: live, behind them, kept       descriptors, heaps
//! over?     1. what is kept goes, as much as is needed
//!           2. slabs of the bin with any free slot are listed, and drawn from
//!           3. what has changed in slabs of this thread, and of those that have ended: pages of
//!              free slots go, and slabs with untouched pages are suspended
//!           4. the same for slabs of running threads, where that may be enough
//!           5. the request is refused
//! ```
//!
//! Only growth is checked: a slab that gets pages, one that is resumed, a large block. A count
//! remains valid, in the counters, until malloc draws from the slab again. A slab that has been
//! counted is passed by until something is freed there. So a second refusal costs a check of each
//! descriptor.

mod relief;

use crate::allocator::{Allocator, handle};
use crate::bin::BinIndex;
use crate::keeper::sweeper::Which;
use crate::os::seccomp::Calls;
use crate::os::{Os, SECOND, wait_for};
use crate::reclaim::{Promise, Turn, has_group_pressure};
use crate::report::Line;
use crate::slab::{SizeClass, Slab};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, HeapState, ReentrancyGuard};
use core::cell::Cell;

handle!(MemoryLimit, memory_limit);

/// How often all that is tried before a request is refused, where some thread was in the middle of
/// something.
const TRIES: u32 = 2;

/// The result of counting the slabs that can be had at once.
struct Counted {
    /// Bytes of slabs of running threads in which something has changed.
    others: usize,
    /// Whether no slab was passed by.
    all: bool,
}

impl<'a, O: Os> MemoryLimit<'a, O> {
    /// Promises `bytes` bytes if they can be had as things are.
    #[inline]
    pub(crate) fn promise(self, bytes: usize) -> Result<Promise<'a>, usize> {
        self.allocator.limit.promise(bytes, || self.counted_bytes())
    }

    /// Promises `bytes` bytes after freeing what is needed. Returns `None` if that is not enough,
    /// or if the caller's request for a `bin` is `done` earlier. `guard` is the heap's reentrancy
    /// guard, if the caller has it.
    #[cold]
    #[inline(never)]
    pub(crate) fn promise_hard(
        self,
        heap: &Heap,
        guard: Option<&ReentrancyGuard>,
        bytes: usize,
        bin: Option<BinIndex>,
        mut done: impl FnMut() -> bool,
    ) -> Option<Promise<'a>> {
        let excess = match self.promise(bytes) {
            Ok(promise) => return Some(promise),
            Err(excess) => excess,
        };
        // More than everything: nothing needs to go for it.
        if bytes <= self.limit.bytes() {
            let dropped = self.pool.drop_some(&self.os, excess, false);
            self.large.kept_blocks().release_bytes(&self.os, excess.saturating_sub(dropped));
            if let Ok(promise) = self.promise(bytes) {
                return Some(promise);
            }
            self.quarantines().empty_quarantines(Some(heap), guard);
            if let (Some(guard), Some(bin)) = (guard, bin) {
                self.list_bin(heap, guard, bin);
                if done() {
                    return None;
                }
            }
            let may_wait = guard.is_some() && !self.is_interrupted();
            // In the child of a handler that forks, others could have what is to be given back
            // here.
            let _undisturbed = self.block_signals();
            for _ in 0..TRIES {
                let counted = self.count_at_hand(heap, guard);
                if done() {
                    return None;
                }
                if let Ok(promise) = self.promise(bytes) {
                    return Some(promise);
                }
                if counted.all && !self.may_come_to(bytes, counted.others) {
                    break;
                }
                let swept = self.sweeper().sweep(Which::Free).is_some();
                if !swept && may_wait {
                    // What another thread holds just now it is about to give back.
                    self.reclaimer.wait_for_turn(&self.os);
                }
                let all = swept & self.count_others(heap);
                if done() {
                    return None;
                }
                if let Ok(promise) = self.promise(bytes) {
                    return Some(promise);
                }
                if all && counted.all {
                    break;
                }
            }
            // What some thread has had promised a moment ago may count twice.
            if self.limit.is_promised() && may_wait {
                wait_for(&self.os, || !self.limit.is_promised());
                if let Ok(promise) = self.promise(bytes) {
                    return Some(promise);
                }
            }
        }
        if self.limit.note_refusal() && !self.options.in_silence {
            self.report_refusal(bytes, bin);
        }
        None
    }

    /// Reports that the limit has refused `bytes` bytes: a large block, or a slab for a `bin`.
    #[cold]
    fn report_refusal(self, bytes: usize, bin: Option<BinIndex>) {
        let mut line = Line::new(self.hide_addresses);
        line.text("toft: TOFT_LIMIT refused ");
        if let Some(bin) = bin {
            let size = bin.class().size();
            line.text("a block of ").number(size as u64).text(" bytes, which needs a slab of ");
        } else {
            line.text("a block of ");
        }
        line.number(bytes as u64).text(" bytes: ").number(self.counted_bytes() as u64);
        line.text(" of ").number(self.limit.bytes() as u64);
        line.text(" bytes are in use; later refusals are not reported");
        self.os.report(line.end());
    }

    /// Whether there may be room for `bytes` bytes when `less` bytes do not count any more.
    fn may_come_to(self, bytes: usize, less: usize) -> bool {
        let counted = self.counted_bytes().saturating_sub(less);
        counted.saturating_add(bytes) <= self.limit.bytes()
    }

    /// Lists the slabs of a bin that have a free slot, of a heap that the caller holds: to use that
    /// costs nothing, and a program that has room waits until there are more.
    pub(crate) fn list_bin(self, heap: &Heap, guard: &ReentrancyGuard, bin: BinIndex) {
        self.for_each_slab(|slab| {
            if heap.owns(slab)
                && Heap::bin_of(slab) == bin
                && !slab.is_listed()
                && !slab.is_dormant()
                && slab.has_free()
            {
                heap.relist(guard, slab);
            }
        });
    }

    /// Returns true if an outer call of this thread has the turn or a promise: memory hooks and
    /// signal handlers allocate meanwhile. If this call waited, it would wait for itself, or for a
    /// thread that waits for the outer call.
    fn is_interrupted(self) -> bool {
        self.reclaimer.is_own_turn() || self.limit.is_own_promise()
    }

    /// Takes the turn, after its present holder. Returns `None` if that takes long, or at once if
    /// an outer call of this thread is interrupted.
    fn take_turn(self) -> Option<Turn<'a>> {
        if self.is_interrupted() {
            return self.allocator.reclaimer.begin();
        }
        let turn = Cell::new(None);
        wait_for(&self.os, || {
            let begun = self.allocator.reclaimer.begin();
            let is_begun = begun.is_some();
            turn.set(begun);
            is_begun
        });
        turn.take()
    }

    /// Counts what has changed in slabs of the heap, if the caller holds it, and of threads that
    /// have ended: their free pages go.
    fn count_at_hand(self, heap: &Heap, guard: Option<&ReentrancyGuard>) -> Counted {
        let mut counted = Counted { others: 0, all: true };
        let turn = match guard {
            Some(_) => self.take_turn(),
            None => self.allocator.reclaimer.begin(),
        };
        let Some(_turn) = turn else {
            return Counted { others: usize::MAX, all: false };
        };
        self.limit.note_count();
        if let Some(guard) = guard {
            self.held_heaps().collect(heap, guard);
        }
        self.for_each_slab(|slab| {
            // The claim of another thread cannot be taken away.
            if slab.limit_count().is_counted() && slab.claimed() == 0 {
                return;
            }
            if guard.is_some() && heap.owns(slab) {
                self.count_held(slab);
            } else if let Some(other) = self.heaps.owner_of(slab) {
                let mut held = false;
                if self.heaps.heap_state(other.number) == HeapState::Orphan {
                    self.held_heaps().with_threadless(other.number, |orphan, guard| {
                        self.held_heaps().collect(orphan, guard);
                        held = orphan.owns(slab);
                        if held {
                            self.count_held(slab);
                        }
                    });
                }
                if !held && !slab.limit_count().is_counted() {
                    let more =
                        slab.pages().slot_bytes().saturating_sub(slab.limit_count().uncounted());
                    counted.others = counted.others.saturating_add(more);
                }
            }
        });
        counted
    }

    /// Gives back the free pages of a slab whose heap is held here, and counts it. With the turn.
    fn count_held(self, slab: &Slab) {
        if !slab.is_dormant() {
            self.sweeper().discard_own(slab);
        }
        slab.limit_count().note_count();
        let bytes = self.least_uncounted(slab);
        if bytes != 0 && (slab.is_dormant() || slab.limit_count().suspend()) {
            self.pool.set_uncounted(slab, bytes);
        }
    }

    /// Bytes of a slab that need not count.
    fn least_uncounted(self, slab: &Slab) -> usize {
        let page = self.os.page_size();
        if slab.is_dormant() {
            slab.pages().slot_bytes()
        } else {
            slab.pages().untouched_bytes(page)
        }
    }

    /// Counts what has changed in slabs of running threads, other than `heap`'s. Returns true if no
    /// slab was passed by that another attempt might count.
    fn count_others(self, heap: &Heap) -> bool {
        let Some(_turn) = self.take_turn() else { return false };
        if !self.barrier() {
            return true;
        }
        let others =
            |slab: &Slab| slab.has_owner() && !heap.owns(slab) && !slab.limit_count().is_counted();
        let mut any = false;
        self.for_each_slab(|slab| {
            if others(slab) {
                any |= slab.is_dormant()
                    || self.least_uncounted(slab) != 0 && slab.limit_count().suspend();
            }
        });
        // Owners either see that a slab is suspended before they claim from it, or are seen to
        // claim.
        if any && !self.barrier() {
            return false;
        }
        let mut all = true;
        self.for_each_slab(|slab| {
            if !others(slab) {
                return;
            }
            if !self.heaps.is_quiet(slab) {
                all = false;
                return;
            }
            slab.limit_count().note_count();
            let bytes = self.least_uncounted(slab);
            if slab.limit_count().may_be_uncounted() {
                self.pool.set_uncounted(slab, bytes);
            } else if bytes != 0 {
                // Resumed meanwhile, or something was freed.
                slab.limit_count().is_not_counted();
                all = false;
            }
        });
        all
    }

    /// Counts every slab exactly, as far as threads are not in the middle of something.
    pub fn count_exactly(self, heap: &Heap) {
        self.count_at_hand(heap, heap.enter().as_ref());
        self.sweeper().sweep(Which::Free);
        self.count_others(heap);
    }

    /// Requests that the limit has refused, and how often everything was counted.
    pub fn limit_figures(self) -> (usize, usize) {
        self.limit.figures()
    }

    /// Makes a slab of the caller's usable, if the limit and the system allow that: resumes it if
    /// it is suspended, maps its pages if it is dormant.
    pub(crate) fn wake(self, slab: &Slab) -> bool {
        // From here on no thread uncounts its bytes; its owner is here, so no thread draws from it.
        slab.limit_count().resume();
        let bytes = slab.limit_count().take_uncounted();
        let Ok(_promise) = self.promise(bytes) else {
            slab.limit_count().suspend();
            slab.limit_count().add_uncounted(bytes);
            return false;
        };
        self.pool.add(bytes);
        self.pool.resume(slab);
        if slab.is_dormant() {
            let bytes = slab.pages().mapped_bytes(self.os.page_size());
            if self.os.map(slab.base(), bytes).is_err() {
                return false;
            }
            self.system_has_granted();
            self.mapper().slabs_were_mapped(slab.base(), bytes);
            self.mapper().set_up_guard_pages(slab);
            slab.wake(true);
            self.pool.resume(slab);
        }
        true
    }
}

/// Milliseconds between two questions whether a check of the group is due.
const SLICE: u32 = 1000;

impl<O: Os> MemoryLimit<'_, O> {
    /// Looks how the group of processes is off that this one belongs to, if that was long ago, and
    /// keeps much or little accordingly. The reclaimer's thread.
    pub fn check_group(self) {
        if !self.limit.is_due(self.os.ticks(), SECOND) {
            return;
        }
        let was = self.limit.has_group_pressure();
        let pressure = has_group_pressure(was, self.os.group(&|| self.permit(Calls::FILES)));
        if pressure != was {
            self.limit.set_group_pressure(pressure);
            self.pool.set_lean(pressure);
            self.large.kept_blocks().set_lean(pressure);
        }
    }

    /// Sleeps for the given milliseconds, unless the reclaimer is woken or the group becomes short
    /// of memory. The reclaimer's thread.
    pub(crate) fn sleep_and_check_group(self, milliseconds: u32) {
        let word = self.reclaimer.word();
        let mut left = milliseconds;
        while left != 0 && word.load(Relaxed) == 0 {
            let slice = left.min(SLICE);
            self.os.sleep_on(word, 0, slice);
            left -= slice;
            if left != 0 {
                self.check_group();
                left = if self.limit.has_group_pressure() { 0 } else { left };
            }
        }
    }

    /// What the reclaimer's thread sweeps: whatever is free, while the group is short of memory.
    pub fn to_sweep(self) -> Which {
        if self.limit.has_group_pressure() { Which::Free } else { Which::Idle }
    }
}

/// What a large block is promised while it is made or changed.
pub(crate) struct Grant<'a, O> {
    allocator: &'a Allocator<O>,
    heap: &'a Heap,
    promise: Cell<Option<Promise<'a>>>,
    refused: Cell<bool>,
}

impl<'a, O: Os> Grant<'a, O> {
    /// Nothing as yet.
    pub(crate) fn new(allocator: &'a Allocator<O>, heap: &'a Heap) -> Grant<'a, O> {
        Grant { allocator, heap, promise: Cell::new(None), refused: Cell::new(false) }
    }

    /// Whether the last answer was no.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.get()
    }

    /// Whether a block of so many resident bytes may be; in place of what it was promised before.
    pub(crate) fn admit(&self, bytes: usize) -> bool {
        if !self.allocator.limit.is_set() {
            return true;
        }
        self.promise.set(None);
        let promise = self.allocator.memory_limit().promise(bytes).ok();
        let promise = promise.or_else(|| {
            let guard = self.heap.enter();
            self.allocator.memory_limit().promise_hard(
                self.heap,
                guard.as_ref(),
                bytes,
                None,
                || false,
            )
        });
        let admitted = promise.is_some();
        self.promise.set(promise);
        self.refused.set(!admitted);
        admitted
    }
}

/// Bytes of the slots of a slab of a class.
pub(crate) fn slot_bytes(class: usize) -> usize {
    SizeClass::new(class).slab_bytes()
}
