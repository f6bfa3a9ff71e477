//! A heap for the tests of the workloads: the process's `malloc`, and what was asked of it. Unlike
//! [`Probe`](crate::heap::Probe) each has its own counts, so that tests may run side by side.

use crate::heap::{Heap, Libc};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Debug)]
struct Counts {
    smallest: AtomicUsize,
    largest: AtomicUsize,
    live: AtomicUsize,
    most: AtomicUsize,
}

/// A heap that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watch(&'static Counts);

impl Watch {
    /// One that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        let zero = || AtomicUsize::new(0);
        let smallest = AtomicUsize::new(usize::MAX);
        Self(Box::leak(Box::new(Counts { smallest, largest: zero(), live: zero(), most: zero() })))
    }

    /// The smallest and the largest size so far.
    #[must_use]
    pub fn sizes(self) -> (usize, usize) {
        (self.0.smallest.load(Relaxed), self.0.largest.load(Relaxed))
    }

    /// The most blocks that were live at once.
    #[must_use]
    pub fn most(self) -> usize {
        assert_eq!(self.0.live.load(Relaxed), 0, "blocks were not freed");
        self.0.most.load(Relaxed)
    }

    fn note(self, size: usize) {
        self.0.smallest.fetch_min(size, Relaxed);
        self.0.largest.fetch_max(size, Relaxed);
        let live = self.0.live.fetch_add(1, Relaxed) + 1;
        self.0.most.fetch_max(live, Relaxed);
    }
}

impl Heap for Watch {
    fn malloc(self, size: usize) -> *mut u8 {
        self.note(size);
        Libc.malloc(size)
    }
    fn calloc(self, size: usize) -> *mut u8 {
        self.note(size);
        Libc.calloc(size)
    }
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            return self.malloc(size);
        }
        // SAFETY: the caller keeps realloc's contract.
        unsafe { Libc.realloc(block, size) }
    }
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        self.note(size);
        Libc.aligned(align, size)
    }
    unsafe fn free(self, block: *mut u8) {
        if !block.is_null() {
            self.0.live.fetch_sub(1, Relaxed);
        }
        // SAFETY: the caller keeps free's contract.
        unsafe { Libc.free(block) }
    }
}
