//! After glibc's own benchmark of `malloc` in threads: each replaces blocks of its table, the
//! frequency of a size falling with its square, so that most are tiny and a few are not. Theirs runs
//! for a time; this one for a number of rounds, so that every peer does the same.

use super::laws::{Law, Sizes};
use super::replace::drain;
use super::{Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::rng::Rng;
use crate::threads::{Placed, prepared};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "glibc-thread",
    file: include_str!("../../workloads/glibc-thread.toml"),
    run: on_any_heap!(run),
};

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let ops = params.get("ops", 100_000);
    let prepare = |index: usize| {
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let (low, high) = (params.size("low", 4), params.size("high", 32 << 10));
        let sizes = Sizes::new(Law::InverseSquare, low, high, &mut rng);
        (rng, sizes, Mapped::<*mut u8>::new(params.size("slots", 1024)))
    };
    let (seconds, _) =
        prepared(threads, Placed::Spread, prepare, |_, (mut rng, mut sizes, mut slots)| {
            for _ in 0..ops {
                let index = rng.below(slots.len());
                // SAFETY: the slot holds a live block or null, and gets another at once.
                unsafe { heap.free(slots[index]) };
                slots[index] = take(heap, sizes.draw());
            }
            drain(heap, &mut slots);
        });
    Outcome::timed(ops * threads as u64, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::watch::Watch;

    #[test]
    fn sizes_and_slots_are_those_that_were_asked_for() {
        let words = ["threads=1", "ops=5k", "slots=50", "low=100", "high=200"];
        let heap = Watch::new();
        let _ = run(heap, &Params::parse(words).unwrap());
        assert_eq!((heap.sizes(), heap.most()), ((100, 200), 50));
    }
}
