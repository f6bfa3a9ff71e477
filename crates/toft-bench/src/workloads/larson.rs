//! A server, after Larson and Krishnan: each thread replaces blocks of a table for a while, then
//! ends and leaves the table, with all the blocks in it, to a thread that is started in its place.

use super::replace::{Shape, drain, filled, replace};
use super::{Workload, on_any_heap};
use crate::heap::Heap;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::rng::Rng;
use crate::threads::{Placed, together};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "larson",
    file: include_str!("../../workloads/larson.toml"),
    run: on_any_heap!(run),
};

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let shape = Shape::of(params);
    let threads = params.size("threads", 2);
    let rounds = params.get("rounds", 10);
    let ops = params.get("ops", 10_000);
    let (seconds, tables) = together(threads, Placed::Anywhere, |index| {
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let mut slots = filled(heap, shape, &mut rng);
        for _ in 0..rounds {
            std::thread::scope(|scope| {
                scope.spawn(|| replace(heap, &mut slots, shape, &mut rng, ops));
            });
        }
        slots
    });
    for mut slots in tables {
        drain(heap, &mut slots);
    }
    Outcome::timed(ops * rounds * threads as u64, seconds)
}
