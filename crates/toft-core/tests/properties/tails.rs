//! Address space that runs out: the pages of slabs that have no slots go, and what was freed can be
//! allocated again.

use crate::cases::cases;
use crate::common::plain::{AT_ONCE, allocator, birth, one_heap, slot};
use crate::common::world::code_address;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::HugeHabit;
use toft_core::os::fake::{Fake, Machine};
use toft_core::policy::SLACK_MIN;
use toft_core::reclaim::GRANTS;
use toft_core::report::Call;
use toft_core::slab::{SizeClass, Slab};
use toft_core::thread::Heap;

fn fill(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> Vec<usize> {
    std::iter::from_fn(|| allocator.allocate(heap, size, code_address(1))).collect()
}

fn free_all(allocator: &Allocator<Fake>, heap: &Heap, blocks: Vec<usize>) {
    blocks.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
}

fn slabs_without_tail(allocator: &Allocator<Fake>) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    allocator.for_each_slab(|slab: &Slab| {
        if slab.pages().is_without_tail() {
            let mapped = slab.pages().mapped_bytes(Machine::LARGE.page_size);
            found.push((slab.base() + mapped, slab.span() - mapped));
        }
    });
    found
}

/// Slots fill nearly all addresses that the system grants, although slabs in plots have far more
/// addresses than slots: 64 KiB for 4 KiB, 512 for 320.
#[test]
fn slabs_give_up_what_has_no_slots() {
    const ROOM: usize = 16 << 20;
    for size in [10, 60, 200, 1100, 1500] {
        let (fake, allocator, heap) = one_heap(AT_ONCE);
        let block = allocator.allocate(heap, size, code_address(1)).unwrap();
        allocator.free(heap, block, Call::Free);
        fake.set_limit(fake.mapped_bytes() + ROOM);
        let blocks = fill(&allocator, heap, size);
        let bytes = blocks.len() * slot(size);
        // The rest are descriptors, guard pages, and less than a slab.
        let least = if cfg!(feature = "secure-light") { ROOM / 3 } else { ROOM - ROOM / 6 };
        assert!(bytes > least, "{size}: {} KiB of {}", bytes >> 10, ROOM >> 10);
        assert_eq!(!slabs_without_tail(&allocator).is_empty(), cfg!(feature = "secure-light"));
        free_all(&allocator, heap, blocks);
        allocator.check().unwrap();
    }
}

/// The twin: as long as the system grants memory, no slab loses its tail.
#[test]
fn where_memory_is_not_short_slabs_stay_whole() {
    let (_, allocator, heap) = one_heap(AT_ONCE);
    let blocks: Vec<_> =
        (0..50_000).map(|_| allocator.allocate(heap, 200, code_address(1)).unwrap()).collect();
    free_all(&allocator, heap, blocks);
    assert_eq!(slabs_without_tail(&allocator), []);
}

/// Other code maps the addresses of tails. No request to the system may include them, or the fake
/// system panics.
#[test]
#[cfg_attr(not(feature = "secure-light"), ignore = "a slab of the field has no tail")]
fn what_others_map_in_place_of_a_tail_is_left_alone() {
    let options = Options { cold: 1, ..AT_ONCE };
    let (fake, allocator) = allocator(options);
    fake.set_huge_habit(HugeHabit { unasked: true, middle: false });
    let heap = birth(&allocator);
    // The tables for the first small and the first medium slab are larger than all that follows.
    for size in [16, 1100] {
        let block = allocator.allocate(heap, size, code_address(1)).unwrap();
        allocator.free(heap, block, Call::Free);
    }
    fake.set_limit(fake.mapped_bytes() + (8 << 20));
    let mut occupied = 0;
    for size in [16, 200, 1100].repeat(2) {
        let blocks = fill(&allocator, heap, size);
        for (start, len) in slabs_without_tail(&allocator) {
            occupied += usize::from(fake.occupy(start..start + len));
        }
        for _ in 0..8 {
            allocator.cold_pages().page_out();
            fake.pass(1000);
        }
        free_all(&allocator, heap, blocks);
        fake.pass(10_000);
        allocator.sweeper().sweep(Which::Free);
        allocator.sweeper().purge(Some(heap));
        allocator.check().unwrap();
    }
    assert!(occupied > 100, "{occupied}");
    // There is memory again: empty slabs are kept for a while, also those without a tail.
    let blocks = fill(&allocator, heap, 200);
    fake.set_limit(usize::MAX);
    for _ in 0..GRANTS {
        let block = allocator.allocate(heap, 1 << 20, code_address(1)).unwrap();
        allocator.free(heap, block, Call::Free);
    }
    assert!(!allocator.pressure().is_on());
    free_all(&allocator, heap, blocks);
    assert!(allocator.kept_slab_bytes() > 4 << 20);
    for _ in 0..3 {
        fake.pass(100_000);
        allocator.sweeper().sweep(Which::Idle);
    }
    assert_eq!(allocator.kept_slab_bytes(), 0);
    allocator.check().unwrap();
}

/// A slab that lost its tail, was unmapped and is used again ends with a guard page.
#[test]
#[cfg(feature = "secure-light")]
fn a_slab_without_a_tail_ends_with_a_guard_page() {
    use toft_core::os::fake::PageState;

    let (fake, allocator, heap) = one_heap(AT_ONCE);
    let block = allocator.allocate(heap, 10, code_address(1)).unwrap();
    allocator.free(heap, block, Call::Free);
    fake.set_limit(fake.mapped_bytes() + (2 << 20));
    for _ in 0..2 {
        let blocks = fill(&allocator, heap, 10);
        let tails = slabs_without_tail(&allocator);
        assert!(tails.len() > 50);
        for (start, _) in tails {
            assert_eq!(fake.page(start - 1), PageState::Guarded);
        }
        free_all(&allocator, heap, blocks);
    }
}

/// The addresses of freed large blocks wait in the secure builds. More of them take 64 KiB of
/// descriptors for each 64 MiB, which a system short of memory may grant in place of the block.
#[test]
fn large_blocks_can_be_had_again_without_memory_for_descriptors() {
    for room in (3 << 20..7 << 20).step_by(48 << 10) {
        let (fake, allocator, heap) = one_heap(AT_ONCE);
        fake.set_limit(fake.mapped_bytes() + room);
        let blocks = fill(&allocator, heap, 150_000);
        let count = blocks.len();
        free_all(&allocator, heap, blocks);
        let blocks = fill(&allocator, heap, 150_000);
        assert_eq!(blocks.len(), count, "{} KiB", room >> 10);
        free_all(&allocator, heap, blocks);
        allocator.check().unwrap();
    }
}

/// A slab with a few free slots is not on its bin's list. After a refusal these slots are used.
#[test]
fn a_few_slots_of_each_slab_can_be_had_again() {
    for every in [3, 5, 10, 50] {
        for size in [500, 1100, 3000] {
            let (fake, allocator) = allocator(AT_ONCE);
            let heap = birth(&allocator);
            fake.set_limit(fake.mapped_bytes() + (8 << 20));
            let blocks = fill(&allocator, heap, size);
            let freed: Vec<_> = blocks.iter().copied().step_by(every).collect();
            let count = freed.len();
            free_all(&allocator, heap, freed);
            let again = fill(&allocator, heap, size).len();
            assert!(again >= count, "{size} bytes: {again} of {count}, each {every}th");
            allocator.check().unwrap();
        }
    }
}

#[derive(Clone, Debug)]
struct Round {
    /// Sizes and call sites of the requests that fill the address space, in turn.
    kinds: Vec<(usize, usize)>,
    /// Which of the blocks are freed, by their number.
    freed: Vec<bool>,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let size = prop_oneof![4 => 1usize..1025, 2 => 1025usize..20_000, 1 => 20_000usize..400_000];
    let kinds = prop::collection::vec((size, 0usize..4), 1..6);
    let freed = prop::collection::vec(any::<bool>(), 1..40);
    let round = (kinds, freed).prop_map(|(kinds, freed)| Round { kinds, freed });
    prop::collection::vec(round, 1..4)
}

/// Fills `room` bytes of address space, frees some blocks, and allocates the same again from the
/// last to the first. Fails if one of these is refused.
fn allocate_again(rounds: Vec<Round>, room: usize) -> Result<(), TestCaseError> {
    allocate_most_again(rounds, room, |_| 0)
}

/// Does the same. Of requests of these sizes, up to `may_be_refused(sizes)` bytes may be refused.
fn allocate_most_again(
    rounds: Vec<Round>,
    room: usize,
    may_be_refused: impl Fn(&[(usize, usize)]) -> usize,
) -> Result<(), TestCaseError> {
    let (fake, allocator, heap) = one_heap(AT_ONCE);
    fake.set_limit(fake.mapped_bytes() + room);
    for Round { kinds, freed } in rounds {
        let mut blocks = Vec::new();
        for &(size, site) in kinds.iter().cycle() {
            match allocator.allocate(heap, size, code_address(site)) {
                Some(block) => blocks.push((block, size, site)),
                None => break,
            }
        }
        let mut gone = Vec::new();
        for (number, &(block, size, site)) in blocks.iter().enumerate() {
            if freed[number % freed.len()] {
                allocator.free(heap, block, Call::Free);
                gone.push((number, size, site));
            }
        }
        let mut refused = Vec::new();
        for &(number, size, site) in gone.iter().rev() {
            match allocator.allocate(heap, size, code_address(site)) {
                Some(again) => blocks[number].0 = again,
                None => refused.push((number, size)),
            }
        }
        let few = refused.iter().map(|(_, size)| size).sum::<usize>() <= may_be_refused(&kinds);
        prop_assert!(few, "{:?} refused, {} blocks freed", refused, gone.len());
        allocator.check().unwrap();
        let is_there = |number: &usize| !refused.iter().any(|(gone, _)| gone == number);
        let left = (0..blocks.len()).filter(is_there).map(|number| blocks[number].0);
        free_all(&allocator, heap, left.collect());
    }
    Ok(())
}

fn round(kinds: &[(usize, usize)], freed: &str) -> Vec<Round> {
    let freed = freed.chars().map(|char| char == '1').collect();
    vec![Round { kinds: kinds.to_vec(), freed }]
}

/// The smaller request finds the larger block first.
#[test]
fn a_block_in_the_place_of_a_larger_one_leaves_the_rest() {
    for (kinds, freed, room) in [
        (&[(143_361, 0), (135_169, 0)][..], "10110000", 3_497_984),
        (&[(184_321, 1), (131_073, 1)], "00000011", 2_785_280),
        (&[(286_721, 0), (131_073, 0), (155_649, 0)], "100101111100011111100", 5_492_736),
    ] {
        allocate_again(round(kinds, freed), room).unwrap();
    }
}

/// A slab of one page fits in the place of a block that had single pages: it must not be taken
/// while slabs of its bin have free slots.
#[test]
fn small_slabs_take_no_place_of_what_others_have_freed() {
    for room in (260_000..600_000).step_by(40_960) {
        let kinds = [(1, 0), (17, 0), (1, 0), (1, 1)];
        allocate_again(round(&kinds, "010001000100010001100100"), room).unwrap();
    }
}

/// A slab of medium slots would take the place of a large block that was freed.
#[test]
fn medium_slabs_take_no_place_of_a_freed_large_block() {
    let kinds = [(12_289, 0), (266_241, 0), (3585, 0), (177, 0)];
    allocate_again(round(&kinds, "00000100000000000000100000"), 5_582_848).unwrap();
}

/// A block that has become too short for its request is not made longer than it must be.
#[test]
fn a_block_that_grows_while_memory_is_short_takes_no_more_than_it_needs() {
    for kinds in [&[(143_361, 0), (135_169, 0)][..], &[(143_361, 0), (280_000, 1), (135_169, 0)]] {
        for freed in ["10110000", "110", "0111", "10010111"] {
            for room in (2_000_000..5_500_000).step_by(40_960) {
                allocate_again(round(kinds, freed), room).unwrap();
            }
        }
    }
}

/// The table of counts finds no memory when the large block is allocated for the first time, and
/// would find some the second time, in the place of the slab.
#[test]
fn counts_do_not_take_what_was_freed_after_a_refusal() {
    for size in [1793, 98_305] {
        for room in (4_900_000..5_000_000).step_by(4096) {
            let kinds = [(size, 0), (208_897, 0), (1, 0)];
            allocate_again(round(&kinds, "11"), room).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(cases(48))]

    /// After a refusal, whatever is freed can be allocated again by the same call site, in any
    /// order. One slab of each kind is an exception. A block may have had separate pages because
    /// there was no room for a slab. It may now open one, in the place of what others have freed.
    #[test]
    fn what_is_freed_after_a_refusal_can_be_had_again(
        rounds in rounds(),
        room in 256usize << 10..6 << 20,
    ) {
        // The last request that a slab leaves no room for may be refused for one byte.
        allocate_most_again(rounds, room, |kinds| {
            let longest = kinds.iter().map(|&(size, _)| size).max().unwrap_or(0);
            let class = |&(size, _): &(usize, usize)| SizeClass::of(size + SLACK_MIN);
            kinds.iter().filter_map(class).map(|class| class.span() + longest).sum()
        })?;
    }
}
