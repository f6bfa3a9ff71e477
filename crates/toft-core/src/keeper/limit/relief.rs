//! What is done when the system has no more memory, and when it has some again.

use crate::keeper::limit::MemoryLimit;
use crate::os::Os;
use crate::thread::{Heap, ReentrancyGuard};

/// Bytes of tails that one refusal unmaps beyond the request. It takes some 2 ms if each tail is 12
/// KiB.
const TAIL_BYTES: usize = 16 << 20;

impl<O: Os> MemoryLimit<'_, O> {
    /// The system has mapped memory.
    #[inline]
    pub(crate) fn system_has_granted(self) {
        if self.pressure().granted() {
            self.slabs.grow_ahead();
            self.large.kept_blocks().set_short(false);
        }
    }

    /// The system has refused a request of `size` bytes: unmaps what is unused of large blocks, of
    /// this heap and of orphans. Of slabs in use it unmaps the pages after the last slot, as many
    /// as the request needs and a few more. Other threads give up slabs when these become empty.
    /// Addresses stay with their partitions.
    #[cold]
    pub(crate) fn relieve(self, heap: &Heap, guard: Option<&ReentrancyGuard>, size: usize) {
        let mut wanted = size.saturating_add(TAIL_BYTES);
        self.pressure().refused();
        self.large.kept_blocks().set_short(true);
        self.quarantines().empty_quarantines(Some(heap), guard);
        self.publish_frees(heap, guard);
        self.large.kept_blocks().unmap_all(&self.os);
        self.pool.drop_some(&self.os, usize::MAX, true);
        self.slabs.retract(&self.os);
        if guard.is_some() {
            self.release_address_space(heap, &mut wanted);
        }
        for number in 0..self.heaps.count() {
            self.held_heaps().with_threadless(number, |orphan, guard| {
                self.held_heaps().collect(orphan, guard);
                self.release_address_space(orphan, &mut wanted);
            });
        }
    }

    /// Publishes what this thread and others have freed in slabs of other threads, as far as these
    /// threads are quiet.
    fn publish_frees(self, heap: &Heap, guard: Option<&ReentrancyGuard>) {
        if let Some(guard) = guard {
            self.held_heaps().empty_outbox(heap, guard);
        }
        if let Some(_turn) = self.reclaimer.begin() {
            self.held_heaps().empty_outboxes(false);
        }
    }

    /// Unmaps the heap's empty slabs. Unmaps tails of its other slabs, until that has freed the
    /// bytes `wanted`, from which it subtracts them.
    fn release_address_space(self, heap: &Heap, wanted: &mut usize) {
        self.for_each_slab(|slab| {
            if !heap.owns(slab) || slab.is_being_held() {
                return;
            }
            if slab.is_listed() && slab.is_empty() {
                self.held_heaps().release_own(slab);
            } else if *wanted != 0 {
                let bytes = self.pool.unmap_tail(&self.os, slab);
                *wanted = bytes.map_or(0, |bytes| wanted.saturating_sub(bytes));
            }
        });
    }
}
