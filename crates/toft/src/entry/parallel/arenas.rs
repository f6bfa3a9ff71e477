//! The arenas: heaps that threads share, each behind a lock.
//!
//! An arena is one heap with one lock; or, with a lock for each class, as many heaps as there are
//! classes, each with its own. So a heap is changed as in any build: by one thread at a time, the
//! holder of its lock. The heaps are born with the first thread, and are never orphans, so a slab
//! of theirs never changes owner.

use super::lock::{Held, Lock};
use super::threads::{self, Counts, HEAPS_MAX};
use super::{LOCKS, Locks};
use crate::entry::start::allocator;
use crate::options::ARENAS_MAX;
use crate::slab::{CLASSES, PENDING, Slab};
use crate::sync::{AtomicU16, AtomicUsize, Ordering::Relaxed};
use crate::thread::Heap;

/// A heap of an arena, and its lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Place {
    lock: Lock,
    /// The heap's address; zero before the first allocation. Written and read by the lock's holder.
    heap: AtomicUsize,
}

/// A place whose lock is held.
pub(super) struct Open<'a> {
    place: &'a Place,
    _held: Held<'a>,
}

const PLACES_MAX: usize = ARENAS_MAX * CLASSES;
static PLACES: [Place; PLACES_MAX] =
    [const { Place { lock: Lock::new(), heap: AtomicUsize::new(0) } }; PLACES_MAX];

/// The place of a heap plus one, by the heap's number; zero for a heap of a thread. The holder of
/// the place's lock writes it before a slab of the heap is published, so a thread with a block of
/// the heap sees it.
static PLACE_OF: [AtomicU16; HEAPS_MAX] = [const { AtomicU16::new(0) }; HEAPS_MAX];

/// The place of an arena where blocks of a class come from.
#[inline]
pub(super) fn place(arena: usize, class: usize) -> Option<(usize, &'static Place)> {
    let index = arena * CLASSES + if matches!(LOCKS, Locks::Class) { class } else { 0 };
    Some((index, PLACES.get(index)?))
}

/// The place that owns a slab; `None` when a thread does.
#[inline]
pub(super) fn owner(slab: &Slab) -> Option<(usize, &'static Place)> {
    let address = slab.owner.load(Relaxed) & !PENDING;
    // SAFETY: `owner` of a slab that is open is the address of a heap, and heaps live for ever. The
    // caller has found a slot in the slab, so it is open.
    let heap: &Heap = unsafe { core::ptr::with_exposed_provenance::<Heap>(address).as_ref()? };
    let index = PLACE_OF.get(heap.number as usize)?.load(Relaxed).checked_sub(1)?.into();
    Some((index, PLACES.get(index)?))
}

/// The arena of a place.
pub(super) fn arena_of(index: usize) -> usize {
    index / CLASSES
}

impl Place {
    /// Takes the lock, as [`Lock::take`] says.
    #[inline]
    pub(super) fn open(&self, counts: &Counts) -> Option<Open<'_>> {
        Some(Open { _held: self.lock.take(counts)?, place: self })
    }
}

impl Open<'_> {
    /// The heap; `None` when there is no memory for one.
    #[inline]
    pub(super) fn heap(&self, index: usize) -> Option<&'static Heap> {
        match self.place.heap.load(Relaxed) {
            0 => self.birth(index),
            // SAFETY: the address of a heap, which lives for ever.
            address => Some(unsafe { &*core::ptr::with_exposed_provenance(address) }),
        }
    }

    #[cold]
    fn birth(&self, index: usize) -> Option<&'static Heap> {
        let heaps = &allocator().heaps;
        let heap = if threads::is_forked() {
            // What the arenas of the parent have left: children of children would pile it up.
            allocator().acquire_heap().ok()?
        } else {
            // Never an orphan: the next thread is to have it, and the cache that goes with it.
            heaps.birth(allocator().os()).ok()?
        };
        let Some(place_of) = PLACE_OF.get(heap.number as usize) else {
            allocator().heaps.orphan(heap);
            return None;
        };
        place_of.store(index as u16 + 1, Relaxed);
        self.place.heap.store(heap.address(), Relaxed);
        Some(heap)
    }
}

/// The first thread makes all heaps before there is another: births hold a lock over system calls,
/// and threads that start together would be seen to wait for nothing else.
pub(super) fn prepare(arenas: usize) {
    let heaps = if LOCKS == Locks::Class { CLASSES } else { 1 };
    let uncounted = Counts::new();
    for (arena, class) in (0..arenas).flat_map(|arena| (0..heaps).map(move |class| (arena, class)))
    {
        if let Some((index, place)) = place(arena, class)
            && let Some(open) = place.open(&uncounted)
        {
            open.heap(index);
        }
    }
}

/// In the child of a fork: what threads of the parent were changing has been repaired, and belongs
/// to orphans. The arenas start again, and take over from the orphans as threads would.
pub(super) fn after_fork_in_child() {
    for place in &PLACES {
        place.lock.reset();
        place.heap.store(0, Relaxed);
    }
    for place_of in PLACE_OF.iter().take(allocator().heaps.count() as usize) {
        place_of.store(0, Relaxed);
    }
}
