//! Objects that outlive the code that made them: each thread allocates runs of mixed sizes, keeps
//! some, frees some, and swaps some with whatever another thread left in a shared table; in
//! between, all threads end and new ones take over.

use super::{Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::rng::Rng;
use crate::threads::{Placed, together};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "mstress",
    file: include_str!("../../workloads/mstress.toml"),
    run: on_any_heap!(run),
};

const SHARED: usize = 1000;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 2);
    let rounds = params.get("rounds", 2);
    let ops = params.get("ops", 10_000);
    let seed = params.get("seed", 1);
    let shared: Mapped<AtomicPtr<u8>> = Mapped::new(SHARED);
    let (mut seconds, mut allocated) = (0.0, 0);
    for round in 0..rounds {
        let (time, counts) = together(threads, Placed::Anywhere, |index| {
            let rng = Rng::new(seed + round * threads as u64 + index as u64);
            worker(heap, &shared, rng, ops as usize)
        });
        seconds += time;
        allocated += counts.iter().sum::<u64>();
    }
    for cell in shared.iter() {
        // SAFETY: all threads have ended, so the block in the table is nobody else's.
        unsafe { heap.free(cell.swap(null_mut(), AcqRel)) };
    }
    Outcome::timed(allocated, seconds)
}

fn worker<H: Heap>(heap: H, shared: &[AtomicPtr<u8>], mut rng: Rng, ops: usize) -> u64 {
    let mut passing = Mapped::<*mut u8>::new(ops);
    let mut kept = Mapped::<*mut u8>::new(ops / 4 + 1);
    let (mut passing_len, mut kept_len, mut allocated) = (0, 0, 0);
    for _ in 0..ops {
        let draw = rng.below(100);
        if draw < 50 || passing_len == 0 {
            // Small mostly; now and then something larger.
            let high = [64, 64, 256, 256, 256, 1024, 1024, 8192][rng.below(8)];
            passing[passing_len] = take(heap, 16 + rng.below(high));
            passing_len += 1;
            allocated += 1;
        } else if draw < 60 && kept_len < kept.len() {
            passing_len -= 1;
            kept[kept_len] = passing[passing_len];
            kept_len += 1;
        } else if draw < 75 {
            let (mine, theirs) = (rng.below(passing_len), rng.below(shared.len()));
            let other = shared[theirs].swap(passing[mine], AcqRel);
            if other.is_null() {
                passing_len -= 1;
                passing[mine] = passing[passing_len];
            } else {
                passing[mine] = other;
            }
        } else {
            let index = rng.below(passing_len);
            // SAFETY: the block was allocated here or swapped in, and is in no other table.
            unsafe { heap.free(passing[index]) };
            passing_len -= 1;
            passing[index] = passing[passing_len];
        }
    }
    for block in passing[..passing_len].iter().chain(&kept[..kept_len]) {
        // SAFETY: as above; the tables end here.
        unsafe { heap.free(*block) };
    }
    allocated
}
