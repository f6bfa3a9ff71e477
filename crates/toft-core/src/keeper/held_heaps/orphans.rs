//! Heaps without a thread: a new thread acquires them, a call borrows them, and a scan visits them.

use crate::keeper::held_heaps::HeldHeaps;
use crate::os::seccomp::Calls;
use crate::os::{Error, Os};
use crate::report::Call;
use crate::sync::spin_until;
use crate::thread::{Heap, HeapState, ReentrancyGuard};
use core::cell::Cell;

impl<O: Os> HeldHeaps<'_, O> {
    /// Returns a heap for a new thread: an orphan if there is one, else a new heap.
    pub fn acquire_heap(self) -> Result<&'static Heap, Error> {
        let heap = self.heaps.acquire(&self.os, |start, bytes| {
            // Few pages of a heap are ever used, and the others should not be resident.
            if let Some(_permit) = self.permit(Calls::LOCK) {
                // SAFETY: (1) the heap was mapped a moment ago, and is zero.
                let _ = unsafe { self.os.release_locked(start, bytes) };
            }
        })?;
        drop(self.guard_left(heap));
        Ok(heap)
    }

    /// Runs `body` with a heap without a thread, for a call that cannot use its own thread's heap.
    pub(crate) fn with_borrowed_heap<R>(self, body: impl FnOnce(&Heap) -> R) -> Option<R> {
        let heap = self.acquire_heap().ok()?;
        let result = body(heap);
        self.heaps.orphan(heap);
        Some(result)
    }

    /// Runs `body` with heap `number` and its reentrancy guard, if that heap is an orphan, or a
    /// shared heap that no thread uses for long.
    pub(crate) fn with_threadless(
        self,
        number: u32,
        body: impl FnOnce(&'static Heap, &ReentrancyGuard),
    ) {
        if self.heaps.heap_state(number) != HeapState::Shared {
            return self.heaps.with_orphan(number, |orphan| body(orphan, &self.guard_left(orphan)));
        }
        // A handler could fork, or end the thread, and the shared heap would have no user's number.
        let _undisturbed = self.block_signals();
        let guard = Cell::new(None);
        spin_until(|| {
            let now = self.heaps.acquire_shared_number(number);
            let is_taken = now.is_some();
            guard.set(now);
            is_taken
        });
        if let Some(guard) = guard.take() {
            body(guard.heap, &self.guard_left(guard.heap));
        }
    }

    /// Returns the reentrancy guard of a heap that the caller holds and whose thread has exited. If
    /// the guard is taken, the thread stopped in the middle of a change, and the heap is repaired
    /// first.
    pub(crate) fn guard_left<'a>(self, orphan: &'a Heap) -> ReentrancyGuard<'a> {
        orphan.enter().unwrap_or_else(|| self.repair_orphan(orphan))
    }

    /// Repairs a heap whose thread stopped in the middle of a change, and returns its reentrancy
    /// guard.
    #[cold]
    #[inline(never)]
    fn repair_orphan<'a>(self, orphan: &'a Heap) -> ReentrancyGuard<'a> {
        orphan.repair(
            self.heaps.partitions(),
            |each| self.for_each_slab(each),
            |slab, slot| self.reports().freed_twice(slab, slot, Call::RemoteFree),
        )
    }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use crate::allocator::Allocator;
    use crate::options::{Options, PARTITIONS_EXACT, SiteMode};
    use crate::os::fake::{Fake, Fault, Machine, Request};

    #[test]
    fn pages_of_a_large_heap_are_released_where_the_system_locks_them() {
        for (locks, filtered, released) in
            [(true, false, true), (true, true, false), (false, false, false)]
        {
            let options = Options {
                partitions: PARTITIONS_EXACT,
                sites: SiteMode::Exact,
                ..Options::DEFAULT
            };
            let fake = Fake::new(Machine::LARGE);
            fake.set_filtered(Some(filtered));
            let allocator = Allocator::new(fake.clone(), options, false).unwrap();
            allocator.filter().watch();
            let first = allocator.held_heaps().acquire_heap().unwrap();
            // Locked pages cannot be discarded.
            fake.set_fault(locks.then(|| Fault::from(0).only(Request::Discard)));
            let second = allocator.held_heaps().acquire_heap().unwrap();
            let begins = |address| fake.locked().iter().any(|&(start, _)| start == address);
            assert_eq!(begins(second.address()), released, "{locks} {filtered}");
            assert!(!begins(first.address()), "it is part of the tables");
            allocator.check().unwrap();
        }
    }
}
