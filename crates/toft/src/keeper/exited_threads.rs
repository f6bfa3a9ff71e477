//! What exited threads leave behind: their heaps, until other threads adopt them.
//!
//! ```text
//! exit -> one sweep sees the orphan -> the next clears it out: empty slabs go to the pool, blocks in
//!                                      quarantine to a shared heap, unused pages of the heap to the OS
//! ```
//!
//! A program that ends a thread and begins another finds the heap as it was left.

use crate::allocator::Allocator;
use crate::os::Os;
use crate::report::Call;
use crate::thread::{Heap, HeapState, Seat};

impl<O: Os> Allocator<O> {
    /// Collects what was freed in the slabs of heaps without a thread, and clears out the heaps
    /// whose threads exited before the last call. Returns true if there will be more to do at the
    /// next call. The reclaimer's thread.
    pub(crate) fn clear_out_exited(&self) -> bool {
        let mut left = false;
        for number in 0..self.heaps.count() {
            let is_orphan = match self.heaps.who(number) {
                HeapState::Orphan => true,
                HeapState::Shared => false,
                _ => continue,
            };
            let heap = self.heaps.heap(number);
            let is_left = is_orphan && heap.is_left() && !heap.was_cut_off();
            if is_left || !heap.inbox.is_empty() {
                self.with_orphan(number, |heap, seat| {
                    self.collect(heap, seat);
                    if is_left && heap.is_long_left() {
                        self.clear_out(heap, seat);
                    }
                });
                left |= is_left && heap.is_left();
            }
        }
        left
    }

    /// Clears out an orphan that the caller holds.
    fn clear_out(&self, orphan: &Heap, seat: &Seat) {
        self.move_quarantine(orphan, seat);
        orphan.part_with_empty(seat, self.heaps.partitions(), |slab| {
            self.verify_reserved(slab, Call::Free);
            if slab.is_aside() {
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
