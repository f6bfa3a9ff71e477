//! What becomes free in a heap that the caller holds, by this thread or by others.

use crate::keeper::held_heaps::HeldHeaps;
use crate::os::Os;
use crate::report::Call;
use crate::slab::{Slab, Spent};
use crate::thread::{Heap, ReentrancyGuard};

impl<O: Os> HeldHeaps<'_, O> {
    /// Collects the slots that other threads have freed in a heap that the caller holds.
    pub(crate) fn collect(self, heap: &Heap, guard: &ReentrancyGuard) -> bool {
        let report_double_free =
            |slab: &Slab, slot| self.reports().freed_twice(slab, slot, Call::RemoteFree);
        // The heap keeps a slab that other threads have emptied, because its thread will probably
        // need it soon. Under memory pressure the slab is given up.
        let pressure = self.pressure().is_on();
        heap.collect(guard, report_double_free, |slab| {
            if pressure {
                self.detach(heap, guard, slab);
            }
        })
    }

    /// Puts an emptied slab, which is on a list of the caller's heap, into the pool if possible.
    pub(crate) fn detach(self, heap: &Heap, guard: &ReentrancyGuard, slab: &Slab) {
        let pressure = self.pressure().is_on();
        self.slot_checks().verify_reserved(slab, Call::Free);
        if heap.detach(guard, slab) {
            if slab.limit_count().is_suspended() {
                // With its pages in the pool the slab would count for more bytes than it does now.
                self.pool.put_clean(&self.os, slab);
            } else {
                self.pool.put(slab);
            }
            if pressure {
                self.pool.drop_some(&self.os, usize::MAX, true);
            }
        } else if pressure && slab.is_empty() && !slab.is_being_held() {
            self.release_own(slab);
        }
    }

    /// Gives the pages of an empty slab of a heap that the caller holds back, and its address
    /// space.
    pub(crate) fn release_own(self, slab: &Slab) {
        self.pool.release(&self.os, slab, true);
        if slab.is_awake() {
            self.pool.resume(slab);
        }
    }

    /// Puts a slab whose credit is spent back on its bin's list, or parts with it if it is empty.
    /// If this is a signal handler that interrupted a change of the lists, the next free does it.
    #[cold]
    #[inline(never)]
    pub(crate) fn credit_spent(self, heap: &Heap, slab: &Slab) {
        // A signal handler may have run between the change of the state and that of the credit. It
        // may have emptied the slab and given it up.
        if !heap.owns(slab) {
            return;
        }
        let Some(guard) = heap.enter() else { return slab.postpone() };
        self.credit_follows(heap, &guard, slab);
        self.maintenance().maintain(heap, &guard);
    }

    /// Lists a slab whose credit is spent, parts with it, or leaves it. The caller holds the heap's
    /// reentrancy guard.
    pub(crate) fn credit_follows(self, heap: &Heap, guard: &ReentrancyGuard, slab: &Slab) {
        let pressure = self.pressure().is_on();
        match slab.credit_spent(pressure) {
            Spent::List(live) => heap.relist_counted(guard, slab, live),
            Spent::Empty => self.detach(heap, guard, slab),
            Spent::Nothing => {}
        }
    }
}
