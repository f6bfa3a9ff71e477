//! The fragmenting load: many blocks of mixed sizes, most of them freed, the rest replaced, and
//! the question is what the kernel still counts as resident, above what it counted at the start.
//!
//! The sizes and the phases are those of btmalloc's `rss`, which reads memory as soon as a phase
//! has ended and touches only the first byte of a block: `settle_ms=0 touch=1`. The case `churn`
//! gives allocators time to return memory, with a few calls on which they may read their clocks;
//! with `calls=0` there are no calls. `purge=1` asks them to give back what they can when all is
//! freed.

use super::prelude::*;
use super::replace::drain;
use crate::resident::resident;

pub(crate) const WORKLOAD: Workload = workload!("churn", run);

const SIZES: [usize; 15] =
    [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192];

/// Runs it.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let count = params.size("slots", 200_000);
    let ops = params.get("ops", 3_000_000);
    let keep = params.size("keep", 20).clamp(1, count);
    let settle = Duration::from_millis(params.get("settle_ms", 1000));
    let calls = params.get("calls", 1) > 0;
    let mut table = Table::new(heap, count, params);
    let fresh = resident();
    let above = |now: u64| now.saturating_sub(fresh) as f64 / 1e6;
    let mut seconds = 0.0;
    let mut phase = |table: &mut Table<H>, work: &dyn Fn(&mut Table<H>)| {
        let start = Instant::now();
        work(table);
        seconds += start.elapsed().as_secs_f64();
        above(resident())
    };

    let grown = phase(&mut table, &|table| (0..count).for_each(|index| table.put(index)));
    let churned = phase(&mut table, &|table| table.replace(count, 1, ops));
    let shrunk = phase(&mut table, &|table| {
        (0..count).filter(|index| index % keep != 0).for_each(|index| table.take_away(index));
    });
    // As many as if slots were drawn from all, and only those that still hold blocks replaced.
    let last = ops / 4 / keep as u64;
    phase(&mut table, &|table| table.replace(count / keep, keep, last));

    let live = table.live();
    let steady = above(settled(heap, settle, calls));
    drain(heap, &mut table.slots);
    let drained = above(settled(heap, settle, calls));
    let mut outcome = Outcome::timed(count as u64 + ops + last, seconds);
    if params.get("purge", 0) > 0 {
        let start = Instant::now();
        heap.purge();
        let took = start.elapsed();
        let purged = above(resident());
        outcome.set("drained_purged_mb", purged);
        outcome.set("purge_ms", took.as_secs_f64() * 1e3);
    }
    outcome
        .with("grown_mb", grown)
        .with("churned_mb", churned)
        .with("shrunk_mb", shrunk)
        .with("steady_mb", steady)
        .with("steady_x", steady * 1e6 / live as f64)
        .with("drained_mb", drained)
        .with("live_mb", live as f64 / 1e6)
}

/// Slots, each with a block or null, and the sizes of the blocks.
struct Table<H> {
    heap: H,
    slots: Mapped<*mut u8>,
    sizes: Mapped<u32>,
    rng: Rng,
    /// Touch both ends of a block, not only its first byte.
    whole: bool,
}

impl<H: Heap> Table<H> {
    fn new(heap: H, count: usize, params: &Params) -> Self {
        Self {
            heap,
            slots: Mapped::new(count),
            sizes: Mapped::new(count),
            rng: Rng::new(params.get("seed", 1)),
            whole: params.get("touch", 2) > 1,
        }
    }

    #[inline(always)]
    fn put(&mut self, index: usize) {
        let size = SIZES[self.rng.below(SIZES.len())];
        // SAFETY: the slot holds a live block or null, and gets another below.
        unsafe { self.heap.free(self.slots[index]) };
        self.slots[index] =
            if self.whole { take(self.heap, size) } else { touched(self.heap.malloc(size), 1) };
        self.sizes[index] = size as u32;
    }

    /// `ops` times another block for one of the first `count` multiples of `step`.
    #[inline(never)]
    fn replace(&mut self, count: usize, step: usize, ops: u64) {
        for _ in 0..ops {
            let index = self.rng.below(count) * step;
            self.put(index);
        }
    }

    fn take_away(&mut self, index: usize) {
        // SAFETY: the slot holds a live block or null, and is emptied at once.
        unsafe { self.heap.free(std::mem::replace(&mut self.slots[index], std::ptr::null_mut())) };
        self.sizes[index] = 0;
    }

    /// Bytes that were asked for and not freed.
    fn live(&self) -> u64 {
        self.sizes.iter().map(|&size| u64::from(size)).sum()
    }
}

/// Resident memory after a pause in which the program does next to nothing: allocators that give
/// memory back on a timer get the calls on which they read it, unless there are to be none.
fn settled<H: Heap>(heap: H, settle: Duration, calls: bool) -> u64 {
    let start = Instant::now();
    while start.elapsed() < settle {
        std::thread::sleep(settle / 10);
        if calls {
            let block = take(heap, 64);
            // SAFETY: allocated just now.
            unsafe { heap.free(block) };
        }
    }
    resident()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;

    fn outcome(words: &str) -> Outcome {
        run(Libc, &Params::of(words))
    }

    #[test]
    fn one_of_so_many_is_kept_and_the_rest_is_not_live() {
        let live = |words| outcome(words).metrics["live_mb"];
        let all = live("slots=4000 ops=1000 settle_ms=0 keep=1");
        let tenth = live("slots=4000 ops=1000 settle_ms=0 keep=10");
        // The mean size is 1190 bytes.
        assert!((4.0..5.6).contains(&all), "{all}");
        assert!((0.3..0.7).contains(&tenth), "{tenth}");
    }

    #[test]
    fn while_memory_settles_there_are_calls_and_without_a_pause_there_are_none() {
        use crate::workloads::test_heaps::Recorder;
        let mallocs = |settle: &str| {
            let heap = Recorder::new();
            let outcome = run(heap, &Params::of(&format!("slots=50 ops=800 {settle}")));
            heap.sizes().len() as u64 - outcome.ops
        };
        assert_eq!(mallocs("settle_ms=0"), 0);
        assert!((2..=20).contains(&mallocs("settle_ms=10")));
        assert_eq!(mallocs("settle_ms=10 calls=0"), 0);
    }

    #[test]
    fn both_ends_are_touched_or_only_the_first_byte() {
        for (word, last) in [("touch=1", 0), ("touch=2", 1), ("seed=1", 1)] {
            // Every block starts zeroed, so its last byte shows the touch.
            let mut table = Table::new(Zeroed, 1, &Params::parse([word]).unwrap());
            for _ in 0..20 {
                table.put(0);
                // SAFETY: the block is live and zeroed, and as long as the table says.
                let ends =
                    unsafe { [*table.slots[0], *table.slots[0].add(table.sizes[0] as usize - 1)] };
                assert_eq!(ends, [1, last]);
            }
            table.take_away(0);
            assert_eq!(table.live(), 0);
        }
    }

    /// Libc's, with every block zero.
    #[derive(Clone, Copy)]
    struct Zeroed;

    impl Heap for Zeroed {
        fn malloc(self, size: usize) -> *mut u8 {
            Libc.calloc(size)
        }
    }
}
