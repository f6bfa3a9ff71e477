//! The experiment about parallelism: threads share a settable number of arenas, instead of a
//! separate heap for each. Not part of any build that is shipped; `docs/experiments/parallel.md`
//! has the results.
//!
//! The functions here stand in for those of the same names in `process`, by one `use` of the
//! preload library. What is chosen when it is built (features of this crate):
//!
//! | feature | blocks of a thread come from | a free of another arena's block |
//! |---|---|---|
//! | `experiment-lock-arena` | its arena's heap, under the arena's lock | takes that arena's lock |
//! | `experiment-lock-class` | a heap for each (arena, class), each with a lock | takes that lock |
//! | neither | the thread's heap, no lock, as in any build | goes to the owner by one atomic bit |
//! | `experiment-cache` | the thread's cache first, filled and emptied by halves | to the cache |
//!
//! There is no sharing of a heap without a lock: the third row is the design of the product,
//! whatever the number of arenas, and is here to be counted like the others.
//!
//! A free is validated by the state of the slot, as always. A block in a cache has a separate
//! state. Large blocks go the usual way. So does every call that comes in the middle of another one
//! of its thread (from a signal handler): then the thread's own heap serves it. So no holder ever
//! waits for its own lock.

mod arenas;
mod cache;
mod lock;
mod threads;

use super::allocator::Found;
use super::realloc::is_worth_keeping;
use super::start::allocator;
use super::{Allocator, Call, process};
use crate::os::Os;
use crate::slab::{
    Class, MEDIUM, MEDIUM_MAX, SMALL, SMALL_MAX, Slab, Tier, class_of_medium, class_of_small,
};
use crate::thread::Heap;
use cache::{BATCH, Shelf};
use core::ffi::c_void;
use threads::Turn;

type Pointer = *mut c_void;

/// What a lock guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locks {
    /// All of an arena.
    Arena,
    /// One class of an arena.
    Class,
    /// There is none, and no arena either: each thread has its own heap.
    None,
}

const LOCKS: Locks = if cfg!(feature = "experiment-lock-class") {
    Locks::Class
} else if cfg!(feature = "experiment-lock-arena") {
    Locks::Arena
} else {
    Locks::None
};

const CACHED: bool = cfg!(feature = "experiment-cache");

/// malloc.
///
/// # Safety
/// 1. As for [`process::malloc_at`].
pub unsafe fn malloc_at(size: usize, site: usize) -> Pointer {
    match class_of(size).and_then(|class| allocate(class, site)) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        // SAFETY: (1) the caller's.
        None => unsafe { process::malloc_at(size, site) },
    }
}

/// calloc.
///
/// # Safety
/// 1. As for [`process::calloc_at`].
pub unsafe fn calloc_at(count: usize, size: usize, site: usize) -> Pointer {
    let bytes = count.checked_mul(size);
    match bytes.and_then(class_of).and_then(|class| allocate(class, site)) {
        Some(address) => {
            let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
            // SAFETY: a slot of at least that number of bytes, handed out a moment ago.
            unsafe { target.write_bytes(0, bytes.unwrap_or(0)) };
            target.cast()
        }
        // SAFETY: (1) the caller's.
        None => unsafe { process::calloc_at(count, size, site) },
    }
}

/// aligned allocation; `align` is a power of two.
///
/// # Safety
/// 1. As for [`process::aligned_at`].
pub unsafe fn aligned_at(align: usize, size: usize, site: usize) -> Pointer {
    let class =
        if align <= 16 { class_of(size) } else { Class::of_aligned(size, align).map(Class::index) };
    match class.and_then(|class| allocate(class, site)) {
        Some(address) => core::ptr::with_exposed_provenance_mut(address),
        // SAFETY: (1) the caller's.
        None => unsafe { process::aligned_at(align, size, site) },
    }
}

/// free, for whatever call named `call`.
///
/// # Safety
/// 1. As for [`process::free_for`].
pub unsafe fn free_for(address: Pointer, call: Call) {
    if !give_back(address.addr(), call) {
        // SAFETY: (1) the caller's.
        unsafe { process::free_for(address, call) }
    }
}

/// free, of a block whose size and alignment are not checked.
///
/// # Safety
/// 1. As for [`free_for`].
#[inline(always)]
pub unsafe fn free_sized_for(address: Pointer, _size: usize, _align: usize, call: Call) {
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, call) }
}

/// free.
///
/// # Safety
/// 1. As for [`process::free_for`].
pub unsafe fn free(address: Pointer) {
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, Call::Free) }
}

/// realloc with C's meaning for null and for size zero.
///
/// # Safety
/// 1. As for [`process::realloc_at`].
pub unsafe fn realloc_at(address: Pointer, size: usize, site: usize) -> Pointer {
    if address.is_null() {
        // SAFETY: (1) no duties.
        return unsafe { malloc_at(size, site) };
    }
    let usable = match allocator().find(address.addr()) {
        Found::Slot(slab, slot) if slab.is_live(slot) && !slab.is_remote(slot) => slab.size(),
        // SAFETY: (1) the caller's. Large blocks, and what must be named.
        _ => return unsafe { process::realloc_at(address, size, site) },
    };
    if size != 0 && size <= usable && is_worth_keeping(size, usable) {
        return address;
    }
    let mut to = core::ptr::null_mut();
    if size != 0 {
        // SAFETY: (1) no duties.
        to = unsafe { malloc_at(size, site) };
        if to.is_null() {
            // A smaller size always fits where the block is.
            return if size <= usable { address } else { to };
        }
        // SAFETY: both blocks are live and distinct, and hold at least the smaller of the sizes.
        unsafe { core::ptr::copy_nonoverlapping(address, to, size.min(usable)) };
    }
    // SAFETY: (1) the caller's.
    unsafe { free_for(address, Call::Realloc) };
    to
}

/// malloc_usable_size.
///
/// # Safety
/// 1. As for [`process::usable_size`].
pub unsafe fn usable_size(address: Pointer) -> usize {
    // SAFETY: (1) the caller's.
    unsafe { process::usable_size(address) }
}

/// The class of a request; `None` when it is large.
#[inline(always)]
fn class_of(size: usize) -> Option<usize> {
    match size {
        0..=SMALL_MAX => Some(class_of_small(size)),
        _ if size <= MEDIUM_MAX => Some(class_of_medium(size)),
        _ => None,
    }
}

/// A block of a class; `None` where the usual way must be gone.
#[inline]
fn allocate(class: usize, site: usize) -> Option<usize> {
    let turn = Turn::begin()?;
    turn.thread.counts.operations.add_one();
    if CACHED && let Some(shelf) = turn.thread.cache.shelf(class) {
        if let Some(address) = from_cache(shelf, site) {
            turn.thread.counts.cache_hits.add_one();
            return Some(address);
        }
        if shelf.is_empty() {
            return fill(&turn, shelf, class, site);
        }
    }
    with_heap(&turn, class, |heap| from_heap(heap, class, site))
}

/// The block that the thread's cache has for a call site.
#[inline]
fn from_cache(shelf: &Shelf, site: usize) -> Option<usize> {
    let address = shelf.last()?;
    let (slab, slot) = slot_at(address)?;
    if slab.partition() != allocator().hash.partition(site) {
        return None;
    }
    shelf.drop_last();
    if slab.leave_cache(slot) {
        return Some(address);
    }
    // Two threads have freed it at the same moment, and the other one has used it already.
    allocator().freed_twice(slab, slot, Call::Free);
    None
}

/// Takes half a cache's blocks from the arena at once, and keeps all but one.
#[cold]
#[inline(never)]
fn fill(turn: &Turn, shelf: &Shelf, class: usize, site: usize) -> Option<usize> {
    with_heap(turn, class, |heap| {
        let first = from_heap(heap, class, site)?;
        for _ in 1..BATCH {
            let Some(address) = from_heap(heap, class, site) else { break };
            if let Some((slab, slot)) = slot_at(address)
                && slab.enter_cache(slot)
            {
                shelf.push(address);
            }
        }
        Some(first)
    })
}

#[inline(always)]
fn from_heap(heap: &Heap, class: usize, site: usize) -> Option<usize> {
    heap.pop(heap.bin(class, site)).or_else(|| allocator().allocate_slow(heap, class, site))
}

/// Runs `body` with the heap that a thread's blocks of a class come from, its lock held if it has
/// one.
#[inline(always)]
fn with_heap<R>(turn: &Turn, class: usize, body: impl FnOnce(&Heap) -> Option<R>) -> Option<R> {
    if LOCKS == Locks::None {
        return body(turn.heap);
    }
    let (index, place) = arenas::place(turn.thread.arena(), class)?;
    let open = place.open(&turn.thread.counts)?;
    body(open.heap(index)?)
}

/// The slot that begins at an address.
#[inline(always)]
fn slot_at(address: usize) -> Option<(&'static Slab, usize)> {
    let found = |slab: &'static Slab, slot| slab.has_slot_at(slot, address).then_some((slab, slot));
    if let Some(slab) = allocator().small.slab_at(address) {
        return found(slab, slab.slot_at::<SMALL>(Tier::of(SMALL).offset(address))?);
    }
    let slab = allocator().medium.slab_at(address)?;
    found(slab, slab.slot_at::<MEDIUM>(Tier::of(MEDIUM).offset(address))?)
}

/// Takes a block back; no where the usual way must be gone.
#[inline]
fn give_back(address: usize, call: Call) -> bool {
    let Some((slab, slot)) = slot_at(address) else { return false };
    let Some(turn) = Turn::begin() else { return false };
    turn.thread.counts.operations.add_one();
    if is_transfer(&turn, slab) {
        turn.thread.counts.transfers.add_one();
    }
    if CACHED
        && let Some(shelf) = turn.thread.cache.shelf(slab.class().index())
        && slab.enter_cache(slot)
    {
        if !shelf.push(address) {
            empty(&turn, shelf);
            shelf.push(address);
        }
        return true;
    }
    let place = if LOCKS == Locks::None { None } else { arenas::owner(slab) };
    let open = place.and_then(|(_, place)| place.open(&turn.thread.counts));
    let heap = place.zip(open.as_ref()).and_then(|((index, _), open)| open.heap(index));
    // Where there is no lock to be had, as another thread's block.
    allocator().free_found(heap.unwrap_or(turn.heap), slab, slot, address, call);
    true
}

/// Whether a slab is of another arena than the thread's.
#[inline(always)]
fn is_transfer(turn: &Turn, slab: &Slab) -> bool {
    match LOCKS {
        Locks::None => !turn.heap.owns(slab),
        _ => {
            arenas::owner(slab).map(|(index, _)| arenas::arena_of(index))
                != Some(turn.thread.arena())
        }
    }
}

/// Gives the older half of a shelf back to the slabs, each lock taken once for a run of blocks of
/// its heap.
#[cold]
#[inline(never)]
fn empty(turn: &Turn, shelf: &Shelf) {
    let mut open = None;
    let mut held = usize::MAX;
    shelf.drop_older(|address| {
        let Some((slab, slot)) = slot_at(address) else { return };
        if !slab.leave_cache(slot) {
            return allocator().freed_twice(slab, slot, Call::Free);
        }
        let place = if LOCKS == Locks::None { None } else { arenas::owner(slab) };
        let mut heap = turn.heap;
        if let Some((index, place)) = place {
            if held != index {
                // One lock at a time, so that no two threads can wait for each other.
                open = None;
                open = place.open(&turn.thread.counts);
                held = index;
            }
            heap = open.as_ref().and_then(|open| open.heap(index)).unwrap_or(heap);
        }
        allocator().free_found(heap, slab, slot, address, Call::Free);
    });
}

/// In the child of a fork, after the repair of the heaps.
pub(super) fn after_fork_in_child() {
    arenas::after_fork_in_child();
    threads::after_fork_in_child();
}

/// Hands each count, with its name in the statistics, to `each`.
pub fn for_each_count<O: Os>(allocator: &Allocator<O>, mut each: impl FnMut(&str, u64)) {
    let arenas = if LOCKS == Locks::None { 0 } else { allocator.options().arenas };
    each("experiment_arenas", arenas as u64);
    for (name, value) in threads::sums(allocator.heaps.count()) {
        each(name, value);
    }
}
