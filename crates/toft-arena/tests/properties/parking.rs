//! When blocks are parked, and what is done about those that are when memory becomes short.

use crate::common::words::{filled, heap_of, is_full_of, layout};
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::{Shape, Standard};
use toft_arena::{Anywhere, Fast, Heap};

/// Frees blocks.
///
/// # Safety
/// 1. They are live, and not used any more.
unsafe fn free<S: Shape>(heap: &mut Heap<S>, blocks: impl IntoIterator<Item = NonNull<u8>>) {
    for block in blocks {
        // SAFETY: by 1.
        unsafe { heap.deallocate(block) };
    }
    heap.check().unwrap();
}

/// A heap of 1 MiB of which the first 700 000 bytes have been used. At its start are eight parked
/// chunks, and 20 blocks.
fn used_before() -> (Heap<Fast>, Vec<NonNull<u8>>) {
    let mut heap = heap_of::<Fast>(1 << 20);
    let mut all: Vec<_> = (0..60).map(|_| heap.allocate(layout(100)).unwrap()).collect();
    // The mark for memory that becomes short is set again when half of the blocks have been freed.
    all.push(heap.allocate(layout(700_000)).unwrap());
    // SAFETY: each is freed once.
    unsafe {
        free(&mut heap, all.drain(28..).rev());
        // Until blocks are parked again.
        for _ in 0..600 {
            let block = heap.allocate(layout(100)).unwrap();
            heap.deallocate(block);
        }
        heap.settle();
        free(&mut heap, all.drain(..8));
    }
    assert_eq!(heap.survey().free_blocks, 9);
    (heap, all)
}

/// What is parked is freed when a quarter of the free memory at the end has been used, with the
/// next block that is freed; and not before.
#[test]
fn what_is_parked_goes_back_when_memory_becomes_short() {
    for (used, goes) in [(200_000, false), (300_000, true)] {
        let (mut heap, blocks) = used_before();
        let large = heap.allocate(layout(used)).unwrap();
        // SAFETY: freed once. The block below it is parked, or free.
        unsafe { free(&mut heap, [blocks[0]]) };
        // All nine lie side by side.
        assert_eq!(heap.survey().free_blocks, if goes { 2 } else { 10 });
        assert_eq!(heap.settle(), !goes);
        // SAFETY: freed once.
        unsafe { free(&mut heap, [large]) };
    }
}

/// Before memory is used that no block has had, what is parked is freed; and not before. So it is
/// for aligned blocks.
#[test]
fn what_is_parked_goes_back_before_new_memory_is_used() {
    for align in [8, 4096] {
        for (size, goes) in [(200_000, false), (750_000, true)] {
            let (mut heap, _blocks) = used_before();
            heap.allocate(Layout::from_size_align(size, align).unwrap()).unwrap();
            heap.check().unwrap();
            // An aligned block has a gap below.
            let gap = usize::from(align == 4096);
            assert_eq!(heap.survey().free_blocks, gap + if goes { 2 } else { 9 });
            assert_eq!(heap.settle(), !goes);
        }
    }
}

/// Before new memory is used, the smallest parked chunk that is larger than the request is cut.
#[test]
fn a_larger_parked_chunk_is_cut_before_new_memory_is_used() {
    for (used, cut) in [(false, true), (true, false)] {
        let mut heap = heap_of::<Fast>(1 << 20);
        let blocks = [700, 40, 1500, 40, 1000, 40].map(|size| heap.allocate(layout(size)).unwrap());
        let large = used.then(|| heap.allocate(layout(100_000)).unwrap());
        // SAFETY: each is freed once. Those of 40 bytes stay between the others.
        unsafe { free(&mut heap, large.into_iter().chain([blocks[0], blocks[2], blocks[4]])) };
        let block = heap.allocate(layout(900)).unwrap();
        heap.check().unwrap();
        assert_eq!(block == blocks[4], cut);
        // What is left of it is free, and not parked.
        assert_eq!(heap.survey().free_blocks, 4);
        assert!(heap.settle());
    }
}

/// Blocks reach hardly farther than the most bytes that they had at once.
#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn what_is_parked_lets_blocks_reach_no_farther() {
    let mut heap = heap_of::<Fast>(8 << 20);
    let (mut live, mut bytes, mut most, mut end) = (Vec::new(), 0, 0, 0);
    let mut random = 1_u64;
    let mut below = move |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % bound
    };
    let first = heap.allocate(layout(1)).unwrap().addr().get();
    for _ in 0..200_000 {
        if live.len() < 200 + below(200) {
            let size = 1 + below(3000);
            let block = heap.allocate(layout(size)).unwrap();
            live.push((block, size));
            bytes += size;
            most = most.max(bytes);
            end = end.max(block.addr().get() + size);
        } else {
            let (block, size) = live.swap_remove(below(live.len()));
            // SAFETY: freed once.
            unsafe { heap.deallocate(block) };
            bytes -= size;
        }
    }
    heap.check().unwrap();
    let percent = (end - first) * 100 / most;
    assert!(percent < 125, "{percent} %");
}

/// After a request that failed, a number of blocks are not parked: more each time, up to a bound.
#[test]
fn parking_pauses_longer_each_time_that_a_request_fails() {
    let mut heap = heap_of::<Fast>(1 << 16);
    let mut live = Vec::new();
    while let Ok(block) = heap.allocate(layout(100)) {
        live.push(block);
    }
    // Frees one block after another until one is parked, and returns the number of those.
    let mut until_parked = |heap: &mut Heap<Fast>| {
        (1..).find(|&freed| {
            let which = freed % live.len();
            // SAFETY: a live block, which is another one from now on.
            unsafe { heap.deallocate(live[which]) };
            let parked = heap.settle();
            live[which] = heap.allocate(layout(100)).unwrap();
            parked
        })
    };
    // While memory was used up it has become short some times.
    assert!(until_parked(&mut heap).is_some_and(|freed| freed <= 4097));
    for pause in [256, 512, 1024, 2048, 4096, 4096] {
        assert!(heap.allocate(layout(1000)).is_err());
        assert_eq!(until_parked(&mut heap), Some(pause + 1));
    }
    heap.check().unwrap();
}

/// A block that shrinks to less than half stays where it is, unless memory is short or the shape is
/// careful with it.
#[test]
fn a_block_that_shrinks_moves_into_a_hole_while_memory_is_short() {
    fn moves<S: Shape<Space = Anywhere>>(used: usize) -> bool {
        let mut heap = heap_of::<S>(1 << 20);
        let mut take = |size| heap.allocate(layout(size)).unwrap();
        let (hole, _, large, _): (_, _, _, NonNull<u8>) =
            (take(10_200), take(100), take(40_000), take(100));
        // SAFETY: freed once, and then the block is what `reallocate` says.
        unsafe {
            heap.deallocate(hole);
            heap.settle();
            heap.allocate(layout(used)).unwrap();
            large.write_bytes(7, 40_000);
            let new = heap.reallocate(large, layout(40_000), 9_500).unwrap();
            assert!(new == hole || new == large);
            assert!(is_full_of(7, new, 9_500));
            heap.check().unwrap();
            new == hole
        }
    }
    assert!(!moves::<Fast>(100_000) && moves::<Fast>(300_000));
    assert!(moves::<Standard>(100_000) && moves::<Standard>(300_000));
}

#[test]
fn no_more_than_sixteen_of_a_size_are_parked() {
    let (mut heap, all) = filled::<Fast>(60, 100);
    // SAFETY: each is freed once.
    unsafe { free(&mut heap, all) };
    // Those that are parked, and what all others have become.
    assert_eq!(heap.survey().free_blocks, 16 + 1);
    assert!(heap.settle() && !heap.settle());
    assert_eq!(heap.survey().free_blocks, 1);
}

/// A heap that was cleared has no parked chunks between its free ones. The test frees more blocks
/// than the heap leaves unparked after memory became short.
#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_heap_that_was_cleared_is_one_chunk() {
    let mut heap = heap_of::<Fast>(8 << 20);
    let live: Vec<_> = (0..20_000).map(|n| heap.allocate(layout(n % 300)).unwrap()).collect();
    for first in 0..3 {
        for &block in live.iter().skip(first).step_by(3) {
            // SAFETY: freed once.
            unsafe { heap.deallocate(block) };
        }
    }
    heap.check().unwrap();
    // The last block or two may be parked.
    assert!(heap.survey().free_blocks <= 3, "{:?}", heap.survey());
}
