//! Where slots come from when a bin is empty, in order of cost.

use crate::allocator::Allocator;
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::keeper::limit::slot_bytes;
use crate::os::{Os, probes};
use crate::policy::QUARANTINE;
use crate::report::Call;
use crate::slab::{Class, MEDIUM, SMALL, SMALL_CLASSES, Slab, Tier};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Seat};

impl<O: Os> Allocator<O> {
    /// The bin has no claimed slot left. With a seat, everything else is tried in order of cost.
    #[cold]
    #[inline(never)]
    pub fn allocate_slow(&self, heap: &Heap, class: usize, site: usize) -> Option<usize> {
        self.watch_sizes(heap, class, site);
        let index = self.row(heap, site) + class * BIN_WORDS;
        if let Some(seat) = heap.sit() {
            return self.refill_and_arm(heap, &seat, index, site);
        }
        // A thread that has no heap, or a signal handler that interrupted a change of this one.
        self.with_borrowed_heap(|heap| {
            let seat = heap.sit()?;
            self.refill_and_arm(heap, &seat, index, site)
        })?
    }

    #[inline]
    fn refill_and_arm(&self, heap: &Heap, seat: &Seat, index: usize, site: usize) -> Option<usize> {
        let begins = heap.bins().current(index).claimed() == 0;
        let address = self.refill(heap, seat, index, site)?;
        self.arm_reserved(heap.bins().current(index));
        if begins && probes::wants_allocations() {
            self.tell_claim(heap, seat, index, address, site);
        }
        Some(address)
    }

    fn refill(&self, heap: &Heap, seat: &Seat, index: usize, site: usize) -> Option<usize> {
        let bins = heap.bins();
        // A heap that was borrowed may have slots claimed already.
        if let Some(address) = bins.pop(index) {
            return Some(address);
        }
        let row = bins.current(index).row_behind();
        self.tend(heap, seat);
        // 1. free slots of this bin's slabs
        let wake = |slab: &Slab| self.wake(slab);
        if bins.advance(index, wake) {
            return bins.pop(index);
        }
        // 2. what other threads have freed
        if self.collect(heap, seat) && bins.advance(index, wake) {
            return bins.pop(index);
        }
        // 3. what threads that have ended left behind
        let taken = self.heaps.search_orphans(|orphan| {
            let seat_there = self.seat_left(orphan);
            self.collect(orphan, &seat_there);
            heap.take_over(seat, orphan, index)
        });
        if taken && bins.advance(index, wake) {
            return bins.pop(index);
        }
        // 4. a slab that has become empty, of whatever thread
        let (partition, class) = (index / ROW_WORDS, index % ROW_WORDS / BIN_WORDS);
        if self.adopt(heap, index, self.pool.take(partition, class)) && bins.advance(index, wake) {
            return bins.pop(index);
        }
        // 5. from here on the program grows: slabs that were set aside come first, if there are any
        let bytes = slot_bytes(class);
        let mut promise = self.promise(bytes).ok();
        if promise.is_none() {
            let mut served = false;
            promise = self.promise_hard(heap, Some(seat), bytes, Some(index), || {
                served = bins.advance(index, wake);
                served
            });
            if served {
                return bins.pop(index);
            }
        }
        let _promise = promise?;
        let clean = self.pool.take_clean(&self.os, partition, class);
        if self.adopt(heap, index, clean) && bins.advance(index, wake) {
            return bins.pop(index);
        }
        // 6. address space that was never used
        let slab = match self.new_slab(heap, index, site) {
            Some(slab) => slab,
            // 7. what can be had back where there is no more
            None => {
                self.relieve(heap, Some(seat));
                if QUARANTINE {
                    // What was in quarantine may be what is needed.
                    self.collect(heap, seat);
                    self.list_bin(heap, seat, index);
                    if bins.advance(index, wake) {
                        return bins.pop(index);
                    }
                }
                self.new_slab(heap, index, site)?
            }
        };
        self.get_ready(slab, row);
        bins.list(index, slab);
        bins.advance(index, wake);
        bins.pop(index)
    }

    fn new_slab(&self, heap: &Heap, index: usize, site: usize) -> Option<&Slab> {
        let (partition, class) = (index / ROW_WORDS, index % ROW_WORDS / BIN_WORDS);
        let mapped = |address, len| self.slabs_were_mapped(address, len);
        let take = || {
            if class < SMALL_CLASSES {
                self.small.take(&self.os, partition, mapped)
            } else {
                self.medium.take(&self.os, partition, mapped)
            }
        };
        let (slab, base) = take().ok()?;
        let tier = Tier::of(if class < SMALL_CLASSES { SMALL } else { MEDIUM });
        let slots = slab.open(base, tier.slab_bytes(), Class::new(class), partition, site);
        self.choose_walls(slab, slots);
        slab.publish(heap.address(), slots);
        self.put_up_walls(slab);
        self.pool.grow(&self.os, slab);
        self.note_growth();
        self.system_has_granted();
        Some(slab)
    }

    /// Collects what other threads have freed into a heap that the caller holds.
    pub(crate) fn collect(&self, heap: &Heap, seat: &Seat) -> bool {
        let twice = |slab: &Slab, slot| self.freed_twice(slab, slot, Call::RemoteFree);
        // A thread that other threads free for is about to need what they have freed: it keeps such
        // slabs, and what is not needed stays idle.
        let pressure = self.pressure().is_on();
        heap.collect(seat, twice, |slab| {
            if pressure {
                self.part_with(heap, seat, slab);
            }
        })
    }

    /// A slab on a list of a heap that the caller holds has become empty.
    pub(crate) fn part_with(&self, heap: &Heap, seat: &Seat, slab: &Slab) {
        let pressure = self.pressure().is_on();
        self.verify_reserved(slab, Call::Free);
        if heap.part_with(seat, slab) {
            if slab.is_aside() {
                // It counts for less than it would in the pool.
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

    /// Lists an empty slab out of the pool, if there is one for this bin.
    fn adopt(&self, heap: &Heap, index: usize, slab: Option<&'static Slab>) -> bool {
        let Some(slab) = slab else { return false };
        slab.adopt(heap.address());
        // The row that another bin had filled tells nothing about this one.
        slab.row.store(0, Relaxed);
        self.note_growth();
        // Racing threads that free a slot twice may leave its bit behind.
        slab.collect(|slot| self.freed_twice(slab, slot, Call::RemoteFree));
        // While the slab was unowned, no thread has checked it.
        self.verify_reserved(slab, Call::Malloc);
        heap.bins().list(index, slab);
        true
    }
}
