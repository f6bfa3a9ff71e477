//! Talloc's random actions: allocate, free a random live block, or give one another size, each as
//! often. Allocations are of 100 to 1000 bytes, new sizes of 100 to 10 000, alignments of 8 and,
//! ever more seldom, up to 2048. An action on nothing, or beyond the budget, is no success.
//! Talloc's program counts successes in a fixed time; this one does fixed actions, each thread
//! `ops` of them on its own blocks.

use super::live::{Live, alignment};
use super::prelude::*;

pub const WORKLOAD: Workload = workload!("random-actions", run);

/// Room for live blocks, far above what a walk with as many steps up as down reaches; an
/// allocation beyond fails.
const MOST: usize = 1 << 16;

/// The sizes of a case.
#[derive(Clone, Copy)]
struct Shape {
    low: usize,
    high: usize,
    regrown: usize,
}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let shape = Shape {
        low: params.size("low", 100),
        high: params.size("high", 1000),
        regrown: params.size("regrown", 10_000),
    };
    let threads = params.size("threads", 1);
    let ops = params.get("ops", 1_000_000);
    let (_, spans) = together(threads, Placed::Anywhere, |index| {
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let mut live = Live::new(heap, params.size("budget", 0), MOST);
        let start = Instant::now();
        let done = act(&mut live, shape, &mut rng, ops);
        ((start, Instant::now()), done)
    });
    let (spans, done): (Vec<_>, Vec<u64>) = spans.into_iter().unzip();
    Outcome::timed(done.iter().sum(), span(&spans))
}

/// Does `ops` actions; returns how many succeeded.
#[inline(never)]
fn act<H: Heap>(live: &mut Live<H>, shape: Shape, rng: &mut Rng, ops: u64) -> u64 {
    let mut done = 0;
    for _ in 0..ops {
        let (kind, size) = rng.slot_and_size(3, shape.low, shape.high);
        let success = match kind {
            0 => live.len() < MOST && live.allocate(size, alignment(rng, 8)),
            _ if live.is_empty() => false,
            1 => {
                live.free(rng.below(live.len()));
                true
            }
            _ => {
                let (index, size) = rng.slot_and_size(live.len(), shape.low, shape.regrown);
                live.resize(index, size)
            }
        };
        done += u64::from(success);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::{Call, follows_its_seed, recorded, sizes_are_uniform};

    #[test]
    fn actions_that_fail_are_no_successes() {
        let ops = |words: &str| run(Libc, &Params::of(words)).ops;
        // Only steps on nothing fail.
        let all = ops("ops=2000 high=200 regrown=300");
        assert!((1800..2000).contains(&all), "{all}");
        let few = ops("ops=2000 low=400ki high=500ki regrown=600ki budget=1mi");
        assert!((100..1500).contains(&few), "{few}");
    }

    #[test]
    fn sizes_and_new_sizes_are_of_their_ranges() {
        follows_its_seed(run, "ops=300");
        let (recorder, _) = recorded(run, "ops=4000");
        let calls = recorder.calls();
        let malloc = calls.iter().filter(|call| matches!(call, Call::Malloc(_))).count();
        assert!((1000..1400).contains(&malloc), "{malloc}");
        sizes_are_uniform(recorder, 100, 1000);
        let regrown = |call: &Call| if let Call::Realloc(size) = call { Some(*size) } else { None };
        let regrown: Vec<usize> = calls.iter().filter_map(regrown).collect();
        assert!(regrown.iter().all(|size| (100..=10_000).contains(size)) && regrown.len() > 900);
        assert!(regrown.iter().any(|size| *size > 9000));
    }
}
