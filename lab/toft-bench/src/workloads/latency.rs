//! How long single calls of `malloc` take, in btmalloc's steady state: all slots are filled once
//! and emptied; then in each step a slot is drawn, freed when it is live, and a block allocated for
//! it. Only that allocation is timed, each on its own, and the percentiles are of all of them.
//!
//! The clock is `Instant`, which on Linux is the kernel's monotonic clock, read without a system
//! call. The processor's own counter would have to be calibrated, which adds another error. It is
//! not ordered with the code around it unless fences are added, and is another instruction on each
//! kind of processor. It is no finer, since the kernel's clock is made of it. (On some virtual
//! machines it advances in steps of 10 ns; then so do these percentiles, and only the means tell
//! smaller differences.) What two readings cost is part of every sample, and is the same on all
//! peers.
//!
//! With `bursts=N`, N other threads allocate and free bursts of other sizes as long as this lasts,
//! each size only now and then, so that there is always idle memory that is being returned.
//! `every_ns` is then the pace of the steps: it makes a run last as long on every peer.

use super::bursts::Bursts;
use super::prelude::*;
use super::replace::drain;
use crate::percentiles::Percentiles;
use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Release};

pub const WORKLOAD: Workload = workload!("latency", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let ops = params.size("ops", 100_000);
    let seed = params.get("seed", 1);
    let mut samples = Mapped::<u32>::new(threads * ops);
    let mut outcome = Outcome::default();
    let working = AtomicUsize::new(threads);
    let every = Duration::from_nanos(params.get("every_ns", 0));
    let bursts = Bursts::of(params);
    let warm = Barrier::new(threads);
    let (_, measured) = together(threads + bursts.threads, Placed::Spread, |index| {
        if index >= threads {
            return Measured::Bursts(bursts.run(heap, &working));
        }
        let mut samples = Mapped::<u32>::new(ops);
        let mut slots = Mapped::<*mut u8>::new(params.size("slots", 4096));
        let size = params.size("size", 64);
        for slot in slots.iter_mut() {
            *slot = touched(heap.malloc(size), size);
        }
        drain(heap, &mut slots);
        warm.wait();
        let start = Instant::now();
        sample(heap, &mut slots, size, &mut Rng::new(seed + index as u64), &mut samples, every);
        let time = start.elapsed();
        working.fetch_sub(1, Release);
        drain(heap, &mut slots);
        Measured::Samples(samples, time)
    });
    let mut slowest = Duration::ZERO;
    let mut refaults = 0;
    for (index, measured) in measured.iter().enumerate() {
        match measured {
            Measured::Samples(part, time) => {
                samples[index * ops..][..ops].copy_from_slice(part);
                slowest = slowest.max(*time);
            }
            Measured::Bursts(faults) => refaults += faults,
        }
    }
    outcome.ops = samples.len() as u64;
    outcome.set("refaults", refaults as f64);
    outcome.set("seconds", slowest.as_secs_f64());
    let all = Percentiles::of(&mut samples);
    for (key, share) in [("p50_ns", 5000), ("p99_ns", 9900), ("p999_ns", 9990), ("p9999_ns", 9999)]
    {
        outcome.set(key, f64::from(all.at(share)));
    }
    outcome.with("max_ns", f64::from(all.max())).with("mean_ns", all.mean())
}

/// What a thread found.
enum Measured {
    /// How long each call took, and how long all of it.
    Samples(Mapped<u32>, Duration),
    /// Page faults of the bursts.
    Bursts(u64),
}

/// Fills `samples`, one step for each, of which none begins sooner than `every` after the one
/// before ought to have begun.
#[inline(never)]
fn sample<H: Heap>(
    heap: H,
    slots: &mut [*mut u8],
    size: usize,
    rng: &mut Rng,
    samples: &mut [u32],
    every: Duration,
) {
    let mut due = Instant::now();
    for sample in samples {
        if !every.is_zero() {
            due += every;
            while Instant::now() < due {
                spin_loop();
            }
        }
        let index = rng.below(slots.len());
        // SAFETY: the slot holds a live block or null, and is emptied at once.
        unsafe { heap.free(std::mem::replace(&mut slots[index], null_mut())) };
        let start = Instant::now();
        let block = launder(heap.malloc(size));
        let end = Instant::now();
        slots[index] = touched(block, size);
        *sample = nanoseconds(end - start);
    }
}

/// Four seconds are more than a call takes; what is longer counts as that.
fn nanoseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{Libc, Probe};
    use crate::workloads::test_heaps::recorded;

    const KEYS: [&str; 5] = ["p50_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"];

    #[test]
    fn the_percentiles_are_of_all_threads_and_rise() {
        let params = Params::of("threads=2 slots=50 ops=3000");
        let outcome = run(Libc, &params);
        assert_eq!(outcome.ops, 6000);
        let read = KEYS.map(|key| outcome.metrics[key]);
        assert!(read.is_sorted(), "{read:?}");
    }

    #[test]
    fn the_time_of_a_call_is_in_its_sample() {
        let params = Params::of("slots=50 ops=300");
        let outcome = run(Probe::new(3000), &params);
        let read = KEYS.map(|key| outcome.metrics[key]);
        assert!(read.iter().all(|&ns| ns >= 3000.0), "{read:?}");
        let mean = outcome.metrics["mean_ns"];
        assert!((3000.0..=read[4]).contains(&mean), "{mean}");
    }

    #[test]
    fn slots_are_filled_and_emptied_and_then_replaced_at_random() {
        let (heap, _) = recorded(run, "slots=20 size=48 ops=500");
        assert_eq!(heap.sizes(), vec![48; 520]);
        let (mut live, mut most, mut lived) = (0, 0, Vec::new());
        for event in heap.calls() {
            live += if event.frees() { -1 } else { 1 };
            most = most.max(live);
            lived.push(live);
        }
        // 20 came and went, and since then there were never more than that.
        assert_eq!((most, lived[19], lived[39]), (20, 20, 0));
        assert!(lived[40..lived.len() - 20].contains(&20), "{lived:?}");
        // Random slots: some are drawn again before all have been drawn once.
        assert_ne!(lived[59], 20);
    }

    #[test]
    fn a_pace_makes_a_run_last_and_is_in_no_sample() {
        let seconds = |pace: &str| {
            let outcome = run(Libc, &Params::parse(["slots=50", "ops=2000", pace]).unwrap());
            (outcome.metrics["seconds"], outcome.metrics["p50_ns"])
        };
        let (paced, half) = seconds("every_ns=20k");
        assert!(paced >= 0.04 && half < 20_000.0, "{paced} {half}");
        // Whatever else the machine does, it leaves us alone once.
        assert!((0..10).any(|_| seconds("every_ns=0").0 < 0.03));
    }

    #[test]
    fn bursts_last_as_long_as_the_samples_and_are_none_of_them() {
        let words = "slots=20 size=48 ops=500 every_ns=400k bursts=1 burst_bytes=4096 pause_us=100";
        let (heap, outcome) = recorded(run, words);
        assert_eq!(outcome.ops, 500);
        let (own, others): (Vec<usize>, Vec<usize>) =
            heap.sizes().into_iter().partition(|size| *size == 48);
        assert!(own.len() >= 520 && others.len() > 100, "{} {}", own.len(), others.len());
        let events = heap.calls();
        assert_eq!(2 * events.iter().filter(|call| call.frees()).count(), events.len());
    }

    #[test]
    fn what_does_not_fit_is_the_longest_time() {
        assert_eq!(nanoseconds(Duration::from_nanos(77)), 77);
        assert_eq!(nanoseconds(Duration::from_secs(100)), u32::MAX);
    }
}
