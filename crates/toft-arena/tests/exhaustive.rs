//! Tiny arenas: every size from nothing up, and in the smallest every sequence of operations.

mod common;

use common::shapes::{Parks, Queued, Sorted, Tiny, anywhere, within};
use common::{Op, Shadow};
use std::alloc::Layout;
use toft_arena::{Checked, Heap, Narrow, Packed, Relative, Shape, Standard};

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
    every_span::<Sorted>(word, anywhere);
    every_span::<Relative>(word, within);
    every_span::<Narrow>(4, within);
    every_span::<Tiny>(4, within);
}

/// The smallest arenas that serve: 24 bytes and a fence, and with four-byte words 12 and a fence.
#[cfg(target_pointer_width = "64")]
#[test]
fn the_smallest_arena_has_one_block() {
    let mut packed = Shadow::<Packed>::new(4096, anywhere);
    assert!(!packed.claim(0, 31, false) && packed.claim(0, 32, false));
    packed.allocate(16, 8, false);
    assert_eq!(packed.live(), 1);
    let mut tiny = Shadow::<Tiny>::new(4096, within);
    assert!(!tiny.claim(4, 15, false) && tiny.claim(4, 16, false));
    tiny.allocate(8, 4, false);
    assert_eq!(tiny.live(), 1);
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
    all_sequences::<Sorted>(128, &ops, 5, anywhere);
    all_sequences::<Queued>(128, &ops, 5, anywhere);
    all_sequences::<Tiny>(68, &ops, 4, within);
    all_sequences::<Standard>(160, &ops, 4, anywhere);
}

/// What a block costs: a word, rounded to the alignment, and three words at least.
#[test]
fn a_megabyte_holds_as_many_blocks_as_their_chunks() {
    fn holds<S: Shape>(cost: impl Fn(usize) -> usize, heap: impl Fn(*mut u8, usize) -> Heap<S>) {
        for size in [0, 1, 8, 16, 17, 24, 25, 100, 500, 512] {
            let memory = vec![0_u64; 1 << 14];
            let start = memory.as_ptr().cast_mut().cast::<u8>();
            let mut heap = heap(start, 1 << 17);
            // SAFETY: the vector outlives the heap.
            let span = unsafe { heap.claim(start, 1 << 17) }.unwrap();
            let layout = Layout::from_size_align(size, 1).unwrap();
            let mut blocks = 0;
            while heap.allocate(layout).is_ok() {
                blocks += 1;
            }
            // One word of the span is its fence.
            assert_eq!(blocks, (span.size - 4) / cost(size), "{size}");
        }
    }
    let word = size_of::<usize>();
    let eight = |size: usize| (size + word).next_multiple_of(8).max((3 * word).next_multiple_of(8));
    let sixteen =
        |size: usize| (size + word).next_multiple_of(16).max((3 * word).next_multiple_of(16));
    let narrow = |size: usize| (size + 4).next_multiple_of(8).max(16);
    holds::<Packed>(eight, anywhere);
    holds::<Relative>(eight, within);
    holds::<Standard>(sixteen, anywhere);
    holds::<Narrow>(narrow, within);
}

/// The common path takes the first chunk that it looks at.
#[test]
fn small_requests_look_at_no_chunk_that_does_not_serve() {
    let memory = vec![0_u64; 1 << 16];
    let mut heap = Heap::<Checked>::new(toft_arena::Anywhere);
    // SAFETY: the vector outlives the heap.
    unsafe { heap.claim(memory.as_ptr().cast_mut().cast(), 1 << 19) }.unwrap();
    let (mut live, mut refused) = (Vec::new(), 0);
    for turn in 0..50_000_usize {
        let layout = Layout::from_size_align(turn * 7919 % 1000, 8).unwrap();
        match heap.allocate(layout) {
            Ok(block) => live.push(block),
            Err(_) => refused += 1,
        }
        if turn % 20 > 10 || live.len() > 900 {
            // SAFETY: a live block.
            unsafe { heap.deallocate(live.swap_remove(turn * 31 % live.len())) };
        }
    }
    assert_eq!((refused, heap.counters().probes), (0, 0));
    // Its twin: a large one looks at smaller ones that share its bin.
    let one = |heap: &mut Heap<Checked>, size| {
        heap.allocate(Layout::from_size_align(size, 8).unwrap()).unwrap()
    };
    // SAFETY: no block is used any more.
    unsafe { heap.reset() };
    let smaller = one(&mut heap, 1152);
    one(&mut heap, 8);
    // SAFETY: a live block.
    unsafe { heap.deallocate(smaller) };
    assert_ne!(one(&mut heap, 1192), smaller);
    assert_eq!(heap.counters().probes, 1);
}
