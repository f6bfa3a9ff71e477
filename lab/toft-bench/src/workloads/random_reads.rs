//! Random reads among many live blocks of one size: what an allocator's layout costs the program.
//!
//! The blocks come from several call sites in turn. Each block holds the address of the next one,
//! in a random order, and all of them form one circle. So each read waits for the one before, and
//! takes as long as the caches and the page tables need to find a block.

use super::prelude::*;
use super::replace::drain;
use crate::outcome::{megabytes, status_kib};
use crate::thunks::Thunks;

pub const WORKLOAD: Workload = workload!("random-reads", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (reads, sites) = (params.get("ops", 6_000_000), params.size("sites", 64));
    let size = params.size("size", 48).max(size_of::<*mut u8>());
    let code = Thunks::new(sites, heap.entry());
    let mut blocks = Mapped::<*mut u8>::new(params.size("blocks", 1_000_000));
    for (index, slot) in blocks.iter_mut().enumerate() {
        // SAFETY: `entry` is a function of a size and of this heap.
        *slot = touched(unsafe { code.call(index % sites, size, &raw const heap) }, size);
    }
    shuffle(&mut blocks, &mut Rng::new(params.get("seed", 1)));
    let start = chain(&blocks);
    let warm = follow(start, blocks.len() as u64);
    let tables = megabytes(status_kib("self", "VmPTE"));
    let begin = Instant::now();
    let end = follow(warm, reads);
    let seconds = begin.elapsed().as_secs_f64();
    assert!(!end.is_null(), "the circle is broken");
    drain(heap, &mut blocks);
    Outcome::timed(reads, seconds).with("tables_mb", tables)
}

/// Puts the blocks into a random order (Fisher and Yates).
fn shuffle(blocks: &mut [*mut u8], rng: &mut Rng) {
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, rng.below(last + 1));
    }
}

/// Writes the address of the next block into each block, and that of the first into the last.
fn chain(blocks: &[*mut u8]) -> *mut u8 {
    let next = blocks.iter().skip(1).chain(blocks.first());
    for (block, next) in blocks.iter().zip(next) {
        // SAFETY: each block is live, and large and aligned enough for a pointer.
        unsafe { block.cast::<*mut u8>().write(*next) };
    }
    blocks[0]
}

/// Follows the chain for a number of reads; returns the block that it reaches.
fn follow(start: *mut u8, reads: u64) -> *mut u8 {
    let mut block = start;
    for _ in 0..reads {
        // SAFETY: `chain` wrote the address of a live block into each block.
        block = launder(unsafe { block.cast::<*mut u8>().read() });
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::recorded;
    use std::collections::BTreeSet;

    #[test]
    fn the_reads_pass_every_block_once_before_they_return() {
        let mut words = [[0usize; 2]; 1000];
        let mut blocks: Vec<*mut u8> =
            words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        let in_order = blocks.clone();
        shuffle(&mut blocks, &mut Rng::new(1));
        assert_ne!(blocks, in_order);
        let start = chain(&blocks);
        let passed: BTreeSet<_> = (0..1000).map(|reads| follow(start, reads)).collect();
        assert_eq!(passed, in_order.into_iter().collect());
        assert_eq!(follow(start, 1000), start);
    }

    #[test]
    fn all_blocks_are_live_while_they_are_read() {
        let (heap, outcome) = recorded(run, "blocks=300 size=48 sites=7 ops=1000");
        assert_eq!(outcome.ops, 1000);
        assert_eq!(heap.sizes(), [48; 300]);
        assert!(outcome.metrics["tables_mb"] > 0.0);
    }
}
