//! Shared heaps: heaps without a thread, from which every thread takes single slots for the bins
//! that it rarely uses.
//!
//! ```text
//! places[32] --> number of a heap in state Shared --> user: 0, or the present user of the heap
//! ```
//!
//! A slot comes from the place of its partition. In the secure build, a freed block waits at the
//! place of its class.
//!
//! One thread at a time uses a shared heap. The thread takes it by one compare and exchange, and
//! never waits. If the heap is in use, the thread tries the next place, and at last its own heap.
//! All other threads free into a shared heap's slabs as into those of any other thread.
//!
//! A thread can exit while it uses a shared heap, by `pthread_exit` in a signal handler. The shared
//! heap then names a user whose heap is an orphan. The next thread that finds this takes the shared
//! heap over. The shared heap's reentrancy guard is taken then, so the heap is repaired first
//! (`repair.rs`).

use super::Heap;
use super::heaps::{HeapState, Heaps};
use crate::os::Os;
use crate::sync::Ordering::{AcqRel, Acquire};
use crate::sync::{AtomicU32, Use};

/// The number of places. Threads that draw for different partitions rarely meet.
const PLACES: usize = 32;
/// The number of places in use while the system locks all pages of a new heap.
const PLACES_LOCKED: usize = 2;
/// The number of places that one call tries.
const TRIES: usize = 8;
/// The number of the first heap that draws from shared heaps. In a process with few threads, shared
/// slabs would only add to the slabs of each thread.
pub const SHARE_FROM: u32 = 3;
/// The user number of a thread without a heap, such as the reclaimer's.
const KEEPER: u32 = u32::MAX;

/// The place of one shared heap: the heap's number plus one, or zero if there is no heap. Written
/// once, by any thread.
#[repr(transparent)]
#[derive(Debug)]
struct Place(AtomicU32);

/// All places. In the metadata tables, zero at first. They do not change in a process that has been
/// at work for some time, so each processor has a copy of their cache lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Places([Place; PLACES]);

/// The right to use a shared heap. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct SharedHeapGuard {
    _used: Use<'static>,
    /// The shared heap.
    pub(crate) heap: &'static Heap,
}

impl Heaps {
    /// Takes the shared heap of a place or of one of the next places. `user` is the number of the
    /// heap whose thread takes it, or `None` for a thread without a heap. Returns `None` if the
    /// heaps that it tries are in use, or if there is no memory for one.
    pub(crate) fn acquire_shared(
        &self,
        os: &impl Os,
        place: usize,
        user: Option<u32>,
    ) -> Option<SharedHeapGuard> {
        let me = user.map_or(KEEPER, |number| number + 1);
        let places = if self.is_locked() { PLACES_LOCKED } else { PLACES };
        for place in place..place + TRIES.min(places) {
            let place = self.shared().0.get(place % places)?;
            // Without memory for this heap there is none for the next.
            let heap = self.heap_of(os, place)?;
            if let Some(used) = self.take_shared(heap, me) {
                return Some(SharedHeapGuard { _used: used, heap });
            }
        }
        None
    }

    /// Takes shared heap `number` for a thread without a heap, unless a thread uses it.
    pub(crate) fn acquire_shared_number(&self, number: u32) -> Option<SharedHeapGuard> {
        let heap = self.has_place(number).then(|| self.heap(number))?;
        let used = self.take_shared(heap, KEEPER)?;
        Some(SharedHeapGuard { _used: used, heap })
    }

    fn take_shared(&self, heap: &'static Heap, me: u32) -> Option<Use<'static>> {
        heap.user.take(me).or_else(|| self.take_from_exited(heap, me))
    }

    /// Returns all shared heaps.
    fn shared_heaps(&self) -> impl Iterator<Item = &'static Heap> {
        let number = |place: &Place| place.0.load(Acquire).checked_sub(1);
        self.shared().0.iter().filter_map(number).map(|number| self.heap(number))
    }

    /// Returns the number of shared heaps.
    pub fn shared_count(&self) -> u32 {
        self.shared_heaps().count() as u32
    }

    /// Returns true if a heap in state SHARED has a place.
    pub(super) fn has_place(&self, number: u32) -> bool {
        self.shared_heaps().any(|heap| heap.number == number)
    }

    /// Returns the heap of a place. Creates it if there is none.
    fn heap_of(&self, os: &impl Os, place: &Place) -> Option<&'static Heap> {
        match place.0.load(Acquire) {
            0 => self.create_shared(os, place),
            number => Some(self.heap(number - 1)),
        }
    }

    #[cold]
    #[inline(never)]
    fn create_shared(&self, os: &impl Os, place: &Place) -> Option<&'static Heap> {
        let heap = self.birth(os, |_, _| ()).ok()?;
        self.set_shared(heap);
        match place.0.compare_exchange(0, heap.number + 1, AcqRel, Acquire) {
            Ok(_) => {
                self.count_part_of_shared();
                Some(heap)
            }
            Err(other) => {
                // Another thread was first. The next new thread may have this heap.
                self.orphan(heap);
                Some(self.heap(other - 1))
            }
        }
    }

    /// Takes a shared heap whose user's thread has exited. Returns `None` if that thread runs.
    #[cold]
    #[inline(never)]
    fn take_from_exited(&self, heap: &'static Heap, me: u32) -> Option<Use<'static>> {
        let user = heap.user.now();
        if user == 0 || user == KEEPER || self.heap_state(user - 1) != HeapState::Orphan {
            return None;
        }
        // This thread holds the heap that the user's thread has left. Meanwhile no other thread can
        // adopt that heap and use the shared heap under the same number.
        let mut used = None;
        self.with_orphan(user - 1, |_| used = heap.user.take_from(user, me));
        used
    }

    /// Ends the use of shared heaps by the thread that left heap `number` torn. The caller has
    /// adopted that heap, and so sees everything that the thread did.
    #[cold]
    pub(super) fn leave_shared_of_exited(&self, number: u32) {
        for heap in self.shared_heaps() {
            drop(heap.user.take_from(number + 1, number + 1));
        }
    }

    /// In the child of a fork: ends the use of shared heaps. `mine` is the number of the forking
    /// thread's heap if a signal handler has forked while that thread was in the middle of a
    /// change. Its use continues.
    pub(super) fn leave_all_shared(&self, mine: Option<u32>) {
        for heap in self.shared_heaps() {
            let user = heap.user.now();
            if user != 0 && Some(user - 1) != mine {
                heap.user.clear();
            }
        }
    }

    /// Returns true if a shared heap is in use.
    pub(super) fn is_drawn(&self, heap: &Heap) -> bool {
        self.is_shared(heap) && heap.user.now() != 0
    }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::Allocator;
    use crate::guarded::Guarded;
    use crate::options::Options;
    use crate::os::SECOND;
    use crate::os::fake::{Fake, Machine};
    use crate::policy::SECURE;
    use crate::reclaim::Life;
    use crate::report::Call;

    /// Returns an allocator, and a heap that uses shared heaps.
    fn world() -> (Allocator<Fake>, &'static Heap) {
        let options = Options { warn_only: true, ..Options::DEFAULT };
        let allocator = Allocator::new(Fake::new(Machine::LARGE), options, false).unwrap();
        allocator.filter().watch();
        for _ in 0..SHARE_FROM {
            allocator.held_heaps().acquire_heap().unwrap();
        }
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        (allocator, heap)
    }

    fn take(allocator: &Allocator<Fake>, heap: &Heap) -> usize {
        let block = allocator.allocate(heap, 100, 0x5000).unwrap();
        assert_eq!(allocator.check(), Ok(()));
        block
    }

    /// Returns the number of the shared heap that owns a block, or `None`.
    fn owner(allocator: &Allocator<Fake>, block: usize) -> Option<u32> {
        let shared = allocator.heaps.all().filter(|heap| allocator.heaps.is_shared(heap));
        let mut owners = shared.filter(|heap| {
            let slab = allocator.slabs.slab_at(block).unwrap();
            heap.owns(slab)
        });
        owners.next().map(|heap| heap.number)
    }

    #[test]
    fn nobody_waits_for_a_shared_heap() {
        let (allocator, heap) = world();
        let first = owner(&allocator, take(&allocator, heap)).unwrap();
        // Another thread uses that heap, so the next one serves the request.
        let used = allocator.heaps.acquire_shared_number(first).unwrap();
        let other = owner(&allocator, take(&allocator, heap)).unwrap();
        assert_ne!(other, first);
        assert!(allocator.heaps.acquire_shared_number(first).is_none(), "two users");
        // All heaps that a call tries are in use, so the thread's own heap serves the request.
        let acquire = |place| allocator.heaps.acquire_shared(allocator.os(), place, None);
        let all: Vec<_> = (0..PLACES).filter_map(acquire).collect();
        assert_eq!(owner(&allocator, take(&allocator, heap)), None);
        drop((used, all));
        assert!(owner(&allocator, take(&allocator, heap)).is_none(), "its own slab has room");
    }

    #[test]
    fn a_thread_that_ends_in_a_shared_heap_is_followed_by_another() {
        let (allocator, heap) = world();
        let first = owner(&allocator, take(&allocator, heap)).unwrap();
        let shared = allocator.heaps.heap(first);
        // `pthread_exit` in a handler: the thread exits and leaves the heap and its guard taken.
        let dead = allocator.held_heaps().acquire_heap().unwrap();
        core::mem::forget(shared.user.take(dead.number + 1));
        core::mem::forget(allocator.heaps.heap(first).enter());
        assert_ne!(owner(&allocator, take(&allocator, heap)), Some(first), "its thread runs");
        allocator.heaps.orphan(dead);
        assert_eq!(owner(&allocator, take(&allocator, heap)), Some(first));
        assert_eq!(shared.user.now(), 0);
        assert!(!allocator.heaps.heap(first).is_torn(), "it was not repaired");
    }

    #[test]
    fn a_thread_that_adopts_the_heap_of_such_a_thread_does_not_use_it() {
        let (allocator, heap) = world();
        let first = owner(&allocator, take(&allocator, heap)).unwrap();
        let shared = allocator.heaps.heap(first);
        let dead = allocator.held_heaps().acquire_heap().unwrap();
        core::mem::forget(shared.user.take(dead.number + 1));
        core::mem::forget((dead.enter(), allocator.heaps.heap(first).enter()));
        allocator.heaps.orphan(dead);
        assert!(core::ptr::eq(allocator.held_heaps().acquire_heap().unwrap(), dead));
        assert_eq!(shared.user.now(), 0);
        assert_eq!(owner(&allocator, take(&allocator, heap)), Some(first));
        assert!(!allocator.heaps.heap(first).is_torn(), "it was not repaired");
    }

    #[test]
    fn in_a_child_only_the_forking_thread_uses_a_shared_heap() {
        for in_handler in [false, true] {
            let (allocator, heap) = world();
            let first = owner(&allocator, take(&allocator, heap)).unwrap();
            let shared = allocator.heaps.heap(first);
            let other = allocator.held_heaps().acquire_heap().unwrap();
            let user = if in_handler { heap } else { other };
            let used = shared.user.take(user.number + 1);
            let its_guard = allocator.heaps.heap(first).enter();
            let guard = in_handler.then(|| heap.enter());
            allocator.after_fork_in_child(heap);
            assert_eq!(shared.user.now() != 0, in_handler);
            assert_eq!(allocator.heaps.heap(first).is_torn(), in_handler);
            drop((guard, its_guard, used));
            assert_eq!(owner(&allocator, take(&allocator, heap)), Some(first));
        }
    }

    #[test]
    fn a_shared_heap_counts_less_than_it_maps() {
        let (allocator, heap) = world();
        let before = allocator.heaps.mapped_bytes();
        take(&allocator, heap);
        let counted = allocator.heaps.mapped_bytes() - before;
        let stride = allocator.heaps.places().stride;
        assert!(counted > stride / 4 && counted < stride / 2, "{counted} of {stride}");
    }

    /// A free in a shared slab wakes the reclaimer's thread at most once a second. Any other free
    /// wakes it at once.
    #[test]
    fn frees_in_shared_slabs_wake_the_reclaimer_rarely() {
        let (allocator, heap) = world();
        let other = allocator.heaps.heap(0);
        let wakes = |block| {
            let life = allocator.reclaimer.life();
            life.change(life.state(), Life::Asleep);
            allocator.free(other, block, Call::Free);
            if SECURE {
                allocator.quarantines().release_quarantine(other);
            }
            life.state() == Life::Awake
        };
        let drawn = |size| allocator.allocate(heap, size, 0x5000).unwrap();
        // Different classes, because the first free in a slab announces it.
        let blocks = [100, 200, 300, 400].map(drawn);
        allocator.os().pass(SECOND);
        assert!(wakes(blocks[0]));
        assert!(!wakes(blocks[1]) && !wakes(blocks[2]));
        allocator.os().pass(SECOND);
        assert!(wakes(blocks[3]));
        let first = allocator.heaps.heap(1);
        let own = allocator.allocate(first, 500, 0x5000).unwrap();
        assert!(wakes(own), "the slab of another thread");
    }

    /// Drawn slots are guarded as often as the option says, whatever the slab has claimed.
    #[test]
    fn drawn_slots_are_sampled_one_by_one() {
        const EVERY: usize = 100;
        let options = Options { warn_only: true, guarded: EVERY, ..Options::DEFAULT };
        let fake = Fake::new(Machine::LARGE);
        let mut allocator = Allocator::new(fake.clone(), options, false).unwrap();
        allocator.guarded = Guarded::new(4000, EVERY, 4096, 99).unwrap();
        allocator.filter().watch();
        let heap =
            (0..=SHARE_FROM).fold(None, |_, _| allocator.held_heaps().acquire_heap().ok()).unwrap();
        let blocks: Vec<usize> = (0..3000)
            .map(|number| {
                // The demand stays low.
                fake.pass(u32::from(number % 20 == 0) * SECOND);
                allocator.allocate(heap, 48, 0x5000).unwrap()
            })
            .collect();
        let is_guarded = |&&block: &&usize| allocator.guarded.slot_around(block).is_some();
        let guarded = blocks.iter().filter(is_guarded).count();
        assert!((5..100).contains(&guarded), "{guarded} of 3000, one in {EVERY}");
    }
}
