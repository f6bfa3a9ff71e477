//! Each variant sorts what its name says, and uses bins in its order. Counts are exact.

use crate::common::{Cached, freed, heap, take};
use toft_small_bins::{Counts, Variant, variant::*};

/// How many chunks requests sort, from the first call of `work` until a request has sorted all.
fn sorted<V: Variant>(work: impl FnOnce(&mut Cached<Counted<V>>)) -> u64 {
    let mut heap = heap::<Counted<V>>();
    work(&mut heap);
    heap.check().unwrap();
    take(&mut heap, 100_000);
    heap.check().unwrap();
    // What is put on the list is sorted, if no request has exactly its size.
    assert_eq!(heap.counts().sorted, heap.counts().unsorted);
    heap.counts().sorted
}

/// Of 340 freed small chunks, of 10 large ones, and of 10 remainders of 10 large ones, how many are
/// sorted.
fn sorted_of<V: Variant>() -> [u64; 3] {
    let small = sorted::<V>(|heap| {
        // Of each size two more than a cache holds.
        freed(heap, (0..10).flat_map(|n| [136 + 16 * n; 34]));
    });
    let large = sorted::<V>(|heap| {
        freed(heap, (0..10).map(|n| 2000 + 400 * n));
    });
    let remainders = sorted::<V>(|heap| {
        freed(heap, (0..10).map(|n| 4000 + 16 * n));
        for n in 0..10 {
            // Less than each chunk by 96 bytes.
            take(heap, 3904 + 16 * n);
        }
    });
    [small, large, remainders]
}

#[test]
fn each_variant_sorts_what_its_name_says() {
    assert_eq!(sorted_of::<Original>(), [340, 10, 20]);
    assert_eq!(sorted_of::<OnlyUnlikely>(), [340, 10, 20]);
    assert_eq!(sorted_of::<Mod>(), [0, 10, 20]);
    assert_eq!(sorted_of::<ModUnlikely>(), [0, 10, 20]);
    assert_eq!(sorted_of::<Inverted>(), [0, 10, 20]);
    assert_eq!(sorted_of::<Remainders>(), [0, 10, 10]);
    assert_eq!(sorted_of::<FirstOut>(), [0, 0, 0]);
    assert_eq!(sorted_of::<Stacks>(), [0, 0, 0]);
    assert_eq!(sorted_of::<Runs>(), [0, 0, 0]);
    assert_eq!(sorted_of::<Parking>(), [0, 0, 0]);
    assert_eq!(sorted_of::<Hysteresis>(), [0, 0, 0]);
    // The cache was full at the 33rd of each size, and gave eight to the heap.
    assert_eq!(sorted_of::<OriginalParking>(), [80, 10, 20]);
    assert_eq!(sorted_of::<OriginalHysteresis>(), [80, 10, 20]);
}

#[test]
fn a_chunk_of_exactly_the_size_is_taken_while_others_are_sorted() {
    let mut heap = heap::<Counted<Original>>();
    let all = freed(&mut heap, [104, 120, 136, 152]);
    // The first two are sorted, the third is taken, the fourth stays on the list.
    assert_eq!(take(&mut heap, 136), all[2]);
    assert_eq!(heap.counts().sorted, 2);
    // What was sorted is in its bin, and nothing is sorted for it.
    assert_eq!([take(&mut heap, 120), take(&mut heap, 104)], [all[1], all[0]]);
    assert_eq!(heap.counts().sorted, 2);
    assert_eq!(take(&mut heap, 152), all[3]);
    heap.check().unwrap();
}

#[test]
fn an_exact_bin_is_a_queue_or_a_stack() {
    fn order<V: Variant>() -> [usize; 4] {
        let mut heap = heap::<V>();
        let all = freed(&mut heap, [104; 4]);
        [(); 4].map(|()| {
            let next = take(&mut heap, 104);
            all.iter().position(|block| *block == next).unwrap()
        })
    }
    assert_eq!(order::<Original>(), [0, 1, 2, 3]);
    assert_eq!(order::<Mod>(), [0, 1, 2, 3]);
    assert_eq!(order::<FirstOut>(), [0, 1, 2, 3]);
    assert_eq!(order::<Stacks>(), [3, 2, 1, 0]);
    assert_eq!(order::<Parking>(), [3, 2, 1, 0]);
}

/// The smallest chunk that fits is used, and a walk passes sizes, not chunks.
#[test]
fn a_large_bin_is_sorted() {
    let mut heap = heap::<Counted<FirstOut>>();
    // All are in one bin: an eighth of a doubling.
    let all = freed(&mut heap, [4376, 4120, 4248, 4120, 4120]);
    assert_eq!(heap.counts().walked, 1, "only 4248 passes a smaller size");
    assert_eq!(take(&mut heap, 4130), all[2]);
    assert_eq!(heap.counts().walked, 2);
    assert_eq!(take(&mut heap, 4300), all[0]);
    assert_eq!(heap.counts().walked, 3);
    heap.check().unwrap();
    // Of one size the last that was freed is used first, and the leader last.
    assert_eq!([(); 3].map(|()| take(&mut heap, 4100)), [all[4], all[3], all[1]]);
    heap.check().unwrap();
}

/// Frees a row of blocks of a size. Returns the heap, and the blocks.
fn row<V: Variant>(size: usize, count: usize) -> (Cached<Counted<V>>, Vec<*mut u8>) {
    let mut heap = heap::<Counted<V>>();
    let blocks: Vec<_> = (0..count).map(|_| take(&mut heap, size)).collect();
    take(&mut heap, 2000);
    for block in &blocks {
        // SAFETY: live, and freed once.
        unsafe { heap.free(*block) };
    }
    (heap, blocks)
}

#[test]
fn a_cache_takes_32_of_a_size_and_they_are_not_merged() {
    for size in [104, 1032] {
        let (mut heap, blocks) = row::<Parking>(size, 32);
        assert_eq!((heap.check(), heap.counts().merged), (Ok(32), 0), "{size}");
        for block in blocks.iter().rev() {
            assert_eq!(take(&mut heap, size), *block);
        }
        assert_eq!(heap.check(), Ok(0));
    }
    assert_eq!(row::<Parking>(1033, 32).0.check(), Ok(0), "too large");
    assert_eq!(row::<Runs>(104, 32).0.check(), Ok(0), "a variant without a cache");
}

/// Of a full cache the newest eight go to the heap, and the first of these is freed first.
#[test]
fn blocks_move_between_cache_and_heap_in_batches() {
    let (mut heap, blocks) = row::<Parking>(104, 33);
    assert_eq!(heap.check(), Ok(25));
    // Each but the first joins the one before it, which has grown since the second.
    assert_eq!((heap.counts().merged, heap.counts().filed), (7, 1));
    let cached = blocks[..24].iter().chain(&blocks[32..]).rev();
    cached.for_each(|block| assert_eq!(take(&mut heap, 104), *block));
    assert_eq!(heap.check(), Ok(0));
    // The next request takes all eight out of the heap.
    assert_eq!(take(&mut heap, 104), blocks[24]);
    assert_eq!(heap.check(), Ok(7));
    blocks[25..32].iter().for_each(|block| assert_eq!(take(&mut heap, 104), *block));
    // What the heap would have to search for is taken one by one.
    take(&mut heap, 104);
    assert_eq!(heap.check(), Ok(0));
}

/// Tiny blocks stay in the cache, so that a long run of them is neither merged nor split.
#[test]
fn a_cache_takes_two_thousand_tiny_blocks_of_a_size() {
    for size in [8, TINY - 8] {
        let (heap, _) = row::<Parking>(size, TINY_PARKED);
        assert_eq!((heap.check(), heap.counts().merged), (Ok(TINY_PARKED), 0), "{size}");
        assert_eq!(row::<Parking>(size, TINY_PARKED + 1).0.check(), Ok(TINY_PARKED - 7), "{size}");
    }
    assert_eq!(row::<Parking>(TINY - 7, 33).0.check(), Ok(25), "a chunk of 96 bytes");
}

/// Small requests in a row are cut from one remainder.
#[test]
fn the_last_remainder_serves_the_next_small_request() {
    let mut heap = heap::<Counted<Mod>>();
    let hole = freed(&mut heap, [9000])[0];
    for n in 0..5 {
        assert_eq!(take(&mut heap, 104).addr(), hole.addr() + 112 * n);
    }
    let counts = heap.counts();
    assert_eq!((counts.split, counts.sorted), (5, 1));
}

/// A variant that does not count has no counts.
#[test]
fn only_a_counted_variant_counts() {
    let mut plain = heap::<Original>();
    freed(&mut plain, [104; 4]);
    assert_eq!(plain.counts(), Counts::default());
    let mut counted = heap::<Counted<Original>>();
    freed(&mut counted, [104; 4]);
    let counts = counted.counts();
    assert_eq!((counts.unsorted, counts.filed, counts.sorted, counts.split), (4, 0, 0, 0));
}

/// A chunk that grows is filed when another one grows, and not with each merge.
#[test]
fn a_run_is_filed_once() {
    fn filed<V: Variant>() -> u64 {
        let mut heap = heap::<Counted<V>>();
        for _ in 0..2 {
            let blocks: Vec<_> = (0..50).map(|_| take(&mut heap, 104)).collect();
            take(&mut heap, 16);
            for block in blocks {
                // SAFETY: live, and freed once.
                unsafe { heap.free(block) };
                heap.check().unwrap();
            }
        }
        heap.counts().filed
    }
    // Each of 100 frees, and each of 49 remainders of the second round.
    assert_eq!(filed::<Stacks>(), 149);
    // Each run is filed before its first merge. The second round is cut from the first run.
    assert_eq!(filed::<Runs>(), 2);
}
