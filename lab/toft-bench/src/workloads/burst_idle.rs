//! A burst and then nothing: threads allocate much and free all of it, and sleep. How much of the
//! memory is back after a while, although no thread calls any more?
//!
//! Sizes are by the inverse square, so that each doubling has the same share of the bytes: 16 bytes
//! to 256 KiB are 43 % up to 1 KiB, 50 % up to 128 KiB and 7 % above. Every page is touched.
//! Threads sleep on a word of the workload's own; the thread that looks calls no `malloc` before it
//! has all its figures. `cross=1` lets each thread free what its neighbour allocated.

use super::prelude::*;
use super::replace::drain;
use super::sizes::Sizes;
use crate::asleep::Asleep;
use crate::resident::{page_size, resident, resident_at};
use std::sync::{Barrier, Mutex};

pub(crate) const WORKLOAD: Workload = workload!("burst-idle", run);

/// When memory is looked at, after the last block was freed.
const TIMES: [(u64, &str); 5] = [
    (100, "back_100ms_pct"),
    (500, "back_500ms_pct"),
    (1000, "back_1s_pct"),
    (2000, "back_2s_pct"),
    (4000, "back_4s_pct"),
];

/// Of these the bar is about what is left.
const LEFT_AT: u64 = 2000;

/// Sizes that are drawn ahead: as many as it takes for the large ones to have their share.
const SIZES: usize = 1 << 20;

/// Runs it, up to the last reading at `idle_ms`.
///
/// # Panics
/// When a thread does not fall asleep.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 8);
    let cross = params.size("cross", 0);
    let bytes = params.get("bytes", 1 << 30) / threads as u64;
    let idle_ms = params.get("idle_ms", 4000);
    let sizes = Sizes::InverseSquare(params.size("low", 16), params.size("high", 256 << 10));
    let sizes = sizes.table(SIZES, params.get("seed", 1));
    let sizes = |thread: usize| sizes.iter().cycle().skip(thread * (SIZES / threads));

    let counts: Vec<usize> = (0..threads).map(|thread| count(sizes(thread), bytes)).collect();
    let slots: Vec<_> = counts.iter().map(|&count| Mutex::new(Mapped::new(count))).collect();
    let (step, asleep) = (Barrier::new(threads + 1), Asleep::new(threads));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (own, other) = (&slots[thread], &slots[(thread + cross) % threads]);
            let (step, asleep, sizes) = (&step, &asleep, sizes(thread));
            scope.spawn(move || {
                step.wait();
                let fill = |slots: &mut [*mut u8]| {
                    slots.iter_mut().zip(sizes).for_each(|(slot, &size)| *slot = put(heap, size));
                };
                fill(&mut own.lock().expect("no thread has panicked"));
                step.wait();
                step.wait();
                drain(heap, &mut other.lock().expect("no thread has panicked"));
                step.wait();
                asleep.sleep(thread);
            });
        }
        let fresh = resident();
        let filled = timed(|| {
            step.wait();
            step.wait();
        });
        let full = resident();
        let freed = timed(|| {
            step.wait();
            step.wait();
        });
        let figures = watch(&asleep, idle_ms, fresh, full);
        asleep.call();
        let blocks = counts.iter().sum::<usize>() as u64;
        let mut outcome = Outcome::timed(blocks, filled + freed);
        outcome.metrics.extend(figures.metrics);
        outcome
    })
}

/// How many of the sizes make `bytes` bytes.
fn count<'a>(sizes: impl Iterator<Item = &'a u32>, bytes: u64) -> usize {
    let mut sum = 0;
    let below = |size: &&u32| {
        sum += u64::from(**size);
        sum < bytes
    };
    sizes.take_while(below).count() + 1
}

/// A block of which every page is touched.
fn put<H: Heap>(heap: H, size: u32) -> *mut u8 {
    let block = take(heap, size as usize);
    for offset in (0..size as usize).step_by(page_size() as usize) {
        // SAFETY: the block is live, and as long as that.
        unsafe { block.add(offset).write_volatile(1) };
    }
    block
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// What comes back from now on. No `malloc` is called before everything is read.
fn watch(asleep: &Asleep, idle_ms: u64, fresh: u64, full: u64) -> Outcome {
    let start = Instant::now();
    let times = TIMES.map(|(time, _)| Duration::from_millis(time));
    let mut seen = [0; TIMES.len()];
    let looks = TIMES.iter().filter(|(time, _)| *time <= idle_ms).count();
    asleep.wait_for_all();
    let before = asleep.times();
    resident_at(start, &times[..looks], &mut seen[..looks]);
    let woken = asleep.times() - before;

    let grown = full.saturating_sub(fresh);
    let mut outcome =
        Outcome::default().with("grown_mb", grown as f64 / 1e6).with("woken", woken as f64);
    for ((time, key), now) in TIMES.into_iter().zip(&seen[..looks]) {
        outcome.set(key, 100.0 * full.saturating_sub(*now) as f64 / grown.max(1) as f64);
        if time == LEFT_AT {
            outcome.set("left_mb", now.saturating_sub(fresh) as f64 / 1e6);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::Recorder;

    #[test]
    fn so_many_bytes_are_allocated_in_sizes_of_every_tier_and_freed() {
        let heap = Recorder::new();
        let params = Params::of("threads=2 bytes=16mi idle_ms=0");
        let outcome = run(heap, &params);
        let sizes = heap.sizes();
        assert_eq!(outcome.ops, sizes.len() as u64);
        let share = |low: usize, high: usize| {
            let of = sizes.iter().filter(|size| (low..=high).contains(size));
            of.sum::<usize>() as f64 / (16 << 20) as f64
        };
        assert!((1.0..1.1).contains(&share(16, 256 << 10)), "{}", share(16, 256 << 10));
        for (low, high, least) in
            [(16, 1024, 0.35), (1025, 128 << 10, 0.35), (131_073, 262_144, 0.01)]
        {
            assert!(share(low, high) >= least, "{low} {}", share(low, high));
        }
        let frees = heap.calls().iter().filter(|call| call.frees()).count();
        assert_eq!(frees, sizes.len());
    }

    #[test]
    fn a_neighbour_frees_or_the_thread_itself() {
        use std::collections::BTreeMap;
        use std::thread::ThreadId;
        static OWNERS: Mutex<BTreeMap<usize, ThreadId>> = Mutex::new(BTreeMap::new());
        static FREED: Mutex<[usize; 2]> = Mutex::new([0; 2]);

        /// Libc, and who frees what of whom.
        #[derive(Clone, Copy)]
        struct Owned;
        impl Heap for Owned {
            fn malloc(self, size: usize) -> *mut u8 {
                use crate::heap::Libc;
                let block = Libc.malloc(size);
                OWNERS.lock().unwrap().insert(block.addr(), std::thread::current().id());
                block
            }
            unsafe fn free(self, block: *mut u8) {
                let owner = OWNERS.lock().unwrap().remove(&block.addr()).unwrap();
                FREED.lock().unwrap()[usize::from(owner != std::thread::current().id())] += 1;
                // SAFETY: the caller keeps free's contract.
                unsafe { crate::heap::Libc.free(block) }
            }
        }
        for (word, others) in [("cross=0", false), ("cross=1", true)] {
            *FREED.lock().unwrap() = [0; 2];
            let words = ["threads=3", "bytes=1mi", "idle_ms=0", word];
            let outcome = run(Owned, &Params::parse(words).unwrap());
            let mut expected = [0; 2];
            expected[usize::from(others)] = usize::try_from(outcome.ops).unwrap();
            assert_eq!(*FREED.lock().unwrap(), expected, "{word}");
        }
    }
}
