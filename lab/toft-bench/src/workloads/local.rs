//! Threads that each replace their own blocks: what an allocator does when nothing is shared.

use super::prelude::*;
use super::replace::{Shape, drain, filled, replace};

pub const WORKLOAD: Workload = workload!("local", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let ops = params.get("ops", 1_000_000);
    let total = ops * threads as u64;
    scaled(threads, total, |threads| phase(heap, params, threads, ops))
}

/// Runs a phase of `threads` threads that do `total` operations together. Returns the rate
/// relative to that of one thread. The phase returns its seconds.
///
/// A virtual machine's processors are sometimes two halves of one core. So what one thread does is
/// measured right before, and how far apart the processors are is written down.
pub fn scaled(threads: usize, total: u64, mut phase: impl FnMut(usize) -> f64) -> Outcome {
    if threads == 1 {
        return Outcome::timed(total, phase(1));
    }
    let link = link_ns();
    let (alone, seconds) = (phase(1), phase(threads));
    Outcome::timed(total, seconds)
        .with("scaling", threads as f64 * alone / seconds)
        .with("link_ns", link)
}

/// The seconds that `threads` threads take for `ops` replacements each.
fn phase<H: Heap>(heap: H, params: &Params, threads: usize, ops: u64) -> f64 {
    let shape = Shape::of(params);
    let (_, spans) = together(threads, Placed::Spread, |index| {
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let mut slots = filled(heap, shape, &mut rng);
        replace(heap, &mut slots, shape, &mut rng, ops / 10, take);
        let start = Instant::now();
        replace(heap, &mut slots, shape, &mut rng, ops, take);
        let end = Instant::now();
        drain(heap, &mut slots);
        (start, end)
    });
    span(&spans)
}
