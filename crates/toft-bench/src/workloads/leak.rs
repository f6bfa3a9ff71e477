//! Short-lived threads, one after the other: each allocates, frees half of its blocks and leaves
//! the rest to the thread that started it. What a thread's heap costs to set up, and whether its
//! memory comes back when the thread is gone.

use super::{Case, Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::{Better, Metric, Outcome, PEAK};
use crate::params::Params;
use crate::rng::Rng;
use std::time::Instant;

const PER_THREAD: Metric = Metric { key: "us_per_thread", unit: "us/thread", better: Better::Less };

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "leak",
    about: "short threads that leave blocks behind to be freed by another; an operation is one thread",
    run: on_any_heap!(run),
    cases: &[
        Case {
            name: "leak-over-threads",
            full: "count=10k blocks=500",
            quick: "count=2k",
            metrics: &[PER_THREAD, PEAK],
        },
        Case {
            name: "leak-few-blocks",
            full: "count=20k blocks=4",
            quick: "count=4k",
            metrics: &[PER_THREAD, PEAK],
        },
    ],
};

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
