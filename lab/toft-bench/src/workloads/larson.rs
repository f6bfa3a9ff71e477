//! A server, after Larson and Krishnan, as the published benchmark larson does it: the main thread
//! makes tables of blocks and shuffles them. Each thread replaces blocks of a table for a while,
//! then ends and leaves the table, with all the blocks in it, to a thread that is started in its
//! place.
//!
//! Two bytes of a block are written. Slots and sizes are drawn by the same kind of generator as the
//! original's, because its cost is a good part of the time there.

use super::prelude::*;
use super::replace::{Shape, drain};
use crate::rng::Shuffled;
use std::sync::Mutex;

pub const WORKLOAD: Workload = workload!("larson", run);

/// Replacements of the main thread before the others start, for each block.
const WARMING: usize = 4;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let shape = Shape::of(params);
    let threads = params.size("threads", 2);
    let rounds = params.get("rounds", 10);
    let ops = params.size("ops", 10_000);
    let mut rng = Shuffled::new(params.get("seed", 4141));
    let tables = Mutex::new(warmed(heap, shape, threads, &mut rng));
    let (seconds, tables) = prepared(
        threads,
        Placed::Anywhere,
        |index| {
            let mut tables = tables.lock().expect("a thread panicked");
            (tables.pop().expect("a table for each thread"), Shuffled::new(12_345 + index as u64))
        },
        |_, (mut slots, mut rng)| {
            for _ in 0..rounds {
                std::thread::scope(|scope| {
                    scope.spawn(|| replace(heap, &mut slots, shape, &mut rng, ops));
                });
            }
            slots
        },
    );
    for mut slots in tables {
        drain(heap, &mut slots);
    }
    Outcome::timed(ops as u64 * rounds * threads as u64, seconds)
}

/// A table for each thread, made and mixed by the calling thread.
fn warmed<H: Heap>(
    heap: H,
    shape: Shape,
    threads: usize,
    rng: &mut Shuffled,
) -> Vec<Mapped<*mut u8>> {
    let mut all = Mapped::<*mut u8>::new(threads * shape.slots);
    for slot in all.iter_mut() {
        *slot = block(heap, shape, rng);
    }
    for end in (1..=all.len()).rev() {
        all.swap(rng.below(end), end - 1);
    }
    let count = WARMING * all.len();
    replace(heap, &mut all, shape, rng, count);
    let table = |blocks: &[*mut u8]| {
        let mut table = Mapped::new(shape.slots);
        table.copy_from_slice(blocks);
        table
    };
    all.chunks(shape.slots).map(table).collect()
}

fn block<H: Heap>(heap: H, shape: Shape, rng: &mut Shuffled) -> *mut u8 {
    let size = shape.low + rng.below(shape.high - shape.low);
    let block = heap.malloc(size);
    assert!(!block.is_null(), "no memory for a block");
    // SAFETY: a block has at least two bytes, the smallest size of every case.
    unsafe {
        block.write_volatile(b'a');
        block.add(1).write_volatile(b'b');
    }
    launder(block)
}

#[inline(never)]
fn replace<H: Heap>(heap: H, slots: &mut [*mut u8], shape: Shape, rng: &mut Shuffled, ops: usize) {
    for _ in 0..ops {
        let slot = &mut slots[rng.below(slots.len())];
        // SAFETY: the slot holds a live block of this table, and gets another below.
        unsafe { heap.free(*slot) };
        *slot = block(heap, shape, rng);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::Recorder;

    #[test]
    fn the_main_thread_fills_all_tables_and_their_threads_replace_what_it_made() {
        let heap = Recorder::new();
        let words = ["threads=3", "slots=50", "low=8", "high=40", "rounds=2", "ops=70"];
        let outcome = run(heap, &Params::parse(words).unwrap());
        assert_eq!((outcome.ops, heap.most_live()), (420, 150));
        let (smallest, largest) = heap.range();
        assert!(smallest >= 8 && largest < 40, "{smallest} to {largest}");
    }
}
