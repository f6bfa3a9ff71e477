//! The allocator: which heap a block comes from, under which lock, and through which cache.

use crate::cache::BATCH;
use crate::class::Class;
use crate::counts::{Counts, Sums};
use crate::fault::{DOUBLE_FREE, NO_BLOCK, NOT_IN_USE, stop};
use crate::heap::{Heap, Taken};
use crate::lock::{Held, Lock};
use crate::region::Region;
use crate::settings::{ARENAS_MAX, Locks, Settings};
use crate::slab::{Census, From, Slab, SlotIndex};
use crate::thread::{Thread, Threads};
use std::sync::OnceLock;

/// An arena: a heap that several threads share.
#[derive(Debug)]
#[repr(align(64))]
struct Arena {
    /// Taken only if each arena has a lock.
    lock: Lock,
    heap: Heap,
}

/// An allocator with its own region, arenas and threads. It lives for ever, as its slabs do.
#[derive(Debug)]
pub struct Allocator {
    /// Set by the thread that starts the allocator.
    settings: OnceLock<Settings>,
    region: Region,
    /// Taken only if there is one lock for all.
    lock: Lock,
    arenas: [Arena; ARENAS_MAX],
    /// The records of threads.
    pub threads: Threads,
}

impl Allocator {
    /// An allocator that was not started.
    pub const fn new() -> Allocator {
        Allocator {
            settings: OnceLock::new(),
            region: Region::new(),
            lock: Lock::new(),
            arenas: [const { Arena { lock: Lock::new(), heap: Heap::new() } }; ARENAS_MAX],
            threads: Threads::new(),
        }
    }

    /// Reserves the region and sets the parameters. The caller sees that one thread calls it, once,
    /// before any other function. Arenas beyond 16 are left out.
    pub fn start(&self, settings: Settings) {
        let arenas = settings.arenas.clamp(1, ARENAS_MAX);
        self.region.reserve();
        let _ = self.settings.set(Settings { arenas, ..settings });
    }

    /// The parameters.
    pub fn settings(&self) -> &Settings {
        self.settings.get().unwrap_or(&Settings::ARTICLE)
    }

    /// A record for a thread that makes its first call; `None` if there is no memory.
    pub fn enter(&self) -> Option<&'static Thread> {
        self.threads.enter(self.settings().arenas)
    }

    /// Empties the cache of a thread that exits, and takes its record back.
    pub fn leave(&'static self, thread: &'static Thread) {
        for class in Class::all() {
            self.flush(thread, class, usize::MAX);
        }
        self.threads.leave(thread);
    }

    /// The lock that guards a class of an arena, if there is any.
    #[inline]
    fn lock(&'static self, arena: &'static Arena, class: Class) -> Option<&'static Lock> {
        match self.settings().locks {
            Locks::One => Some(&self.lock),
            Locks::Arena => Some(&arena.lock),
            Locks::Class => Some(&arena.heap.bin(class).lock),
            Locks::None => None,
        }
    }

    /// Allocates for a thread. Returns zero if the request passes through: it is large, or there is
    /// no memory here.
    #[inline]
    pub fn allocate(&'static self, thread: &'static Thread, size: usize) -> usize {
        let block = Class::of(size).and_then(|class| {
            if self.settings().cache {
                return self.cached(thread, class);
            }
            let (slab, slot) = self.take(&self.source(thread, class), class, From::Program)?;
            Some(slab.address(slot))
        });
        let count = if block.is_some() { &thread.counts.allocated } else { &thread.counts.passed };
        count.add_one();
        block.unwrap_or(0)
    }

    fn cached(&'static self, thread: &'static Thread, class: Class) -> Option<usize> {
        let shelf = thread.shelf(class);
        let Some(block) = shelf.pop() else { return self.fill(thread, class) };
        thread.counts.cache_hits.add_one();
        let (slab, slot) = self.known(block);
        if slab.change(slot, From::Cache, From::Program).is_err() {
            // Two threads freed it at the same moment, and both caches had it.
            stop(DOUBLE_FREE, block);
        }
        Some(block)
    }

    /// Takes a batch of blocks under one lock: one for the caller, the others for the cache.
    #[cold]
    fn fill(&'static self, thread: &'static Thread, class: Class) -> Option<usize> {
        let source = self.source(thread, class);
        let (slab, slot) = self.take(&source, class, From::Program)?;
        for _ in 1..BATCH {
            let Some((slab, slot)) = source.heap.take(class, From::Cache) else { break };
            thread.shelf(class).push(slab.address(slot));
        }
        Some(slab.address(slot))
    }

    /// The heap that a thread's blocks of a class come from, held.
    #[inline]
    fn source(&'static self, thread: &'static Thread, class: Class) -> Source {
        let number = thread.arena();
        // In range, because `start` allows no more arenas.
        let arena = &self.arenas[number % ARENAS_MAX];
        let held = self.lock(arena, class).map(|lock| take(lock, &thread.counts));
        let heap = if held.is_some() { &arena.heap } else { &thread.heap };
        Source { heap, number, _held: held }
    }

    #[inline]
    fn take(&'static self, source: &Source, class: Class, to: From) -> Option<Taken> {
        source.heap.take(class, to).or_else(|| self.grow(source, class, to))
    }

    /// Collects what other threads have freed, and opens a slab if that was not enough.
    #[cold]
    fn grow(&'static self, source: &Source, class: Class, to: From) -> Option<Taken> {
        if source.heap.collect()
            && let Some(taken) = source.heap.take(class, to)
        {
            return Some(taken);
        }
        let place = self.region.claim()?;
        let owner = (source.heap.address(), source.number);
        // SAFETY: (1) the region hands out fresh memory, aligned and once.
        source.heap.list(unsafe { Slab::open(place, class, owner) });
        source.heap.take(class, to)
    }

    /// Returns true if an address is of this allocator, and not of the next one.
    pub fn owns(&self, address: usize) -> bool {
        self.region.contains(address)
    }

    /// The slab and the slot of a block. Stops the process if no block begins there.
    #[inline]
    fn known(&self, address: usize) -> (&'static Slab, SlotIndex) {
        let found = self.region.slab_at(address);
        match found.and_then(|slab| Some((slab, slab.slot_at(address)?))) {
            Some(found) => found,
            None => stop(NO_BLOCK, address),
        }
    }

    /// The usable size of a block that this allocator owns. Stops the process if it is not in use.
    #[inline]
    pub fn usable(&self, address: usize) -> usize {
        let (slab, slot) = self.known(address);
        if !slab.is_live(slot) {
            stop(NOT_IN_USE, address);
        }
        slab.class.size()
    }

    /// Frees a block that this allocator owns. Stops the process if it is not in use.
    #[inline]
    pub fn free(&'static self, thread: &'static Thread, address: usize) {
        let (slab, slot) = self.known(address);
        thread.counts.freed.add_one();
        let foreign = if self.settings().locks == Locks::None {
            slab.owner != thread.heap.address()
        } else {
            slab.arena != thread.arena()
        };
        if foreign {
            thread.counts.transfers.add_one();
        }
        if !self.settings().cache {
            return self.give(thread, slab, slot, From::Program);
        }
        if slab.change(slot, From::Program, From::Cache).is_err() {
            stop(DOUBLE_FREE, address);
        }
        if !thread.shelf(slab.class).push(address) {
            self.flush(thread, slab.class, BATCH);
            thread.shelf(slab.class).push(address);
        }
    }

    /// Frees a slot to the heap that owns it.
    fn give(&'static self, thread: &Thread, slab: &'static Slab, slot: SlotIndex, from: From) {
        let arena = &self.arenas[slab.arena % ARENAS_MAX];
        let given = match self.lock(arena, slab.class) {
            Some(lock) => {
                let _held = take(lock, &thread.counts);
                arena.heap.give(slab, slot, from)
            }
            None if slab.owner == thread.heap.address() => thread.heap.give(slab, slot, from),
            None => {
                let owner = std::ptr::with_exposed_provenance::<Heap>(slab.owner);
                // SAFETY: the heap of a record, and records live for ever.
                unsafe { &*owner }.give_remote(slab, slot, from)
            }
        };
        if given.is_err() {
            stop(DOUBLE_FREE, slab.address(slot));
        }
    }

    /// Frees up to `count` of the oldest blocks of a shelf. Each lock is taken once for a run of
    /// blocks that it guards, and no lock while another one is held.
    #[cold]
    fn flush(&'static self, thread: &'static Thread, class: Class, count: usize) {
        let mut held: Option<(&'static Lock, Held<'static>)> = None;
        thread.shelf(class).take_oldest(count, |address| {
            let (slab, slot) = self.known(address);
            let arena = &self.arenas[slab.arena % ARENAS_MAX];
            let Some(lock) = self.lock(arena, class) else {
                return self.give(thread, slab, slot, From::Cache);
            };
            if !held.as_ref().is_some_and(|(holds, _)| std::ptr::eq(*holds, lock)) {
                held = None;
                held = Some((lock, take(lock, &thread.counts)));
            }
            if arena.heap.give(slab, slot, From::Cache).is_err() {
                stop(DOUBLE_FREE, address);
            }
        });
    }

    /// The counts of all threads, and the slots of all slabs. Exact while no thread is in a call.
    pub fn report(&self) -> Report {
        let mut census = Census::default();
        self.region.slabs().for_each(|slab| slab.count(&mut census));
        let (sums, cached) = self.threads.sums();
        Report { sums, cached, census }
    }

    /// Takes every lock, in one order, so that a fork finds no heap in the middle of a change.
    pub fn before_fork(&self) {
        self.for_each_lock(|lock| std::mem::forget(lock.take()));
    }

    /// Lets every lock go, in the parent and in the child.
    ///
    /// # Safety
    /// 1. The calling thread called [`Allocator::before_fork`], in this process or in its parent.
    pub unsafe fn after_fork(&self) {
        // SAFETY: (1) `before_fork` took each of them.
        self.for_each_lock(|lock| unsafe { lock.let_go() });
    }

    fn for_each_lock(&self, mut each: impl FnMut(&Lock)) {
        each(&self.threads.lock);
        each(&self.lock);
        for arena in &self.arenas[..self.settings().arenas.min(ARENAS_MAX)] {
            each(&arena.lock);
            if self.settings().locks == Locks::Class {
                Class::all().for_each(|class| each(&arena.heap.bin(class).lock));
            }
        }
    }
}

/// A heap that the calling thread holds.
struct Source {
    heap: &'static Heap,
    /// The number of its arena.
    number: usize,
    _held: Option<Held<'static>>,
}

/// Takes a lock and counts it.
#[inline]
fn take(lock: &'static Lock, counts: &Counts) -> Held<'static> {
    let held = lock.take();
    counts.locks.add_one();
    if held.contended {
        counts.contended.add_one();
    }
    held
}

/// What an allocator did, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The counts of all threads.
    pub sums: Sums,
    /// The blocks in all caches.
    pub cached: usize,
    /// The slots of all slabs.
    pub census: Census,
}

impl Report {
    /// The number of blocks that are neither in use nor in a cache nor free any more, or in use
    /// without a call that allocated them. Zero, unless the allocator is defective.
    pub fn lost(&self) -> usize {
        let Census { slots, live, cached, free } = self.census;
        let in_use = self.sums.allocated.wrapping_sub(self.sums.freed);
        // More frees than allocations wrap around.
        [cached.abs_diff(self.cached), slots.abs_diff(live + cached + free)]
            .into_iter()
            .fold(live.abs_diff(in_use), usize::saturating_add)
    }
}
