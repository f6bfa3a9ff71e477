//! Heaps without a thread: a new thread acquires them, a call borrows them, and a scan visits them.

use crate::allocator::Allocator;
use crate::bin::BinIndex;
use crate::os::{Error, Os, probes};
use crate::reclaim::Life;
use crate::report::Call;
use crate::sync::spin_until;
use crate::thread::{Heap, HeapState, Seat};
use core::cell::Cell;

impl<O: Os> Allocator<O> {
    /// Returns a heap for a new thread: an orphan if there is one, else a new heap.
    pub fn acquire_heap(&self) -> Result<&'static Heap, Error> {
        let heap = self.heaps.acquire(&self.os)?;
        drop(self.seat_left(heap));
        Ok(heap)
    }

    /// Runs `body` with a heap without a thread, for a call that cannot use its own thread's heap.
    pub(crate) fn with_borrowed_heap<R>(&self, body: impl FnOnce(&Heap) -> R) -> Option<R> {
        let heap = self.acquire_heap().ok()?;
        let result = body(heap);
        self.heaps.orphan(heap);
        Some(result)
    }

    /// Runs `body` with heap `number` and its seat, if that heap is an orphan, or a shared heap
    /// that no thread uses for long.
    pub(crate) fn with_threadless(&self, number: u32, body: impl FnOnce(&'static Heap, &Seat)) {
        if self.heaps.heap_state(number) != HeapState::Shared {
            return self.heaps.with_orphan(number, |orphan| body(orphan, &self.seat_left(orphan)));
        }
        // A handler could fork, or end the thread, and the shared heap would have no user's number.
        let _undisturbed = self.keeper().block_signals();
        let guard = Cell::new(None);
        spin_until(|| {
            let now = self.heaps.acquire_shared_number(number);
            let is_taken = now.is_some();
            guard.set(now);
            is_taken
        });
        if let Some(guard) = guard.take() {
            body(guard.heap, &self.seat_left(guard.heap));
        }
    }

    /// Whether the next slot of bin `index` should come from a shared heap, because the thread of
    /// `heap` rarely uses that bin.
    pub(super) fn should_use_shared_heap(&self, heap: &Heap, index: BinIndex) -> bool {
        // Shared slabs have small slots: a medium slab takes only the pages of its blocks. A probe
        // follows the claims of each thread.
        index.class().is_small()
            && !heap.bins().has_slab(index)
            && !probes::wants_allocations()
            && heap.should_use_shared_heap(index, || self.os.ticks())
    }

    /// Takes a slot for bin `index` from a shared heap. Returns `None` if it has none, or the
    /// shared heaps are in use.
    #[inline(never)]
    pub(super) fn shared_slot(&self, heap: &Heap, index: BinIndex) -> Option<usize> {
        let guard =
            self.heaps.acquire_shared(&self.os, index.partition().number(), Some(heap.number))?;
        let (shared, seat) = (guard.heap, self.seat_left(guard.heap));
        let address = shared.pop(index).or_else(|| {
            // Without a thread for it, calls return idle memory. A thread that sleeps is not woken
            // for a single slot.
            if self.reclaimer.life() != Life::Asleep {
                self.keeper().maintain(shared, &seat);
            }
            // All blocks of the slab are freed by other threads. Only this slab is collected here,
            // because other threads need the heap.
            let slab = shared.bins().current(index);
            if slab.slots() != 0 {
                slab.collect(|slot| self.observer().freed_twice(slab, slot, Call::RemoteFree));
            }
            self.listed_or_freed(shared, &seat, index)
        });
        self.arm_reserved(shared.bins().current(index));
        address
    }

    /// Gives the current slab of bin `index`, from which one slot was taken, to a shared heap. It
    /// was not opened there, because that takes system calls, and other threads need the heap. The
    /// thread keeps the slab if the shared heaps are in use, or another thread frees into it now.
    #[inline(never)]
    pub(super) fn share_slab(&self, heap: &Heap, _seat: &Seat, index: BinIndex) {
        self.arm_reserved(heap.bins().current(index));
        if let Some(guard) =
            self.heaps.acquire_shared(&self.os, index.partition().number(), Some(heap.number))
        {
            guard.heap.take_over(&self.seat_left(guard.heap), heap, index);
        }
    }

    /// Returns the seat of a heap that the caller holds and whose thread has exited. If the seat is
    /// taken, the thread stopped in the middle of a change, and the heap is repaired first.
    pub(crate) fn seat_left<'a>(&self, orphan: &'a Heap) -> Seat<'a> {
        orphan.sit().unwrap_or_else(|| self.repair_orphan(orphan))
    }

    /// Repairs a heap whose thread stopped in the middle of a change, and returns its seat.
    #[cold]
    #[inline(never)]
    fn repair_orphan<'a>(&self, orphan: &'a Heap) -> Seat<'a> {
        orphan.repair(
            self.heaps.partitions(),
            |each| self.for_each_slab(each),
            |slab, slot| self.observer().freed_twice(slab, slot, Call::RemoteFree),
        )
    }
}
