//! After Lever and Boreham: some threads only allocate, others only free what they are given, a
//! whole batch at a time, through one queue that all share.

use super::{Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::outcome::Outcome;
use crate::params::Params;
use crate::rng::Rng;
use crate::threads::{Placed, link_ns, together};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "xmalloc",
    file: include_str!("../../workloads/xmalloc.toml"),
    run: on_any_heap!(run),
};

const PER_BATCH: usize = 120;
const WAITING: usize = 64;
const SIZES: [usize; 8] = [24, 32, 48, 64, 96, 120, 200, 400];

/// A block that holds the pointers to the others, as a batch does in the original.
struct Batch(*mut *mut u8);

// SAFETY: whoever holds a batch is the only one who knows its blocks.
unsafe impl Send for Batch {}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let pairs = (params.size("threads", 2) / 2).max(1);
    let batches = params.size("batches", 1000);
    let link = link_ns();
    let queue = Queue::default();
    let (seconds, _) = together(pairs * 2, Placed::Crosswise, |index| {
        if index % 2 == 0 {
            let mut rng = Rng::new(params.get("seed", 1) + index as u64);
            for _ in 0..batches {
                queue.put(fill(heap, &mut rng));
            }
        } else {
            for _ in 0..batches {
                empty(heap, queue.get());
            }
        }
    });
    Outcome::timed((pairs * batches * (PER_BATCH + 1)) as u64, seconds).with("link_ns", link)
}

fn fill<H: Heap>(heap: H, rng: &mut Rng) -> Batch {
    let list = take(heap, PER_BATCH * size_of::<*mut u8>()).cast::<*mut u8>();
    for at in 0..PER_BATCH {
        let block = take(heap, SIZES[rng.below(SIZES.len())]);
        // SAFETY: within the list, which is a live block aligned for pointers.
        unsafe { list.add(at).write(block) };
    }
    Batch(list)
}

fn empty<H: Heap>(heap: H, Batch(list): Batch) {
    for at in 0..PER_BATCH {
        // SAFETY: `fill` wrote that many pointers to live blocks, and gave the batch away.
        unsafe { heap.free(*list.add(at)) };
    }
    // SAFETY: as above, the list itself.
    unsafe { heap.free(list.cast()) };
}

#[derive(Default)]
struct Queue {
    batches: Mutex<VecDeque<Batch>>,
    changed: Condvar,
}

impl Queue {
    fn put(&self, batch: Batch) {
        let full = |batches: &mut VecDeque<Batch>| batches.len() >= WAITING;
        let guard = self.batches.lock().expect("a thread panicked");
        let mut batches = self.changed.wait_while(guard, full).expect("a thread panicked");
        batches.push_back(batch);
        self.changed.notify_all();
    }

    fn get(&self) -> Batch {
        let guard = self.batches.lock().expect("a thread panicked");
        let none = |batches: &mut VecDeque<Batch>| batches.is_empty();
        let mut batches = self.changed.wait_while(guard, none).expect("a thread panicked");
        let batch = batches.pop_front().expect("waited for one");
        self.changed.notify_all();
        batch
    }
}
