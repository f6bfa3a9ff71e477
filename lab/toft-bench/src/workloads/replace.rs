//! Random replacement: a fixed number of live blocks, and in each step one of them, drawn at
//! random, is freed and another allocated in its place.

use super::prelude::*;
use super::sites::{SITES, sites};

pub const WORKLOAD: Workload = workload!("replace", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let shape = Shape::of(params);
    let ops = params.get("ops", 1_000_000);
    let mut rng = Rng::new(params.get("seed", 1));
    let mut slots = filled(heap, shape, &mut rng);
    let one_site = params.size("sites", 1) == 1;
    let sites = sites::<H>();
    let step = |slots: &mut [*mut u8], rng: &mut Rng, ops| {
        if one_site {
            replace(heap, slots, shape, rng, ops, take);
        } else {
            // A size belongs to its site, as in programs, where a site mostly allocates one type.
            let at_its_site = |heap: H, size: usize| sites[(size / 16) % SITES](heap, size);
            replace(heap, slots, shape, rng, ops, at_its_site);
        }
    };
    step(&mut slots, &mut rng, ops / 10);
    let start = Instant::now();
    step(&mut slots, &mut rng, ops);
    let seconds = start.elapsed().as_secs_f64();
    drain(heap, &mut slots);
    Outcome::timed(ops, seconds)
}

/// How many blocks, and the range of their sizes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub slots: usize,
    pub low: usize,
    pub high: usize,
}

impl Shape {
    pub fn of(params: &Params) -> Self {
        Self {
            slots: params.size("slots", 1000),
            low: params.size("low", 16),
            high: params.size("high", 1016),
        }
    }
}

/// A table of live blocks.
pub fn filled<H: Heap>(heap: H, shape: Shape, rng: &mut Rng) -> Mapped<*mut u8> {
    let mut slots = Mapped::new(shape.slots);
    for slot in slots.iter_mut() {
        *slot = take(heap, shape.low + rng.below(shape.high - shape.low + 1));
    }
    slots
}

/// `ops` replacements by blocks that `take` allocates.
#[inline(never)]
pub fn replace<H: Heap>(
    heap: H,
    slots: &mut [*mut u8],
    shape: Shape,
    rng: &mut Rng,
    ops: u64,
    take: impl Fn(H, usize) -> *mut u8,
) {
    for _ in 0..ops {
        let (index, size) = rng.slot_and_size(slots.len(), shape.low, shape.high);
        // SAFETY: the slot holds a live block, which no other code frees.
        unsafe { heap.free(slots[index]) };
        slots[index] = take(heap, size);
    }
}

pub fn drain<H: Heap>(heap: H, slots: &mut [*mut u8]) {
    for slot in slots {
        // SAFETY: the slot holds a live block or null, and is emptied at once.
        unsafe { heap.free(std::mem::replace(slot, std::ptr::null_mut())) };
    }
}
