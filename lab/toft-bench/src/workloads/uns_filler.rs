//! The filler of the unsorted list, after the experiment with glibc's small bins. A round fills
//! the list of freed chunks that glibc has not sorted yet with small ones of every size, then asks
//! for sizes that no small chunk serves, so that glibc walks the list and sorts it. An allocator
//! that takes freed small blocks straight to their place has nothing to walk.
//!
//! Of each of the small sizes `cache + 2 * filler + 1` blocks are allocated. When all are there, of
//! each size `cache` blocks are freed, which fills a thread's cache of that size; then every second
//! of the others, whose neighbours stay alive so that nothing is merged.

use super::prelude::*;

pub(crate) const WORKLOAD: Workload = workload!("uns-filler", run);

/// glibc's chunks that are small, but too large for its fast bins: 144 to 1008 bytes.
const CHUNKS: usize = (1008 - 144) / 16 + 1;

/// What a program can use of chunk size number `class`: all but the header of 8 bytes.
fn size(class: usize) -> usize {
    144 + 16 * class - 8
}

/// A size beyond the small ones; another each time, so that no cache of one size serves it.
fn missing(turn: usize) -> usize {
    1100 + 16 * (turn % 50)
}

/// How a round is made up.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Blocks of each size that a cache of a thread takes.
    cache: usize,
    /// Blocks of each size that are freed beyond that.
    filler: usize,
    /// Requests that no small chunk serves.
    misses: usize,
}

impl Round {
    /// Blocks of each size.
    fn of_each(self) -> usize {
        self.cache + 2 * self.filler + 1
    }

    /// Pairs of malloc and free.
    fn pairs(self) -> usize {
        CHUNKS * self.of_each() + self.misses
    }
}

/// Fills the list of chunks that are not sorted.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let round = Round {
        cache: params.size("cache", 7),
        filler: params.size("filler", 16),
        misses: params.size("misses", 8),
    };
    assert!(round.misses > 0, "misses=0: nothing would look at the list");
    let mut blocks = Mapped::<*mut u8>::new(round.pairs());
    let rounds = params.size("ops", 10_000).div_ceil(round.pairs());
    repeat(heap, &mut blocks, round, 1);
    let start = Instant::now();
    repeat(heap, &mut blocks, round, rounds);
    let seconds = start.elapsed().as_secs_f64();
    Outcome::timed((rounds * round.pairs()) as u64, seconds)
}

#[inline(never)]
fn repeat<H: Heap>(heap: H, blocks: &mut [*mut u8], round: Round, rounds: usize) {
    for turn in 0..rounds {
        let (small, large) = blocks.split_at_mut(CHUNKS * round.of_each());
        for (class, blocks) in small.chunks_mut(round.of_each()).enumerate() {
            for block in blocks {
                *block = take(heap, size(class));
            }
        }
        // Only now: a request in between would sort what is in the list.
        for blocks in small.chunks(round.of_each()) {
            let (cached, others) = blocks.split_at(round.cache);
            for block in cached.iter().chain(others.iter().skip(1).step_by(2)) {
                // SAFETY: allocated in this round; the end of the round leaves these out.
                unsafe { heap.free(*block) };
            }
        }
        for (index, block) in large.iter_mut().enumerate() {
            *block = take(heap, missing(turn * round.misses + index));
        }
        for blocks in small.chunks(round.of_each()) {
            for block in blocks[round.cache..].iter().step_by(2) {
                // SAFETY: these are the blocks between those that are freed above.
                unsafe { heap.free(*block) };
            }
        }
        for block in large {
            // SAFETY: allocated in this round and not freed yet.
            unsafe { heap.free(*block) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, Recorder};
    use super::*;

    #[test]
    fn the_sizes_are_those_of_small_chunks_and_misses_are_beyond_them() {
        assert_eq!((size(0), size(CHUNKS - 1)), (136, 1000));
        assert!((0..200).all(|turn| missing(turn) > 1032));
        assert_ne!(missing(0), missing(1));
    }

    #[test]
    fn what_fills_the_list_lies_between_live_blocks() {
        let recorder = Recorder::new();
        let mut blocks = Mapped::<*mut u8>::new(CHUNKS * 8 + 2);
        repeat(recorder, &mut blocks, Round { cache: 3, filler: 2, misses: 2 }, 1);
        let calls = recorder.calls();
        let missed = calls.iter().position(|call| *call == Call::Malloc(missing(0))).unwrap();
        assert!(calls[..CHUNKS * 8].iter().all(|call| matches!(call, Call::Malloc(_))));
        let freed: Vec<usize> = calls[..missed]
            .iter()
            .filter_map(|call| if let Call::Free(number, _) = call { Some(*number) } else { None })
            .collect();
        // Of the eight of each size: the first three into the cache, then two with live ones
        // around.
        let expected = (0..CHUNKS).flat_map(|class| [0, 1, 2, 4, 6].map(|at| class * 8 + at));
        assert!(freed.iter().copied().eq(expected), "{freed:?}");
        assert_eq!(calls[missed + 1], Call::Malloc(missing(1)));
    }
}
