//! After Lever and Boreham, as the published benchmark xmalloc-test does it: half of the threads
//! only allocate, the others only free what they are given, a batch of 4096 at a time. Batches wait
//! on a stack that all threads share. The published program runs for seconds; this one makes a
//! fixed number of batches.

use super::prelude::*;
use std::sync::{Condvar, Mutex};

pub const WORKLOAD: Workload = workload!("xmalloc", run);

/// Blocks of a batch.
const PER_BATCH: usize = 4096;
/// The most batches that wait; a thread with one more waits for room.
const WAITING: usize = 100;

/// A block that holds the pointers to the others, after a word for the next batch.
struct Batch(*mut *mut u8);

// SAFETY: the thread that has a batch is the only one that knows its blocks.
unsafe impl Send for Batch {}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    // As many threads allocate as free.
    let pairs = params.size("threads", 2).max(1);
    let batches = params.size("batches", 100);
    let size = params.size("size", 64);
    let link = link_ns();
    let stack = Stack::new(batches);
    let (seconds, _) = together(pairs * 2, Placed::Anywhere, |index| {
        if index % 2 == 0 {
            let mine = batches / pairs + usize::from(index / 2 < batches % pairs);
            for _ in 0..mine {
                stack.put(fill(heap, size));
            }
        } else {
            while let Some(batch) = stack.get() {
                empty(heap, batch);
            }
        }
    });
    Outcome::timed((batches * (PER_BATCH + 1)) as u64, seconds).with("link_ns", link)
}

fn fill<H: Heap>(heap: H, size: usize) -> Batch {
    let list = take(heap, (PER_BATCH + 1) * size_of::<*mut u8>()).cast::<*mut u8>();
    for at in 1..=PER_BATCH {
        let block = take_filled(heap, size);
        // SAFETY: within the list, which is a live block aligned for pointers.
        unsafe { list.add(at).write(block) };
    }
    Batch(list)
}

fn empty<H: Heap>(heap: H, Batch(list): Batch) {
    for at in 1..=PER_BATCH {
        // SAFETY: `fill` wrote that many pointers to live blocks, and gave the batch away.
        unsafe { heap.free(*list.add(at)) };
    }
    // SAFETY: as above, the list itself.
    unsafe { heap.free(list.cast()) };
}

/// The batches that wait, the last on top, and how many are still to be taken.
struct Stack {
    batches: Mutex<(Vec<Batch>, usize)>,
    filled: Condvar,
    emptied: Condvar,
}

impl Stack {
    fn new(to_come: usize) -> Self {
        // Of its full length: it must not ask the heap under test while the time runs.
        let batches = Mutex::new((Vec::with_capacity(WAITING), to_come));
        Self { batches, filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn put(&self, batch: Batch) {
        let guard = self.batches.lock().expect("a thread panicked");
        let full = |(batches, _): &mut (Vec<Batch>, usize)| batches.len() >= WAITING;
        self.emptied.wait_while(guard, full).expect("a thread panicked").0.push(batch);
        self.filled.notify_one();
    }

    /// The batch on top; nothing when all have been taken.
    fn get(&self) -> Option<Batch> {
        let guard = self.batches.lock().expect("a thread panicked");
        let none = |(batches, left): &mut (Vec<Batch>, usize)| batches.is_empty() && *left > 0;
        let mut guard = self.filled.wait_while(guard, none).expect("a thread panicked");
        let batch = guard.0.pop()?;
        guard.1 -= 1;
        if guard.1 == 0 {
            self.filled.notify_all();
        }
        self.emptied.notify_one();
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::recorded;

    #[test]
    fn every_batch_is_made_and_freed_however_many_threads_share_them() {
        for (threads, batches) in [(1, 3), (3, 7), (2, 120)] {
            let words = format!("threads={threads} batches={batches} size=64");
            let (heap, outcome) = recorded(run, &words);
            assert_eq!(outcome.ops, batches * 4097);
            assert_eq!(heap.range(), (64, 4097 * 8));
            // Those that wait, and those that threads have in hand.
            let most = (WAITING as u64 + 2 * threads + 1) * 4097;
            assert!(heap.most_live() as u64 <= most, "{} blocks", heap.most_live());
        }
    }
}
