//! What each thread has in the experiment: its arena, its cache, its counts.
//!
//! A thread is known by the heap that it owns in any build: that heap is its identity, and is born,
//! passed on and repaired as always. With locks nothing is allocated from it but what a signal
//! handler asks for that has interrupted another call. A thread's record, cache included, goes to
//! the thread that adopts its heap.

use super::arenas;
use super::cache::Cache;
use crate::entry::start::{allocator, heap_or_start};
use crate::os::process;
use crate::sync::{AtomicU8, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use crate::thread::{Heap, current_heap};
use Ordering::{Relaxed, SeqCst};

/// Heaps that the experiment knows by their numbers. Threads beyond them go the usual way,
/// uncounted.
pub(super) const HEAPS_MAX: usize = 2048;

/// A counter that one thread writes and others may read.
#[derive(Debug)]
pub(super) struct Count(AtomicU64);

impl Count {
    const fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(super) fn add_one(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a thread has done. Its holder only; read by the statistics.
#[derive(Debug)]
pub(super) struct Counts {
    /// Blocks had and given back, large ones excepted.
    pub(super) operations: Count,
    /// Locks taken.
    pub(super) lock_acquisitions: Count,
    /// Locks that another thread had at that moment.
    pub(super) contended_acquisitions: Count,
    /// Blocks given back that are another arena's.
    pub(super) transfers: Count,
    /// Blocks that came out of the thread's cache.
    pub(super) cache_hits: Count,
}

impl Counts {
    pub(super) const fn new() -> Counts {
        Counts {
            operations: Count::new(),
            lock_acquisitions: Count::new(),
            contended_acquisitions: Count::new(),
            transfers: Count::new(),
            cache_hits: Count::new(),
        }
    }
}

/// A thread's record. Its holder only, but for the counts.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Thread {
    /// Not zero during a call: a signal handler that finds it so goes another way.
    busy: AtomicU8,
    /// The thread's arena plus one; zero before its first call.
    arena: AtomicUsize,
    pub(super) counts: Counts,
    pub(super) cache: Cache,
}

impl Thread {
    const fn new() -> Thread {
        Thread {
            busy: AtomicU8::new(0),
            arena: AtomicUsize::new(0),
            counts: Counts::new(),
            cache: Cache::new(),
        }
    }

    /// The thread's arena; threads are dealt out in turn.
    #[inline]
    pub(super) fn arena(&self) -> usize {
        match self.arena.load(Relaxed) {
            0 => self.choose_arena(),
            known => known - 1,
        }
    }

    #[cold]
    fn choose_arena(&self) -> usize {
        let _ = PROCESS.compare_exchange(0, process::pid(), Relaxed, Relaxed);
        let arenas = allocator().options().arenas.max(1);
        let before = NEXT_ARENA.fetch_add(1, Relaxed);
        if before == 0 {
            arenas::prepare(arenas);
        }
        let arena = before % arenas;
        self.arena.store(arena + 1, Relaxed);
        arena
    }
}

/// Records, by the number of the thread's heap. Pages that no thread uses are not there.
static THREADS: [Thread; HEAPS_MAX] = [const { Thread::new() }; HEAPS_MAX];
/// The arena of the next thread. Any thread.
static NEXT_ARENA: AtomicUsize = AtomicUsize::new(0);

/// The process's number; zero before the first call. Written by then, and in the child of a fork.
static PROCESS: AtomicUsize = AtomicUsize::new(0);
/// Whether this process was made by a fork in the middle of its parent's work.
static FORKED: AtomicU8 = AtomicU8::new(0);

/// Whether this is the child of a fork, and what threads that are gone have left was not repaired
/// yet.
pub(super) fn is_unrepaired() -> bool {
    PROCESS.load(Relaxed) != process::pid()
}

/// Whether this is the child of a fork.
pub(super) fn is_forked() -> bool {
    FORKED.load(Relaxed) != 0
}

/// A call of a thread, while it lasts.
pub(super) struct Turn {
    pub(super) thread: &'static Thread,
    /// The thread's own heap.
    pub(super) heap: &'static Heap,
}

impl Turn {
    /// Begins a call; `None` where the usual way must be gone: in a signal handler that interrupts
    /// another call, in a thread that ends, before there is memory.
    #[inline]
    pub(super) fn begin() -> Option<Turn> {
        let mut heap = current_heap();
        if heap.is_nobodys() {
            heap = heap_or_start()?;
        }
        let thread = THREADS.get(heap.number as usize)?;
        if thread.busy.load(Relaxed) != 0 {
            return None;
        }
        thread.busy.store(1, Relaxed);
        compiler_fence(SeqCst);
        Some(Turn { thread, heap })
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        self.thread.busy.store(0, Relaxed);
    }
}

fn known(heaps: u32) -> impl Iterator<Item = &'static Thread> {
    THREADS.iter().take(heaps as usize)
}

/// In the child of a fork: no other thread is in a call any more, and what was in their caches is
/// lost to this process.
pub(super) fn after_fork_in_child() {
    PROCESS.store(process::pid(), Relaxed);
    FORKED.store(1, Relaxed);
    let mine = THREADS.get(current_heap().number as usize);
    for thread in known(allocator().heaps.count()) {
        if !mine.is_some_and(|mine| core::ptr::eq(mine, thread)) {
            thread.busy.store(0, Relaxed);
            // It may have been stopped while it moved blocks about.
            thread.cache.clear();
        }
    }
}

/// The sums over all threads, each with its name in the statistics.
pub(super) fn sums(heaps: u32) -> [(&'static str, u64); 5] {
    let sum = |of: fn(&Counts) -> &Count| known(heaps).map(|t| of(&t.counts).get()).sum();
    [
        ("experiment_operations", sum(|c| &c.operations)),
        ("experiment_lock_acquisitions", sum(|c| &c.lock_acquisitions)),
        ("experiment_contended_acquisitions", sum(|c| &c.contended_acquisitions)),
        ("experiment_transfers", sum(|c| &c.transfers)),
        ("experiment_cache_hits", sum(|c| &c.cache_hits)),
    ]
}
