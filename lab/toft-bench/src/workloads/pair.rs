//! One block at a time: allocate, touch, free, always the same size. The shortest path of an
//! allocator, and the hardest on one that marks blocks in memory: every operation depends on the
//! one before it.

use super::prelude::*;

pub const WORKLOAD: Workload = workload!("pair", run);

pub(super) fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let size = params.size("size", 64);
    let ops = params.get("ops", 1_000_000);
    pairs(heap, size, ops / 20);
    let start = Instant::now();
    pairs(heap, size, ops);
    Outcome::timed(ops, start.elapsed().as_secs_f64())
}

#[inline(never)]
fn pairs<H: Heap>(heap: H, size: usize, ops: u64) {
    for _ in 0..ops {
        let block = take(heap, size);
        // SAFETY: allocated in this round and not freed yet.
        unsafe { heap.free(block) };
    }
}
