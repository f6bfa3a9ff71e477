//! Growing and shrinking, again and again: all objects are allocated, all are freed, in rounds. An
//! allocator that gives memory back at once, or late but in vain, pays for it in every round.
//!
//! Each round has the same sizes in another order, so that an allocator which keeps what the round
//! before needed has all that it needs. The steady state is the second half of the rounds: page
//! faults are read from the kernel's count, and its beginning and end are marked, so that a run
//! which is watched can count the system calls between.

use super::prelude::*;
use super::replace::drain;
use super::sizes::Sizes;
use crate::resident::{Faults, faults};
use crate::syscalls::{Mark, mark};

pub(crate) const WORKLOAD: Workload = workload!("thrash", run);

/// How far the order of the sizes is turned from round to round: a prime, so that it does not
/// repeat soon.
const TURN: usize = 7919;

/// Runs it.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let objects = params.size("objects", 50_000);
    let rounds = params.size("rounds", 40).max(1);
    let sizes = Sizes::Inverse(params.size("low", 64), params.size("high", 4096));
    let sizes = sizes.table(objects, params.get("seed", 1));
    let mut slots = Mapped::<*mut u8>::new(objects);
    let steady = rounds / 2;
    let mut before = 0;
    let start = Instant::now();
    for round in 0..rounds {
        if round == steady {
            before = faults(Faults::OfProcess);
            mark(Mark::Begin);
        }
        for (index, slot) in slots.iter_mut().enumerate() {
            *slot = take(heap, sizes[(index + round * TURN) % objects] as usize);
        }
        drain(heap, &mut slots);
    }
    mark(Mark::End);
    let seconds = start.elapsed().as_secs_f64();
    let counted = (rounds - steady) as f64;
    Outcome::timed((rounds * objects) as u64, seconds)
        .with("faults_per_round", (faults(Faults::OfProcess) - before) as f64 / counted)
        .with("marked_rounds", counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::{Call, recorded};

    #[test]
    fn every_round_has_the_same_sizes_in_another_order_and_frees_them() {
        let words = "objects=300 rounds=4 low=64 high=4096";
        let (heap, outcome) = recorded(run, words);
        assert_eq!((outcome.ops, outcome.metrics["marked_rounds"]), (1200, 2.0));
        let sizes = heap.sizes();
        let sorted = |round: usize| {
            let mut sizes = sizes[round * 300..][..300].to_vec();
            sizes.sort_unstable();
            sizes
        };
        for round in 1..4 {
            assert_eq!(sorted(round), sorted(0));
            assert_ne!(sizes[round * 300..][..300], sizes[..300]);
        }
        let (smallest, largest) = (sorted(0)[0], sorted(0)[299]);
        assert!((64..80).contains(&smallest) && (3500..=4096).contains(&largest));
        let frees = |calls: &[Call]| calls.iter().all(Call::frees);
        for round in heap.calls().chunks(600) {
            assert!(!frees(&round[..300]) && frees(&round[300..]));
        }
    }
}
