//! What is returned to the OS at the end of the heap.

use crate::common::{Cached, heap, take};
use toft_small_bins::{Variant, variant::*};

/// Runs of blocks, freed in order: how often memory is returned in each of some rounds.
fn trims<V: Variant>(count: usize, rounds: usize) -> Vec<u64> {
    let mut heap = heap::<Counted<V>>();
    let round = |heap: &mut Cached<Counted<V>>| {
        let before = heap.counts().trims;
        let blocks: Vec<_> = (0..count).map(|_| take(heap, 4096)).collect();
        for block in blocks {
            // SAFETY: live, and freed once.
            unsafe { heap.free(block) };
        }
        heap.check().unwrap();
        heap.counts().trims - before
    };
    (0..rounds).map(|_| round(&mut heap)).collect()
}

/// 400 blocks of 4 KiB are 1.6 MiB.
#[test]
fn a_fixed_amount_is_returned_each_time_and_hysteresis_learns_to_keep_it() {
    assert_eq!(trims::<Parking>(400, 12), [1; 12]);
    let learned = trims::<Hysteresis>(400, 12);
    assert!(learned[0] == 1 && learned[6..].iter().all(|trims| *trims == 0), "{learned:?}");
}

#[test]
fn a_short_run_stays() {
    assert_eq!(trims::<Original>(25, 5), [0; 5]);
}

/// Memory that is not wanted again is kept in smaller amounts, down to the first.
#[test]
fn what_is_kept_becomes_less_if_it_is_not_wanted() {
    let mut heap = heap::<Counted<Hysteresis>>();
    let mut run = |count: usize| {
        let blocks: Vec<_> = (0..count).map(|_| take(&mut heap, 4096)).collect();
        let before = heap.counts().trims;
        for block in blocks.into_iter().rev() {
            // SAFETY: live, and freed once.
            unsafe { heap.free(block) };
        }
        heap.counts().trims - before
    };
    for _ in 0..8 {
        run(400);
    }
    assert_eq!(run(400), 0, "kept");
    // Freed from the end down, 14 MiB are returned in steps, without a request in between.
    assert!(run(3500) > 8);
    assert!(run(400) > 0, "it is returned again");
}

/// Returned memory is not resident.
#[test]
fn returned_pages_are_given_up() {
    let mut heap = heap::<Parking>();
    let blocks: Vec<_> = (0..400).map(|_| take(&mut heap, 4096)).collect();
    for block in &blocks {
        // SAFETY: live; every byte may be written.
        unsafe { block.write_bytes(1, 4096) };
    }
    for block in &blocks {
        // SAFETY: live, and freed once.
        unsafe { heap.free(*block) };
    }
    // The OS fills a page that it took with zeros.
    // SAFETY: the memory of the heap stays usable.
    let last = unsafe { blocks[390].read() };
    assert_eq!(last, 0);
}
