//! What is done when the system has no more memory, and when it has some again.

use crate::allocator::Allocator;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::slab::Slab;
use crate::thread::{Heap, Seat};

impl<O: Os> Allocator<O> {
    /// The system has mapped memory.
    #[inline]
    pub(crate) fn system_has_granted(&self) {
        if self.pressure().granted() {
            self.small.grow_ahead();
            self.medium.grow_ahead();
        }
    }

    /// The system has no more: gives back unused memory of large blocks, of this heap and of
    /// orphans. Asks every other thread to do so as its slabs become empty. That is address space
    /// too, for where the limit is on address space; the addresses themselves stay with their
    /// partitions.
    #[cold]
    pub(crate) fn relieve(&self, heap: &Heap, seat: Option<&Seat>) {
        self.pressure().refused();
        self.empty_quarantines(Some(heap), seat);
        self.large.drop_kept(&self.os);
        self.pool.drop_some(&self.os, usize::MAX, true);
        self.small.retract(&self.os);
        self.medium.retract(&self.os);
        if seat.is_some() {
            self.release_empty_slabs(heap);
        }
        for number in 0..self.heaps.count() {
            self.with_threadless(number, |orphan, seat| {
                self.collect(orphan, seat);
                self.release_empty_slabs(orphan);
            });
        }
    }

    fn release_empty_slabs(&self, heap: &Heap) {
        self.for_each_slab(|slab| {
            if heap.owns(slab) && slab.is_listed() && slab.is_empty() && !slab.is_being_held() {
                self.release_own(slab);
            }
        });
    }

    /// Addresses of slabs were mapped: there the system makes no huge pages by itself, because a
    /// slab is rarely full, and what is given back must not be put together again.
    pub(crate) fn keep_small(&self, address: usize, len: usize) {
        if self.small_pages
            && len != 0
            && let Some(_permit) = self.permit(Calls::HUGE)
        {
            self.os.keep_small(address, len);
        }
    }

    /// Keeps small what was mapped before it was known that such advice is allowed.
    pub(crate) fn keep_all_small(&self) {
        if self.small_pages {
            let there = |slab: &Slab| !slab.is_dormant();
            self.small.for_each_range(there, |start, bytes| self.keep_small(start, bytes));
            self.medium.for_each_range(there, |start, bytes| self.keep_small(start, bytes));
        }
    }

    /// Gives back the pages of all free large blocks and of empty unowned slabs; returns the bytes.
    pub(crate) fn drop_kept(&self) -> usize {
        self.large.drop_kept(&self.os) + self.pool.drop_some(&self.os, usize::MAX, false)
    }
}
