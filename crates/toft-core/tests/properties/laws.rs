//! The five laws of the design, each with its test, over the fake operating system:
//! 1. An address never changes owner.
//! 2. No metadata is next to data.
//! 3. Every free is validated before it takes effect.
//! 4. Memory is bounded.
//! 5. No allocation path can hang, and a failure gives `None`.

use crate::common::ops::{OP_BYTES, Op, SITES, random_bytes};
use crate::common::plain::{Dice, allocator, birth, one_heap, two_heaps};
use crate::common::shadow::bytes_of;
use crate::common::world::{World, code_address};
use std::collections::{BTreeMap, BTreeSet};
use toft_core::large::ReturnedBy;
use toft_core::options::{Options, Reclaim, SiteMode};
use toft_core::os::fake::{Fake, Fault, Machine, PageState, Request};
use toft_core::path::Resized;
use toft_core::report::Call;
use toft_core::slab::SizeClass;

fn world(partitions: usize) -> World {
    let options = Options { partitions, ..Options::DEFAULT };
    let mut world = World::new(Fake::new(Machine::LARGE), options).unwrap();
    world.thoroughness = 256;
    world
}

/// The shadow remembers the partition and the class of every address that was ever handed out, and
/// compares them at every allocation; what matters here is that addresses are used again a lot.
#[test]
fn law_1_an_address_never_changes_owner() {
    let mut world = world(8);
    world.run(&Op::decode_all(&random_bytes(77, 4000)));
    for round in 0..SITES {
        // Everything is returned to the OS, and other sites and sizes come for it.
        world.finish();
        world.step(Op::Trim);
        for number in 0..300 {
            let size = [24, 100, 1000, 5000, 70_000, 200_000][number % 6] << (round % 2);
            world.step(Op::Malloc { who: number % 2, size, site: (round + number / 6) % SITES });
        }
    }
    world.finish();
}

/// As the test above, where each call site has its own partition, with partitions for all and with
/// far too few.
#[test]
fn law_1_holds_where_sites_are_exact() {
    for partitions in [4, 64] {
        let options = Options { partitions, sites: SiteMode::Exact, ..Options::DEFAULT };
        let mut world = World::new(Fake::new(Machine::LARGE), options).unwrap();
        world.thoroughness = 256;
        world.run(&Op::decode_all(&random_bytes(79, 2000)));
        for round in 0..SITES {
            world.finish();
            world.step(Op::Trim);
            for number in 0..100 {
                let size = [24, 100, 1000, 5000, 70_000, 200_000][number % 6] << (round % 2);
                world.step(Op::Malloc {
                    who: number % 2,
                    size,
                    site: (round + number / 6) % SITES,
                });
            }
        }
        world.finish();
        let (own, merged) = world.allocator.sites.counts();
        assert!(own + merged >= SITES && (merged == 0) == (partitions == 64), "{own} {merged}");
    }
}

/// Fills blocks of every class and of two large sizes; frees them in both ways; finds every byte as
/// it was, when they are free and when they are handed out again.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure builds clear freed blocks")]
fn law_2_no_metadata_is_next_to_data() {
    let options = Options { partitions: 64, ..Options::DEFAULT };
    let (fake, allocator, mine, other) = two_heaps(options);
    let site = code_address(3);
    let sizes = || SizeClass::all().map(SizeClass::size).chain([300_000, 2 << 20]);
    let mut blocks = BTreeMap::new();
    for size in sizes() {
        for _ in 0..24 {
            let address = allocator.allocate(mine, size, site).unwrap();
            let usable = allocator.requests().usable_size(address, Call::UsableSize).unwrap();
            bytes_of(address, usable).fill(address.to_le_bytes()[1] | 0x81);
            blocks.insert(address, usable);
        }
    }
    let as_it_was = |address: usize, usable: usize| {
        if fake.page(address) != PageState::Mapped {
            // A large block whose pages were given back: there is nothing to be changed.
            assert!(usable > 128 << 10, "{address:#x} has lost its page");
            return;
        }
        let (value, bytes) = (address.to_le_bytes()[1] | 0x81, bytes_of(address, usable));
        let changed = bytes.iter().position(|&byte| byte != value);
        assert_eq!(changed, None, "in the {usable}-byte block at {address:#x}");
    };
    for (number, (&address, &usable)) in blocks.iter().enumerate() {
        allocator.free(if number % 3 == 0 { other } else { mine }, address, Call::Free);
        as_it_was(address, usable);
    }
    // The whole of every slab: free blocks as they were, and what was never handed out still zero.
    allocator.for_each_slab(|slab| {
        for slot in 0..slab.slots() {
            let address = slab.base() + slot * slab.size();
            if !blocks.contains_key(&address) {
                let zero = bytes_of(address, slab.size()).iter().all(|&byte| byte == 0);
                assert!(zero, "slot {slot} of {} bytes", slab.size());
            }
        }
    });
    let mut again = 0;
    for size in sizes() {
        for _ in 0..24 {
            let address = allocator.allocate(mine, size, site).unwrap();
            if let Some(&usable) = blocks.get(&address).filter(|&&usable| usable <= 128 << 10) {
                as_it_was(address, usable);
                again += 1;
            }
        }
    }
    assert!(again > blocks.len() / 2, "only {again} of {} blocks were used again", blocks.len());
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

fn returned_by(thread: bool) -> ReturnedBy {
    if thread { ReturnedBy::Thread } else { ReturnedBy::Nothing }
}

/// While the reclaimer's thread runs, free large blocks keep what was live in this period and the
/// last. The child of a fork has no such thread.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn law_4_what_was_in_use_is_kept_while_it_is_reclaimed() {
    const MIB: usize = 1 << 20;
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let large = allocator.large();
    let take = || {
        let address = allocator.allocate(heap, 4 * MIB, code_address(3)).unwrap();
        bytes_of(address, 4 * MIB).fill(1);
        address
    };
    let free = |address, reclaimed| {
        large.kept_blocks().set_returned_by(returned_by(reclaimed));
        allocator.free(heap, address, Call::Free);
    };
    let kept_mib = || large.figures().kept_bytes() / MIB;
    let _stays = take();
    for (reclaimed, kept) in [(false, 5), (true, 12)] {
        for address in [(); 3].map(|()| take()) {
            free(address, reclaimed);
        }
        assert_eq!(kept_mib(), kept, "{reclaimed}");
    }
    // Two periods later nothing of it is recent.
    large.kept_blocks().decay_all(&fake, 0);
    large.kept_blocks().decay_all(&fake, 0);
    assert_eq!(kept_mib(), 0);
    let [first, second, third] = [(); 3].map(|()| take());
    free(first, true);
    free(second, true);
    assert_eq!(kept_mib(), 8);
    large.kept_blocks().set_returned_by(ReturnedBy::Thread);
    allocator.after_fork_in_child(heap);
    allocator.free(heap, third, Call::Free);
    assert_eq!(kept_mib(), 5);
    allocator.check().unwrap();
}

/// Free large blocks that are kept resident make room before they would make the process larger
/// than its live blocks ever made it, by a quarter at most, and their pages serve any request that
/// needs some.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn law_4_what_is_kept_never_raises_the_peak() {
    const MIB: usize = 1 << 20;
    let options = Options { reclaim: Reclaim::Off, ..Options::DEFAULT };
    let (fake, allocator, heap) = one_heap(options);
    let take_bytes = |bytes: usize| {
        let address = allocator.allocate(heap, bytes, code_address(3)).unwrap();
        bytes_of(address, bytes).fill(1);
        address
    };
    let take = |mib: usize| take_bytes(mib * MIB);
    let kept = || allocator.large().figures().kept_bytes();
    let before = fake.resident_bytes();
    let resident = || (fake.resident_bytes() - before) / MIB;
    let [first, second, third, fourth] = [(); 4].map(|()| take(4));
    assert_eq!((kept(), resident()), (0, 16));
    allocator.free(heap, third, Call::Free);
    allocator.free(heap, fourth, Call::Free);
    assert_eq!((kept(), resident()), (8 * MIB, 16));
    // The pages of one come along, and 5 MiB are new. Together with the other that would be 21
    // where 16 were live.
    let other = take(9);
    assert_eq!((kept(), resident()), (3 * MIB, 20));
    // Another size, out of the last pages of what is kept.
    let small = take_bytes(MIB / 2);
    assert_eq!((kept(), resident()), (5 * MIB / 2, 20));
    // A size of the class below takes all that is left.
    let below = take(1);
    assert_eq!((kept(), resident()), (0, 20));
    for address in [first, second, other, small, below] {
        allocator.free(heap, address, Call::Free);
        allocator.check().unwrap();
        let live = allocator.large().figures().live_bytes();
        assert!(kept() <= live + MIB, "{} kept, {live} live", kept());
        assert!(resident() <= 20);
    }
    assert_eq!(resident(), kept() / MIB);
    assert!(kept() <= MIB);
    allocator.sweeper().purge(Some(heap));
    assert_eq!((kept(), resident()), (0, 0));
    allocator.check().unwrap();
    // A zero-size one has an address and nothing else.
    let nothing = allocator.allocate_aligned(heap, 0, 1 << 21, code_address(3)).unwrap();
    allocator.free(heap, nothing, Call::Free);
    allocator.check().unwrap();
}

/// A free block that has far more than is asked for gives its last pages, and keeps the others for
/// the next request: nothing is returned to the OS, and nothing new is mapped.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn law_4_a_free_block_is_split() {
    const KIB: usize = 1 << 10;
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let take = |kib: usize| {
        let address = allocator.allocate(heap, kib * KIB, code_address(3)).unwrap();
        bytes_of(address, kib * KIB).fill(1);
        address
    };
    let kept = || allocator.large().figures().kept_bytes() / KIB;
    let [_live, long] = [(); 2].map(|()| take(8192));
    allocator.free(heap, long, Call::Free);
    let before = fake.resident_bytes();
    // The last pages come along. The rest has not far too much, and is used where it is.
    for (left, stays) in [(8192 - 2304, false), (0, true)] {
        let part = take(2304);
        allocator.check().unwrap();
        assert_eq!((kept(), part == long), (left, stays));
        // Far less than the block is new.
        assert!(fake.resident_bytes() < before + 512 * KIB);
    }
}

/// A block that grows settles in a free one with far more pages, and grows on without a system
/// call, while the reclaimer runs. It is trimmed if it stays small, and at once if what it does not
/// need would raise the peak.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn law_4_a_growing_block_settles_and_is_trimmed() {
    const MIB: usize = 1 << 20;
    for (reclaimed, by_time) in [(false, true), (true, true), (true, false)] {
        let (fake, allocator, heap) = one_heap(Options::DEFAULT);
        let large = allocator.large();
        let start = fake.resident_bytes();
        let site = code_address(3);
        let take = |mib: usize| {
            let address = allocator.allocate(heap, mib * MIB, site).unwrap();
            bytes_of(address, mib * MIB).fill(mib as u8);
            address
        };
        let grow = |address, mib: usize| {
            let Resized::At(to) = allocator.resize(heap, address, mib * MIB, site) else {
                panic!("no memory for {mib} MiB")
            };
            allocator.check().unwrap();
            to
        };
        let [_live, long] = [(); 2].map(|()| take(12));
        large.kept_blocks().set_returned_by(returned_by(reclaimed));
        allocator.free(heap, long, Call::Free);
        large.kept_blocks().set_returned_by(returned_by(reclaimed));
        let first = take(1);
        large.kept_blocks().set_returned_by(returned_by(reclaimed));
        let second = grow(first, 2);
        // It is where the long one was, or else its own pages have moved or grown.
        assert_eq!(second == long, reclaimed);
        assert!(bytes_of(second, MIB).iter().all(|&byte| byte == 1));
        if !reclaimed {
            continue;
        }
        let before = (fake.resident_bytes(), fake.all_calls());
        assert_eq!(grow(second, 8), long);
        // It keeps its pages when it becomes smaller, for as long.
        assert_eq!([grow(second, 3), grow(second, 8)], [long; 2]);
        assert_eq!((fake.resident_bytes(), fake.all_calls()), before, "pages, calls");
        let third = grow(second, 3);
        bytes_of(third, 3 * MIB).fill(3);
        allocator.free(heap, take(12), Call::Free);
        large.kept_blocks().set_returned_by(returned_by(reclaimed));
        let small = grow(take(1), 2);
        let slack = |address| {
            let block = large.units().block_at(address).unwrap();
            block.mapped() - block.bytes()
        };
        assert!(slack(small) > 8 * MIB, "{}", slack(small));
        if by_time {
            large.kept_blocks().decay_all(&fake, 0);
            large.kept_blocks().decay_all(&fake, 0);
        } else {
            take(12);
        }
        allocator.check().unwrap();
        let most = match by_time {
            true => large.figures().live_bytes() / 8 * 9,
            false => large.figures().peak_bytes() / 4 * 5,
        };
        let resident = fake.resident_bytes() - start;
        assert!(resident <= most + MIB, "{resident} of {most}");
        assert!(bytes_of(small, MIB).iter().all(|&byte| byte == 1));
        allocator.free(heap, small, Call::Free);
        allocator.check().unwrap();
    }
}

/// A block that is used again and again is kept after 16 MiB in all, also where only the calls of
/// the program return what is idle. They do so, two periods later. Not more than 32 MiB are kept.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn law_4_a_block_that_is_used_again_is_kept() {
    const MIB: usize = 1 << 20;
    for (reclaim, keeps) in [(Reclaim::Off, false), (Reclaim::Calls, true)] {
        let options = Options { reclaim, ..Options::DEFAULT };
        let (fake, allocator, heap) = one_heap(options);
        let large = allocator.large();
        let round = || {
            let address = allocator.allocate(heap, 3 * MIB, code_address(3)).unwrap();
            allocator.free(heap, address, Call::Free);
            large.figures().kept_bytes() / MIB
        };
        let kept: Vec<usize> = (0..8).map(|_| round()).collect();
        assert_eq!(kept, if keeps { [0, 0, 0, 0, 0, 0, 3, 3] } else { [0; 8] }, "{reclaim:?}");
        // A program that sleeps calls nothing, so it is not much.
        for _ in 0..3 {
            let address = allocator.allocate(heap, 40 * MIB, code_address(3)).unwrap();
            allocator.free(heap, address, Call::Free);
            assert!(large.figures().kept_bytes() <= 32 * MIB);
        }
        for _ in 0..3 {
            fake.pass(1000);
            let small = allocator.allocate(heap, 200 << 10, code_address(4)).unwrap();
            allocator.free(heap, small, Call::Free);
        }
        assert_eq!(large.figures().kept_bytes() / MIB, 0);
        allocator.check().unwrap();
    }
}

/// What was freed before a given moment is returned to the OS, the oldest first, and nothing else.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn law_4_old_blocks_can_be_given_back() {
    const MIB: usize = 1 << 20;
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let blocks: Vec<usize> = (0..8)
        .map(|number| {
            let address = allocator.allocate(heap, MIB, code_address(number)).unwrap();
            bytes_of(address, MIB).fill(1);
            address
        })
        .collect();
    let large = allocator.large();
    let release = |time, bytes| large.kept_blocks().release_before(&fake, time, bytes) / MIB;
    for &address in &blocks[..2] {
        allocator.free(heap, address, Call::Free);
    }
    let time = large.kept_blocks().now();
    for &address in &blocks[2..4] {
        allocator.free(heap, address, Call::Free);
    }
    let there = || {
        allocator.check().unwrap();
        blocks[..4].iter().map(|&a| fake.page(a) == PageState::Mapped).collect::<Vec<_>>()
    };
    assert_eq!(release(0, usize::MAX), 0);
    assert_eq!(there(), [true; 4]);
    assert_eq!(release(large.kept_blocks().now(), 1), 1);
    assert_eq!(there(), [false, true, true, true]);
    // Pages that cannot be unmapped are discarded; pages that cannot be either stay, and are tried
    // again.
    fake.set_fault(Some(Fault::from(0)));
    assert_eq!(release(time, usize::MAX), 0);
    fake.set_fault(None);
    assert_eq!(there(), [false, true, true, true]);
    fake.set_fault(Some(Fault::from(0).only(Request::Unmap)));
    assert_eq!(release(time, usize::MAX), 1);
    fake.set_fault(None);
    assert_eq!(there(), [false, true, true, true]);
    assert_eq!(fake.resident_bytes(), {
        release(time, usize::MAX);
        fake.resident_bytes()
    });
    assert_eq!(there(), [false, false, true, true]);
    assert_eq!(release(large.kept_blocks().now(), usize::MAX), 2);
    assert_eq!(there(), [false; 4]);
}

/// Every second operation is a bad call. Each is named exactly, once, and changes nothing.
#[test]
fn law_3_every_free_is_validated_before_it_takes_effect() {
    let mut world = world(4);
    let bytes = random_bytes(5, 6000);
    for (number, bytes) in bytes.as_chunks::<OP_BYTES>().0.iter().enumerate() {
        let mut bytes = *bytes;
        if number % 2 == 1 {
            bytes[0] = 210;
        }
        world.step(Op::decode(bytes));
    }
    world.finish();
    let named = world.allocator.misuse_count();
    assert!(named > 2000, "only {named} bad calls were made");
}

/// Without validation as above a default allocator ends the process instead, after one line.
#[test]
#[should_panic(expected = "the allocator ends the process: toft: double free: free(0x")]
fn law_3_a_bad_free_ends_the_process_by_default() {
    let (_fake, allocator, heap) = one_heap(Options::DEFAULT);
    let address = allocator.allocate(heap, 64, 1).unwrap();
    allocator.free(heap, address, Call::Free);
    allocator.free(heap, address, Call::Free);
}

/// Random replacement at a constant number of live blocks; `free_by` says which of two threads
/// frees. What is resident stays within what each (call site, size) has had live at its worst, and
/// `slack` bytes for each of them, although no time passes for a sweep. Where time passes, it does
/// not grow.
fn churn(free_by: impl Fn(usize) -> usize, slack: usize) {
    churn_with_time(&free_by, slack, 0);
    churn_with_time(&free_by, slack, 25);
}

/// Does that while `ticks` pass for each replacement of all blocks.
fn churn_with_time(free_by: &impl Fn(usize) -> usize, slack: usize, ticks: u32) {
    const LIVE: usize = 6000;
    let (fake, allocator) = allocator(Options { partitions: 4, ..Options::DEFAULT });
    let heaps = [birth(&allocator), birth(&allocator)];
    let before = fake.resident_bytes();
    let mut dice = Dice(9);
    let mut live = Vec::new();
    // By call site and usable size: bytes live now, and at most.
    let mut bins: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    let mut after_warming = 0;
    for step in 0..60 * LIVE {
        if ticks != 0 && step % LIVE == 0 {
            fake.pass(ticks);
        }
        if live.len() == LIVE {
            let (address, bin): (usize, (usize, usize)) = live.swap_remove(dice.below(LIVE));
            bins.get_mut(&bin).unwrap().0 -= bin.1;
            allocator.free(heaps[free_by(step)], address, Call::Free);
        }
        let size = if dice.below(50) == 0 { dice.below(40_000) } else { 1 + dice.below(700) };
        let site = dice.below(4);
        let address = allocator.allocate(heaps[0], size, code_address(site)).unwrap();
        let usable = allocator.requests().usable_size(address, Call::UsableSize).unwrap();
        bytes_of(address, usable).fill(1);
        let (now, most) = bins.entry((site, usable)).or_default();
        *now += usable;
        *most = (*most).max(*now);
        live.push((address, (site, usable)));
        if step == 20 * LIVE {
            after_warming = fake.resident_bytes() - before;
        }
    }
    let resident = fake.resident_bytes() - before;
    let worst: usize = bins.values().map(|&(_, most)| most).sum();
    let bound = worst + worst / 4 + bins.len() * slack;
    assert!(resident < bound, "{resident} bytes resident, {worst} live at the bins' worst");
    let growth = resident as f64 / after_warming as f64;
    // Without a sweep, each bin that has ever been busy gets a longer slab at some time.
    let is_steady = ticks == 0 || growth < 1.25;
    assert!(is_steady, "resident memory has grown by {growth} under a constant load");
}

#[test]
fn law_4_memory_is_bounded_under_churn() {
    churn(|_| 0, 8 << 10);
}

/// What another thread has freed is collected when a slab is used up, so that up to a slab for each
/// may wait.
#[test]
fn law_4_memory_is_bounded_when_another_thread_frees() {
    churn(|_| 1, 64 << 10);
    churn(|step| step % 2, 64 << 10);
}

/// Threads come and go, and leave blocks behind that others free: nothing grows.
#[test]
fn law_4_memory_is_bounded_over_many_threads() {
    let (fake, allocator) = allocator(Options { partitions: 4, ..Options::DEFAULT });
    let mut left: Vec<usize> = Vec::new();
    let mut mapped = 0;
    for thread in 0..3000 {
        let heap = birth(&allocator);
        for address in left.drain(..) {
            allocator.free(heap, address, Call::Free);
        }
        for number in 0..40 {
            let address = allocator.allocate(heap, 16 + number * 97, code_address(number)).unwrap();
            if number % 2 == 0 {
                left.push(address);
            } else {
                allocator.free(heap, address, Call::Free);
            }
        }
        allocator.heaps.orphan(heap);
        fake.pass(25);
        if thread == 1000 {
            mapped = fake.mapped_bytes();
        }
    }
    assert_eq!(fake.mapped_bytes(), mapped, "memory grows with the number of threads");
    assert_eq!(allocator.heaps.count(), 1, "the one heap is handed on");
    allocator.check().unwrap();
}

/// With no memory to be had every request gives `None`, soon; with some again, memory.
#[test]
fn law_5_a_failure_gives_none() {
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let keep = allocator.allocate(heap, 100, 1).unwrap();
    let requests: [(usize, usize); 7] = [
        (1, 1),
        (900, 1),
        (60_000, 1),
        (1 << 20, 1),
        (100, 1 << 16),
        (1 << 40, 1),
        (isize::MAX as usize, 1 << 26),
    ];
    let ask = |site: usize| {
        let mut met = 0;
        for (size, align) in requests {
            let before = fake.all_calls();
            met += usize::from(allocator.allocate_aligned(heap, size, align, site).is_some());
            let calls = fake.all_calls() - before;
            assert!(calls < 20_000, "{size} bytes by {align}: {calls} system calls");
        }
        met
    };
    for (number, kind) in [Some(Request::Map), None].into_iter().enumerate() {
        let fault = Fault::from(0);
        fake.set_fault(Some(kind.map_or(fault, |kind| fault.only(kind))));
        // What was mapped ahead of need.
        let site = code_address(number);
        for size in [60_000, 900, 1] {
            while allocator.allocate(heap, size, site).is_some() {}
        }
        assert_eq!(ask(site), 0);
        fake.set_fault(None);
        assert_eq!(ask(code_address(number)), 6, "all but the last can be had");
    }
    // The small ones fit into the address space that the refusals return.
    fake.set_limit(fake.mapped_bytes());
    assert_eq!(ask(code_address(9)), 4);
    fake.set_limit(usize::MAX);
    for size in [isize::MAX as usize + 1, usize::MAX - 4096, usize::MAX] {
        let before = fake.all_calls();
        assert_eq!(allocator.allocate(heap, size, 1), None);
        assert_eq!(allocator.allocate_zeroed(heap, size, 1), None);
        assert_eq!(allocator.allocate_aligned(heap, size, 4096, 1), None);
        assert_eq!(fake.all_calls(), before, "too much to even ask for");
    }
    allocator.free(heap, keep, Call::Free);
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

/// Something foreign in the way costs a bounded number of system calls, wherever it lies.
#[test]
fn law_5_a_foreign_mapping_does_not_hold_anybody_up() {
    for number in 0..24 {
        let (fake, allocator) = allocator(Options { partitions: 2, ..Options::DEFAULT });
        fake.set_fault(Some(Fault::at(number).foreign()));
        let mut worst = 0;
        let mut count = |fake: &Fake, before: u64| worst = worst.max(fake.all_calls() - before);
        let before = fake.all_calls();
        let heap = allocator.held_heaps().acquire_heap();
        count(&fake, before);
        let Ok(heap) = heap else { continue };
        for step in 0..400 {
            let size = [64, 5000, 1000, 120_000, 300_000][step % 5];
            let before = fake.all_calls();
            allocator.allocate(heap, size, code_address(step / 5 % 2));
            count(&fake, before);
        }
        assert_eq!(fake.failed(), 1, "the mapping was met");
        assert!(worst < 20_000, "mapping {number}: {worst} system calls for one request");
    }
}

/// Law 4: a live zero-size block costs a bit, and a third more.
#[test]
fn zero_size_blocks_cost_bits() {
    const COUNT: usize = 700_000;
    let (fake, allocator, heap) = one_heap(Options { partitions: 1, ..Options::DEFAULT });
    let take = |align| allocator.allocate_aligned(heap, 0, align, code_address(3)).unwrap();
    let first = take(16);
    let before = allocator.mapped_bytes();
    let blocks: Vec<usize> = (0..COUNT).map(|_| take(16)).collect();
    assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), COUNT);
    let mapped = allocator.mapped_bytes();
    let grown = mapped.1 - before.1;
    assert_eq!(mapped.0, before.0, "no slab");
    assert!((1..=COUNT / 6).contains(&grown), "{grown}");
    allocator.check().unwrap();
    for address in blocks.into_iter().chain([first]) {
        allocator.free(heap, address, Call::Free);
    }
    allocator.check().unwrap();
    // What is free is used again.
    let again: Vec<usize> = (0..COUNT).map(|_| take(16)).collect();
    assert_eq!(allocator.mapped_bytes(), mapped);
    again.into_iter().for_each(|address| allocator.free(heap, address, Call::Free));
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}
