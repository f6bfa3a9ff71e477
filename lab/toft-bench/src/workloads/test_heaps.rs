//! Heaps for the tests of workloads: one that runs out of memory, and one that writes down what it
//! is asked.

use crate::heap::{Heap, Libc};
use crate::params::Params;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A heap that refuses when more than [`Tight::BYTES`] would be live.
#[derive(Clone, Copy, Debug)]
pub struct Tight(pub &'static AtomicUsize);

impl Tight {
    pub const BYTES: usize = 1 << 20;

    fn counted(self, block: *mut u8) -> *mut u8 {
        if self.0.fetch_add(usable(block), Relaxed) + usable(block) > Self::BYTES {
            // SAFETY: handed out just now.
            unsafe { self.free(block) };
            return std::ptr::null_mut();
        }
        block
    }
}

fn usable(block: *mut u8) -> usize {
    // SAFETY: null or a live block of libc.
    unsafe { libc::malloc_usable_size(block.cast()) }
}

impl Heap for Tight {
    fn malloc(self, size: usize) -> *mut u8 {
        self.counted(Libc.malloc(size))
    }
    fn calloc(self, size: usize) -> *mut u8 {
        self.counted(Libc.calloc(size))
    }
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        let fresh = self.malloc(size);
        if !fresh.is_null() {
            // SAFETY: the caller's block is live and not the fresh one; the shorter bounds it.
            unsafe {
                fresh.copy_from_nonoverlapping(block, usable(block).min(size));
                self.free(block);
            }
        }
        fresh
    }
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        self.counted(Libc.aligned(align, size))
    }
    unsafe fn free(self, block: *mut u8) {
        self.0.fetch_sub(usable(block), Relaxed);
        // SAFETY: the caller keeps free's contract.
        unsafe { Libc.free(block) }
    }
}

/// What a [`Recorder`] was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A size.
    Malloc(usize),
    /// A size.
    Calloc(usize),
    /// A size.
    Realloc(usize),
    /// An alignment and a size.
    Aligned(usize, usize),
    /// The number of the block, in the order of allocation, and its first byte, which is 0 in a
    /// block that was not written to.
    Free(usize, u8),
    /// A null pointer.
    FreeNull,
}

/// Where the live blocks are, by the order of allocation, and what was asked.
#[derive(Default)]
struct Seen {
    live: Vec<(usize, usize)>,
    blocks: usize,
    calls: Vec<Call>,
}

/// Libc, and every call in the order of the calls.
#[derive(Clone, Copy)]
pub struct Recorder(&'static Mutex<Seen>);

impl Recorder {
    pub fn new() -> Self {
        Self(Box::leak(Box::default()))
    }

    pub fn calls(self) -> Vec<Call> {
        self.0.lock().unwrap().calls.clone()
    }

    fn given(self, block: *mut u8, call: Call) -> *mut u8 {
        let mut seen = self.0.lock().unwrap();
        let number = seen.blocks;
        seen.live.push((block.addr(), number));
        seen.blocks += 1;
        seen.calls.push(call);
        block
    }
}

impl Heap for Recorder {
    fn malloc(self, size: usize) -> *mut u8 {
        self.given(Libc.calloc(size), Call::Malloc(size))
    }
    fn calloc(self, size: usize) -> *mut u8 {
        self.given(Libc.calloc(size), Call::Calloc(size))
    }
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        let mut seen = self.0.lock().unwrap();
        seen.calls.push(Call::Realloc(size));
        let at = seen.live.iter().position(|(start, _)| *start == block.addr()).unwrap();
        // SAFETY: the caller keeps realloc's contract.
        let moved = unsafe { Libc.realloc(block, size) };
        seen.live[at].0 = moved.addr();
        moved
    }
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        self.given(Libc.aligned(align, size), Call::Aligned(align, size))
    }
    unsafe fn free(self, block: *mut u8) {
        let mut seen = self.0.lock().unwrap();
        if block.is_null() {
            seen.calls.push(Call::FreeNull);
            return;
        }
        let at = seen.live.iter().position(|(start, _)| *start == block.addr()).unwrap();
        let (_, number) = seen.live.swap_remove(at);
        // SAFETY: the block is live, and calloc has written its first byte.
        seen.calls.push(Call::Free(number, unsafe { block.read() }));
        // SAFETY: the caller keeps free's contract.
        unsafe { Libc.free(block) }
    }
}

/// What a workload asks for under these numbers.
pub fn recorded<R>(run: impl Fn(Recorder, &Params) -> R, words: &str) -> Vec<Call> {
    let recorder = Recorder::new();
    run(recorder, &Params::parse(words.split(' ')).unwrap());
    recorder.calls()
}

/// Asserts that a workload does the same under the same seed, and something else under another.
pub fn follows_its_seed<R>(run: impl Fn(Recorder, &Params) -> R, words: &str) {
    let of = |seed| recorded(&run, &format!("{words} seed={seed}"));
    assert!(of(5) == of(5), "two runs of one seed differ");
    assert!(of(5) != of(6), "another seed does the same");
}

/// Asserts that what is asked of `malloc` is within `low` and `high`, comes near both, and has the
/// mean of a uniform draw to a tenth.
pub fn sizes_are_uniform(calls: &[Call], low: usize, high: usize) {
    let size = |call: &Call| if let Call::Malloc(size) = call { Some(*size) } else { None };
    let sizes: Vec<usize> = calls.iter().filter_map(size).collect();
    let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
    let tenth = (high - low) / 10;
    assert!(low <= least && least < low + tenth, "{least}");
    assert!(most <= high && high - tenth < most, "{most}");
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((mean / ((low + high) as f64 / 2.0) - 1.0).abs() < 0.1, "{mean}");
}
