//! One thread allocates, another frees: pairs of threads, each with its own ring between them, so
//! that the queue costs little and the allocator is what is measured.

use super::circle::{CELLS as RING, Ring};
use super::prelude::*;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub const WORKLOAD: Workload = workload!("handover", run);

const SIZES: [usize; 10] = [16, 24, 32, 48, 64, 96, 128, 256, 512, 1024];

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let pairs = (params.size("threads", 2) / 2).max(1);
    let ops = params.size("ops", 1_000_000);
    let batch = params.size("batch", 1).clamp(1, RING / 2);
    let link = link_ns();
    let rings: Vec<Ring> = (0..pairs).map(|_| Ring::new()).collect();
    let (seconds, freed) = together(pairs * 2, Placed::Crosswise, |index| {
        let ring = &rings[index / 2];
        if index % 2 == 0 {
            let mut rng = Rng::new(params.get("seed", 1) + index as u64);
            produce(heap, ring, &mut rng, ops, batch);
            0
        } else {
            consume(heap, ring, ops, batch)
        }
    });
    Outcome::timed(freed.iter().sum::<usize>() as u64, seconds).with("link_ns", link)
}

fn produce<H: Heap>(heap: H, ring: &Ring, rng: &mut Rng, ops: usize, batch: usize) {
    let (mut head, mut seen_tail) = (0, 0);
    while head < ops {
        let count = batch.min(ops - head);
        let mut patience = Patience::default();
        while head + count - seen_tail > RING {
            seen_tail = ring.tail.0.load(Acquire);
            if head + count - seen_tail > RING {
                patience.wait();
            }
        }
        for at in head..head + count {
            let block = take(heap, SIZES[rng.below(SIZES.len())]);
            ring.cells[at % RING].store(block, Relaxed);
        }
        head += count;
        ring.head.0.store(head, Release);
    }
}

fn consume<H: Heap>(heap: H, ring: &Ring, ops: usize, batch: usize) -> usize {
    let (mut tail, mut seen_head) = (0, 0);
    while tail < ops {
        let count = batch.min(ops - tail);
        let mut patience = Patience::default();
        while seen_head < tail + count {
            seen_head = ring.head.0.load(Acquire);
            if seen_head < tail + count {
                patience.wait();
            }
        }
        for at in tail..tail + count {
            let block = ring.cells[at % RING].load(Relaxed);
            // SAFETY: the producer published this block with the release of `head`, and each cell
            // is read once before it is written again.
            unsafe { heap.free(block) };
        }
        tail += count;
        ring.tail.0.store(tail, Release);
    }
    tail
}
