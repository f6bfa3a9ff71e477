//! In the default build a bin of the first heap begins with a short slab, and each next one is
//! twice as long, up to the longest of its class. A busy bin gets one of that length.

use crate::common::plain::{AT_ONCE, Dice, birth, one_heap, two_heaps};
use crate::common::world::code_address;
use toft_core::Allocator;
use toft_core::os::fake::{Fake, Request};
use toft_core::report::Call;
use toft_core::slab::{SMALL_MAX, SizeClass};
use toft_core::thread::SHARE_FROM;

const KIB: usize = 1 << 10;

/// The numbers of slots of all slabs of a class.
fn lengths(allocator: &Allocator<Fake>, class: SizeClass) -> Vec<usize> {
    let mut lengths = Vec::new();
    allocator.for_each_slab(|slab| {
        if slab.class() == class {
            lengths.push(slab.slots());
        }
    });
    lengths
}

/// The bytes of addresses from the first slab to the end of the last.
fn address_space(allocator: &Allocator<Fake>) -> usize {
    let (mut first, mut end) = (usize::MAX, 0);
    allocator.for_each_slab(|slab| {
        first = first.min(slab.base());
        end = end.max(slab.base() + slab.span());
    });
    end - first
}

/// Many call sites and sizes with few blocks each: a page table has the pages of about 250 bins.
#[test]
fn bins_with_few_slots_take_few_addresses() {
    let (_, allocator, heap) = one_heap(AT_ONCE);
    let sizes = || SizeClass::all().map(SizeClass::size).filter(|&size| size <= SMALL_MAX);
    for site in 0..30 {
        for size in sizes() {
            allocator.allocate(heap, size, code_address(site)).unwrap();
        }
    }
    let mut bins = 0;
    allocator.for_each_slab(|_| bins += 1);
    assert!(bins > 10 * sizes().count(), "{bins} bins: this drives nothing");
    let bytes = address_space(&allocator);
    assert!(bytes <= bins * 8 * KIB, "{bytes} bytes of addresses for {bins} bins");
    allocator.check().unwrap();
}

#[test]
fn each_slab_is_twice_as_long_as_the_one_before() {
    for size in [16, 64, 1024, 4096, 20 << 10, 128 << 10] {
        let (_, allocator, heap) = one_heap(AT_ONCE);
        let class = SizeClass::of(size).unwrap();
        for _ in 0..5 * class.slots() {
            allocator.allocate(heap, size, code_address(1)).unwrap();
        }
        let lengths = lengths(&allocator, class);
        let most = (class.slab_bytes() / 8).next_multiple_of(4 * KIB).max(4 * size);
        assert!(lengths[0] * size <= most, "{size}: {lengths:?}");
        assert_eq!(lengths.last(), Some(&class.slots()), "{size}: {lengths:?}");
        let doubles = |pair: &[usize]| pair[1] == class.slots() || pair[1] >= 2 * pair[0];
        assert!(lengths.windows(2).all(doubles), "{size}: {lengths:?}");
        assert!(lengths.len() <= 8, "{size}: {lengths:?}");
        allocator.check().unwrap();
    }
}

/// Blocks are replaced at random while their number grows: a bin whose short slabs are drawn from
/// again goes on with long ones.
#[test]
fn a_bin_that_grows_has_few_slabs() {
    let (_, allocator, heap) = one_heap(AT_ONCE);
    let class = SizeClass::of(64).unwrap();
    let take = || allocator.allocate(heap, 64, code_address(1)).unwrap();
    let (mut live, mut dice) = (vec![take()], Dice(1));
    while live.len() < 100_000 {
        live.push(take());
        for _ in 0..2 {
            let place = dice.below(live.len());
            allocator.free(heap, live[place], Call::Free);
            live[place] = take();
        }
    }
    let slabs = lengths(&allocator, class).len();
    // A quarter of each may be free.
    let most = live.len().div_ceil(class.slots()) * 4 / 3 + 3;
    assert!(slabs <= most, "{slabs} slabs, {most} would do");
}

/// The slabs of a shared heap, too, although each is opened by a thread that has none.
#[test]
fn slabs_of_shared_heaps_grow() {
    let (fake, allocator, _) = one_heap(AT_ONCE);
    let class = SizeClass::of(1024).unwrap();
    (0..SHARE_FROM).for_each(|_| _ = birth(&allocator));
    for _ in 0..40 {
        let heap = birth(&allocator);
        for _ in 0..10 {
            allocator.allocate(heap, 1024, code_address(1)).unwrap();
            fake.pass(25);
        }
    }
    // 400 blocks: 8, 16, 32 and 64 slots, and five times 64.
    let lengths = lengths(&allocator, class);
    assert_eq!(lengths[..4], [8, 16, 32, 64]);
    assert!(lengths.len() <= 10, "{lengths:?}");
}

/// Threads free each other's blocks, and each slab costs them cache lines that move.
#[test]
fn a_heap_that_is_not_the_first_begins_with_long_slabs() {
    let (_, allocator, first, second) = two_heaps(AT_ONCE);
    for size in [64, 1000, 5000] {
        let class = SizeClass::of(size).unwrap();
        for (heap, slots) in [(first, class.slots_after(0)), (second, class.slots())] {
            let before = lengths(&allocator, class).len();
            allocator.allocate(heap, size, code_address(1)).unwrap();
            assert_eq!(lengths(&allocator, class)[before..], [slots], "{size}");
        }
    }
}

/// A few blocks that are replaced again and again get long claims, and a few times not.
#[test]
fn a_bin_with_many_frees_gets_long_slabs() {
    for size in [64, 200, 1000] {
        let class = SizeClass::of(size).unwrap();
        let slabs_after = |rounds: usize| {
            let (_, allocator, heap) = one_heap(AT_ONCE);
            let take = || allocator.allocate(heap, size, code_address(1)).unwrap();
            let mut live: Vec<_> = (0..3).map(|_| take()).collect();
            for round in 0..rounds {
                let place = round % live.len();
                allocator.free(heap, live[place], Call::Free);
                live[place] = take();
            }
            allocator.check().unwrap();
            lengths(&allocator, class)
        };
        let first = class.slots_after(0);
        assert_eq!(slabs_after(60 * first), [first], "{size}");
        let lengths = slabs_after(500 * class.slots());
        assert_eq!(lengths.last(), Some(&class.slots()), "{size}: {lengths:?}");
        assert!(lengths.len() <= 5, "{size}: {lengths:?}");
    }
}

/// Wherever they were at first, they end in one slab of the greatest length. Short slabs are used
/// last, and become empty.
#[test]
fn blocks_that_are_replaced_at_random_move_to_a_long_slab() {
    for (blocks, size) in [(4, 20_000), (8, 2000), (8, 8000), (16, 5000), (40, 3000), (100, 64)] {
        let class = SizeClass::of(size).unwrap();
        let (_, allocator, heap) = one_heap(AT_ONCE);
        let take = || allocator.allocate(heap, size, code_address(1)).unwrap();
        let mut live: Vec<_> = (0..blocks).map(|_| take()).collect();
        let mut dice = Dice(1);
        for _ in 0..100_000 {
            let place = dice.below(blocks);
            allocator.free(heap, live[place], Call::Free);
            live[place] = take();
        }
        let mut slabs = Vec::new();
        allocator.for_each_slab(|slab| {
            if slab.class() == class {
                slabs.push((slab.slots(), slab.live_slots()));
            }
        });
        let longest = slabs.iter().filter(|&&(slots, _)| slots == class.slots());
        assert_eq!(longest.map(|&(_, live)| live).sum::<usize>(), blocks, "{size}: {slabs:?}");
        assert!(slabs.len() <= 6, "{size}: {slabs:?}");
        allocator.check().unwrap();
    }
}

/// What a process needs of the metadata for its first large block was mapped at the start.
#[test]
fn a_first_large_block_maps_nothing_but_itself() {
    let (fake, allocator, heap) = one_heap(AT_ONCE);
    for size in [300 << 10, 40 << 20] {
        let before = fake.calls(Request::Map);
        let block = allocator.allocate(heap, size, code_address(1)).unwrap();
        assert_eq!(fake.calls(Request::Map) - before, 1);
        allocator.free(heap, block, Call::Free);
    }
    // They were counted there, too.
    let mut made = Vec::new();
    allocator.large().tally().for_each(|one| made.push((one.blocks, one.bytes)));
    assert_eq!(made, [(2, (300 << 10) + (40 << 20))]);
    allocator.check().unwrap();
}
