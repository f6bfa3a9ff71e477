//! Large blocks: random replacement where each block has its own pages, so that the kernel is
//! part of the cost, or is kept out of it. The published benchmark malloc-large allocates the new
//! block first, clears all of it, and frees the old one then.

use super::prelude::*;
use super::replace::drain;
use std::ops::Range;

pub const WORKLOAD: Workload = workload!("large", run);

/// The published benchmark.
pub const MALLOC_LARGE: Workload = workload!("malloc-large", cleared);

/// A vector that grows by `realloc`, by a share of its size, is freed, and grows again.
pub const VECTOR: Workload = workload!("vector", grown);

/// The bytes between two that are written, at most a page.
const PAGE: usize = 4096;

fn grown<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (low, high) = (params.size("low", 1 << 10), params.size("high", 40 << 20));
    let (percent, ops) = (params.size("percent", 25), params.get("ops", 100));
    let start = Instant::now();
    for _ in 0..ops {
        let mut size = low;
        let mut block = take(heap, size);
        touch(block, 0..size, PAGE);
        while size < high {
            let more = size + size * percent / 100;
            // SAFETY: the block is live, and its old address is not used again.
            let grown = unsafe { heap.realloc(block, more) };
            block = touched(grown, more);
            touch(block, size..more, PAGE);
            size = more;
        }
        // SAFETY: it is live.
        unsafe { heap.free(block) };
    }
    let seconds = start.elapsed().as_secs_f64();
    Outcome::timed(ops, seconds).with("us", seconds * 1e6 / ops as f64)
}

/// Writes a byte in each `stride` of a part of a live block.
fn touch(block: *mut u8, part: Range<usize>, stride: usize) {
    for at in part.step_by(stride) {
        // SAFETY: within the block.
        unsafe { block.add(at).write_volatile(1) };
    }
}

fn cleared<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (low, high) = (params.size("low", 5 << 20), params.size("high", 25 << 20));
    let ops = params.get("ops", 100);
    let mut rng = Rng::new(params.get("seed", 42));
    let mut slots = Mapped::<*mut u8>::new(params.size("slots", 20));
    let start = Instant::now();
    for _ in 0..ops {
        let (index, size) = rng.slot_and_size(slots.len(), low, high);
        let block = take(heap, size);
        // SAFETY: the block is live and that long.
        unsafe { block.write_bytes(0, size) };
        let old = std::mem::replace(&mut slots[index], launder(block));
        // SAFETY: the slot held a live block or null, and holds another now.
        unsafe { heap.free(old) };
    }
    // The published program's time includes its end.
    drain(heap, &mut slots);
    let seconds = start.elapsed().as_secs_f64();
    Outcome::timed(ops, seconds).with("us", seconds * 1e6 / ops as f64)
}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (low, high) = (params.size("low", 256 << 10), params.size("high", 4 << 20));
    let stride = params.size("stride", 0);
    let ops = params.get("ops", 100);
    let mut rng = Rng::new(params.get("seed", 1));
    let mut slots = Mapped::<*mut u8>::new(params.size("slots", 20));
    let start = Instant::now();
    for _ in 0..ops {
        let (index, size) = rng.slot_and_size(slots.len(), low, high);
        // SAFETY: the slot holds a live block or null, and gets another below.
        unsafe { heap.free(slots[index]) };
        let block = take(heap, size);
        if stride > 0 {
            touch(block, 0..size, stride);
        }
        slots[index] = block;
    }
    let seconds = start.elapsed().as_secs_f64();
    drain(heap, &mut slots);
    Outcome::timed(ops, seconds).with("us", seconds * 1e6 / ops as f64)
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, recorded};
    use super::*;

    /// The new block is there before the old one goes, so one more than the slots is live.
    #[test]
    fn a_cleared_block_is_allocated_before_the_old_one_is_freed() {
        let (recorder, _) = recorded(cleared, "slots=1 ops=3 low=100 high=200");
        let kinds: String = recorder
            .all_calls()
            .iter()
            .map(|call| match call {
                Call::Malloc(_) => 'm',
                // Cleared: the first byte of a block is 0 when it is freed.
                Call::Free(_, 0) => 'f',
                Call::FreeNull => 'n',
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, "mnmfmff");
    }
}
