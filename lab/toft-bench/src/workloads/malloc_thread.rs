//! After glibc's bench-malloc-thread: each thread replaces blocks in its own slots, all threads
//! through the same sequence of slots and sizes. The sizes follow an inverse-square law: half of
//! them are below 8 bytes, and 3 of 100 are beyond 128. The published form writes every byte of a
//! block (`fill=1`), runs until an alarm, and keeps the slots of all threads beside each other;
//! this one does a fixed number of replacements.

use super::prelude::*;
use super::replace::drain;
use super::sizes::Sizes;

pub(crate) const WORKLOAD: Workload = workload!("malloc-thread", run);
const SLOT_DRAWS: usize = 4096;
/// Draws of a size, in a ring. It is no multiple of the other, so slots and sizes pair differently.
const SIZE_DRAWS: usize = 8000;

/// Replaces blocks in slots.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", 1);
    let slots = params.size("slots", 1024);
    let ops = params.get("ops", 1_000_000);
    let fill = params.get("fill", 0) == 1;
    let seed = params.get("seed", 88);
    let places = Sizes::Uniform(0, slots - 1).table(SLOT_DRAWS, seed);
    let sizes = Sizes::InverseSquare(params.size("low", 4), params.size("high", 32768))
        .table(SIZE_DRAWS, seed + 1);
    let (seconds, spans) = together(threads, Placed::Anywhere, |_| {
        let mut blocks = Mapped::<*mut u8>::new(slots);
        let start = Instant::now();
        if fill {
            replace(heap, &mut blocks, &places, &sizes, ops, take_filled);
        } else {
            replace(heap, &mut blocks, &places, &sizes, ops, take);
        }
        let span = start.elapsed().as_secs_f64();
        drain(heap, &mut blocks);
        span
    });
    // As glibc counts: the time of all threads together, over what they did.
    let total = ops * threads as u64;
    let each = spans.iter().sum::<f64>() * 1e9 / total as f64;
    Outcome::timed(total, seconds).with("ns", each)
}

#[inline(never)]
fn replace<H: Heap>(
    heap: H,
    blocks: &mut [*mut u8],
    places: &[u32],
    sizes: &[u32],
    ops: u64,
    take: impl Fn(H, usize) -> *mut u8,
) {
    let (mut place, mut size) = (1, 1);
    for _ in 0..ops {
        let slot = &mut blocks[places[place] as usize];
        // SAFETY: the slot holds a live block of this thread or null, and gets another below.
        unsafe { heap.free(*slot) };
        *slot = take(heap, sizes[size] as usize);
        place = if place + 1 == places.len() { 0 } else { place + 1 };
        size = if size + 1 == sizes.len() { 0 } else { size + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, follows_its_seed, recorded};
    use super::*;

    fn asked(words: &str) -> Vec<usize> {
        recorded(run, words).0.sizes()
    }

    #[test]
    fn all_threads_ask_for_the_same_sizes() {
        let mut alone = asked("threads=1 ops=500 slots=10");
        let mut three = asked("threads=3 ops=500 slots=10");
        alone = [&alone[..], &alone, &alone].concat();
        alone.sort_unstable();
        three.sort_unstable();
        assert_eq!(alone, three);
    }

    #[test]
    fn the_rings_are_walked_from_their_second_draw_and_begin_again() {
        let sizes = asked("threads=1 ops=8100 slots=10");
        let ring = Sizes::InverseSquare(4, 32768).table(SIZE_DRAWS, 89);
        let walked = ring.iter().cycle().skip(1).take(8100).map(|&size| size as usize);
        assert!(sizes.into_iter().eq(walked));
    }

    #[test]
    fn the_seed_chooses_slots_and_sizes() {
        follows_its_seed(run, "threads=1 ops=300 slots=10");
    }

    #[test]
    fn a_slot_is_emptied_before_it_is_filled() {
        let calls = recorded(run, "threads=1 ops=1000 slots=7").0.all_calls();
        assert_eq!(calls.len(), 2007);
        let empty = calls[..2000].iter().filter(|call| **call == Call::FreeNull).count();
        assert_eq!(empty, 7);
        assert!(calls[..2000].chunks(2).all(|pair| !matches!(pair[0], Call::Malloc(_))));
    }
}
