//! The driver of ar_malloc's measurements. Each thread draws one of its slots at random: an empty
//! one gets a block, the block of a full one is freed. So half of the calls are of each kind and
//! half of the slots are full. The work is fixed, `ops` calls of all threads together, and the
//! result is the time it takes. Three distributions of sizes: uniform, inverse square, and as a
//! program asked for them. The original does not touch its blocks: `touch=0`. With `alone=0` one
//! thread does not do the work first, so that an allocator's counts are of this work only.

use super::local::scaled;
use super::prelude::*;
use super::replace::drain;
use super::sizes::Sizes;

pub const WORKLOAD: Workload = workload!("ar-malloc", run);
const SIZE_DRAWS: usize = 1 << 16;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let each = params.get("ops", 1_000_000).div_ceil(threads as u64);
    let sizes = Sizes::of(params).table(SIZE_DRAWS, params.get("seed", 1));
    let total = each * threads as u64;
    let phase = |threads| phase(heap, params, &sizes, threads, each);
    if params.get("alone", 1) == 0 {
        return Outcome::timed(total, phase(threads));
    }
    scaled(threads, total, phase)
}

/// The seconds that `threads` threads take for `ops` calls each.
fn phase<H: Heap>(heap: H, params: &Params, sizes: &[u32], threads: usize, ops: u64) -> f64 {
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
        let start = Instant::now();
        work(heap, &mut worker, sizes, ops);
        let end = Instant::now();
        drain(heap, &mut worker.blocks);
        (start, end)
    });
    span(&spans)
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
    fn one_thread_goes_first_unless_told_otherwise() {
        let calls = |words: &str| recorded(run, words).0.calls().len();
        let (both, one) = (calls("threads=2 ops=4000"), calls("threads=2 ops=4000 alone=0"));
        // The filling of 2 x 2000 slots, and the work; before it the same of one thread.
        assert!(both > one + one / 3, "{both} {one}");
    }

    #[test]
    fn the_seed_chooses_slots_and_sizes() {
        follows_its_seed(run, "ops=300 slots=20");
        sizes_are_uniform(recorded(run, "ops=10000 slots=100").0, 8, 1024);
    }
}
