//! The fragmenting load: many blocks of mixed sizes, most of them freed, the rest replaced, and
//! the question is what the kernel still counts as resident.

use super::replace::drain;
use super::{Workload, on_any_heap};
use crate::heap::{Heap, take};
use crate::mapped::Mapped;
use crate::outcome::{Outcome, megabytes};
use crate::params::Params;
use crate::rng::Rng;
use std::time::{Duration, Instant};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "churn",
    file: include_str!("../../workloads/churn.toml"),
    run: on_any_heap!(run),
};

const SIZES: [usize; 15] =
    [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192];
const KEEP_EVERY: usize = 20;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let count = params.size("slots", 200_000);
    let ops = params.get("ops", 3_000_000);
    let settle = Duration::from_millis(params.get("settle_ms", 1000));
    let mut rng = Rng::new(params.get("seed", 1));
    let mut slots = Mapped::<*mut u8>::new(count);
    let mut sizes = Mapped::<u32>::new(count);
    let fresh = resident_kib();

    let start = Instant::now();
    for index in 0..count {
        put(heap, &mut slots, &mut sizes, index, &mut rng);
    }
    for _ in 0..ops {
        let index = rng.below(count);
        put(heap, &mut slots, &mut sizes, index, &mut rng);
    }
    for index in (0..count).filter(|index| index % KEEP_EVERY != 0) {
        // SAFETY: the slot holds a live block, and is emptied at once.
        unsafe { heap.free(std::mem::replace(&mut slots[index], std::ptr::null_mut())) };
        sizes[index] = 0;
    }
    for _ in 0..ops / 4 / KEEP_EVERY as u64 {
        let index = rng.below(count / KEEP_EVERY) * KEEP_EVERY;
        put(heap, &mut slots, &mut sizes, index, &mut rng);
    }
    let seconds = start.elapsed().as_secs_f64();

    let live: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
    let steady = settled_kib(heap, settle).saturating_sub(fresh);
    drain(heap, &mut slots);
    let drained = settled_kib(heap, settle).saturating_sub(fresh);
    Outcome::timed(count as u64 + ops + ops / 4 / KEEP_EVERY as u64, seconds)
        .with("steady_x", steady as f64 * 1024.0 / live as f64)
        .with("drained_mb", megabytes(drained))
        .with("live_mb", live as f64 / 1e6)
}

fn put<H: Heap>(heap: H, slots: &mut [*mut u8], sizes: &mut [u32], index: usize, rng: &mut Rng) {
    let size = SIZES[rng.below(SIZES.len())];
    // SAFETY: the slot holds a live block or null, and gets another below.
    unsafe { heap.free(slots[index]) };
    slots[index] = take(heap, size);
    sizes[index] = size as u32;
}

/// Resident memory after a pause in which the program does next to nothing: allocators that give
/// memory back on a timer get the calls on which they look at it.
fn settled_kib<H: Heap>(heap: H, settle: Duration) -> u64 {
    let start = Instant::now();
    while start.elapsed() < settle {
        std::thread::sleep(settle / 10);
        let block = take(heap, 64);
        // SAFETY: allocated just now.
        unsafe { heap.free(block) };
    }
    resident_kib()
}

/// Resident memory of this process, from `statm`.
fn resident_kib() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .expect("no /proc/self/statm")
        * page
        / 1024
}
