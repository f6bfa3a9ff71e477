//! Short-lived threads, one after the other: each allocates, frees half of its blocks and leaves
//! the rest to the thread that started it. What a thread's heap costs to set up, and whether its
//! memory comes back when the thread is gone.

use super::prelude::*;

pub const WORKLOAD: Workload = workload!("leak", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let count = params.get("count", 100);
    let mut blocks = Mapped::<*mut u8>::new(params.size("blocks", 500));
    let mut rng = Rng::new(params.get("seed", 1));
    let start = Instant::now();
    for _ in 0..count {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (index, slot) in blocks.iter_mut().enumerate() {
                    *slot = take(heap, 16 + rng.below(500));
                    if index % 2 == 1 {
                        // SAFETY: allocated just now; the slot is skipped below.
                        unsafe { heap.free(*slot) };
                    }
                }
            });
        });
        for block in blocks.iter().step_by(2) {
            // SAFETY: the thread left these alive, and it has ended.
            unsafe { heap.free(*block) };
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    Outcome::timed(count, seconds).with("us_per_thread", seconds * 1e6 / count as f64)
}
