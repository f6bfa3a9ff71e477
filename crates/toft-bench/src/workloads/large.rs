//! Large blocks: random replacement where each block has pages of its own, so that the kernel is
//! part of the cost, or is kept out of it.

use super::replace::drain;
use super::{Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::rng::Rng;
use std::time::Instant;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "large",
    file: include_str!("../../workloads/large.toml"),
    run: on_any_heap!(run),
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
