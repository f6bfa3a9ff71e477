//! malloc: the fast path, and what happens when a bin is empty.

use super::limit::{Grant, slot_bytes};
use super::through::LARGE;
use super::{Allocator, Call};
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::os::seccomp::Calls;
use crate::os::{Error, Os, probes};
use crate::policy::{HARDENED, QUARANTINE, SLACK_MIN, WIPE};
use crate::slab::{
    Class, MEDIUM, MEDIUM_MAX, SMALL, SMALL_CLASSES, SMALL_MAX, Slab, Tier, class_of_medium,
    class_of_small,
};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Seat};

/// The largest request that any allocation honours: a pointer difference must be able to span it.
pub(super) const SIZE_MAX: usize = isize::MAX as usize;
/// Bytes that no system is expected to refuse while it has memory.
const MODEST: usize = 16 << 20;

/// Bytes that a slot must have for a request.
#[inline(always)]
pub(super) fn room(size: usize) -> usize {
    size.saturating_add(SLACK_MIN)
}

impl<O: Os> Allocator<O> {
    /// `size` bytes for the call site `site`; `None` when there is no memory.
    ///
    /// The usual way: class by one table load, partition by two multiplications, slab and slot by
    /// one load each. No atomic read-modify-write, no lock, no search.
    #[inline(always)]
    pub fn allocate(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        if HARDENED && size == 0 {
            return self.allocate_nothing(heap, 1, site);
        }
        let bytes = room(size);
        let class = if bytes <= SMALL_MAX {
            class_of_small(bytes)
        } else if bytes <= MEDIUM_MAX {
            class_of_medium(bytes)
        } else {
            let (address, dirty) = self.allocate_large(heap, size, 1, site)?;
            if WIPE {
                clear(address, size.min(dirty));
            }
            return Some(address);
        };
        self.allocate_class(heap, class, size, site)
    }

    /// A slot of a class, for `size` bytes.
    #[inline(always)]
    fn allocate_class(&self, heap: &Heap, class: usize, size: usize, site: usize) -> Option<usize> {
        let index = heap.known_bin(class, site);
        if HARDENED {
            return match heap.take(index).or_else(|| self.take_after_refill(heap, index)) {
                Some(taken) => {
                    let slack = taken.slab.slack_for(size);
                    Some(self.hand_over(heap, taken, slack))
                }
                None => {
                    let address = self.allocate_slow(heap, class, site)?;
                    self.prepare(heap, address, size);
                    Some(address)
                }
            };
        }
        heap.pop(index).or_else(|| self.allocate_slow(heap, class, site))
    }

    /// Allocates like `allocate`, with every byte zero. Does not write pages that were never
    /// written.
    #[inline]
    pub fn allocate_zeroed(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        if WIPE {
            // All new memory is zero.
            return self.allocate(heap, size, site);
        }
        if size > MEDIUM_MAX {
            let (address, dirty) = self.allocate_large(heap, size, 1, site)?;
            clear(address, size.min(dirty));
            return Some(address);
        }
        let address = self.allocate(heap, size, site)?;
        if size > SMALL_MAX {
            // The slot came from the current slab of the bin, or, on a slow path with a borrowed
            // heap, from another: ask the slab that contains it.
            let slab = self.medium.slab_at(address);
            if slab.is_some_and(|slab| heap.owns(slab) && slab.handed_out_zero(address)) {
                return Some(address);
            }
        }
        clear(address, size);
        Some(address)
    }

    /// `size` bytes at a multiple of `align`, a power of two.
    pub fn allocate_aligned(
        &self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: usize,
    ) -> Option<usize> {
        if align <= 16 {
            return self.allocate(heap, size, site);
        }
        if HARDENED && size == 0 {
            return self.allocate_nothing(heap, align, site);
        }
        let Some(class) = Class::of_aligned(room(size), align) else {
            let (address, dirty) = self.allocate_large(heap, size, align, site)?;
            if WIPE {
                clear(address, size.min(dirty));
            }
            return Some(address);
        };
        self.allocate_class(heap, class.index(), size, site)
    }

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
    pub(super) fn collect(&self, heap: &Heap, seat: &Seat) -> bool {
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
    pub(super) fn part_with(&self, heap: &Heap, seat: &Seat, slab: &Slab) {
        let pressure = self.pressure().is_on();
        self.verify_reserved(slab, Call::Free);
        if heap.part_with(seat, slab) {
            if slab.is_aside() {
                // It counts for less than it would in the pool.
                self.pool.put_clean(&self.os, slab);
            } else {
                self.pool.put(slab);
            }
            self.pool.hold_to(&self.os, self.options.slab_keep);
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

    /// Allocates a block with a separate extent; returns also how many first bytes may be nonzero.
    #[cold]
    #[inline(never)]
    pub fn allocate_large(
        &self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: usize,
    ) -> Option<(usize, usize)> {
        if size > SIZE_MAX || align > SIZE_MAX {
            return None;
        }
        self.watch_sizes(heap, LARGE, site);
        let partition = self.row(heap, site) / ROW_WORDS;
        let grant = Grant::new(self, heap);
        let admit = |bytes| grant.admit(bytes);
        let allocate = || self.large.allocate(&self.os, size, align, partition, site, &admit);
        let allocated = match allocate() {
            Err(Error::NoMemory) if !grant.is_refused() && self.may_be_met(size) => {
                self.relieve(heap, heap.sit().as_ref());
                allocate()
            }
            result => result,
        };
        let (address, dirty) = allocated.ok()?;
        self.system_has_granted();
        self.block_was_mapped(address, size);
        self.tell_large(heap, address, site);
        Some((address, dirty))
    }

    /// Whether a large block of `size` bytes, refused by the system, could be had if everything
    /// mapped was given back. Otherwise the request is impossible, and tells nothing about how much
    /// memory there is, unless any system has that size.
    #[cold]
    fn may_be_met(&self, size: usize) -> bool {
        let slabs = self.small.mapped_at_most() + self.medium.mapped_at_most();
        let mapped = slabs + self.large.mapped_at_most();
        size <= mapped.max(MODEST) || self.large.could_map(&self.os, size - mapped)
    }

    /// The system has mapped memory.
    #[inline]
    pub(super) fn system_has_granted(&self) {
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
    fn relieve(&self, heap: &Heap, seat: Option<&Seat>) {
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
            self.with_orphan(number, |orphan, seat| {
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
    pub(super) fn keep_small(&self, address: usize, len: usize) {
        if self.small_pages
            && len != 0
            && let Some(_permit) = self.permit(Calls::HUGE)
        {
            self.os.keep_small(address, len);
        }
    }

    /// Keeps small what was mapped before it was known that such advice is allowed.
    pub(super) fn keep_all_small(&self) {
        if self.small_pages {
            let there = |slab: &Slab| !slab.is_dormant();
            self.small.for_each_range(there, |start, bytes| self.keep_small(start, bytes));
            self.medium.for_each_range(there, |start, bytes| self.keep_small(start, bytes));
        }
    }

    /// Gives back the pages of all free large blocks and of empty unowned slabs; returns the bytes.
    pub(super) fn drop_kept(&self) -> usize {
        self.large.drop_kept(&self.os) + self.pool.drop_some(&self.os, usize::MAX, false)
    }
}

fn clear(address: usize, size: usize) {
    let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the block was allocated a moment ago with at least `size` bytes, and not handed out
    // yet.
    unsafe { target.write_bytes(0, size) };
}
