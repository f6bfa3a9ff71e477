//! Tiny arenas: every size from nothing up, and in the smallest every sequence of operations.

use crate::common::contract::layout;
use crate::common::shapes::{Parks, Tiny, anywhere, within};
use crate::common::words::{heap_of, heap_within, is_full_of, memory};
use crate::common::{Op, Shadow};
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::{Narrow, Packed, Relative, Shape, Standard};
use toft_arena::{Anywhere, Checked, Fast, Heap, Small, SpanError};

/// Every span of up to 300 bytes at every offset is refused or used to its last chunk.
fn every_span<S: Shape>(word: usize, heap: fn(*mut u8, usize) -> Heap<S>) {
    let least = (3 * word).next_multiple_of(S::ALIGN);
    for size in 0..300 {
        for offset in [64, 65, 68, 72, 79] {
            let mut shadow = Shadow::new(1024, heap);
            let claimed = shadow.claim(offset, size, false);
            // A chunk, its fence, and at most what alignment takes from both ends.
            assert!(claimed || size < least + word + 2 * S::ALIGN, "{size} at {offset}");
            assert!(!claimed || size >= least + word, "{size} at {offset}");
            let mut blocks = 0;
            while shadow.heap.largest_free().is_some() {
                shadow.allocate(0, 1, false);
                blocks += 1;
                assert_eq!(shadow.live(), blocks);
            }
            shadow.allocate(0, 1, true);
            assert_eq!(shadow.live(), blocks, "more than there is");
            assert_eq!(claimed, blocks > 0);
            shadow.compare();
            shadow.finish();
        }
    }
}

#[test]
fn every_small_span_is_used_to_its_end() {
    let word = size_of::<usize>();
    every_span::<Packed>(word, anywhere);
    every_span::<Standard>(word, anywhere);
    every_span::<Checked>(word, anywhere);
    every_span::<Parks>(word, anywhere);
    every_span::<Relative>(word, within);
    every_span::<Narrow>(4, within);
    every_span::<Tiny>(4, within);
}

/// All sequences of `depth` operations out of `ops`, each from the start.
fn all_sequences<S: Shape>(
    size: usize,
    ops: &[Op],
    depth: usize,
    heap: fn(*mut u8, usize) -> Heap<S>,
) {
    let mut which = vec![0; depth];
    loop {
        let sequence: Vec<_> = which.iter().map(|&op| ops[op].clone()).collect();
        let done = std::panic::catch_unwind(|| {
            let mut shadow = Shadow::new(512, heap);
            shadow.claim(128, size, true);
            sequence.iter().for_each(|op| shadow.step(op));
            shadow.finish();
        });
        assert!(done.is_ok(), "{sequence:?}");
        let Some(place) = which.iter().rposition(|&op| op + 1 < ops.len()) else { return };
        which[place] += 1;
        which[place + 1..].fill(0);
    }
}

#[test]
fn every_sequence_of_five_operations_in_a_tiny_arena() {
    let allocate = |size, align| Op::Allocate { size, align, zeroed: size % 2 == 0 };
    let ops = [
        allocate(1, 0),
        allocate(24, 0),
        allocate(41, 0),
        allocate(8, 5),
        Op::Free { which: 0, way: 0 },
        Op::Free { which: 1, way: 1 },
        Op::Resize { which: 0, size: 56, way: 0 },
        Op::Resize { which: 1, size: 3, way: 1 },
        Op::Resize { which: 1, size: 30, way: 2 },
        Op::Extend { which: 0, low: 24, high: 25 },
        Op::Truncate { which: 0, low: 24, high: 32 },
    ];
    all_sequences::<Packed>(128, &ops, 5, anywhere);
    all_sequences::<Parks>(128, &ops, 5, anywhere);
    all_sequences::<Tiny>(68, &ops, 4, within);
    all_sequences::<Standard>(160, &ops, 4, anywhere);
}

/// What a block costs: a word, rounded to the alignment, and three words at least.
#[test]
fn a_megabyte_holds_as_many_blocks_as_their_chunks() {
    fn holds<S: Shape>(mut heap: Heap<S>, word: usize) {
        for size in [0, 1, 8, 16, 17, 24, 25, 100, 500, 512] {
            let cost = (size + word).max(3 * word).next_multiple_of(S::ALIGN);
            let blocks = std::iter::from_fn(|| heap.allocate(layout(size, 1)).ok()).count();
            // One word of the span is its fence.
            assert_eq!(blocks, (heap.claimed() - word) / cost, "{size}");
            // SAFETY: no block is used any more.
            unsafe { heap.reset() };
        }
    }
    let word = size_of::<usize>();
    holds(heap_of::<Packed>(1 << 20), word);
    holds(heap_of::<Standard>(1 << 20), word);
    holds(heap_within::<usize, Relative>(1 << 20), word);
    holds(heap_within::<u32, Narrow>(1 << 20), 4);
}

/// The largest block of a small arena, with the heap beside its memory or in front of it.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_small_arena_is_usable_but_for_a_tag_a_fence_and_the_heap_if_that_lies_in_it() {
    fn usable<S: Shape<Space = Anywhere>>(size: usize, inside: bool) -> usize {
        let (start, mut beside) = (memory(size), Heap::<S>::new(Anywhere));
        // SAFETY: the memory is used by this heap only, and the heap in it does not claim itself.
        unsafe {
            let (heap, taken) = if inside {
                start.cast::<Heap<S>>().write(Heap::new(Anywhere));
                (&mut *start.cast::<Heap<S>>(), size_of::<Heap<S>>())
            } else {
                (&mut beside, 0)
            };
            heap.claim(start.add(taken), size - taken).unwrap();
            let largest = heap.largest_free().unwrap();
            heap.allocate(layout(largest, 1)).unwrap();
            assert_eq!(heap.largest_free(), None);
            largest
        }
    }
    for size in [1024, 4096] {
        assert_eq!(usable::<Packed>(size, false), size - 16);
        assert_eq!(usable::<Small>(size, false), size - 16);
        assert_eq!(usable::<Small>(size, true), size - 16 - size_of::<Heap<Small>>());
        // What is aligned to more begins later.
        assert_eq!(usable::<Standard>(size, false), size - 24);
        assert_eq!(usable::<Fast>(size, false), size - 40);
    }
    assert!(size_of::<Heap<Small>>() < 800, "{}", size_of::<Heap<Small>>());
}

/// The common path takes the first chunk that it checks.
#[test]
fn small_requests_look_at_no_chunk_that_does_not_serve() {
    let mut heap = heap_of::<Checked>(1 << 19);
    let (mut live, mut refused) = (Vec::new(), 0);
    for turn in 0..50_000_usize {
        match heap.allocate(layout(turn * 7919 % 1000, 8)) {
            Ok(block) => live.push(block),
            Err(_) => refused += 1,
        }
        if turn % 20 > 10 || live.len() > 900 {
            // SAFETY: a live block.
            unsafe { heap.deallocate(live.swap_remove(turn * 31 % live.len())) };
        }
    }
    assert_eq!((refused, heap.counters().probes), (0, 0));
    // Its twin: a large one checks smaller ones that share its bin.
    let one = |heap: &mut Heap<Checked>, size| heap.allocate(layout(size, 8)).unwrap();
    // SAFETY: no block is used any more.
    unsafe { heap.reset() };
    let smaller = one(&mut heap, 1152);
    one(&mut heap, 8);
    // SAFETY: a live block.
    unsafe { heap.deallocate(smaller) };
    assert_ne!(one(&mut heap, 1192), smaller);
    assert_eq!(heap.counters().probes, 1);
}

/// Where it is known how large the chunks of a bin are at most, a list is looked through for
/// nothing once, and again when a chunk has come that might serve.
#[test]
fn a_list_is_not_looked_through_for_nothing_again() {
    fn probes<S: Shape<Space = Anywhere>>() -> [u64; 4] {
        let mut heap = heap_of::<S>(1 << 19);
        let layout = |size| layout(size, 8);
        // SAFETY: live blocks are freed once.
        unsafe {
            // Chunks that share a bin, kept apart; the last is the largest.
            let sizes = [2304, 2312, 2320, 2376];
            let apart: Vec<_> = sizes
                .iter()
                .map(|size| {
                    let block = heap.allocate(layout(size - 8)).unwrap();
                    heap.allocate(layout(8)).unwrap();
                    block
                })
                .collect();
            while heap.allocate(layout(8)).is_ok() {}
            apart[..3].iter().for_each(|block| {
                heap.deallocate(*block);
            });
            heap.settle();
            let mut seen = [0; 4];
            let mut look = |heap: &mut Heap<S>, turn: usize, met: bool| {
                let before = heap.counters().probes;
                assert_eq!(heap.allocate(layout(2376 - 8)).is_ok(), met, "{turn}");
                heap.check().unwrap();
                seen[turn] = heap.counters().probes - before;
            };
            look(&mut heap, 0, false);
            heap.deallocate(apart[3]);
            look(&mut heap, 1, true);
            // That it has gone is seen once, and then known.
            look(&mut heap, 2, false);
            look(&mut heap, 3, false);
            seen
        }
    }
    let [before, served, after, again] = probes::<Parks>();
    assert!(
        before == 0 && served <= 1 && after >= 3 && again == 0,
        "{before} {served} {after} {again}"
    );
    // Its twin knows nothing of its bins.
    let [before, _, after, again] = probes::<Checked>();
    assert!(before >= 3 && after >= 3 && again >= 3, "{before} {after} {again}");
}

#[test]
fn the_block_of_a_size_that_was_freed_last_is_the_first_to_be_used_again() {
    let mut heap = heap_of::<Standard>(1 << 16);
    let mut kept_apart = || {
        let block = heap.allocate(layout(104, 8)).unwrap();
        heap.allocate(layout(16, 8)).unwrap();
        block
    };
    let made = [(); 4].map(|()| kept_apart());
    // SAFETY: each is live, and freed once.
    made.iter().for_each(|block| _ = unsafe { heap.deallocate(*block) });
    let again = [(); 4].map(|()| heap.allocate(layout(104, 8)).unwrap());
    assert!(again.iter().eq(made.iter().rev()), "{again:?} of {made:?}");
}

/// Blocks by size, where they are and where they have been.
#[test]
fn a_histogram_counts_blocks_by_size() {
    let mut shadow = Shadow::new(64 << 10, anywhere::<Packed>);
    assert!(shadow.claim(0, 64 << 10, false));
    for size in [8, 20, 100, 100, 1000, 5000] {
        shadow.allocate(size, 8, false);
    }
    let sizes = shadow.heap.histogram();
    let live: Vec<_> = sizes.live.iter().enumerate().filter(|(_, count)| **count != 0).collect();
    // Chunks of 24, 32, twice 112, 1008 and 5008 bytes.
    assert_eq!(live, [(4, &1), (5, &1), (6, &2), (9, &1), (12, &1)]);
    assert_eq!(sizes.free.iter().sum::<usize>(), 1);
    shadow.finish();
    let sizes = shadow.heap.histogram();
    assert_eq!((sizes.live.iter().sum::<usize>(), sizes.free[15]), (0, 1));
}

/// Neither what is free below a block nor what is free above is enough for it, but both are.
#[test]
fn a_block_grows_both_ways() {
    fn grows<S: Shape>(heap: fn(*mut u8, usize) -> Heap<S>, align: usize) {
        // Above the block is a chunk of a bin, the rest, or the top.
        for kind in 0..3 {
            let mut shadow = Shadow::new(128 << 10, heap);
            assert!(shadow.claim(0, 64 << 10, false));
            // Large enough that nothing of this size is parked.
            let size = 9000;
            for _ in 0..6 {
                shadow.allocate(size, align, false);
            }
            let heap = &mut shadow.heap;
            let mut blocks = Vec::new();
            heap.walk(|block| blocks.push((block.start, block.live)));
            blocks.retain(|block| block.1);
            let block = |number: usize| NonNull::new(blocks[number].0).unwrap();
            // SAFETY: blocks are live, and used as what they are.
            unsafe {
                let middle = block(if kind == 2 { 5 } else { 1 });
                if kind == 2 {
                    heap.deallocate(block(4));
                } else {
                    heap.deallocate(block(0));
                    heap.deallocate(block(2));
                    if kind == 1 {
                        // Of one of both the end is the rest, and then all of it.
                        let front = heap.allocate(layout(size / 2, 8)).unwrap();
                        heap.deallocate(front);
                    }
                }
                middle.as_ptr().write_bytes(9, size);
                // There is no room for this anywhere else.
                let wanted = 2 * size + 4000;
                let fill = || heap.allocate(layout(wanted, 8)).ok();
                let filler: Vec<_> = std::iter::from_fn(fill).collect();
                let before = heap.survey();
                let larger = heap.reallocate(middle, layout(size, align), wanted);
                let larger = larger.unwrap_or_else(|_| panic!("kind {kind}: {before:?}"));
                assert_eq!(larger.as_ptr().addr() % align, 0);
                assert!(larger < middle);
                assert!(is_full_of(9, larger, size));
                heap.check().unwrap();
                heap.deallocate(larger);
                for one in filler {
                    heap.deallocate(one);
                }
                heap.check().unwrap();
                assert_eq!(heap.faults().0, 0);
            }
        }
    }
    grows::<Packed>(anywhere, 8);
    grows::<Packed>(anywhere, 64);
    grows::<Fast>(anywhere, 32);
    grows::<Narrow>(within, 8);
    grows::<Tiny>(within, 4);
}

/// A span of a fence and the smallest chunk is claimed and may be extended to itself, in every
/// shape; one byte less is too small.
#[test]
fn the_smallest_span_is_claimed_and_extended_to_itself() {
    fn holds<S: Shape>(word: usize, heap: fn(*mut u8, usize) -> Heap<S>) {
        let all = memory(512);
        // A byte at which a chunk may begin.
        let from = all.wrapping_add(2 * S::ALIGN - word);
        let size = (3 * word).next_multiple_of(S::ALIGN) + word;
        let mut heap = heap(all, 512);
        // SAFETY: the memory is used by this heap only.
        unsafe {
            assert_eq!(heap.claim(from, size - 1), Err(SpanError::TooSmall));
            let span = heap.claim(from, size).unwrap();
            assert_eq!((span.start, span.size), (from, size));
            assert_eq!(heap.extend(span, span), Ok(span));
            assert!(heap.allocate(Layout::new::<u8>()).is_ok());
            assert!(heap.allocate(Layout::new::<u8>()).is_err());
        }
        heap.check().unwrap();
    }
    let word = size_of::<usize>();
    holds::<Packed>(word, anywhere);
    holds::<Small>(word, anywhere);
    holds::<Standard>(word, anywhere);
    holds::<Fast>(word, anywhere);
    holds::<Relative>(word, within);
    holds::<Narrow>(4, within);
    holds::<Parks>(word, anywhere);
}

/// `Small` has its large free chunks in one bin. A request that is aligned is met from there, too.
#[test]
fn the_last_bin_serves_aligned_requests() {
    let mut heap = heap_of::<Small>(2 << 20);
    let large = layout(600 << 10, 16);
    let first = heap.allocate(large).unwrap();
    heap.allocate(Layout::new::<u64>()).unwrap();
    // What is left at the end is too small for another.
    heap.allocate(layout(1 << 20, 8)).unwrap();
    assert!(heap.allocate(large).is_err());
    // SAFETY: freed once.
    unsafe { heap.deallocate(first) };
    assert_eq!(heap.allocate(large), Ok(first));
    heap.check().unwrap();
}
