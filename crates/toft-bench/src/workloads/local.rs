//! Threads that each replace blocks of their own: what an allocator does when nothing is shared.

use super::replace::{Shape, drain, filled, replace};
use super::{Case, Workload, on_any_heap};
use crate::heap::Heap;
use crate::outcome::{Better, MOPS, Metric, Outcome};
use crate::params::Params;
use crate::rng::Rng;
use crate::threads::{Placed, link_ns, together};
use std::time::Instant;

/// Operations per second with all threads over those of one thread, in the same process.
pub const SCALING: Metric = Metric { key: "scaling", unit: "x one thread", better: Better::More };

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "local",
    about: "threads that each replace their own 1000 blocks; an operation is one replacement",
    run: on_any_heap!(run),
    cases: &[
        Case { name: "local-1", full: "threads=1 ops=10m", quick: "ops=3m", metrics: &[MOPS] },
        Case {
            name: "local-2",
            full: "threads=2 ops=10m",
            quick: "ops=3m",
            metrics: &[MOPS, SCALING],
        },
        Case {
            name: "local-8",
            full: "threads=8 ops=4m",
            quick: "ops=1m",
            metrics: &[MOPS, SCALING],
        },
    ],
};

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let ops = params.get("ops", 1_000_000);
    let total = ops * threads as u64;
    if threads == 1 {
        return Outcome::timed(total, phase(heap, params, 1, ops));
    }
    // A virtual machine's processors are sometimes two halves of one core. So what one thread does
    // is measured right before, and how far apart the processors are is written down.
    let link = link_ns();
    let alone = ops as f64 / phase(heap, params, 1, ops);
    let seconds = phase(heap, params, threads, ops);
    Outcome::timed(total, seconds)
        .with("scaling", total as f64 / seconds / alone)
        .with("link_ns", link)
}

/// The seconds that `threads` threads take for `ops` replacements each.
fn phase<H: Heap>(heap: H, params: &Params, threads: usize, ops: u64) -> f64 {
    let shape = Shape::of(params);
    let (_, spans) = together(threads, Placed::Spread, |index| {
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let mut slots = filled(heap, shape, &mut rng);
        replace(heap, &mut slots, shape, &mut rng, ops / 10);
        let start = Instant::now();
        replace(heap, &mut slots, shape, &mut rng, ops);
        let end = Instant::now();
        drain(heap, &mut slots);
        (start, end)
    });
    let first = spans.iter().map(|span| span.0).min().expect("no threads");
    let last = spans.iter().map(|span| span.1).max().expect("no threads");
    (last - first).as_secs_f64()
}
