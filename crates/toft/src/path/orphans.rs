//! Heaps that no thread has: to be had for good, for one call, or for a scan.

use crate::allocator::Allocator;
use crate::os::{Error, Os};
use crate::report::Call;
use crate::thread::{Heap, Seat};

impl<O: Os> Allocator<O> {
    /// A heap for a new thread: an orphan if there is one, else a new one.
    pub fn acquire_heap(&self) -> Result<&'static Heap, Error> {
        let heap = self.heaps.acquire(&self.os)?;
        drop(self.seat_left(heap));
        Ok(heap)
    }

    /// Runs `body` with a heap that no thread has, for a call that cannot use the thread's own.
    pub(crate) fn with_borrowed_heap<R>(&self, body: impl FnOnce(&Heap) -> R) -> Option<R> {
        let heap = self.acquire_heap().ok()?;
        let result = body(heap);
        self.heaps.orphan(heap);
        Some(result)
    }

    /// Runs `body` with the heap of a number and its seat, if it is an orphan.
    pub(crate) fn with_orphan(&self, number: u32, body: impl FnOnce(&'static Heap, &Seat)) {
        self.heaps.with_orphan(number, |orphan| body(orphan, &self.seat_left(orphan)));
    }

    /// The seat of a heap that the caller holds and whose thread has ended. In the middle of a
    /// change, if it is taken: then the heap is made whole.
    pub(crate) fn seat_left<'a>(&self, orphan: &'a Heap) -> Seat<'a> {
        orphan.sit().unwrap_or_else(|| self.mend(orphan))
    }

    #[cold]
    #[inline(never)]
    fn mend<'a>(&self, orphan: &'a Heap) -> Seat<'a> {
        orphan.mend(
            self.heaps.partitions(),
            |each| self.for_each_slab(each),
            |slab, slot| self.freed_twice(slab, slot, Call::RemoteFree),
        )
    }
}
