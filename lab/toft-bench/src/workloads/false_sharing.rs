//! False sharing, after Berger's two programs: threads write to their own small blocks, for so long
//! that it shows when two of these blocks share a cache line. In `cache-thrash` the allocator
//! itself deals one line out to two threads (active). In `cache-scratch` the main thread allocates
//! the first block of each, side by side. Each thread frees its first block; an allocator that then
//! gives it back to the thread that freed it spreads the line (passive).
//!
//! How much a shared line costs depends on the machine, and on one whose processors are two halves
//! of a core it is little. So each thread also checks, once in a round, whether its block is in
//! the line of another's, and the share of such rounds is a figure too.

use super::local::scaled;
use super::prelude::*;
use super::replace::drain;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The main thread's blocks are spread.
pub const SCRATCH: Workload = workload!("cache-scratch", scratch);

/// Each thread has only its own blocks.
pub const THRASH: Workload = workload!("cache-thrash", thrash);

const LINE: usize = 64;
/// Blocks that fill the holes which the start of the program has left, so that the main thread's
/// come from fresh memory: side by side, if the allocator does that.
const FILLERS: usize = 1000;
/// Words from one thread's cell to the next, so that the cells themselves share nothing.
const APART: usize = 16;

fn scratch<H: Heap>(heap: H, params: &Params) -> Outcome {
    run(heap, params, true)
}

fn thrash<H: Heap>(heap: H, params: &Params) -> Outcome {
    run(heap, params, false)
}

fn run<H: Heap>(heap: H, params: &Params, given: bool) -> Outcome {
    let threads = params.size("threads", 1);
    let rounds = params.get("rounds", 1000);
    let total = rounds * threads as u64;
    // The fillers of the first phase stay, so that what it leaves behind is filled by the second's.
    let mut fillers = Mapped::<*mut u8>::new(2 * FILLERS);
    let mut unused = fillers.chunks_mut(FILLERS);
    let mut shared = 0;
    let outcome = scaled(threads, total, |threads| {
        let fillers = unused.next().expect("there are two phases at most");
        let gifts = given.then(|| gifts(heap, params, fillers, threads));
        let (seconds, rounds) = phase(heap, params, threads, gifts);
        shared = rounds;
        seconds
    });
    drain(heap, &mut fillers);
    let us = outcome.metrics["ns"] / 1e3;
    outcome.with("us", us).with("shared_line_percent", 100.0 * shared as f64 / total as f64)
}

/// A block for each thread, of fresh memory.
fn gifts<H: Heap>(
    heap: H,
    params: &Params,
    fillers: &mut [*mut u8],
    threads: usize,
) -> Mapped<AtomicPtr<u8>> {
    fillers.fill_with(|| take(heap, size(params)));
    let mut gifts = Mapped::<AtomicPtr<u8>>::new(threads);
    for gift in gifts.iter_mut() {
        *gift.get_mut() = take(heap, size(params));
    }
    gifts
}

/// The size of a block, in which there must be room for a word.
fn size(params: &Params) -> usize {
    params.size("size", 8).max(size_of::<u64>())
}

/// The seconds that `threads` threads take, and how many of their rounds shared a line.
fn phase<H: Heap>(
    heap: H,
    params: &Params,
    threads: usize,
    gifts: Option<Mapped<AtomicPtr<u8>>>,
) -> (f64, u64) {
    let size = size(params);
    let (rounds, writes) = (params.get("rounds", 1000), params.get("writes", 200_000));
    let lines = Mapped::<AtomicUsize>::new(threads * APART);
    let (seconds, shared) = together(threads, Placed::Spread, |index| {
        if let Some(gifts) = &gifts {
            // SAFETY: the block that the main thread made for this thread.
            unsafe { heap.free(gifts[index].load(Acquire)) };
        }
        let mut shared = 0;
        for _ in 0..rounds {
            let block = take(heap, size).cast::<u64>();
            lines[index * APART].store(block.addr() / LINE, Release);
            count_up(block, writes);
            shared += u64::from(is_shared(&lines, index));
            lines[index * APART].store(0, Release);
            // SAFETY: allocated above.
            unsafe { heap.free(block.cast()) };
        }
        shared
    });
    (seconds, shared.iter().sum())
}

/// A write round: counts in the block.
fn count_up(block: *mut u64, writes: u64) {
    let word = launder(block.cast()).cast::<u64>();
    // SAFETY: the block is live, as long as a word and aligned as malloc's are, and this thread's.
    let counted = unsafe {
        word.write_volatile(0);
        for _ in 0..writes {
            word.write_volatile(word.read_volatile() + 1);
        }
        word.read_volatile()
    };
    assert_eq!(counted, writes, "two threads have one block");
}

/// Whether the line of a thread is the line of another.
fn is_shared(lines: &[AtomicUsize], index: usize) -> bool {
    let mine = lines[index * APART].load(Relaxed);
    lines
        .iter()
        .step_by(APART)
        .enumerate()
        .any(|(other, line)| other != index && line.load(Acquire) == mine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::Recorder;

    #[test]
    fn a_line_is_shared_when_another_thread_is_in_it() {
        let lines = Mapped::<AtomicUsize>::new(3 * APART);
        for (index, line) in [7, 8, 7].into_iter().enumerate() {
            lines[index * APART].store(line, Relaxed);
        }
        assert_eq!([0, 1, 2].map(|index| is_shared(&lines, index)), [true, false, true]);
    }

    #[test]
    fn blocks_are_as_large_as_they_should_and_only_one_of_the_two_gives_any_away() {
        let words = ["threads=3", "rounds=10", "writes=10", "size=24"];
        let params = Params::parse(words).unwrap();
        let heap = Recorder::new();
        let _ = scratch(heap, &params);
        assert_eq!(heap.range(), (24, 24));
        assert!(heap.most_live() >= 2 * FILLERS + 3, "{}", heap.most_live());
        let heap = Recorder::new();
        let _ = thrash(heap, &params);
        assert!(heap.most_live() <= 3, "{}", heap.most_live());
    }

    /// An allocator that gives neighbouring words to any thread: the worst there is.
    #[derive(Clone, Copy)]
    struct SideBySide;
    static WORDS: [AtomicUsize; 1 << 12] = [const { AtomicUsize::new(0) }; 1 << 12];
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    impl Heap for SideBySide {
        fn malloc(self, _: usize) -> *mut u8 {
            WORDS[NEXT.fetch_add(1, Relaxed) % WORDS.len()].as_ptr().cast()
        }
        unsafe fn free(self, _: *mut u8) {}
    }

    #[test]
    fn an_allocator_that_shares_lines_is_found_out_and_one_thread_shares_with_nobody() {
        let numbers = ["threads=2", "rounds=200", "writes=100k"];
        let params = Params::parse(numbers).unwrap();
        let shared = thrash(SideBySide, &params).metrics["shared_line_percent"];
        assert!(shared > 0.0, "{shared}");
        let alone = Params::of("threads=1 rounds=50 writes=10");
        assert_eq!(scratch(Libc, &alone).metrics["shared_line_percent"], 0.0);
    }
}
