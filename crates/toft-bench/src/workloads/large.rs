//! Large blocks: random replacement where each block has pages of its own, so that the kernel is
//! part of the cost, or is kept out of it.

use super::replace::drain;
use super::{Case, Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::{Better, Metric, Outcome, PEAK};
use crate::params::Params;
use crate::rng::Rng;
use std::time::Instant;

const US: Metric = Metric { key: "us", unit: "us/op", better: Better::Less };

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "large",
    about: "random replacement of large blocks; stride > 0 touches a byte at each multiple of it",
    run: on_any_heap!(run),
    cases: &[
        Case {
            name: "large",
            full: "slots=20 low=256ki high=4mi ops=20k stride=0",
            quick: "ops=4k",
            metrics: &[US, PEAK],
        },
        Case {
            name: "large-touched",
            full: "slots=20 low=256ki high=4mi ops=2k stride=4096",
            quick: "ops=400",
            metrics: &[US, PEAK],
        },
        Case {
            name: "medium-touched",
            full: "slots=200 low=16ki high=256ki ops=20k stride=4096",
            quick: "ops=4k",
            metrics: &[US, PEAK],
        },
    ],
};

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (low, high) = (params.size("low", 256 << 10), params.size("high", 4 << 20));
    let stride = params.size("stride", 0);
    let ops = params.get("ops", 100);
    let mut rng = Rng::new(params.get("seed", 1));
    let mut slots = Mapped::<*mut u8>::new(params.size("slots", 20));
    let start = Instant::now();
    for _ in 0..ops {
        let (index, size) = rng.slot_and_size(slots.len(), low, high);
        // SAFETY: the slot holds a live block or null, and gets another below.
        unsafe { heap.free(slots[index]) };
        let block = take(heap, size);
        if stride > 0 {
            for at in (0..size).step_by(stride) {
                // SAFETY: within the block.
                unsafe { block.add(at).write_volatile(1) };
            }
        }
        slots[index] = block;
    }
    let seconds = start.elapsed().as_secs_f64();
    drain(heap, &mut slots);
    Outcome::timed(ops, seconds).with("us", seconds * 1e6 / ops as f64)
}
