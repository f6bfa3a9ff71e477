//! What threads have freed in slabs of others and have not published.

use crate::keeper::held_heaps::HeldHeaps;
use crate::os::Os;
use crate::policy::SECURE;
use crate::remote::{Last, announce};
use crate::report::Call;
use crate::slab::{Batch, Offered, PENDING, Slab, SlotIndex};
use crate::sync::Ordering::SeqCst;
use crate::thread::{Heap, ReentrancyGuard};

/// A thread without a heap gets one when it frees a slot whose number is a multiple of this, less
/// one. So a thread that only frees, and frees much, soon has an outbox.
const SLOTS_WITHOUT_HEAP: usize = 64;

impl<O: Os> HeldHeaps<'_, O> {
    /// Returns the heap of a thread that frees a slot of another thread: `heap`, or a new heap if
    /// the thread has none and frees much.
    #[inline]
    pub(crate) fn heap_to_mark_in(self, heap: &Heap, slot: SlotIndex) -> &Heap {
        let is_due = slot.number() % SLOTS_WITHOUT_HEAP == SLOTS_WITHOUT_HEAP - 1;
        if SECURE || !is_due || !heap.is_sentinel() {
            return heap;
        }
        self.heap_of_thread.and_then(|heap_of_thread| heap_of_thread()).unwrap_or(heap)
    }

    /// Offers a slot of another thread, which is being freed, to the heap's outbox.
    #[inline]
    pub(crate) fn offer(self, heap: &Heap, slab: &Slab, slot: SlotIndex) -> Offered {
        if let Some(counters) = heap.counters() {
            counters.freed_apart(slab.bytes());
        }
        match (heap.outbox(), heap.enter()) {
            (Some(outbox), Some(_guard)) => {
                outbox.offer(slab, slot, |slab, batch, last| self.publish(slab, batch, last))
            }
            _ => Offered::Refused,
        }
    }

    /// Publishes a batch, and tells the slab's owner.
    #[inline(never)]
    fn publish(self, slab: &Slab, batch: &Batch, last: Last) {
        let twice = |slot| self.reports().freed_twice(slab, slot, Call::RemoteFree);
        let any = batch.publish(slab, twice);
        if last.0 {
            batch.release(slab);
        }
        if any && slab.owner.load(SeqCst) & PENDING == 0 {
            announce(slab);
            self.maintenance().wake_reclaimer_for(slab);
        }
    }

    /// Publishes what the heap's thread has freed in slabs of others. The caller holds the heap and
    /// its reentrancy guard.
    pub(crate) fn empty_outbox(self, heap: &Heap, _guard: &ReentrancyGuard) {
        if let Some(outbox) = heap.outbox() {
            outbox.empty(|slab, batch, last| self.publish(slab, batch, last));
        }
    }

    /// Publishes what all threads have freed in slabs of others, or with `idle` what such threads
    /// have that have freed nothing since the last call. A thread in the middle of a change keeps
    /// what it has. The thread that sweeps calls this.
    pub(crate) fn empty_outboxes(self, idle: bool) {
        let mut closed = false;
        for outbox in self.heaps.all().filter_map(Heap::outbox) {
            closed |= outbox.close(idle);
        }
        if !closed {
            return;
        }
        let can = self.barrier();
        for heap in self.heaps.all() {
            if let Some(outbox) = heap.outbox() {
                outbox.open(can && !heap.is_torn(), |slab, batch, last| {
                    self.publish(slab, batch, last)
                });
            }
        }
    }
}
