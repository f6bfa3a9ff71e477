//! btmalloc's threaded benchmark, in two kinds. In the first each thread has 256 slots and calls
//! `malloc` or `free` by what the slot that it draws holds. In the second, half of the threads
//! allocate and the other half free, and all of them share one queue under one mutex.
//!
//! That queue is most of the second kind's time, as its authors say; [`super::handover`] is the
//! same with a ring for each pair of threads. An operation is a single call here, as in btmalloc's
//! own figures. Threads are started and joined outside of the time, which those include.

use super::prelude::*;
use super::replace::drain;
use std::ptr::null_mut;
use std::sync::{Condvar, Mutex, MutexGuard};

pub const WORKLOAD: Workload = workload!("threaded", run);

const SIZES: [usize; 10] = [16, 24, 32, 48, 64, 96, 128, 256, 512, 1024];
const SLOTS: usize = 256;
const QUEUE: usize = 8192;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    match params.get("kind", 0) {
        0 => local(heap, params),
        1 => shared(heap, params),
        other => panic!("there is no kind {other}"),
    }
}

/// Every thread for itself. What is left in its slots is freed in the time: 256 calls at most.
fn local<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let ops = params.get("ops", 1_000_000);
    let seed = params.get("seed", 1);
    let (seconds, _) = together(threads, Placed::Spread, |index| {
        let mut slots = Mapped::<*mut u8>::new(SLOTS);
        toggle(heap, &mut slots, &mut Rng::new(seed + index as u64), ops);
        drain(heap, &mut slots);
    });
    Outcome::timed(ops * threads as u64, seconds)
}

#[inline(never)]
fn toggle<H: Heap>(heap: H, slots: &mut [*mut u8], rng: &mut Rng, ops: u64) {
    for _ in 0..ops {
        let (index, mixed) = rng.slot_and_size(slots.len(), 0, SIZES.len() - 1);
        if slots[index].is_null() {
            slots[index] = take(heap, SIZES[mixed]);
        } else {
            // SAFETY: the slot holds a live block of this thread, and is emptied at once.
            unsafe { heap.free(std::mem::replace(&mut slots[index], null_mut())) };
        }
    }
}

/// Threads with an odd index allocate, the others free.
fn shared<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 2).max(2);
    let ops = params.get("ops", 1_000_000);
    let seed = params.get("seed", 1);
    let link = link_ns();
    let queue = Queue::new(threads / 2);
    let (seconds, freed) = together(threads, Placed::Crosswise, |index| {
        let mut freed = 0;
        if index % 2 == 1 {
            let mut rng = Rng::new(seed + index as u64);
            for _ in 0..ops {
                queue.put(take(heap, SIZES[rng.below(SIZES.len())]));
            }
            queue.leave();
        } else {
            while let Some(block) = queue.get() {
                // SAFETY: each block was put in once, and what is taken out is this thread's alone.
                unsafe { heap.free(block) };
                freed += 1;
            }
        }
        freed
    });
    Outcome::timed(2 * freed.iter().sum::<u64>(), seconds).with("link_ns", link)
}

/// A bounded queue for any number of threads at both ends.
struct Queue {
    ends: Mutex<Ends>,
    not_full: Condvar,
    not_empty: Condvar,
}

/// `tail <= head <= tail + QUEUE`; the cells from `tail` to `head` hold blocks.
struct Ends {
    cells: Mapped<*mut u8>,
    head: usize,
    tail: usize,
    /// Threads that may still put something in.
    producers: usize,
}

impl Queue {
    fn new(producers: usize) -> Self {
        let ends = Ends { cells: Mapped::new(QUEUE), head: 0, tail: 0, producers };
        Self { ends: Mutex::new(ends), not_full: Condvar::new(), not_empty: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().expect("nothing panics with the lock held")
    }

    fn put(&self, block: *mut u8) {
        let mut ends = self
            .not_full
            .wait_while(self.lock(), |ends| ends.head - ends.tail == QUEUE)
            .expect("nothing panics with the lock held");
        let at = ends.head % QUEUE;
        ends.cells[at] = block;
        ends.head += 1;
        drop(ends);
        self.not_empty.notify_one();
    }

    /// The oldest block; `None` when it is empty and every producer has left.
    fn get(&self) -> Option<*mut u8> {
        let mut ends = self
            .not_empty
            .wait_while(self.lock(), |ends| ends.head == ends.tail && ends.producers > 0)
            .expect("nothing panics with the lock held");
        if ends.head == ends.tail {
            return None;
        }
        let block = ends.cells[ends.tail % QUEUE];
        ends.tail += 1;
        drop(ends);
        self.not_full.notify_one();
        Some(block)
    }

    /// A producer has nothing more to put in.
    fn leave(&self) {
        self.lock().producers -= 1;
        self.not_empty.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_slot_is_emptied_when_it_is_drawn_again() {
        use crate::heap::Libc;
        let mut slots = Mapped::<*mut u8>::new(1);
        for (calls, full) in [(1, true), (2, true), (3, false)] {
            toggle(Libc, &mut slots, &mut Rng::new(1), calls);
            assert_eq!(!slots[0].is_null(), full, "after {calls} more calls");
        }
    }

    #[test]
    fn both_kinds_ask_for_all_sizes_and_no_others() {
        use crate::workloads::test_heaps::recorded;
        for words in ["kind=0 threads=1 ops=2000", "kind=1 threads=3 ops=500"] {
            let (heap, _) = recorded(run, words);
            let sizes: BTreeSet<usize> = heap.sizes().into_iter().collect();
            assert_eq!(sizes, BTreeSet::from(SIZES), "{words}");
        }
    }

    #[test]
    fn the_queue_hands_on_each_block_once_though_it_is_full_at_times() {
        const EACH: usize = 3 * QUEUE;
        let queue = Queue::new(2);
        // Not blocks, only numbers that are not null.
        let numbered = |number: usize| std::ptr::without_provenance_mut(number + 1);
        let (_, taken) = together(4, Placed::Anywhere, |index| {
            let mut taken = Vec::new();
            if index < 2 {
                (0..EACH).for_each(|step| queue.put(numbered(index * EACH + step)));
                queue.leave();
            } else {
                taken.extend(std::iter::from_fn(|| queue.get()).map(|block| block.addr()));
            }
            taken
        });
        let count: usize = taken.iter().map(Vec::len).sum();
        let distinct: BTreeSet<usize> = taken.into_iter().flatten().collect();
        assert_eq!((count, distinct.len()), (2 * EACH, 2 * EACH));
        assert_eq!(queue.get(), None);
    }
}
