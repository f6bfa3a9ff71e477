//! What exited threads leave behind: their heaps, until other threads adopt them.
//!
//! ```text
//! exit -> one sweep sees the orphan -> the next clears it out: empty slabs go to the pool, blocks in
//!                                      quarantine to a shared heap, unused pages of the heap to the OS
//! ```
//!
//! A program that ends a thread and begins another finds the heap as it was left.

use crate::keeper::sweeper::Sweeper;
use crate::os::Os;
use crate::report::Call;
use crate::thread::{Heap, HeapState, ReentrancyGuard};

impl<O: Os> Sweeper<'_, O> {
    /// Collects what was freed in the slabs of heaps without a thread, and clears out the heaps
    /// whose threads exited before the last call. Returns true if there will be more to do at the
    /// next call. The reclaimer's thread.
    pub(crate) fn clear_out_exited(self) -> bool {
        let mut left = false;
        for number in 0..self.heaps.count() {
            let is_orphan = match self.heaps.heap_state(number) {
                HeapState::Orphan => true,
                HeapState::Shared => false,
                _ => continue,
            };
            let heap = self.heaps.heap(number);
            let is_left = is_orphan && heap.is_left() && !heap.is_cut_off();
            if is_left || !heap.inbox.is_empty() {
                self.held_heaps().with_threadless(number, |heap, guard| {
                    self.held_heaps().collect(heap, guard);
                    if is_left && heap.is_long_left() {
                        self.clear_out(heap, guard);
                    }
                });
                left |= is_left && heap.is_left();
            }
        }
        left
    }

    /// Clears out an orphan that the caller holds.
    fn clear_out(self, orphan: &Heap, guard: &ReentrancyGuard) {
        self.quarantines().move_quarantine(orphan, guard);
        orphan.detach_empty(guard, self.heaps.partitions(), |slab| {
            self.slot_checks().verify_reserved(slab, Call::Free);
            if slab.limit_count().may_be_uncounted() || slab.is_dormant() {
                self.pool.put_clean(&self.os, slab);
            } else {
                self.pool.put(slab);
            }
        });
        self.heaps.discard_unused(orphan, self.os.page_size(), |start, bytes| {
            if bytes != 0 {
                // SAFETY: (1) pages of a heap that the caller holds. Other threads read no bin, and
                // what the pages hold means the same as zeros.
                _ = unsafe { self.os.discard(start, bytes) };
            }
        });
    }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::options::Options;
    use crate::os::Residency;
    use crate::os::fake::{Fake, Machine};

    const SITE: usize = 0x5000;

    #[test]
    fn an_exited_threads_heap_is_cleared_out_and_serves_the_next() {
        let options = Options { warn_only: true, quarantine: 0, ..Options::DEFAULT };
        let fake = Fake::new(Machine::LARGE);
        let allocator = Allocator::new(fake.clone(), options, false).unwrap();
        allocator.filter().watch();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        let sizes = || (16..=2048).step_by(16);
        let allocate = |size| allocator.allocate(heap, size, SITE + size / 256).unwrap();
        let stays = allocate(700);
        let blocks: Vec<usize> = sizes().map(allocate).collect();
        for block in blocks {
            allocator.free(heap, block, Call::Free);
        }
        allocator.heaps.orphan(heap);
        let owned = || {
            let mut owned = 0;
            allocator.for_each_slab(|slab| owned += usize::from(heap.owns(slab)));
            owned
        };
        let end = heap.address() + allocator.heaps.places().stride;
        let of_heap = || {
            let pages = (heap.address()..end).step_by(4096);
            pages.map(|page| fake.resident_prefix(page, 4096)).sum::<usize>()
        };
        let (before, resident) = (owned(), of_heap());
        assert!(
            allocator.sweeper().clear_out_exited(),
            "the exit was seen, and there is more to do"
        );
        assert_eq!(owned(), before, "the next thread may come soon");
        assert!(!allocator.sweeper().clear_out_exited());
        assert!(owned() < before / 4, "{} of {before} slabs are still the heap's", owned());
        assert!(of_heap() < resident, "{} of {resident} bytes: the heap's pages stayed", of_heap());
        assert_eq!(allocator.check(), Ok(()));
        assert!(!heap.is_left());
        // The next thread has it, with the block that is live there.
        assert!(core::ptr::eq(allocator.held_heaps().acquire_heap().unwrap(), heap));
        for size in sizes() {
            assert_ne!(allocator.allocate(heap, size, SITE).unwrap(), stays);
        }
        allocator.free(heap, stays, Call::Free);
        assert_eq!(allocator.check(), Ok(()));
        assert!(fake.take_reports().is_empty());
    }

    #[cfg(feature = "secure")]
    #[test]
    fn what_waits_in_its_quarantine_waits_on_in_a_shared_heaps() {
        let options = Options { warn_only: true, ..Options::DEFAULT };
        let allocator = Allocator::new(Fake::new(Machine::LARGE), options, false).unwrap();
        allocator.filter().watch();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        let block = allocator.allocate(heap, 100, SITE).unwrap();
        allocator.free(heap, block, Call::Free);
        let waits = |heap: &Heap| heap.quarantine().waiting().count();
        assert_eq!(waits(heap), 1);
        allocator.heaps.orphan(heap);
        allocator.sweeper().clear_out_exited();
        allocator.sweeper().clear_out_exited();
        assert_eq!(waits(heap), 0);
        assert!(!heap.quarantine().is_used());
        let shared = allocator.heaps.all().filter(|heap| allocator.heaps.is_shared(heap));
        assert_eq!(shared.map(waits).sum::<usize>(), 1, "it is free already, or lost");
        assert_eq!(allocator.check(), Ok(()));
    }
}
