//! A heap for tests, which writes down every call: what a workload asks for, and in which order.

use crate::heap::{Heap, Libc};
use std::sync::Mutex;

/// A call and the address of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Malloc(usize, usize),
    Calloc(usize, usize),
    /// The block before, the block after, its new size.
    Realloc(usize, usize, usize),
    Aligned(usize, usize),
    Free(usize),
}

/// The process's `malloc`, written down. Copies share one list; two recorders do not.
#[derive(Clone, Copy)]
pub(crate) struct Recorder {
    events: &'static Mutex<Vec<Event>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        // Heaps are `Copy` and live for ever; a test makes few of them.
        Self { events: Box::leak(Box::default()) }
    }

    /// The calls so far. Frees of null are not among them.
    pub(crate) fn events(self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// The sizes that `malloc` was called with.
    pub(crate) fn sizes(self) -> Vec<usize> {
        let size = |event: &Event| match event {
            Event::Malloc(_, size) => Some(*size),
            _ => None,
        };
        self.events().iter().filter_map(size).collect()
    }

    fn note(self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
}

impl Heap for Recorder {
    fn malloc(self, size: usize) -> *mut u8 {
        let block = Libc.malloc(size);
        self.note(Event::Malloc(block.addr(), size));
        block
    }
    fn calloc(self, size: usize) -> *mut u8 {
        let block = Libc.calloc(size);
        self.note(Event::Calloc(block.addr(), size));
        block
    }
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        let before = block.addr();
        // SAFETY: the caller keeps realloc's contract.
        let after = unsafe { Libc.realloc(block, size) };
        self.note(Event::Realloc(before, after.addr(), size));
        after
    }
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        let block = Libc.aligned(align, size);
        self.note(Event::Aligned(block.addr(), size));
        block
    }
    unsafe fn free(self, block: *mut u8) {
        if !block.is_null() {
            // Before the call: afterwards another thread may have the address already.
            self.note(Event::Free(block.addr()));
        }
        // SAFETY: the caller keeps free's contract.
        unsafe { Libc.free(block) }
    }
}
