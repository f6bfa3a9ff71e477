//! The driver of ar_malloc's measurements. Each thread draws one of its slots at random: an empty
//! one gets a block, the block of a full one is freed. So half of the calls are of each kind and
//! half of the slots are full. The work is fixed, `ops` calls of all threads together, and the
//! result is the time it takes. Three distributions of sizes: uniform, inverse square, and as a
//! program asked for them. The original does not touch its blocks: `touch=0`.

use super::prelude::*;
use super::replace::drain;
use super::sizes::Sizes;

pub const WORKLOAD: Workload = workload!("ar-malloc", run);

/// Draws of a size, in a ring.
const SIZE_DRAWS: usize = 1 << 16;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let each = params.get("ops", 1_000_000).div_ceil(threads as u64);
    let sizes = Sizes::of(params).table(SIZE_DRAWS, params.get("seed", 1));
    let total = each * threads as u64;
    if threads == 1 || params.get("alone", 1) == 0 {
        return phase(heap, params, &sizes, threads, each).outcome(total);
    }
    // What one thread does is measured right before, and how far apart the processors are is
    // written down: see `local`. Not with `alone=0`, for who counts what the allocator does.
    let link = link_ns();
    let alone = each as f64 / phase(heap, params, &sizes, 1, each).seconds;
    let spent = phase(heap, params, &sizes, threads, each);
    spent.outcome(total).with("scaling", total as f64 / spent.seconds / alone).with("link_ns", link)
}

/// What a phase has cost.
struct Spent {
    /// From the first thread's first call to the last one's last.
    seconds: f64,
    /// Processor time of all threads between their first calls and their last.
    busy: f64,
}

impl Spent {
    fn outcome(&self, ops: u64) -> Outcome {
        Outcome::timed(ops, self.seconds).with("busy_ns", self.busy * 1e9 / ops as f64)
    }
}

/// What `threads` threads spend on `ops` calls each.
fn phase<H: Heap>(heap: H, params: &Params, sizes: &[u32], threads: usize, ops: u64) -> Spent {
    let slots = params.size("slots", 2000);
    let work: fn(H, &mut Worker, &[u32], u64) =
        if params.get("touch", 1) == 0 { flip::<H, false> } else { flip::<H, true> };
    // All have filled their slots before the first is timed.
    let fill = |index| {
        let mut worker = Worker {
            blocks: Mapped::new(slots),
            rng: Rng::new(params.get("seed", 1) + 1 + index as u64),
            // Each thread begins elsewhere in the ring.
            next: index * sizes.len() / threads,
        };
        work(heap, &mut worker, sizes, 2 * slots as u64);
        worker
    };
    let (_, spans) = prepared(threads, Placed::Spread, fill, |_, mut worker| {
        let (start, before) = (Instant::now(), own_seconds());
        work(heap, &mut worker, sizes, ops);
        let (end, after) = (Instant::now(), own_seconds());
        drain(heap, &mut worker.blocks);
        (start, end, after - before)
    });
    let first = spans.iter().map(|span| span.0).min().expect("no threads");
    let last = spans.iter().map(|span| span.1).max().expect("no threads");
    let busy = spans.iter().map(|span| span.2).sum();
    Spent { seconds: (last - first).as_secs_f64(), busy }
}

/// The processor time of the calling thread so far.
fn own_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local of the right type.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every thread has this clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

struct Worker {
    blocks: Mapped<*mut u8>,
    rng: Rng,
    next: usize,
}

#[inline(never)]
fn flip<H: Heap, const TOUCH: bool>(heap: H, worker: &mut Worker, sizes: &[u32], ops: u64) {
    for _ in 0..ops {
        let index = worker.rng.below(worker.blocks.len());
        let slot = &mut worker.blocks[index];
        if slot.is_null() {
            let size = sizes[worker.next] as usize;
            worker.next = if worker.next + 1 == sizes.len() { 0 } else { worker.next + 1 };
            *slot = if TOUCH { take(heap, size) } else { launder(heap.malloc(size)) };
            assert!(!slot.is_null(), "no memory for a block of {size} bytes");
        } else {
            // SAFETY: the slot holds a live block of this thread, and is emptied at once.
            unsafe { heap.free(std::mem::replace(slot, std::ptr::null_mut())) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, follows_its_seed, recorded, sizes_are_uniform};
    use super::*;
    use crate::heap::Libc;

    #[test]
    fn half_of_the_slots_are_full_in_the_long_run() {
        let sizes = Sizes::Uniform(8, 1024).table(100, 1);
        let mut worker = Worker { blocks: Mapped::new(1000), rng: Rng::new(1), next: 0 };
        flip::<_, false>(Libc, &mut worker, &sizes, 20_000);
        let full = worker.blocks.iter().filter(|block| !block.is_null()).count();
        assert!((430..=570).contains(&full), "{full}");
        drain(Libc, &mut worker.blocks);
    }

    #[test]
    fn blocks_are_touched_unless_told_otherwise_and_sizes_are_as_told() {
        for (words, byte, low, high) in
            [("low=8 high=20", 1, 8, 20), ("low=30 high=40 touch=0", 0, 30, 40)]
        {
            let (recorder, _) = recorded(run, &format!("{words} ops=500 slots=20"));
            for call in recorder.calls() {
                match call {
                    Call::Malloc(size) => assert!((low..=high).contains(&size), "{size}"),
                    Call::Free(_, first) => assert_eq!(first, byte),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn what_one_thread_does_alone_is_left_out_when_told() {
        let calls = |words: &str| {
            let (recorder, outcome) = recorded(run, words);
            (recorder.all_calls().len(), outcome.metrics.contains_key("scaling"))
        };
        let (with, scaling) = calls("threads=2 ops=4000 slots=20");
        let (without, no_scaling) = calls("threads=2 ops=4000 slots=20 alone=0");
        assert!(scaling && !no_scaling);
        assert!(without + 1500 < with, "{without} {with}");
    }

    #[test]
    fn threads_are_busy_for_no_longer_than_they_have_processors() {
        let params = Params::of("threads=2 ops=100000 slots=50 alone=0");
        let outcome = run(Libc, &params);
        let (busy, all) = (outcome.metrics["busy_ns"], outcome.metrics["ns"]);
        assert!(busy > 1.0 && busy <= 2.0 * all + 5.0, "{busy} {all}");
    }

    #[test]
    fn the_seed_chooses_slots_and_sizes() {
        follows_its_seed(run, "ops=300 slots=20");
        sizes_are_uniform(recorded(run, "ops=10000 slots=100").0, 8, 1024);
    }
}
