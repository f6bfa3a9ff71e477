//! The quarantines of all heaps: a freed block waits in one, and becomes free when it leaves.

use crate::allocator::{Allocator, handle};
use crate::bin::address_of;
use crate::harden::{Long, is_zero_at_ends};
use crate::os::Os;
use crate::policy::{QUARANTINE, QUARANTINE_SMALL, WIPE};
use crate::remote::{Marked, announce, mark_remote};
use crate::report::Call;
use crate::slab::{Put, Slab, SlotIndex};
use crate::sync::Ordering::Relaxed;
use crate::sync::spin_until;
use crate::thread::{Heap, HeapState, Leaving, Quarantine, ReentrancyGuard, entry_slot};

handle!(Quarantines, quarantines);

/// The most bytes of blocks for which quarantines of threads that share may get places: `OWN_MOST`,
/// or this part of the bytes of slabs in use if that is more.
const OWN_MOST: usize = 8 << 20;
const OWN_SHARE: usize = 32;

/// Quarantines that are emptied behind one barrier.
const BATCH: u32 = 64;

impl<O: Os> Quarantines<'_, O> {
    /// Puts a freed slot into the quarantine of the freeing thread. A thread without a heap borrows
    /// one, and so does a signal handler that has interrupted a change of its heap. Where no heap
    /// can be had, there is no memory, and what is in quarantine would be released anyway.
    #[inline(never)]
    pub(crate) fn wait(self, heap: &Heap, slab: &Slab, slot: SlotIndex) {
        if !QUARANTINE || !QUARANTINE_SMALL && slab.class().is_small() {
            return self.release(heap, None, slab, slot);
        }
        let (class, entry) = (slab.class_number(), address_of(slab) | slot.number());
        let mut leaving = Leaving::nothing();
        let owner = heap.address();
        let long = self.long_vectors;
        let leaves = move |entry| {
            let (slab, slot) = entry_slot(entry);
            // SAFETY: (1) the slab asks this of a slot in its quarantine; (2) the processor was
            // asked.
            let is_sound = || unsafe { is_unwritten(slab, slot, long) };
            // SAFETY: (1) `wait` makes entries, of a slab's address and a slot.
            slab.is_owned_plainly(owner) && unsafe { slab.put_plainly(entry, is_sound) }
        };
        let mut put = |holder: &Heap| {
            holder.exchange((class, entry), self.quarantine_share, &mut leaving, leaves)
        };
        let shares = heap.may_wait_elsewhere(class);
        let waits = shares && self.wait_shared(heap, class, &mut put)
            || put(heap)
            || self.wait_elsewhere(&mut put);
        if !waits {
            leaving.set(entry);
        }
        if shares && heap.has_line(class) {
            // The heap's own quarantine has got places for the class.
            let bytes = Quarantine::bytes_of(class, self.quarantine_share);
            heap.count_places(bytes);
            self.own_quarantines().fetch_add(bytes, Relaxed);
        }
        leaving.each(|entry| self.release_entry(heap, None, entry));
    }

    /// `wait` in a shared heap, if the thread of `heap` rarely frees blocks of this class, or the
    /// quarantines of threads have places enough. Returns false otherwise, and if the shared heaps
    /// are in use; then the heap's own quarantine gets places for the class.
    #[cold]
    #[inline(never)]
    fn wait_shared(self, heap: &Heap, class: usize, put: &mut dyn FnMut(&Heap) -> bool) -> bool {
        let bytes = Quarantine::bytes_of(class, self.quarantine_share);
        if bytes == 0 {
            return false;
        }
        // A fork must find this heap torn meanwhile.
        let Some(_entered) = heap.enter() else { return false };
        let in_use = self.pool.bytes().saturating_sub(self.pool.kept_bytes());
        let most = OWN_MOST.max(in_use / OWN_SHARE);
        let shares = heap.rarely_frees(class, self.os.ticks())
            || self.own_quarantines().load(Relaxed).saturating_add(bytes) > most;
        if shares && let Some(guard) = self.heaps.acquire_shared(&self.os, class, Some(heap.number))
        {
            drop(self.held_heaps().guard_left(guard.heap));
            return put(guard.heap);
        }
        false
    }

    /// `wait` in another heap.
    #[cold]
    #[inline(never)]
    fn wait_elsewhere(self, put: &mut dyn FnMut(&Heap) -> bool) -> bool {
        self.held_heaps().with_borrowed_heap(put).unwrap_or(false)
    }

    #[inline(always)]
    pub(crate) fn release_entry(self, heap: &Heap, guard: Option<&ReentrancyGuard>, entry: usize) {
        let (slab, slot) = entry_slot(entry);
        // A slot that was freed twice may be in use again, and is reported by `release`.
        // SAFETY: (1) the slot is in a quarantine; (2) the processor was asked.
        let is_unwritten = || unsafe { is_unwritten(slab, slot, self.long_vectors) };
        if WIPE && slab.states.is_quarantined(slot) && !is_unwritten() {
            self.name_writes(slab, slot);
        }
        self.slot_checks().check_neighbours(slab, slot, Call::Free);
        self.release(heap, guard, slab, slot);
    }

    /// Reports what was written to a slot that leaves its quarantine.
    #[cold]
    #[inline(never)]
    fn name_writes(self, slab: &Slab, slot: SlotIndex) {
        self.slot_checks().find_writes(slab, slot, slab.slot_address(slot), Call::Free);
    }

    /// Lets malloc reuse a slot that the program has freed. `guard` is the heap's reentrancy guard,
    /// if the caller has it.
    #[inline(always)]
    pub(crate) fn release(
        self,
        heap: &Heap,
        guard: Option<&ReentrancyGuard>,
        slab: &Slab,
        slot: SlotIndex,
    ) {
        if !heap.owns(slab) {
            return self.release_remote(heap, slab, slot);
        }
        self.release_owned(heap, guard, slab, slot);
    }

    /// Frees a slot of a slab of the heap.
    #[inline(always)]
    pub(crate) fn release_owned(
        self,
        heap: &Heap,
        guard: Option<&ReentrancyGuard>,
        slab: &Slab,
        slot: SlotIndex,
    ) {
        match (slab.put(slot), guard) {
            (Put::Done, _) => {}
            (Put::Spent, None) => self.held_heaps().credit_spent(heap, slab),
            (Put::Spent, Some(guard)) => self.held_heaps().credit_follows(heap, guard, slab),
            (Put::NotLive, _) => self.reports().freed_twice(slab, slot, Call::RemoteFree),
        }
    }

    /// Frees a slot of another thread's slab.
    #[inline(never)]
    fn release_remote(self, heap: &Heap, slab: &Slab, slot: SlotIndex) {
        if let Some(counters) = heap.counters() {
            counters.freed_apart(slab.bytes());
        }
        match mark_remote(slab, slot) {
            Marked::Done => {}
            Marked::Twice => self.reports().freed_twice(slab, slot, Call::RemoteFree),
            Marked::Unannounced => {
                // Between setting PENDING and the push, a fork must find this heap torn.
                let _guard = heap.enter();
                announce(slab);
                self.maintenance().wake_reclaimer_for(slab);
            }
        }
    }

    /// Lets everything leave the quarantines: of `heap`, of exited threads, and of running ones.
    /// `guard` is the reentrancy guard of `heap`, if the caller has it.
    pub(crate) fn empty_quarantines(self, heap: Option<&Heap>, guard: Option<&ReentrancyGuard>) {
        if !QUARANTINE {
            return;
        }
        let mine = heap.filter(|heap| !heap.is_sentinel());
        let mut late = false;
        if let Some(heap) = mine {
            let own = if guard.is_none() { heap.enter() } else { None };
            if let Some(guard) = guard.or(own.as_ref()) {
                late = !self.empty_own(heap, guard);
            }
        }
        for number in 0..self.heaps.count() {
            self.held_heaps()
                .with_threadless(number, |orphan, guard| _ = self.empty_own(orphan, guard));
        }
        let releaser = mine.unwrap_or_else(|| crate::thread::EXITED_HEAP.heap());
        for first in (0..self.heaps.count()).step_by(BATCH as usize) {
            self.empty_live_quarantines(releaser, guard, first);
        }
        // Another thread was emptying this quarantine. It may have given up because this thread has
        // its reentrancy guard. That happens if both run out of memory at the same moment.
        if late && let Some(heap) = mine {
            let own = if guard.is_none() { heap.enter() } else { None };
            if let Some(guard) = guard.or(own.as_ref()) {
                spin_until(|| self.empty_own(heap, guard));
            }
        }
    }

    /// Moves what waits in the quarantine of an orphan to those of the shared heaps, which are
    /// fewer. The blocks go on waiting there. Who holds the orphan.
    pub(crate) fn move_quarantine(self, orphan: &Heap, guard: &ReentrancyGuard) {
        if !QUARANTINE {
            return;
        }
        let quarantine = orphan.quarantine();
        if !quarantine.is_used() || !quarantine.shut() {
            return;
        }
        quarantine.empty(|entry| self.wait_on(orphan, guard, entry));
        quarantine.close();
        self.own_quarantines().fetch_sub(orphan.uncount_places(), Relaxed);
        quarantine.open();
    }

    /// Lets an entry of a quarantine wait in that of a shared heap.
    fn wait_on(self, orphan: &Heap, entered: &ReentrancyGuard, entry: usize) {
        let class = entry_slot(entry).0.class_number();
        let mut leaving = Leaving::nothing();
        let waits = self.heaps.acquire_shared(&self.os, class, None).is_some_and(|guard| {
            drop(self.held_heaps().guard_left(guard.heap));
            let share = self.quarantine_share;
            guard.heap.exchange((class, entry), share, &mut leaving, |_| false)
        });
        if !waits {
            leaving.set(entry);
        }
        leaving.each(|entry| self.release_entry(orphan, Some(entered), entry));
    }

    /// The quarantines of running threads, of some numbers: shut, a barrier, and then those are
    /// emptied whose holder is not in the middle of something.
    fn empty_live_quarantines(self, releaser: &Heap, guard: Option<&ReentrancyGuard>, first: u32) {
        let mut shut = 0u64;
        let numbers = || first..self.heaps.count().min(first + BATCH);
        for number in numbers() {
            if self.heaps.heap_state(number) != HeapState::Live {
                continue;
            }
            let heap = self.heaps.heap(number);
            if !core::ptr::eq(heap, releaser) && heap.quarantine().shut() {
                shut |= 1 << (number - first);
            }
        }
        if shut == 0 {
            return;
        }
        let can = self.barrier();
        for number in numbers().filter(|number| shut >> (number - first) & 1 != 0) {
            let heap = self.heaps.heap(number);
            if can && spin_until(|| !heap.is_torn()) {
                self.empty_quarantine(heap, releaser, guard);
            }
            heap.quarantine().open();
        }
    }

    /// Empties the quarantine of a heap that the caller holds. Does nothing if another thread is
    /// emptying it: that thread may have begun before the caller took the reentrancy guard, and
    /// both would release the same slots. Returns true if it was done.
    fn empty_own(self, heap: &Heap, guard: &ReentrancyGuard) -> bool {
        let mine = heap.quarantine().shut();
        if mine {
            self.empty_quarantine(heap, heap, Some(guard));
            heap.quarantine().open();
        }
        mine
    }

    fn empty_quarantine(self, heap: &Heap, releaser: &Heap, guard: Option<&ReentrancyGuard>) {
        heap.quarantine().empty(|entry| self.release_entry(releaser, guard, entry));
    }

    /// Lets everything leave the quarantine of a heap that the caller holds, and does nothing else.
    /// For tests.
    #[cfg(feature = "fake-os")]
    pub fn release_quarantine(self, heap: &Heap) {
        if let Some(guard) = heap.enter() {
            self.empty_own(heap, &guard);
        }
    }
}

/// Returns true if no byte was written to a block that leaves its quarantine, as far as it is
/// compared: at both ends, because its memory may be in no cache any more.
///
/// # Safety
/// 1. The slot is in a quarantine, so it was cleared, and its pages are mapped.
/// 2. There are long vectors if `long` is not `Long::NONE`.
#[inline(always)]
unsafe fn is_unwritten(slab: &Slab, slot: SlotIndex, long: Long) -> bool {
    let bytes = slab.bytes();
    // SAFETY: (1) duty 1; (2) duty 2.
    !WIPE || unsafe { is_zero_at_ends(slab.base() + slot.begin(bytes), bytes, long) }
}

#[cfg(all(test, feature = "fake-os", feature = "secure"))]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use crate::thread::SHARE_FROM;

    const SITE: usize = 0x5000;

    /// Threads get separate places up to the budget, and give them back when they are cleared
    /// out. What is freed beyond it waits in shared heaps.
    #[test]
    fn quarantines_of_many_threads_stay_within_their_budget() {
        let options = Options { warn_only: true, ..Options::DEFAULT };
        let allocator = Allocator::new(Fake::new(Machine::LARGE), options, false).unwrap();
        allocator.filter().watch();
        let own = || allocator.own_quarantines().load(Relaxed);
        let work = |heap: &Heap| {
            for size in (100..1000).step_by(50) {
                for _ in 0..100 {
                    let block = allocator.allocate(heap, size, SITE).unwrap();
                    allocator.free(heap, block, Call::Free);
                }
            }
            assert_eq!(allocator.check(), Ok(()));
        };
        for _ in 0..SHARE_FROM {
            work(allocator.held_heaps().acquire_heap().unwrap());
        }
        assert_eq!(own(), 0, "the first threads do not count");
        let threads: Vec<_> =
            (0..40).map(|_| allocator.held_heaps().acquire_heap().unwrap()).collect();
        work(threads[0]);
        let one = own();
        assert!(one > 0, "a thread that frees much has its own places");
        threads[1..].iter().for_each(|heap| work(heap));
        assert!(threads.len() * one > 2 * OWN_MOST, "this drives nothing");
        assert!(own() <= OWN_MOST && own() > OWN_MOST / 2, "{} of {OWN_MOST}", own());
        threads.iter().for_each(|heap| allocator.heaps.orphan(heap));
        allocator.sweeper().clear_out_exited();
        allocator.sweeper().clear_out_exited();
        assert_eq!(own(), 0);
        assert_eq!(allocator.check(), Ok(()));
    }
}
