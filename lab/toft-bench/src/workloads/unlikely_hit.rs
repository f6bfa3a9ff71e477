//! The case that a small bin cannot help with, after the experiment with glibc's small bins: small
//! chunks that were not freed, but remained when a larger free chunk was split. glibc puts them
//! into its unsorted list, and the next request of another size has to sort them.
//!
//! A round makes `remainders` holes between live blocks, each of another size in turn, then
//! asks for a little less than each hole, which leaves a small piece of it. Holes and requests are
//! larger than what a thread's cache takes, and so are the blocks between the holes. At the end of
//! a round all of it merges into one free block, below a block that stays, and the next round
//! begins as this one did. Few remainders in a round are the experiment's `little`, many its
//! `many`; its constants are not known, these are our own.

use super::prelude::*;

pub(crate) const WORKLOAD: Workload = workload!("unlikely-hit", run);

/// The size of what lies between two holes.
const GUARD: usize = 1048;

/// The size of hole number `index`.
fn hole(index: usize) -> usize {
    1608 + 16 * (index % 62)
}

/// What the request for hole number `index` leaves of it. It changes in other steps than the hole
/// does, so that neighbouring requests are of different sizes.
fn remainder(index: usize) -> usize {
    64 + 16 * (7 * index % 25)
}

/// Leaves small remainders of larger chunks.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let remainders = params.size("remainders", 10);
    // A hole, its guard and the request for it.
    let pairs = 3 * remainders;
    let rounds = params.size("ops", 10_000).div_ceil(pairs);
    let mut holes = Mapped::<*mut u8>::new(remainders);
    let mut guards = Mapped::<*mut u8>::new(remainders);
    make(heap, &mut holes, &mut guards);
    // Without it the end of each round would give the memory back to the kernel.
    let last = take(heap, GUARD);
    free(heap, &holes);
    free(heap, &guards);
    repeat(heap, &mut holes, &mut guards, 1);
    let start = Instant::now();
    repeat(heap, &mut holes, &mut guards, rounds);
    let seconds = start.elapsed().as_secs_f64();
    free(heap, &[last]);
    Outcome::timed((rounds * pairs) as u64, seconds)
}

/// Allocates what will be holes, and what lies between them.
#[inline(always)]
fn make<H: Heap>(heap: H, holes: &mut [*mut u8], guards: &mut [*mut u8]) {
    for (index, (block, guard)) in holes.iter_mut().zip(guards).enumerate() {
        *block = take(heap, hole(index));
        *guard = take(heap, GUARD);
    }
}

/// Frees the blocks of a table, which are live and in no other.
#[inline(always)]
fn free<H: Heap>(heap: H, blocks: &[*mut u8]) {
    for block in blocks {
        // SAFETY: live until here, and the callers fill the table with others or forget it.
        unsafe { heap.free(*block) };
    }
}

#[inline(never)]
fn repeat<H: Heap>(heap: H, holes: &mut [*mut u8], guards: &mut [*mut u8], rounds: usize) {
    for _ in 0..rounds {
        make(heap, holes, guards);
        free(heap, holes);
        for (index, block) in holes.iter_mut().enumerate() {
            *block = take(heap, hole(index) - remainder(index));
        }
        free(heap, holes);
        free(heap, guards);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, Recorder};
    use super::*;

    #[test]
    fn remainders_are_small_and_nothing_else_is() {
        for index in 0..5000 {
            assert!((64..1008).contains(&remainder(index)));
            assert!(hole(index) - remainder(index) > 1032 && GUARD > 1032);
            let next = index + 1;
            assert_ne!(hole(index) - remainder(index), hole(next) - remainder(next));
        }
    }

    #[test]
    fn holes_are_made_between_live_blocks_and_then_asked_for_less() {
        let recorder = Recorder::new();
        let (mut holes, mut guards) = (Mapped::new(2), Mapped::new(2));
        repeat(recorder, &mut holes, &mut guards, 1);
        let (ask, free) = (Call::Malloc, |number| Call::Free(number, 1));
        let made = [ask(hole(0)), ask(GUARD), ask(hole(1)), ask(GUARD), free(0), free(2)];
        let less = [ask(hole(0) - 64), ask(hole(1) - 176)];
        assert_eq!(
            recorder.calls(),
            [&made[..], &less, &[free(4), free(5), free(1), free(3)]].concat()
        );
    }
}
