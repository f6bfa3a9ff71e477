//! After the stress tests that came with SmartHeap: each thread allocates runs of blocks of mixed
//! sizes. Most of a run dies young and together, first-in or last-in first; a few blocks survive
//! until a whole table of survivors is given up at once, one half in each order. In `sh6` a thread
//! frees its own blocks; in `sh8` the young of some runs are freed by the next thread.

use super::circle::Circle;
use super::prelude::*;
use super::replace::drain;

/// Each thread frees its own blocks.
pub const SH6: Workload = workload!("sh6", own);

/// Blocks are freed by other threads, too.
pub const SH8: Workload = workload!("sh8", passed);

const LONGEST_RUN: usize = 500;
const SHORTEST_RUN: usize = 20;
const STEP: usize = 24;
const SURVIVORS: usize = 4096;

fn own<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let prepare = |index| Thread::new(heap, params, index);
    let (seconds, _) = prepared(threads, Placed::Spread, prepare, |_, thread| {
        thread.work(params.size("ops", 100_000), |heap, young| free_all(heap, young.iter()));
    });
    outcome(params, threads, seconds)
}

fn passed<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 2);
    let percent = params.size("passed", 50);
    let link = link_ns();
    let circle = Circle::of(threads);
    let prepare = |index| Thread::new(heap, params, index);
    let (seconds, freed) = prepared(threads, Placed::Spread, prepare, |index, thread| {
        let mut rng = Rng::new(params.get("seed", 1) + (1000 + index) as u64);
        let mut freed = 0;
        thread.work(params.size("ops", 100_000), |heap, young| {
            if rng.below(100) < percent {
                freed += circle.pass(heap, index, young);
            } else {
                free_all(heap, young.iter());
            }
            freed += circle.accept(heap, index);
        });
        freed + circle.finish(heap, index)
    });
    outcome(params, threads, seconds)
        .with("link_ns", link)
        .with("freed_by_others", freed.iter().sum::<u64>() as f64)
}

fn outcome(params: &Params, threads: usize, seconds: f64) -> Outcome {
    Outcome::timed(params.get("ops", 100_000) * threads as u64, seconds)
}

fn free_all<'a, H: Heap>(heap: H, blocks: impl Iterator<Item = &'a *mut u8>) {
    for block in blocks {
        // SAFETY: the tables of a thread hold live blocks, each in one place, and the caller
        // forgets them.
        unsafe { heap.free(*block) };
    }
}

struct Thread<H> {
    heap: H,
    rng: Rng,
    low: usize,
    high: usize,
    young: Mapped<*mut u8>,
    old: Mapped<*mut u8>,
    survivors: usize,
}

impl<H: Heap> Thread<H> {
    fn new(heap: H, params: &Params, index: usize) -> Self {
        Self {
            heap,
            rng: Rng::new(params.get("seed", 1) + index as u64),
            low: params.size("low", 1),
            high: params.size("high", 1000),
            young: Mapped::new(LONGEST_RUN),
            old: Mapped::new(SURVIVORS),
            survivors: 0,
        }
    }

    /// Allocates `ops` blocks; `end` frees the young of a run, in the order in which they come.
    fn work(mut self, ops: usize, mut end: impl FnMut(H, &[*mut u8])) {
        let mut left = ops;
        while left > 0 {
            let run = (SHORTEST_RUN + self.rng.below(LONGEST_RUN - SHORTEST_RUN + 1)).min(left);
            self.allocate(run);
            let dying = self.promote(run);
            if self.rng.below(2) == 0 {
                self.young[..dying].reverse();
            }
            end(self.heap, &self.young[..dying]);
            left -= run;
        }
        drain(self.heap, &mut self.old[..self.survivors]);
    }

    /// A run: sizes in small steps from one that is drawn, round and round.
    fn allocate(&mut self, run: usize) {
        let span = self.high - self.low + 1;
        let mut offset = self.rng.below(span);
        for slot in &mut self.young[..run] {
            *slot = take(self.heap, self.low + offset);
            offset = (offset + STEP) % span;
        }
    }

    /// Every eighth block of a run survives; the others move together. Returns their number.
    fn promote(&mut self, run: usize) -> usize {
        let mut dying = 0;
        for at in 0..run {
            let block = self.young[at];
            if at % 8 == 7 {
                self.old[self.survivors] = block;
                self.survivors += 1;
                if self.survivors == SURVIVORS {
                    self.give_up();
                }
            } else {
                self.young[dying] = block;
                dying += 1;
            }
        }
        dying
    }

    /// The survivors die, one half in the order in which they were born and one against it.
    fn give_up(&mut self) {
        let (first, second) = self.old.split_at(SURVIVORS / 2);
        free_all(self.heap, first.iter());
        free_all(self.heap, second.iter().rev());
        self.survivors = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::Recorder;

    fn freed_by_others(numbers: &str) -> f64 {
        let params = Params::of(numbers);
        passed(Libc, &params).metrics["freed_by_others"]
    }

    #[test]
    fn the_share_that_is_passed_is_the_share_that_others_free() {
        assert_eq!(freed_by_others("threads=2 ops=20k passed=0"), 0.0);
        // Seven of eight die young, and all of them are passed.
        let all = freed_by_others("threads=2 ops=20k passed=100");
        assert!((35_000.0..36_000.0).contains(&all), "{all}");
        let half = freed_by_others("threads=2 ops=20k passed=50");
        assert!((10_000.0..26_000.0).contains(&half), "{half}");
    }

    #[test]
    fn sizes_are_those_that_were_asked_for_and_survivors_are_given_up_when_the_table_is_full() {
        let heap = Recorder::new();
        let words = ["threads=1", "ops=100k", "low=30", "high=100"];
        let _ = own(heap, &Params::parse(words).unwrap());
        assert_eq!(heap.range(), (30, 100));
        let most = heap.most_live();
        assert!((SURVIVORS..SURVIVORS + LONGEST_RUN).contains(&most), "{most}");
    }

    #[test]
    fn one_of_eight_survives_its_run() {
        let params = Params::default();
        let mut thread = Thread::new(Libc, &params, 0);
        thread.allocate(100);
        assert_eq!((thread.promote(100), thread.survivors), (88, 12));
        free_all(Libc, thread.young[..88].iter());
        drain(Libc, &mut thread.old);
    }
}
