//! After the published benchmark mstress: objects that outlive the code that made them. Each thread
//! makes objects of mixed sizes, keeps a third of them to its end, frees others at random, and
//! swaps some with what another thread left in a shared table. All threads end, and new ones take
//! over.
//!
//! Every object is written from end to end, and read before it is freed. The main thread is the
//! first of the threads, and later threads do more than earlier ones. The time is that of the
//! program: it includes the start and the end of the threads.

use super::prelude::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel};

pub const WORKLOAD: Workload = workload!("mstress", run);

/// Cells of the table that all threads share.
const SHARED: usize = 1000;
/// What an object holds: its length, and this mixed with it in every word.
const MARK: usize = 0x5bf0_3635_dc3a_91e7;
/// Words of the largest object that is made for the time being, and of the largest that is kept.
const PASSING: u32 = 5;
const KEPT: u32 = 7;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 2);
    let rounds = params.get("rounds", 2);
    let scale = params.size("scale", 50);
    let seed = params.get("seed", 1);
    let shared: Mapped<AtomicPtr<u8>> = Mapped::new(SHARED);
    let start = Instant::now();
    let mut rng = Rng::new(seed);
    let mut made = 0;
    for round in 0..rounds {
        let worker = |index: usize| Thread::new(heap, &shared, index, scale).work();
        made += std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|n| scope.spawn(move || worker(n))).collect();
            let own = worker(0);
            let joined = others.into_iter().map(|thread| thread.join().expect("a thread panicked"));
            own + joined.sum::<u64>()
        });
        // Half of what was left there lives on into the next round.
        for cell in shared.iter() {
            if round + 1 == rounds || rng.below(100) <= 50 {
                free(heap, cell.swap(null_mut(), AcqRel));
            }
        }
    }
    Outcome::timed(made, start.elapsed().as_secs_f64())
}

struct Thread<'a, H: Heap> {
    heap: H,
    shared: &'a [AtomicPtr<u8>],
    rng: Rng,
    left: usize,
    to_keep: usize,
    made: u64,
}

impl<'a, H: Heap> Thread<'a, H> {
    fn new(heap: H, shared: &'a [AtomicPtr<u8>], index: usize, scale: usize) -> Self {
        let left = 100 * scale * (index % 8 + 1);
        let rng = Rng::new(43 * (index as u64 + 1));
        Self { heap, shared, rng, left, to_keep: left / 2, made: 0 }
    }

    /// True in that many of a hundred draws, and one more.
    fn chance(&mut self, percent: usize) -> bool {
        self.rng.below(100) <= percent
    }

    /// An object of up to `1 << below` words, in rare cases of a hundred to ten thousand times
    /// that.
    fn object(&mut self, below: u32) -> *mut u8 {
        let mut words = 1 << self.rng.below(below as usize);
        if self.chance(1) {
            words *= match (self.chance(1), self.chance(10)) {
                (true, _) => 10_000,
                (_, true) => 1000,
                _ => 100,
            };
        }
        self.made += 1;
        let block = take(self.heap, words * size_of::<usize>());
        for at in 0..words {
            // SAFETY: within the block, which is aligned for words.
            unsafe { block.cast::<usize>().add(at).write((words - at) ^ MARK) };
        }
        block
    }

    fn work(mut self) -> u64 {
        // The tables are the program's own blocks, as they are in the published one.
        let mut kept = Table::new(self.heap, self.to_keep);
        let mut passing = Table::new(self.heap, 0);
        while self.left > 0 || self.to_keep > 0 {
            if self.to_keep == 0 || (self.chance(50) && self.left > 0) {
                self.left -= 1;
                let block = self.object(PASSING);
                passing.push(block);
            } else {
                self.to_keep -= 1;
                let block = self.object(KEPT);
                kept.push(block);
            }
            if self.chance(66) && passing.len > 0 {
                let at = self.rng.below(passing.len);
                free(self.heap, std::mem::replace(passing.at(at), null_mut()));
            }
            if self.chance(25) && passing.len > 0 {
                let (at, cell) = (self.rng.below(passing.len), self.rng.below(SHARED));
                let mine = passing.at(at);
                *mine = self.shared[cell].swap(*mine, AcqRel);
            }
        }
        kept.empty();
        passing.empty();
        self.made
    }
}

/// Reads an object from end to end and frees it.
fn free<H: Heap>(heap: H, block: *mut u8) {
    if !block.is_null() {
        let words = block.cast::<usize>();
        // SAFETY: every object begins with its length, and was written to its end.
        unsafe {
            let count = words.read() ^ MARK;
            for at in 0..count {
                assert_eq!(words.add(at).read() ^ MARK, count - at, "a block was overwritten");
            }
        }
    }
    // SAFETY: the block was taken out of the only table that had it.
    unsafe { heap.free(block) };
}

/// A table of objects in a block of the heap under test, which grows by 100 000 at a time.
struct Table<H: Heap> {
    heap: H,
    start: *mut *mut u8,
    room: usize,
    len: usize,
}

impl<H: Heap> Table<H> {
    fn new(heap: H, room: usize) -> Self {
        let mut table = Self { heap, start: null_mut(), room: 0, len: 0 };
        if room > 0 {
            table.grow(room);
        }
        table
    }

    fn grow(&mut self, more: usize) {
        self.room += more;
        // SAFETY: null or the block of this table, which no one else has.
        let block =
            unsafe { self.heap.realloc(self.start.cast(), self.room * size_of::<*mut u8>()) };
        assert!(!block.is_null(), "no memory for a table");
        self.start = block.cast();
    }

    fn push(&mut self, object: *mut u8) {
        if self.len == self.room {
            self.grow(100_000);
        }
        // SAFETY: within the block.
        unsafe { self.start.add(self.len).write(object) };
        self.len += 1;
    }

    fn at(&mut self, index: usize) -> &mut *mut u8 {
        assert!(index < self.len);
        // SAFETY: `push` has written it, and the table is borrowed as long as the reference lives.
        unsafe { &mut *self.start.add(index) }
    }

    fn empty(mut self) {
        for index in 0..self.len {
            free(self.heap, *self.at(index));
        }
        // SAFETY: the table's own block, which is used no more.
        unsafe { self.heap.free(self.start.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::recorded;

    /// Two threads make 7 500 and 15 000 objects with a scale of 50, in each of the rounds.
    #[test]
    fn later_threads_make_more_and_a_few_objects_are_huge() {
        let (heap, outcome) = recorded(run, "threads=2 rounds=2 scale=50");
        assert_eq!(outcome.ops, 2 * (7_500 + 15_000));
        let (smallest, largest) = heap.range();
        // The table of 100 000 is the largest but for objects of ten thousand times their size.
        assert!(smallest == 8 && largest >= 800_000, "{smallest} to {largest}");
        assert!(heap.most_live() > 5_000);
    }
}
