//! Fake systems that sources take memory from: each counts, and refuses when the test says so.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use toft_arena::shape::Shape;
use toft_arena::source::{Grows, Linear, Pages, Reserved};
use toft_arena::{Anywhere, Arena, Checked};

/// What a fake system has done.
#[derive(Clone, Default)]
pub struct Log {
    pub calls: Rc<Cell<usize>>,
    pub committed: Rc<RefCell<Vec<bool>>>,
    pub refuse: Rc<Cell<bool>>,
    pub keeps_content: Rc<Cell<bool>>,
    pub live: Rc<Cell<usize>>,
}

/// Pages of a vector. What is not committed is full of a byte that must not be seen.
pub struct Fake {
    pub memory: Box<[u64]>,
    pub log: Log,
}

pub const FAKE: usize = 1 << 20;
pub const FAKE_PAGE: usize = 4096;

impl Fake {
    pub fn new(log: &Log) -> Self {
        *log.committed.borrow_mut() = vec![false; FAKE / FAKE_PAGE];
        Self { memory: vec![0xBAAD_u64; FAKE / 8].into_boxed_slice(), log: log.clone() }
    }
    fn set(&mut self, start: *mut u8, size: usize, committed: bool) {
        assert!(size > 0 && size % FAKE_PAGE == 0 && start.addr() % 8 == 0);
        let first = (start.addr() - self.memory.as_ptr().addr()) / FAKE_PAGE;
        for page in &mut self.log.committed.borrow_mut()[first..first + size / FAKE_PAGE] {
            assert_ne!(*page, committed, "twice");
            *page = committed;
        }
        self.log.calls.set(self.log.calls.get() + 1);
    }
}

// SAFETY: 1. the vector is the fake's own. 2. what is given back is made zero when it is committed
// again, unless it says that it was not.
unsafe impl Pages for Fake {
    const PAGE: usize = FAKE_PAGE;
    fn reserve(&mut self, size: usize) -> Option<*mut u8> {
        (size <= FAKE && !self.log.refuse.get()).then_some(self.memory.as_mut_ptr().cast())
    }
    unsafe fn commit(&mut self, start: *mut u8, size: usize) -> bool {
        if self.log.refuse.get() {
            return false;
        }
        self.set(start, size, true);
        if !self.log.keeps_content.get() {
            // SAFETY: of the vector.
            unsafe { start.write_bytes(0, size) };
        }
        true
    }
    unsafe fn decommit(&mut self, start: *mut u8, size: usize) -> bool {
        self.set(start, size, false);
        // SAFETY: of the vector.
        unsafe { start.write_bytes(0xBD, size) };
        !self.log.keeps_content.get()
    }
    unsafe fn release(&mut self, _: *mut u8, _: usize) {
        self.log.live.set(usize::MAX);
    }
}

pub fn reserved<S: Shape<Space = Anywhere>>(log: &Log) -> Arena<S, Reserved<Fake>> {
    Arena::new(Anywhere, Reserved::new(Fake::new(log), FAKE).with_steps(16_384, 32_768))
}

pub fn committed(log: &Log) -> usize {
    log.committed.borrow().iter().filter(|&&page| page).count() * FAKE_PAGE
}

/// Memory that grows inside of a vector, sometimes after other code has.
pub struct Break {
    pub memory: Box<[u64]>,
    pub used: usize,
    pub others: usize,
}

// SAFETY: 1. the vector is this value's own, is zero, and no part of it is returned twice.
unsafe impl Grows for Break {
    const PAGE: usize = 4096;
    fn grow(&mut self, size: usize) -> Option<*mut u8> {
        let start = self.used + self.others;
        (start + size <= self.memory.len() * 8).then(|| {
            self.used = start + size;
            self.memory.as_mut_ptr().cast::<u8>().wrapping_add(start)
        })
    }
}

pub fn linear(size: usize) -> Arena<Checked, Linear<Break>> {
    let memory = vec![0; size / 8].into_boxed_slice();
    Arena::new(Anywhere, Linear::new(Break { memory, used: 0, others: 0 }))
}

/// The system's allocator, counted, and refusing.
#[derive(Clone, Default)]
pub struct Counted {
    pub live: Rc<Cell<isize>>,
    pub refuse: Rc<Cell<bool>>,
}

// SAFETY: as the system's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.refuse.get() {
            return std::ptr::null_mut();
        }
        self.live.set(self.live.get() + layout.size() as isize);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.live.set(self.live.get() - layout.size() as isize);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(block, layout) }
    }
}
