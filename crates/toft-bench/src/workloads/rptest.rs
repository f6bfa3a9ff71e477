//! After rpmalloc's own benchmark: each thread replaces blocks of a table, their sizes falling off
//! along a line or exponentially. One of so many that are replaced is freed by the next thread
//! instead, and now and then a thread frees all that it has and starts again.

use super::circle::Circle;
use super::replace::drain;
use super::sizes::{Ring, Sizes};
use super::{Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::rng::Rng;
use crate::threads::{Placed, link_ns, prepared};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "rptest",
    file: include_str!("../../workloads/rptest.toml"),
    run: on_any_heap!(run),
};

/// Blocks that are handed over at a time.
const BATCH: usize = 64;

#[derive(Clone, Copy, Default)]
struct Tally {
    bytes: u64,
    freed_by_others: u64,
    drains: u64,
}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 2);
    let link = link_ns();
    let circle = Circle::of(threads);
    let (seconds, tallies) = prepared(
        threads,
        Placed::Spread,
        |index| Thread::new(params, index),
        |index, thread| thread.work(heap, params, &circle, index),
    );
    let ops = params.get("ops", 100_000) * threads as u64;
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
    Outcome::timed(ops, seconds)
        .with("link_ns", link)
        .with("mean_bytes", sum(|tally| tally.bytes) / ops as f64)
        .with("freed_by_others", sum(|tally| tally.freed_by_others))
        .with("drains", sum(|tally| tally.drains))
}

struct Thread {
    rng: Rng,
    sizes: Ring,
    slots: Mapped<*mut u8>,
    leaving: Mapped<*mut u8>,
}

impl Thread {
    fn new(params: &Params, index: usize) -> Self {
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let (low, high) = (params.size("low", 16), params.size("high", 8000));
        let linear = params.get("law", 0) == 0;
        let sizes = if linear { Sizes::Linear(low, high) } else { Sizes::Exponential(low, high) };
        let sizes = sizes.ring(rng.next_u64());
        let slots = Mapped::new(params.size("slots", 5000));
        Self { rng, sizes, slots, leaving: Mapped::new(BATCH) }
    }

    fn work<H: Heap>(self, heap: H, params: &Params, circle: &Circle, index: usize) -> Tally {
        let Self { mut rng, mut sizes, mut slots, mut leaving } = self;
        let cross = params.size("cross", 4);
        let drain_every = params.get("drain_every", 50_000);
        let mut leaving_len = 0;
        let mut tally = Tally::default();
        for op in 1..=params.get("ops", 100_000) {
            // Two draws in one: where, and who frees what was there.
            let draw = rng.below(slots.len() * cross.max(1));
            let slot = &mut slots[draw / cross.max(1)];
            if cross > 0 && draw % cross == 0 && !slot.is_null() {
                leaving[leaving_len] = *slot;
                leaving_len += 1;
            } else {
                // SAFETY: the slot holds a live block or null, and gets another below.
                unsafe { heap.free(*slot) };
            }
            let size = sizes.draw();
            *slot = take(heap, size);
            tally.bytes += size as u64;
            if leaving_len == BATCH {
                tally.freed_by_others += circle.pass(heap, index, &leaving);
                tally.freed_by_others += circle.accept(heap, index);
                leaving_len = 0;
            }
            if op.is_multiple_of(drain_every) {
                drain(heap, &mut slots);
                tally.drains += 1;
            }
        }
        drain(heap, &mut slots);
        tally.freed_by_others += circle.pass(heap, index, &leaving[..leaving_len]);
        tally.freed_by_others += circle.finish(heap, index);
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::watch::Watch;

    fn figures(numbers: &str) -> [f64; 3] {
        let params = Params::parse(numbers.split(' ')).unwrap();
        let outcome = run(Libc, &params);
        ["mean_bytes", "freed_by_others", "drains"].map(|key| outcome.metrics[key])
    }

    #[test]
    fn sizes_and_slots_are_those_that_were_asked_for() {
        let heap = Watch::new();
        let words = ["threads=1", "ops=5k", "slots=70", "low=100", "high=120", "cross=0"];
        let _ = run(heap, &Params::parse(words).unwrap());
        assert_eq!((heap.sizes(), heap.most()), ((100, 120), 70));
    }

    #[test]
    fn every_number_of_a_case_changes_what_is_done() {
        let base = "threads=2 ops=20k slots=200 low=16 high=8000";
        let [linear, passed, drains] = figures(&format!("{base} law=0 cross=4 drain_every=5k"));
        assert!((2500.0..2900.0).contains(&linear), "{linear}");
        assert!((8_500.0..11_500.0).contains(&passed), "{passed}");
        assert_eq!(drains, 8.0);
        let [exponential, passed, drains] =
            figures(&format!("{base} law=1 cross=0 drain_every=20k"));
        assert!((900.0..1150.0).contains(&exponential), "{exponential}");
        assert_eq!((passed, drains), (0.0, 2.0));
    }
}
