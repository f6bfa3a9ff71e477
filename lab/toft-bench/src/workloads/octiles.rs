//! Talloc's microbenchmark: what single calls take while the memory fills up and stays under
//! pressure. Blocks of 64 to 65 535 bytes, of alignments of 8 to 2048, until a budget of live bytes
//! is spent. After each attempt, with more than ten blocks live, one time in ten, seven random ones
//! are freed.
//!
//! Each call of the heap is timed by itself, before the block is touched. Of allocations there
//! are the mean, the usual percentiles and the seventh octile, which seven eighths stay below; of
//! allocations before the first refusal, and of frees, the mean. What the budget refuses is no
//! sample. The clock's own cost is in each sample.

use super::live::{Block, Live, alignment};
use super::prelude::*;
use crate::percentiles::Percentiles;

pub const WORKLOAD: Workload = workload!("octiles", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (low, high) = (params.size("low", 64), params.size("high", 65_535));
    let attempts = params.size("ops", 100_000);
    let mut rng = Rng::new(params.get("seed", 1));
    let mut live = Live::new(heap, params.size("budget", 0), attempts);
    let mut allocations = Samples::new(attempts);
    let mut frees = Samples::new(attempts);
    let (mut done, mut before_refusal) = (0, None);

    let clock = Clock::start();
    for _ in 0..attempts {
        let size = low + rng.below(high - low + 1);
        let align = alignment(&mut rng, 8);
        if live.admits(size) {
            let before = clock.now();
            let start = live.ask(size, align);
            allocations.add(clock.now().saturating_sub(before));
            live.keep(Block { start, size, align });
            done += 1;
        } else {
            before_refusal.get_or_insert(done);
        }
        if live.len() > 10 && rng.below(10) == 0 {
            for _ in 0..7 {
                let block = live.take_out(rng.below(live.len()));
                let before = clock.now();
                // SAFETY: the block was live, and is in no table any more.
                unsafe { heap.free(block.start) };
                frees.add(clock.now().saturating_sub(before));
            }
        }
    }
    let (seconds, ns_per_tick) = clock.stop();

    let mut outcome = Outcome::timed(done as u64, seconds);
    let first = before_refusal.unwrap_or(done);
    outcome.set("first_allocations", first as f64);
    // The samples are still in the order of the calls: the first of them come first.
    let first = Percentiles::of(&mut allocations.ticks[..first]).mean();
    let all = Percentiles::of(&mut allocations.ticks[..allocations.len]);
    let shares = [
        ("p50_ns", 5000),
        ("alloc_octile7_ns", 8750),
        ("p99_ns", 9900),
        ("p999_ns", 9990),
        ("p9999_ns", 9999),
    ];
    for (key, share) in shares {
        outcome.set(key, f64::from(all.at(share)) * ns_per_tick);
    }
    outcome.set("first_ns", first * ns_per_tick);
    outcome.set("alloc_ns", all.mean() * ns_per_tick);
    if frees.len > 0 {
        let frees = Percentiles::of(&mut frees.ticks[..frees.len]).mean();
        outcome.set("free_ns", frees * ns_per_tick);
    }
    outcome
}

/// Times in ticks. What does not fit 32 bits, seconds of it, counts as the largest that does.
struct Samples {
    ticks: Mapped<u32>,
    len: usize,
}

impl Samples {
    fn new(most: usize) -> Self {
        Self { ticks: Mapped::new(most), len: 0 }
    }

    #[inline(always)]
    fn add(&mut self, ticks: u64) {
        self.ticks[self.len] = u32::try_from(ticks).unwrap_or(u32::MAX);
        self.len += 1;
    }
}

/// The processor's own clock, which is cheap beside a malloc. How long its ticks are comes out of
/// the whole run.
struct Clock {
    start: Instant,
    ticks: u64,
}

impl Clock {
    fn start() -> Self {
        let mut clock = Self { start: Instant::now(), ticks: 0 };
        clock.ticks = clock.now();
        clock
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    #[allow(clippy::unused_self)]
    fn now(&self) -> u64 {
        let mut core = 0;
        // SAFETY: every processor of this kind since 2008 has the instruction; it writes a local.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut core) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The seconds since the start, and the nanoseconds of a tick.
    fn stop(&self) -> (f64, f64) {
        let ticks = self.now() - self.ticks;
        let seconds = self.start.elapsed().as_secs_f64();
        (seconds, seconds * 1e9 / ticks as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{follows_its_seed, recorded, sizes_are_uniform};
    use super::*;
    use crate::heap::Libc;

    #[test]
    fn with_memory_left_all_allocations_are_first_ones() {
        let outcome = run(Libc, &Params::of("ops=2000 budget=0"));
        let figure = |key: &str| outcome.metrics[key];
        assert_eq!((outcome.ops, figure("first_allocations")), (2000, 2000.0));
        assert_eq!(figure("first_ns"), figure("alloc_ns"));
        let keys = ["p50_ns", "alloc_octile7_ns", "p99_ns", "p999_ns", "p9999_ns"];
        assert!(keys.map(figure).is_sorted(), "{outcome:?}");
    }

    #[test]
    fn a_refusal_of_the_budget_ends_the_first_allocations() {
        let outcome = run(Libc, &Params::of("ops=3000 budget=1mi"));
        let first = outcome.metrics["first_allocations"];
        assert!(first > 10.0 && first < outcome.ops as f64, "{outcome:?}");
        assert!(outcome.ops < 3000, "{outcome:?}");
    }

    #[test]
    fn sizes_are_of_their_range() {
        follows_its_seed(run, "ops=100");
        sizes_are_uniform(recorded(run, "ops=1000").0, 64, 65_535);
        sizes_are_uniform(recorded(run, "ops=1000 low=10 high=100").0, 10, 100);
    }
}
