//! The control groups of the small-bin experiment: each is a sound heap, and sorts what its name
//! says and nothing else.

use crate::common::shapes::{
    Large, Patched, Queued, Remnants, Sorted, SortedParks, Stacked, anywhere,
};
use crate::common::{Op, Shadow, ops};
use proptest::prelude::*;
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::control::{
    FirstOut, Mod, ModParking, ModUnlikely, ModUnlikelyInverted, OnlyUnlikely, Original,
    OriginalParking, Parking, Remainders, Runs,
};
use toft_arena::{Anywhere, Fault, Heap, Shape, Standard};

/// Random operations against the shadow, with the invariants checked after each.
fn run<S: Shape<Space = Anywhere>>(ops: &[Op], first: usize) {
    let mut shadow = Shadow::<S>::new(128 << 10, anywhere);
    shadow.claim(16 << 10, first, true);
    for op in ops {
        shadow.step(op);
    }
    shadow.finish();
}

macro_rules! model {
    ($($name:ident: $shape:ty;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig {
                failure_persistence: None,
                ..ProptestConfig::with_cases(
                    std::env::var("TOFT_ARENA_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
                )
            })]
            $(
                #[test]
                fn $name(ops in ops(200), first in prop_oneof![0..2000_usize, 8000..60_000_usize]) {
                    run::<$shape>(&ops, first);
                }
            )*
        }
    };
}

model! {
    original: Original;
    r#mod: Mod;
    mod_unlikely: ModUnlikely;
    only_unlikely: OnlyUnlikely;
    mod_unlikely_inverted: ModUnlikelyInverted;
    remainders: Remainders;
    first_out: FirstOut;
    runs: Runs;
    parking: Parking;
    original_parking: OriginalParking;
    mod_parking: ModParking;
    sorted: Sorted;
    patched: Patched;
    large: Large;
    remnants: Remnants;
    queued: Queued;
    stacked: Stacked;
    sorted_parks: SortedParks;
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn heap<S: Shape<Space = Anywhere>>() -> Heap<S> {
    let memory = Box::leak(vec![0_u64; 1 << 15].into_boxed_slice());
    let mut heap = Heap::new(Anywhere);
    // SAFETY: the memory is never used by anybody else.
    unsafe { heap.claim(memory.as_mut_ptr().cast(), 1 << 18) }.unwrap();
    heap
}

fn take<S: Shape>(heap: &mut Heap<S>, size: usize) -> NonNull<u8> {
    heap.allocate(layout(size)).unwrap()
}

/// Frees blocks of these sizes between live ones, and returns them.
fn freed<S: Shape>(heap: &mut Heap<S>, sizes: impl Iterator<Item = usize>) -> Vec<NonNull<u8>> {
    let made: Vec<_> = sizes
        .map(|size| {
            let block = take(heap, size);
            take(heap, 16);
            block
        })
        .collect();
    for block in &made {
        // SAFETY: live, and freed once.
        unsafe { heap.deallocate(*block) };
    }
    made
}

/// How many chunks are sorted by a request that no free chunk serves.
fn sorted_after<S: Shape<Space = Anywhere>>(before: impl FnOnce(&mut Heap<S>)) -> u64 {
    let mut heap = heap::<S>();
    before(&mut heap);
    heap.check().unwrap();
    let probes = heap.counters().probes;
    take(&mut heap, 20_000);
    heap.check().unwrap();
    assert_eq!(heap.faults().0, 0);
    heap.counters().probes - probes
}

/// Of ten freed small chunks, ten large ones, and ten remainders, how many are sorted later.
fn sorted_of<S: Shape<Space = Anywhere>>() -> [u64; 3] {
    let small = sorted_after::<S>(|heap| drop(freed(heap, (0..10).map(|n| 104 + 16 * n))));
    let large = sorted_after::<S>(|heap| drop(freed(heap, (0..10).map(|n| 1000 + 400 * n))));
    let remainders = sorted_after::<S>(|heap| {
        let blocks: Vec<_> = (0..10)
            .map(|_| {
                let (block, behind) = (take(heap, 100), take(heap, 1000));
                take(heap, 16);
                (block, behind)
            })
            .collect();
        for (_, behind) in &blocks {
            // SAFETY: live, and freed once.
            unsafe { heap.deallocate(*behind) };
        }
        // Sorts what was freed; then each block takes a part of what is behind it.
        take(heap, 20_000);
        for (block, _) in &blocks {
            // SAFETY: live.
            assert!(unsafe { heap.grow_in_place(*block, 200) });
        }
    });
    [small, large, remainders]
}

#[test]
fn each_group_sorts_what_its_name_says() {
    assert_eq!(sorted_of::<Sorted>(), [10, 10, 10]);
    assert_eq!(sorted_of::<Stacked>(), [10, 10, 10]);
    assert_eq!(sorted_of::<Patched>(), [0, 10, 10]);
    assert_eq!(sorted_of::<Large>(), [0, 10, 0]);
    assert_eq!(sorted_of::<Remnants>(), [0, 0, 10]);
    assert_eq!(sorted_of::<Queued>(), [0, 0, 0]);
}

/// `rest` keeps the larger of two remainders, and the other one is routed as any.
#[test]
fn a_remainder_that_is_smaller_than_rest_is_a_remainder() {
    fn sorted<S: Shape<Space = Anywhere>>() -> u64 {
        sorted_after::<S>(|heap| {
            freed(heap, [5000, 1000].into_iter());
            take(heap, 4500);
            take(heap, 900);
        })
    }
    assert_eq!(sorted::<Remnants>(), 1);
    assert_eq!(sorted::<Queued>(), 0);
}

#[test]
fn a_chunk_of_exactly_the_size_is_taken_while_others_are_sorted() {
    let mut heap = heap::<Sorted>();
    let all = freed(&mut heap, [104, 120, 136, 152].into_iter());
    let before = heap.counters().probes;
    // The first two are sorted, the third is taken, the fourth is left.
    assert_eq!(take(&mut heap, 136), all[2]);
    assert_eq!(heap.counters().probes - before, 2);
    // Those that were sorted are found in their bins, and nothing is sorted for them.
    assert_eq!([take(&mut heap, 120), take(&mut heap, 104)], [all[1], all[0]]);
    assert_eq!(heap.counters().probes - before, 2);
    assert_eq!(take(&mut heap, 152), all[3]);
    heap.check().unwrap();
}

#[test]
fn an_exact_bin_is_a_queue_or_a_stack() {
    fn order<S: Shape<Space = Anywhere>>() -> [usize; 4] {
        let mut heap = heap::<S>();
        let all = freed(&mut heap, [104; 4].into_iter());
        [(); 4].map(|()| {
            let next = take(&mut heap, 104);
            all.iter().position(|block| *block == next).unwrap()
        })
    }
    assert_eq!(order::<Standard>(), [3, 2, 1, 0]);
    assert_eq!(order::<Stacked>(), [3, 2, 1, 0]);
    assert_eq!(order::<FirstOut>(), [0, 1, 2, 3]);
    assert_eq!(order::<Original>(), [0, 1, 2, 3]);
    assert_eq!(order::<Mod>(), [0, 1, 2, 3]);
}

/// What one request does not sort another does; and none fails that could be met.
#[test]
fn a_request_sorts_no_more_than_a_bound_and_all_of_it_before_it_fails() {
    const MANY: usize = 12_000;
    let memory = Box::leak(vec![0_u64; 1 << 17].into_boxed_slice());
    let mut heap = Heap::<Sorted>::new(Anywhere);
    // SAFETY: the memory is never used by anybody else.
    unsafe { heap.claim(memory.as_mut_ptr().cast(), 1 << 20) }.unwrap();
    let last = freed(&mut heap, std::iter::repeat_n(24, MANY).chain([2000]))[MANY];
    take(&mut heap, 5000);
    assert_eq!(heap.counters().probes, 10_000);
    while heap.allocate(layout(4000)).is_ok() {}
    while heap.allocate(layout(2001)).is_ok() {}
    assert_eq!(take(&mut heap, 1999), last);
    heap.check().unwrap();
}

/// As the test above, for a size that has a separate bin.
#[test]
fn a_small_request_does_not_fail_before_all_is_sorted() {
    const MANY: usize = 12_000;
    let memory = Box::leak(vec![0_u64; 1 << 17].into_boxed_slice());
    let mut heap = Heap::<Sorted>::new(Anywhere);
    // SAFETY: the memory is never used by anybody else.
    unsafe { heap.claim(memory.as_mut_ptr().cast(), 1 << 20) }.unwrap();
    let sizes = std::iter::repeat_n(24, MANY).chain([400]);
    let blocks: Vec<_> = sizes.map(|size| (take(&mut heap, size), take(&mut heap, 16))).collect();
    while heap.allocate(layout(16)).is_ok() {}
    let before = heap.counters().probes;
    for (block, _) in &blocks {
        // SAFETY: live, and freed once.
        unsafe { heap.deallocate(*block) };
    }
    assert_eq!(take(&mut heap, 300), blocks[MANY].0);
    assert_eq!(heap.counters().probes - before, MANY as u64 + 1);
    heap.check().unwrap();
}

/// The words of a free chunk are those of a machine of 64 bits.
#[cfg(target_pointer_width = "64")]
mod written_over {
    use super::*;

    /// Writes a word beside a block, as a program with a defect would.
    unsafe fn poke(block: NonNull<u8>, word: isize, value: usize) {
        // SAFETY: the caller names words of the same memory.
        unsafe { block.as_ptr().cast::<usize>().offset(word).write(value) };
    }

    /// Each link of the list that is to be sorted, and each size, before it is believed. Word 0 of
    /// a chunk, its link to the next, is just before its block; then come the link back and the
    /// size.
    fn named<S: Shape<Space = Anywhere>>(which: usize, word: isize, value: usize) {
        let mut heap = heap::<S>();
        let all = freed(&mut heap, (0..4).map(|n| 2000 + 400 * n));
        heap.check().unwrap();
        // SAFETY: words of a chunk that is free.
        unsafe { poke(all[which], word, value) };
        assert!(heap.check().is_err(), "{which} {word} {value:#x}");
        // This sorts the whole list, and no request gets what it should not.
        let block = take(&mut heap, 20_000);
        let (count, last) = heap.faults();
        assert!(
            count > 0 && matches!(last, Some(Fault::BrokenLink(_))),
            "{which} {word} {value:#x}"
        );
        let end = block.addr().get() + 20_000;
        assert!(
            all.iter().all(|free| !(block.addr()..end.try_into().unwrap()).contains(&free.addr()))
        );
    }

    #[test]
    fn a_link_of_the_list_that_is_sorted_is_named() {
        for (word, value) in
            [(-1, 0x10), (-1, usize::MAX & !15), (0, 0x18), (1, 40), (1, 4096), (1, 1 << 40)]
        {
            for which in 0..4 {
                named::<Original>(which, word, value);
                named::<OnlyUnlikely>(which, word, value);
                named::<Mod>(which, word, value);
                named::<ModUnlikely>(which, word, value);
                named::<ModUnlikelyInverted>(which, word, value);
            }
        }
    }

    /// Its twin: what the user may have left in the block says nothing.
    #[test]
    fn what_else_is_in_a_free_chunk_is_not_looked_at() {
        let mut heap = heap::<Original>();
        let all = freed(&mut heap, (0..4).map(|n| 2000 + 400 * n));
        // SAFETY: words of a chunk that is free.
        unsafe { poke(all[1], 7, usize::MAX) };
        heap.check().unwrap();
        take(&mut heap, 20_000);
        assert_eq!(heap.faults(), (0, None));
    }

    /// Where chunks go behind the last one, that one is looked at first.
    #[test]
    fn the_last_of_a_queue_is_looked_at_before_another_goes_behind_it() {
        fn goes_behind<S: Shape<Space = Anywhere>>(size: usize) {
            let mut heap = heap::<S>();
            let (other, _) = (take(&mut heap, 3 * size), take(&mut heap, 16));
            let all = freed(&mut heap, [size; 3].into_iter());
            // SAFETY: live, and freed once; a word of a chunk that is free.
            unsafe {
                poke(all[2], -1, all[0].addr().get());
                heap.deallocate(other);
            }
            let same = take(&mut heap, size);
            // A queue by size has found nothing yet: another of this size goes behind the last.
            // SAFETY: live, and freed once.
            unsafe { heap.deallocate(same) };
            let (count, last) = heap.faults();
            assert!(count > 0 && matches!(last, Some(Fault::BrokenLink(_))), "{size}: {count}");
        }
        goes_behind::<Original>(104);
        goes_behind::<Original>(2000);
        goes_behind::<Mod>(104);
        goes_behind::<FirstOut>(104);
    }
}
