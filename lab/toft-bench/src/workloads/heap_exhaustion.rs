//! Talloc's heap exhaustion: allocate blocks of 10 000 to 300 000 bytes until there is no memory,
//! pause, free all of them, and begin again. An allocator that packs its heap badly pauses more
//! often. The score is the successful allocations per second, pauses and all.
//!
//! Nothing is really exhausted on a process's malloc: `budget` is the live bytes that the workload
//! allows itself, and the pauses are the same for every malloc. `efficiency` is the share of the
//! budget that was in use then.

use super::live::{Live, alignment};
use super::prelude::*;

pub const WORKLOAD: Workload = workload!("heap-exhaustion", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (low, high) = (params.size("low", 10_000), params.size("high", 300_000));
    let budget = params.size("budget", 512 << 20);
    assert!(budget > 0, "budget=0: of a process's malloc there is no end");
    let pause = Duration::from_millis(params.get("pause_ms", 3));
    let mut rng = Rng::new(params.get("seed", 1));
    let mut live = Live::new(heap, budget, budget / low + 1);
    let (mut done, mut exhausted, mut in_use) = (0, 0, 0);
    let start = Instant::now();
    for _ in 0..params.get("ops", 100_000) {
        let size = low + rng.below(high - low + 1);
        if live.allocate(size, alignment(&mut rng, 4)) {
            done += 1;
        } else {
            exhausted += 1;
            in_use += live.used();
            std::thread::sleep(pause);
            live.clear();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut outcome = Outcome::timed(done, seconds).with("exhausted", f64::from(exhausted));
    if exhausted > 0 {
        let used = in_use as f64 / f64::from(exhausted);
        outcome.set("efficiency", 100.0 * used / budget as f64);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{follows_its_seed, recorded, sizes_are_uniform};
    use super::*;
    use crate::heap::Libc;

    #[test]
    fn every_refusal_pauses_and_frees_everything() {
        let params = Params::parse("ops=100 low=1000 high=1000 budget=4500 pause_ms=2".split(' '));
        let outcome = run(Libc, &params.unwrap());
        // Four fit, the fifth is refused.
        assert_eq!((outcome.ops, outcome.metrics["exhausted"]), (80, 20.0));
        assert!(outcome.metrics["seconds"] >= 0.04, "{outcome:?}");
        assert!((outcome.metrics["efficiency"] - 100.0 * 4000.0 / 4500.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_are_of_their_range() {
        follows_its_seed(run, "ops=50 budget=4mi pause_ms=0");
        let (recorder, _) = recorded(run, "ops=1000 budget=16mi pause_ms=0");
        sizes_are_uniform(recorder, 10_000, 300_000);
    }
}
