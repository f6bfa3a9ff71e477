//! What a thread has: its arena, its cache, its heap if there are no locks, and its counts.
//!
//! A thread gets a record at its first call and returns it when it exits. The next new thread takes
//! the record with its heap, so that no block is lost. Records are never unmapped.

use crate::cache::Shelf;
use crate::class::{CLASSES, Class};
use crate::counts::{Counts, Sums};
use crate::errno::Errno;
use crate::heap::Heap;
use crate::lock::Lock;
use crate::region::map;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, push};
use Ordering::{Acquire, Relaxed};
use std::ptr::null_mut;

/// The record of a thread. All zeros is a record of arena 0 with nothing in it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Thread {
    /// The number of the thread's arena. Written by the thread that takes the record.
    arena: AtomicUsize,
    /// What the thread has done.
    pub counts: Counts,
    /// The heap of a thread without locks.
    pub heap: Heap,
    shelves: [Shelf; CLASSES],
    /// The next of all records. Written before the record is published.
    next: AtomicPtr<Thread>,
    /// The next of the records that no thread has. The holder of the lock.
    next_idle: AtomicPtr<Thread>,
}

impl Thread {
    /// The number of the thread's arena.
    pub fn arena(&self) -> usize {
        self.arena.load(Relaxed)
    }

    /// The cached blocks of a class.
    pub fn shelf(&self, class: Class) -> &Shelf {
        // In range, because a class has an index below `CLASSES`.
        &self.shelves[class.index() % CLASSES]
    }
}

/// All records.
#[derive(Debug)]
pub struct Threads {
    /// The newest record. A thread publishes with Release what it has made; readers use Acquire.
    all: AtomicPtr<Thread>,
    /// The records that no thread has. The holder of `lock`.
    idle: AtomicPtr<Thread>,
    /// Guards `idle`, and is held over a fork.
    pub lock: Lock,
    /// The number of threads that were dealt to arenas. Any thread.
    dealt: AtomicUsize,
}

impl Threads {
    /// No records.
    pub const fn new() -> Threads {
        Threads {
            all: AtomicPtr::new(null_mut()),
            idle: AtomicPtr::new(null_mut()),
            lock: Lock::new(),
            dealt: AtomicUsize::new(0),
        }
    }

    /// A record for a new thread, dealt to one of `arenas`; `None` if there is no memory.
    pub fn enter(&self, arenas: usize) -> Option<&'static Thread> {
        let thread = self.borrow()?;
        let dealt = self.dealt.fetch_add(1, Relaxed);
        thread.arena.store(dealt % arenas.max(1), Relaxed);
        Some(thread)
    }

    /// A record that stays in the arena of the thread that had it before.
    pub fn borrow(&self) -> Option<&'static Thread> {
        let held = self.lock.take();
        // SAFETY: records live for ever. The lock orders what the last thread did with it.
        let Some(thread) = (unsafe { self.idle.load(Relaxed).as_ref() }) else {
            drop(held);
            return self.make();
        };
        self.idle.store(thread.next_idle.load(Relaxed), Relaxed);
        Some(thread)
    }

    /// Takes back the record of a thread that exits.
    pub fn leave(&self, thread: &'static Thread) {
        let _held = self.lock.take();
        thread.next_idle.store(self.idle.load(Relaxed), Relaxed);
        self.idle.store(std::ptr::from_ref(thread).cast_mut(), Relaxed);
    }

    fn make(&self) -> Option<&'static Thread> {
        let _errno = Errno::kept();
        let place = map(size_of::<Thread>(), libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: fresh memory, page aligned and of the record's size. Zeros are a sound record:
        // each field is numbers and null pointers.
        let thread: &'static Thread = unsafe { &*std::ptr::with_exposed_provenance(place) };
        push(&self.all, thread, &thread.next);
        Some(thread)
    }

    /// The counts of all threads, of those that exited too, and the blocks in their caches.
    pub fn sums(&self) -> (Sums, usize) {
        let (mut sums, mut cached) = (Sums::default(), 0);
        let mut next = self.all.load(Acquire);
        // SAFETY: records live for ever, and were published with Release.
        while let Some(thread) = unsafe { next.as_ref() } {
            thread.counts.add_to(&mut sums);
            cached += thread.shelves.iter().map(Shelf::len).sum::<usize>();
            next = thread.next.load(Relaxed);
        }
        (sums, cached)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/thread.rs"]
mod tests;
