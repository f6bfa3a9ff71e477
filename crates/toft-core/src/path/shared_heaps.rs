//! Slots of shared heaps, for bins that a thread rarely uses.

use crate::bin::BinIndex;
use crate::os::{Os, probes};
use crate::path::Supply;
use crate::report::Call;
use crate::thread::{Heap, ReentrancyGuard};

impl<O: Os> Supply<'_, O> {
    /// Whether the next slot of bin `index` should come from a shared heap, because the thread of
    /// `heap` rarely uses that bin.
    pub(super) fn should_use_shared_heap(self, heap: &Heap, index: BinIndex) -> bool {
        // Shared slabs have small slots: a medium slab takes only the pages of its blocks. A probe
        // follows the claims of each thread.
        index.class().is_small()
            && !heap.bins().has_slab(index)
            && !probes::wants_allocations()
            && heap.should_use_shared_heap(index, || self.os.ticks())
    }

    /// Takes a slot for bin `index` from a shared heap. If it has none, or the shared heaps are in
    /// use, returns the number of slots of the slab that the shared heap has filled, or zero. The
    /// slab that comes next is for the shared heap.
    #[inline(never)]
    pub(super) fn shared_slot(self, heap: &Heap, index: BinIndex) -> Result<usize, usize> {
        let place = index.partition().number();
        let guard = self.heaps.acquire_shared(&self.os, place, Some(heap.number)).ok_or(0_usize)?;
        let (shared, entered) = (guard.heap, self.held_heaps().guard_left(guard.heap));
        let mut filled = 0;
        shared.bins().own_lines(index);
        let address = shared.pop(index).or_else(|| {
            // Without a thread for it, calls return idle memory. A thread that sleeps is not woken
            // for a single slot, and none is started.
            if !self.reclaimer.life().is_at_rest() {
                self.maintenance().maintain(shared, &entered);
            }
            // All blocks of the slab are freed by other threads. Only this slab is collected here,
            // because other threads need the heap.
            let slab = shared.bins().current(index);
            filled = slab.slots();
            if filled != 0 {
                shared.collect_slab(slab, |slot| {
                    self.reports().freed_twice(slab, slot, Call::RemoteFree);
                });
            }
            self.listed_or_freed(shared, &entered, index)
        });
        self.slot_checks().arm_reserved(shared.bins().current(index));
        if let (Some(_), Some(counters)) = (address, heap.counters()) {
            counters.allocated_apart(index.class().size());
        }
        address.ok_or(filled)
    }

    /// Gives the current slab of bin `index`, from which one slot was taken, to a shared heap. It
    /// was not opened there, because that takes system calls, and other threads need the heap. The
    /// thread keeps the slab if the shared heaps are in use, or another thread frees into it now.
    #[inline(never)]
    pub(super) fn share_slab(self, heap: &Heap, _entered: &ReentrancyGuard, index: BinIndex) {
        self.slot_checks().arm_reserved(heap.bins().current(index));
        if let Some(guard) =
            self.heaps.acquire_shared(&self.os, index.partition().number(), Some(heap.number))
        {
            guard.heap.take_over(&self.held_heaps().guard_left(guard.heap), heap, index);
        }
    }
}
