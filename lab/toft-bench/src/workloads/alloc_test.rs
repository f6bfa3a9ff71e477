//! A random block of many is replaced, and every byte of it used: written when it is new, looked at
//! before it goes. Sizes follow a power law up to a power of two, so that each class of sizes is
//! hit as often as the next. The cost of a block's place in memory is part of the time, that of its
//! first page fault too.

use super::prelude::*;
use super::sizes::{Ring, Sizes};

pub const WORKLOAD: Workload = workload!("alloc-test", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let ops = params.get("ops", 100_000);
    let (seconds, _) = prepared(
        threads,
        Placed::Spread,
        |index| Table::new(heap, params, index),
        |_, mut table| {
            for _ in 0..ops {
                table.replace();
            }
            table.empty();
        },
    );
    Outcome::timed(ops * threads as u64, seconds)
}

struct Table<H> {
    heap: H,
    rng: Rng,
    sizes: Ring,
    blocks: Mapped<*mut u8>,
    lengths: Mapped<u32>,
}

impl<H: Heap> Table<H> {
    fn new(heap: H, params: &Params, index: usize) -> Self {
        let slots = params.size("slots", 10_000);
        let mut rng = Rng::new(params.get("seed", 1) + index as u64);
        let sizes = Sizes::Inverse(1, 1 << params.get("exponent", 10)).ring(rng.next_u64());
        let (blocks, lengths) = (Mapped::new(slots), Mapped::new(slots));
        Self { heap, rng, sizes, blocks, lengths }
    }

    fn replace(&mut self) {
        let index = self.rng.below(self.blocks.len());
        self.retire(index);
        let size = self.sizes.draw();
        let block = take(self.heap, size);
        // SAFETY: the block is live and that long.
        unsafe { block.write_bytes(mark(index), size) };
        self.blocks[index] = block;
        self.lengths[index] = size as u32;
    }

    fn retire(&mut self, index: usize) {
        let block = std::mem::replace(&mut self.blocks[index], std::ptr::null_mut());
        if block.is_null() {
            return;
        }
        // SAFETY: the slot held a live block of that length, all of it written.
        let bytes = unsafe { std::slice::from_raw_parts(block, self.lengths[index] as usize) };
        let sum = bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        assert_eq!(sum, bytes.len() as u64 * u64::from(mark(index)), "a block was overwritten");
        // SAFETY: as above, and the slot is empty now.
        unsafe { self.heap.free(block) };
    }

    fn empty(&mut self) {
        for index in 0..self.blocks.len() {
            self.retire(index);
        }
    }
}

/// What is written into the block of a slot.
fn mark(index: usize) -> u8 {
    (index % 251) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::Recorder;

    fn table(words: &[&str]) -> Table<Libc> {
        Table::new(Libc, &Params::parse(words.iter().copied()).unwrap(), 0)
    }

    #[test]
    fn sizes_reach_the_power_that_is_asked_for() {
        for exponent in [4, 12] {
            let mut table = table(&[&format!("exponent={exponent}")]);
            for _ in 0..5000 {
                table.replace();
            }
            let largest = *table.lengths.iter().max().unwrap();
            assert!((1 << exponent) - (1 << exponent) / 8 <= largest, "{largest}");
            assert!(largest <= 1 << exponent, "{largest}");
            table.empty();
        }
    }

    #[test]
    fn there_are_as_many_blocks_as_slots() {
        let heap = Recorder::new();
        let words = ["threads=1", "ops=5k", "slots=80"];
        let _ = run(heap, &Params::parse(words).unwrap());
        assert_eq!(heap.most_live(), 80);
    }

    #[test]
    #[should_panic(expected = "a block was overwritten")]
    fn a_block_that_was_overwritten_is_noticed() {
        let mut table = table(&["slots=1"]);
        table.replace();
        // SAFETY: every block has a first byte.
        unsafe { table.blocks[0].write(0) };
        table.empty();
    }
}
