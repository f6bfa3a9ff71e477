//! Many threads that keep a few blocks each, as a server with a thread for each connection has
//! them. What do threads times call sites times sizes cost?
//!
//! Each thread fills its slots with blocks of 16 to 1015 bytes from 16 call sites, and replaces all
//! of them three times. All threads live until the last has done so. Then each frees what it has
//! and exits.

use super::prelude::*;
use super::replace::drain;
use super::sites::sites;
use crate::resident::{resident, resident_at};
use std::sync::Barrier;

pub const WORKLOAD: Workload = workload!("many-threads", run);

const SITES: usize = 16;
/// How often each slot gets a block.
const ROUNDS: usize = 4;
/// Bytes of a thread's stack.
const STACK: usize = 64 << 10;
/// When memory is looked at, after the last thread has exited.
const LEFT_AT: Duration = Duration::from_secs(1);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (threads, keep) = (params.size("threads", 100), params.size("keep", 50));
    let seed = params.get("seed", 1);
    let step = Barrier::new(threads + 1);
    let fresh = resident();
    let start = Instant::now();
    let (alive, seconds) = std::thread::scope(|scope| {
        for thread in 0..threads {
            let step = &step;
            let work = move || {
                let mut slots = Mapped::<*mut u8>::new(keep);
                fill(heap, &mut slots, Rng::new(seed + thread as u64));
                step.wait();
                step.wait();
                drain(heap, &mut slots);
            };
            let builder = std::thread::Builder::new().stack_size(STACK);
            builder.spawn_scoped(scope, work).expect("the system has no more threads");
        }
        step.wait();
        let seen = (resident(), start.elapsed().as_secs_f64());
        step.wait();
        seen
    });
    let mut left = [0];
    resident_at(Instant::now(), &[LEFT_AT], &mut left);
    let above = |now: u64| now.saturating_sub(fresh) as f64 / 1e6;
    Outcome::timed((threads * keep * ROUNDS) as u64, seconds)
        .with("alive_mb", above(alive))
        .with("after_exit_mb", above(left[0]))
}

/// Gives each slot a block, and replaces them.
fn fill<H: Heap>(heap: H, slots: &mut [*mut u8], mut rng: Rng) {
    let sites = sites::<H>();
    for round in 0..ROUNDS {
        for slot in slots.iter_mut() {
            if round > 0 {
                // SAFETY: a block of the round before.
                unsafe { heap.free(*slot) };
            }
            let size = 16 + rng.below(1000);
            *slot = sites[rng.below(SITES)](heap, size);
            // SAFETY: a new block of that size.
            unsafe { slot.write_bytes(1, size) };
        }
    }
}
