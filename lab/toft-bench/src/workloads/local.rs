//! Threads that each replace their own blocks: what an allocator does when nothing is shared.

use super::prelude::*;
use super::replace::{Shape, drain, filled, replace};

pub const WORKLOAD: Workload = workload!("local", run);

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
