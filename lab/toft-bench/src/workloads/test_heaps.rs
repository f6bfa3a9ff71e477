//! A heap for the tests of workloads, which writes down what it is asked.

use crate::heap::{Heap, Libc};
use crate::params::Params;
use std::collections::HashMap;
use std::sync::Mutex;

/// What a [`Recorder`] was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Malloc(usize),
    Calloc(usize),
    Realloc(usize),
    /// An alignment and a size.
    Aligned(usize, usize),
    /// The number of the block, in the order of allocation, and its first byte, which is 0 in a
    /// block that was not written to.
    Free(usize, u8),
    FreeNull,
}

impl Call {
    pub fn frees(&self) -> bool {
        matches!(self, Self::Free(..))
    }
}

#[derive(Default)]
struct Seen {
    /// The numbers of the live blocks, by address.
    live: HashMap<usize, usize>,
    most_live: usize,
    /// The number of the next block.
    next: usize,
    calls: Vec<Call>,
}

/// The process's `malloc`, and every call in the order of the calls. Copies share one list.
#[derive(Clone, Copy)]
pub struct Recorder(&'static Mutex<Seen>);

impl Recorder {
    pub fn new() -> Self {
        // Heaps are `Copy` and live for ever; a test makes few of them.
        Self(Box::leak(Box::default()))
    }

    /// Every call, those that free null too.
    pub fn all_calls(self) -> Vec<Call> {
        self.0.lock().unwrap().calls.clone()
    }

    /// Every call that was about a block.
    pub fn calls(self) -> Vec<Call> {
        self.all_calls().into_iter().filter(|call| *call != Call::FreeNull).collect()
    }

    /// The sizes of all blocks, in the order of allocation.
    pub fn sizes(self) -> Vec<usize> {
        let size = |call: &Call| match *call {
            Call::Malloc(size) | Call::Calloc(size) | Call::Aligned(_, size) => Some(size),
            _ => None,
        };
        self.0.lock().unwrap().calls.iter().filter_map(size).collect()
    }
    pub fn range(self) -> (usize, usize) {
        let sizes = self.sizes();
        (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap())
    }

    /// The most blocks that were live at once. Asserts that none is left.
    pub fn most_live(self) -> usize {
        let seen = self.0.lock().unwrap();
        assert_eq!(seen.live.len(), 0, "blocks were not freed");
        seen.most_live
    }

    fn given(self, block: *mut u8, call: Call) -> *mut u8 {
        let mut seen = self.0.lock().unwrap();
        let number = seen.next;
        seen.live.insert(block.addr(), number);
        seen.most_live = seen.most_live.max(seen.live.len());
        seen.next += 1;
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
        if block.is_null() {
            return self.malloc(size);
        }
        let mut seen = self.0.lock().unwrap();
        seen.calls.push(Call::Realloc(size));
        let number = seen.live.remove(&block.addr()).unwrap();
        // SAFETY: the caller keeps realloc's contract.
        let moved = unsafe { Libc.realloc(block, size) };
        seen.live.insert(moved.addr(), number);
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
        let number = seen.live.remove(&block.addr()).unwrap();
        // SAFETY: the block is live, and calloc or the workload has written its first byte.
        seen.calls.push(Call::Free(number, unsafe { block.read() }));
        // SAFETY: the caller keeps free's contract.
        unsafe { Libc.free(block) }
    }
}

/// What a workload asks for under these numbers, and what it returns.
pub fn recorded<R>(run: impl Fn(Recorder, &Params) -> R, words: &str) -> (Recorder, R) {
    let recorder = Recorder::new();
    let result = run(recorder, &Params::of(words));
    (recorder, result)
}

/// Asserts that a workload does the same under the same seed, and something else under another.
pub fn follows_its_seed<R>(run: impl Fn(Recorder, &Params) -> R, words: &str) {
    let of = |seed| recorded(&run, &format!("{words} seed={seed}")).0.all_calls();
    assert!(of(5) == of(5), "two runs of one seed differ");
    assert!(of(5) != of(6), "another seed does the same");
}

/// Asserts that what is asked of `malloc` is within `low` and `high`, comes near both, and has the
/// mean of a uniform draw to a tenth.
pub fn sizes_are_uniform(recorder: Recorder, low: usize, high: usize) {
    let size = |call: &Call| if let Call::Malloc(size) = call { Some(*size) } else { None };
    let sizes: Vec<usize> = recorder.calls().iter().filter_map(size).collect();
    let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
    let tenth = (high - low) / 10;
    assert!(low <= least && least < low + tenth, "{least}");
    assert!(most <= high && high - tenth < most, "{most}");
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((mean / ((low + high) as f64 / 2.0) - 1.0).abs() < 0.1, "{mean}");
}
