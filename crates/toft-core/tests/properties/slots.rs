//! What happens to single slots in the corners: forks and races in the middle of a call, memory
//! that is zero or not, the order of reuse, the counts.

use crate::common::plain::{
    AT_ONCE, Dice, allocator, birth, fill_short_slabs, filling, one_heap, two_heaps, with_slab,
};
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use toft_core::bin::BinIndex;
use toft_core::options::Options;
use toft_core::os::fake::{Fault, PageState, Request};
use toft_core::remote::{Marked, announce, mark_remote};
use toft_core::report::Call;
use toft_core::slab::{SizeClass, SlotState};
use toft_core::stats::snapshot;

/// A fork finds another thread between the two stores of malloc's fast path: the claim is shorter
/// by one, and the look-ahead still names the slot that was being handed out.
#[test]
fn a_fork_in_the_middle_of_malloc_leaves_a_heap_that_can_be_adopted() {
    let (_fake, allocator, mine, other) = two_heaps(Options { partitions: 1, ..Options::DEFAULT });
    let site = code_address(3);
    let take = |heap| allocator.allocate(heap, 64, site).unwrap();
    let mut live: Vec<usize> = (0..64).map(|_| take(other)).collect();
    // At uneven distances, so that an address read ahead that is off by one leads to a live block.
    for n in [1, 5, 6, 11, 20, 22, 40, 41, 44, 60] {
        allocator.free(other, live[n], Call::Free);
        live[n] = 0;
    }
    live.push(take(other));
    let bins = other.bins();
    let index = BinIndex::all(1).find(|&index| bins.listed(index).next().is_some()).unwrap();
    // The thread gets as far as this: the claim and the state are stored, the next address is not.
    bins.current(index).hand_out(bins.current(index).claimed());
    allocator.after_fork_in_child(mine);
    let adopted = birth(&allocator);
    assert!(core::ptr::eq(adopted, other));
    for number in 0..100 {
        let address = take(adopted);
        assert!(!live.contains(&address), "allocation {number}: {address:#x} is live already");
        live.push(address);
    }
    allocator.check().unwrap();
}

/// What other threads have freed is used again before slots that were never used. If they have
/// freed little of a slab, it is left for later.
#[test]
fn slots_that_others_have_freed_come_before_fresh_ones() {
    for share in [1, 8] {
        let (_fake, allocator, mine, other) = two_heaps(Options { partitions: 1, ..AT_ONCE });
        let take = || allocator.allocate(mine, filling(4096), code_address(3)).unwrap();
        fill_short_slabs(filling(4096), take);
        let mut blocks = vec![take()];
        // Until the next claim would have fresh slots.
        while blocks.len() < 40 || with_slab(&allocator, blocks[0], |slab, _| slab.claimed()) != 0 {
            blocks.push(take());
        }
        let freed = blocks.len() / share;
        blocks[..freed].iter().for_each(|&address| allocator.free(other, address, Call::Free));
        let fresh = (0..freed).map(|_| take()).filter(|address| !blocks.contains(address)).count();
        assert_eq!(fresh, if share == 1 { 0 } else { freed }, "of {freed}");
        allocator.check().unwrap();
    }
}

/// A slot that was freed by its owner while another thread, which had found it live, set its remote
/// bit: it is not handed out again before the double free has been named.
#[test]
fn a_slot_freed_twice_in_a_race_is_named_before_it_is_handed_out_again() {
    let options = Options { partitions: 1, warn_only: true, ..AT_ONCE };
    let (fake, allocator, mine, other) = two_heaps(options);
    let site = code_address(3);
    let take = || allocator.allocate(mine, filling(64), site).unwrap();
    fill_short_slabs(filling(64), take);
    let blocks: Vec<usize> = (0..256).map(|_| take()).collect();
    let freed_twice = blocks[70];
    allocator.free(mine, freed_twice, Call::Free);
    for &address in &blocks[100..200] {
        allocator.free(mine, address, Call::Free);
    }
    with_slab(&allocator, freed_twice, |slab, slot| {
        let guard = other.enter();
        assert_eq!(mark_remote(slab, slot), Marked::Unannounced);
        announce(slab);
        drop(guard);
    });
    // All that is free in this slab but for that one, and then the owner has to collect. The
    // secure build has claimed others that it takes before.
    let (mut taken, mut reports) = (0, Vec::new());
    while reports.is_empty() {
        let address = take();
        reports = fake.take_reports();
        assert!(address != freed_twice || !reports.is_empty(), "it was handed out before");
        taken += 1;
        assert!(taken <= 500, "nothing is named");
    }
    assert!(taken == 101 || cfg!(feature = "secure-light"), "{taken}");
    assert!(reports.len() == 1 && reports[0].contains("double free: free by another thread"));
    // Named, it is an ordinary free slot.
    let state = with_slab(&allocator, freed_twice, |slab, slot| slab.state(slot));
    assert!(matches!(state, SlotState::Free | SlotState::Live), "{state:?}");
}

/// calloc leaves pages alone that were not written: never used, or given back since; and no others.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn calloc_knows_zero_memory_from_other() {
    for size in [2000, 5000, 20_000, 128 << 10] {
        let (fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
        let site = code_address(3);
        let take = || {
            let address = allocator.allocate(heap, size, site).unwrap();
            (address, with_slab(&allocator, address, |slab, _| slab.handed_out_zero(address)))
        };
        fill_short_slabs(size, || take().0);
        let count = SizeClass::of(size).unwrap().slots();
        let blocks: Vec<(usize, bool)> = (0..count).map(|_| take()).collect();
        assert!(blocks.iter().all(|&(_, zero)| zero), "{size}: never used, and not zero");
        for &(address, _) in &blocks {
            bytes_of(address, size).fill(7);
            allocator.free(heap, address, Call::Free);
        }
        for _ in 0..count {
            let (address, zero) = take();
            assert!(!zero, "{size}: freed, and zero");
            allocator.free(heap, address, Call::Free);
        }
        // The system refuses memory: every empty slab gives its pages back.
        fake.set_fault(Some(Fault::from(0).only(Request::Map)));
        assert_eq!(allocator.allocate(heap, 4 << 20, site), None);
        assert_eq!(fake.page(blocks[0].0), PageState::Free);
        fake.set_fault(None);
        for _ in 0..count {
            let (address, zero) = take();
            assert!(blocks.contains(&(address, true)));
            assert!(zero && bytes_of(address, size).iter().all(|&byte| byte == 0), "{size}");
        }
    }
}

/// Whatever a build clears and in whatever order it hands out: what counts as zero is zero.
#[test]
fn what_counts_as_zero_is_zero() {
    for size in [2000, 5000, 20_000, 100_000] {
        let (_fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
        let (mut blocks, mut zeros, mut number) = (Vec::new(), 0, 12345_usize);
        for _ in 0..3000 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1);
            if blocks.len() > 60 || number >> 62 == 0 && !blocks.is_empty() {
                let address = blocks.swap_remove((number >> 33) % blocks.len());
                allocator.free(heap, address, Call::Free);
                continue;
            }
            let address = allocator.allocate(heap, size, code_address(3)).unwrap();
            if with_slab(&allocator, address, |slab, _| slab.handed_out_zero(address)) {
                zeros += 1;
                assert!(bytes_of(address, size).iter().all(|&byte| byte == 0), "{size}");
            }
            bytes_of(address, size).fill(7);
            blocks.push(address);
        }
        assert!(zeros > 0, "{size}: this drives nothing");
        allocator.check().unwrap();
    }
}

/// What is known of a claim is forgotten with it: a block that is in use is not taken for zero
/// because others of its group have been claimed since.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn a_block_in_use_does_not_count_as_zero() {
    let (_fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
    let take = || allocator.allocate(heap, 2000, code_address(3)).unwrap();
    fill_short_slabs(2000, take);
    let blocks: Vec<usize> = (0..64).map(|_| take()).collect();
    for &address in &blocks[10..20] {
        bytes_of(address, 2000).fill(7);
        allocator.free(heap, address, Call::Free);
    }
    let dirty = take();
    let zero = || with_slab(&allocator, dirty, |slab, _| slab.handed_out_zero(dirty));
    assert!(!zero());
    for _ in 0..9 {
        take();
    }
    allocator.free(heap, blocks[2], Call::Free);
    take();
    assert!(!zero(), "a dirty block has become zero");
}

/// A site that replaces one block touches no more of a fresh slab than a page; where it does so all
/// the time, no more than four.
#[test]
fn freed_slots_are_used_again_before_fresh_ones() {
    for size in [filling(64), 1000, 2000, 9000] {
        let (_fake, allocator, heap) = one_heap(Options { partitions: 1, ..AT_ONCE });
        fill_short_slabs(size, || allocator.allocate(heap, size, code_address(3)).unwrap());
        let mut touched = std::collections::BTreeSet::new();
        let mut replace = |times| {
            for _ in 0..times {
                let address = allocator.allocate(heap, size, code_address(3)).unwrap();
                touched.insert(address);
                allocator.free(heap, address, Call::Free);
            }
            touched.len()
        };
        assert!(replace(30) <= (4096 / size).max(1), "{size}");
        let later = replace(20_000);
        // The window of a claim begins at the lowest free slot, which may be the second.
        assert!(later <= 4 * 4096 / size + 1, "{later} of {size} bytes");
        // Claims of a page or less would cost as much as the calls that they serve.
        assert!(size > 1024 || later >= (3 * 4096 / size).min(63), "{later} of {size} bytes");
    }
}

/// A claim serves several calls of malloc where blocks are replaced at random. Slabs gather free
/// slots before malloc draws from them again. A slab in constant use gets fresh slots where the
/// live blocks fill the groups that it has used.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build has a quarantine")]
fn claims_serve_several_calls() {
    for count in [40, 63, 64, 127, 128, 192, 700, 1000, 3000] {
        let (_fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
        let take = || allocator.allocate(heap, filling(64), code_address(3)).unwrap();
        fill_short_slabs(filling(64), take);
        let mut dice = Dice(count as u64);
        let mut live: Vec<usize> = (0..count).map(|_| take()).collect();
        let mut used_up = 0;
        for step in 0..20_000 {
            let place = dice.below(count);
            allocator.free(heap, live[place], Call::Free);
            live[place] = take();
            let last = with_slab(&allocator, live[place], |slab, _| slab.claimed() == 0);
            used_up += usize::from(last && step >= 10_000);
        }
        assert!(used_up < 10_000 / 10, "{used_up} claims served 10000 calls, with {count} live");
    }
}

/// A claim is of the group after the last one, so that each has time to gather free slots.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build takes any claimed slot")]
fn claims_go_round() {
    let (_fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
    let take = || allocator.allocate(heap, 64, code_address(3)).unwrap();
    fill_short_slabs(64, take);
    let blocks: Vec<usize> = (0..256).map(|_| take()).collect();
    let free = |slot: usize| allocator.free(heap, blocks[slot], Call::Free);
    for slot in [5, 70, 130, 200] {
        free(slot);
    }
    assert_eq!(take(), blocks[5], "after the last group comes the first");
    free(6);
    assert_eq!([take(), take(), take(), take()], [70, 130, 200, 6].map(|slot| blocks[slot]));
    allocator.check().unwrap();
}

/// A medium block that is freed before all that are claimed is handed out next, and is known not to
/// be zero.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build takes any claimed slot")]
fn a_freed_medium_block_comes_next() {
    let (_fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
    let take = || allocator.allocate(heap, 2000, code_address(3)).unwrap();
    fill_short_slabs(2000, take);
    let blocks: Vec<usize> = (0..10).map(|_| take()).collect();
    let free = |block: usize| {
        bytes_of(blocks[block], 2000).fill(7);
        allocator.free(heap, blocks[block], Call::Free);
        allocator.check().unwrap();
    };
    free(7);
    free(3);
    let zeroed = allocator.allocate_zeroed(heap, 2000, code_address(3)).unwrap();
    assert_eq!(zeroed, blocks[3]);
    assert!(bytes_of(zeroed, 2000).iter().all(|&byte| byte == 0));
    // One that is after a claimed slot waits for the next claim, so that the low end fills first.
    free(1);
    free(5);
    assert_eq!(take(), blocks[1]);

    // In a signal handler that has interrupted a change of the lists nothing is put there.
    let guard = heap.enter();
    free(2);
    drop(guard);
    free(0);
    assert_eq!(take(), blocks[0]);
}

/// Decision 0003: a full slab is listed again by the free that makes a quarter of it free, by any
/// thread, and by the next one where a signal handler could do nothing.
#[test]
fn a_full_slab_comes_back_at_a_quarter() {
    for in_handler in [false, true] {
        let (_fake, allocator, heap, other) = two_heaps(Options { partitions: 1, ..AT_ONCE });
        let take = || allocator.allocate(heap, filling(64), code_address(3)).unwrap();
        let slab_of = |address| with_slab(&allocator, address, |slab, _| slab.base());
        let listed = |address| with_slab(&allocator, address, |slab, _| slab.is_listed());
        let mut blocks = vec![take()];
        let next = loop {
            let address = take();
            if slab_of(address) != slab_of(blocks[0]) {
                break address;
            }
            blocks.push(address);
        };
        assert!(!listed(blocks[0]) && listed(next));
        let quarter = with_slab(&allocator, blocks[0], |slab, _| slab.slots()) / 4;
        for &address in &blocks[..quarter - 1] {
            allocator.free(heap, address, Call::Free);
        }
        assert!(!listed(blocks[0]));
        let guard = if in_handler { heap.enter() } else { None };
        allocator.free(heap, blocks[quarter - 1], Call::Free);
        drop(guard);
        let freed = quarter + usize::from(in_handler);
        if in_handler {
            assert!(!listed(blocks[0]));
            allocator.free(heap, blocks[quarter], Call::Free);
        }
        assert!(listed(blocks[0]), "in a handler: {in_handler}");
        for &address in &blocks[freed..] {
            allocator.free(other, address, Call::Free);
        }
        allocator.publish_frees(other);
        // All of it is had again, and it is full again.
        let again: Vec<usize> = (0..1000).map(|_| take()).collect();
        assert!(blocks.iter().all(|address| again.contains(address)));
        assert!(!listed(blocks[0]));
        allocator.check().unwrap();
    }
}

/// Every allocation is counted once, however its block is freed.
#[test]
fn allocations_are_counted_whoever_frees() {
    let (_fake, allocator) = allocator(Options { partitions: 1, ..Options::DEFAULT });
    let heaps = [birth(&allocator), birth(&allocator)];
    let mut made = 0;
    for round in 0..40 {
        let blocks: Vec<usize> =
            (0..300).map(|_| allocator.allocate(heaps[0], 64, code_address(3)).unwrap()).collect();
        made += blocks.len() as u64;
        for (number, address) in blocks.into_iter().enumerate() {
            allocator.free(heaps[usize::from(number % 7 < round % 8)], address, Call::Free);
        }
        assert_eq!(snapshot(&allocator).allocations, made);
    }
}

/// Once the system has refused memory a slab gives its pages back with its last free.
#[test]
fn under_pressure_an_empty_slab_goes_at_once() {
    let (fake, allocator, heap) = one_heap(Options { partitions: 1, ..AT_ONCE });
    let take = || allocator.allocate(heap, filling(64), code_address(3)).unwrap();
    let first = take();
    fake.set_fault(Some(Fault::from(0).only(Request::Map)));
    assert_eq!(allocator.allocate(heap, 4 << 20, 1), None);
    fake.set_fault(None);
    let blocks: Vec<usize> = (0..100).map(|_| take()).collect();
    for &address in &blocks {
        allocator.free(heap, address, Call::Free);
    }
    assert_eq!(fake.page(first), PageState::Mapped);
    allocator.free(heap, first, Call::Free);
    assert_eq!(fake.page(first), PageState::Free);
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}
