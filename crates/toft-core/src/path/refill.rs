//! The sources of slots for an empty bin, in order of cost.

use crate::bin::BinIndex;
use crate::keeper::limit::slot_bytes;
use crate::os::{Error, Os, probes};
use crate::path::Supply;
use crate::policy::SECURE;
use crate::region::{Site, SlabNeed};
use crate::report::Call;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, ReentrancyGuard};

/// The reason why there is no slot for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// `TOFT_LIMIT` has refused it.
    Limit,
    /// There is no slab: the system has refused it, or another thread is stopped while it maps
    /// metadata.
    NoSlab,
}

/// What a bin has filled when it needs another slab.
#[derive(Clone, Copy, Debug)]
struct Filled {
    /// The number of slabs of the greatest length in a row, its current slab included.
    slabs: u8,
    /// The number of slots of its current slab, or zero. Of the shared bin's current slab if the
    /// new slab is for a shared heap.
    slots: usize,
    /// True if the new slab has the greatest length whatever the bin has filled: the heap is not
    /// the first. Threads free each other's blocks, and each slab costs them cache lines that move.
    begins_long: bool,
}

impl<'a, O: Os> Supply<'a, O> {
    /// Allocates a slot of a class after the bin has no claimed slot left. Tries every source in
    /// order of cost. Borrows a heap if this heap's reentrancy guard is not available.
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_slow(
        self,
        heap: &Heap,
        class: usize,
        site: Site,
    ) -> Result<usize, NoSlot> {
        let index = self.call_sites().row(heap, site).of_class(class);
        if let Some(guard) = heap.enter() {
            let shares = self.should_use_shared_heap(heap, index);
            return self.refill_and_arm(heap, &guard, (index, site), shares);
        }
        // The thread has no heap, or this is a signal handler that interrupted a change of the
        // heap.
        let borrowed = self.held_heaps().with_borrowed_heap(|heap| {
            let guard = heap.enter().ok_or(NoSlot::NoSlab)?;
            self.refill_and_arm(heap, &guard, (index, site), false)
        });
        borrowed.unwrap_or(Err(NoSlot::NoSlab))
    }

    /// Refills a bin, arms the reserved slots that the claim passed, and reports a new claim to the
    /// probes. Returns the first slot. With `shares`, takes the slot from a shared heap if the bin
    /// has none.
    #[inline]
    fn refill_and_arm(
        self,
        heap: &Heap,
        guard: &ReentrancyGuard,
        (index, site): (BinIndex, Site),
        shares: bool,
    ) -> Result<usize, NoSlot> {
        let claim_begins = heap.bins().current(index).claimed() == 0;
        let address = self.refill(heap, guard, (index, site), shares)?;
        self.slot_checks().arm_reserved(heap.bins().current(index));
        if claim_begins && probes::wants_allocations() {
            self.profiler().sample_claim(heap, guard, index, address, site);
        }
        Ok(address)
    }

    /// Returns a slot from the cheapest source that has one for the bin.
    fn refill(
        self,
        heap: &Heap,
        guard: &ReentrancyGuard,
        (index, site): (BinIndex, Site),
        shares: bool,
    ) -> Result<usize, NoSlot> {
        // A borrowed heap may have claimed slots already.
        if let Some(address) = heap.bins().pop(index) {
            return Ok(address);
        }
        if !shares {
            self.maintenance().maintain(heap, guard);
        }
        // 1. free slots of this bin's slabs, and slots that other threads have freed
        let current = heap.bins().current(index);
        let mut filled = Filled {
            slabs: current.row_behind(),
            slots: current.slots(),
            begins_long: !shares && heap.number != 0,
        };
        if current.is_outgrown() {
            // Once, whether there is a longer slab or not: each claim comes here until then.
            current.note_replaced();
            if !shares && self.memory_is_plenty() {
                self.list_longest_slab(heap, (index, site));
            }
        }
        if let Some(address) = self.listed_or_freed(heap, guard, index) {
            return Ok(address);
        }
        // 2. a slot of a shared heap, for a bin that this thread rarely uses
        if shares {
            match self.shared_slot(heap, index) {
                Ok(address) => return Ok(address),
                Err(slots) => filled.slots = slots,
            }
        }
        let address = self
            .slot_of_another_slab(heap, guard, (index, site), filled)
            .or_else(|why| self.slot_of_earlier_row(heap, guard, index, site, true).ok_or(why))?;
        if shares {
            self.maintenance().maintain(heap, guard);
            self.share_slab(heap, guard, index);
        }
        Ok(address)
    }

    /// Returns a slot that is free in a slab of the bin, or that another thread has freed. The
    /// latter are collected first if there are many, and all others are fresh.
    #[inline(never)]
    pub(super) fn listed_or_freed(
        self,
        heap: &Heap,
        guard: &ReentrancyGuard,
        index: BinIndex,
    ) -> Option<usize> {
        let bins = heap.bins();
        let wake = |slab: &Slab| self.memory_limit().wake(slab);
        let collected =
            bins.current(index).should_collect() && self.held_heaps().collect(heap, guard);
        if bins.advance(index, wake)
            || !collected && self.held_heaps().collect(heap, guard) && bins.advance(index, wake)
        {
            return bins.pop(index);
        }
        None
    }

    /// Returns a slot of the partitions that the site had when there were fewer, for the time after
    /// memory was refused. With `all`, lists their slabs with few free slots first, which takes a
    /// walk of all slabs.
    #[cold]
    fn slot_of_earlier_row(
        self,
        heap: &Heap,
        guard: &ReentrancyGuard,
        index: BinIndex,
        site: Site,
        all: bool,
    ) -> Option<usize> {
        let class = index.class().index();
        let mut rows = self.heaps.earlier_rows(site).map(|row| row.of_class(class));
        rows.find_map(|earlier| {
            if let Some(address) = heap.bins().pop(earlier) {
                return Some(address);
            }
            if all {
                self.memory_limit().list_bin(heap, guard, earlier);
            }
            self.listed_or_freed(heap, guard, earlier)
        })
    }

    /// Returns a slot of a slab that the bin did not have before.
    fn slot_of_another_slab(
        self,
        heap: &Heap,
        guard: &ReentrancyGuard,
        (index, site): (BinIndex, Site),
        filled: Filled,
    ) -> Result<usize, NoSlot> {
        let bins = heap.bins();
        let pop = || bins.pop(index).ok_or(NoSlot::NoSlab);
        let wake = |slab: &Slab| self.memory_limit().wake(slab);
        // 3. slots and slabs of orphans
        let taken = self.heaps.search_orphans(|orphan| {
            let orphan_guard = self.held_heaps().guard_left(orphan);
            self.held_heaps().collect(orphan, &orphan_guard);
            heap.take_over(guard, orphan, index)
        });
        if taken && bins.advance(index, wake) {
            return pop();
        }
        // 4. an empty slab with its pages, from the pool
        let (partition, class) = (index.partition(), index.class().index());
        if self.adopt(heap, index, self.pool.take(partition, class)) && bins.advance(index, wake) {
            return pop();
        }
        // 5. an empty slab without pages: from here on memory grows, which the limit must allow;
        // if it does not, a slab that the limit has suspended may serve the request
        let bytes = slot_bytes(class);
        self.announce_growth(bytes);
        let mut promise = self.memory_limit().promise(bytes).ok();
        if promise.is_none() {
            let mut served = false;
            promise =
                self.memory_limit().promise_hard(heap, Some(guard), bytes, Some(index), || {
                    served = bins.advance(index, wake);
                    served
                });
            if served {
                return pop();
            }
        }
        let _promise = promise.ok_or(NoSlot::Limit)?;
        let clean = self.pool.take_clean(&self.os, partition, class);
        if self.adopt(heap, index, clean) && bins.advance(index, wake) {
            return pop();
        }
        // Memory is short: slabs with too few free slots to be listed come before a new one, which
        // would take what another bin has freed.
        if self.pressure().is_on() {
            if let Some(address) = self.slot_of_earlier_row(heap, guard, index, site, false) {
                return Ok(address);
            }
            self.memory_limit().list_bin(heap, guard, index);
            if bins.advance(index, wake) {
                return pop();
            }
            if self.fills_a_page(index) {
                return Err(NoSlot::NoSlab);
            }
        }
        // 6. a new slab, in address space that was never used
        self.heaps.note_filled(filled.slots * index.class().size());
        let slots = match filled.begins_long {
            true => index.class().slots(),
            false => index.class().slots_after(filled.slots),
        };
        let slab = match self.new_slab(heap, (index, site), slots) {
            Ok(slab) => slab,
            // The system was not asked.
            Err(Error::Busy) => return Err(NoSlot::NoSlab),
            // 7. idle memory, returned to the OS before a second attempt
            Err(_) => {
                self.memory_limit().relieve(heap, Some(guard), bytes);
                // Slabs with too few free slots to be listed serve the request now. `relieve` may
                // also have freed slots of this bin from a quarantine.
                self.held_heaps().collect(heap, guard);
                self.memory_limit().list_bin(heap, guard, index);
                if bins.advance(index, wake) {
                    return pop();
                }
                if self.fills_a_page(index) {
                    return Err(NoSlot::NoSlab);
                }
                self.new_slab(heap, (index, site), slots).map_err(|_| NoSlot::NoSlab)?
            }
        };
        self.mapper().prefault(slab, filled.slabs);
        bins.list(index, slab);
        bins.advance(index, wake);
        pop()
    }

    /// Puts a slab of the greatest length on a bin's list, if none is there. Short ones that are
    /// found in its place are used last.
    #[cold]
    fn list_longest_slab(self, heap: &Heap, (index, site): (BinIndex, Site)) {
        let (partition, class) = (index.partition(), index.class());
        let is_longest = |slab: &Slab| slab.slots() == class.slots();
        if heap.bins().listed(index).any(is_longest) {
            return;
        }
        let Ok(_promise) = self.memory_limit().promise(slot_bytes(class.index())) else { return };
        let take = || {
            let kept = self.pool.take(partition, class.index());
            kept.or_else(|| self.pool.take_clean(&self.os, partition, class.index()))
        };
        // Each of them, so that those of the greatest length are never more than bins have needed.
        while let Some(slab) = take() {
            self.adopt(heap, index, Some(slab));
            if is_longest(slab) {
                return;
            }
            slab.note_replaced();
        }
        if let Ok(slab) = self.new_slab(heap, (index, site), class.slots()) {
            heap.bins().list(index, slab);
        }
    }

    /// Tells the crates above that the heap is about to grow by `bytes` bytes, if the options ask
    /// for it.
    #[inline]
    pub(super) fn announce_growth(self, bytes: usize) {
        if self.options.profile_growth != 0 {
            (self.hook.grows)(bytes);
        }
    }

    /// Returns true if a bin may get a slab that it could do without.
    fn memory_is_plenty(self) -> bool {
        !self.limit.is_set() && !self.pressure().is_on()
    }

    /// Returns true if a slot fills most of a page. While memory is short such a request gets
    /// single pages, which are a small part of a slab. A slab could take the place of a freed large
    /// block.
    fn fills_a_page(self, index: BinIndex) -> bool {
        !SECURE && 2 * index.class().size() > self.os.page_size()
    }

    /// Opens a slab of this many slots for a bin, in address space that was never used.
    fn new_slab(
        self,
        heap: &Heap,
        (index, site): (BinIndex, Site),
        slots: usize,
    ) -> Result<&'a Slab, Error> {
        let (partition, class) = (index.partition(), index.class());
        let bytes = if SECURE { class.span() } else { slots * class.size() };
        let need = SlabNeed { partition, bytes, align: class.alignment() };
        let mapped = |address, len| self.mapper().slabs_were_mapped(address, len);
        let (slab, base) = self.allocator.slabs.take(&self.os, need, mapped)?;
        slab.open_slots(base, class, slots, partition, site);
        self.mapper().choose_guard_pages(slab, slots);
        slab.publish(heap.address(), slots);
        self.mapper().set_up_guard_pages(slab);
        self.pool.grow(&self.os, slab);
        self.maintenance().note_growth();
        self.memory_limit().system_has_granted();
        Ok(slab)
    }

    /// Puts an empty slab from the pool on the bin's list. Returns false if `slab` is `None`.
    fn adopt(self, heap: &Heap, index: BinIndex, slab: Option<&'static Slab>) -> bool {
        let Some(slab) = slab else { return false };
        slab.adopt(heap.address());
        if let Some(counters) = heap.counters() {
            counters.slab_got(slab);
        }
        // The count is of slabs that another bin has filled in a row.
        slab.row.store(0, Relaxed);
        self.maintenance().note_growth();
        // Two threads that race to free the same slot may leave its remote bit set.
        slab.collect(|slot| self.reports().freed_twice(slab, slot, Call::RemoteFree));
        // No thread has verified the slab while it was unowned.
        self.slot_checks().verify_reserved(slab, Call::Malloc);
        heap.bins().list(index, slab);
        true
    }
}
