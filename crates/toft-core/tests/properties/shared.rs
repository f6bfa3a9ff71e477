//! Heaps that threads share, for bins that each rarely uses.

use crate::common::plain::{allocator, birth, fill_short_slabs, with_slab};
use crate::common::shadow::bytes_of;
use std::collections::{BTreeMap, BTreeSet};
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::{Options, Reclaim};
use toft_core::os::Residency;
use toft_core::os::fake::Fake;
use toft_core::report::Call;
use toft_core::stats::snapshot;
use toft_core::thread::{Heap, HeapState, SHARE_FROM};

const OPTIONS: Options = Options { reclaim: Reclaim::Calls, warn_only: true, ..Options::DEFAULT };
const SITE: usize = 0x5000;
/// More slots than a bin draws in a second before it earns a slab.
const MANY: usize = 200;

/// Threads of a process with more of them than those that do not share.
fn threads(allocator: &Allocator<Fake>, count: usize) -> Vec<&'static Heap> {
    let first: Vec<_> = (0..SHARE_FROM).map(|_| birth(allocator)).collect();
    assert!(first.iter().all(|heap| is_own(allocator, heap, take(allocator, heap, 100))));
    (0..count).map(|_| birth(allocator)).collect()
}

fn take(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> usize {
    let block = allocator.allocate(heap, size, SITE).unwrap();
    assert_eq!(allocator.check(), Ok(()));
    block
}

/// Whether a block is in a slab of the heap.
fn is_own(allocator: &Allocator<Fake>, heap: &Heap, block: usize) -> bool {
    with_slab(allocator, block, |slab, _| heap.owns(slab))
}

fn slabs(allocator: &Allocator<Fake>) -> usize {
    let mut slabs = 0;
    allocator.for_each_slab(|_| slabs += 1);
    slabs
}

#[test]
fn threads_share_slabs_until_a_bin_earns_one() {
    let (_, allocator) = allocator(OPTIONS);
    let threads = threads(&allocator, 40);
    let before = slabs(&allocator);
    let blocks: Vec<usize> = threads.iter().map(|heap| take(&allocator, heap, 500)).collect();
    assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), blocks.len());
    assert!(threads.iter().zip(&blocks).all(|(heap, &block)| !is_own(&allocator, heap, block)));
    assert!(slabs(&allocator) <= before + 2, "{} slabs for 40 threads", slabs(&allocator) - before);
    // One thread asks for many: it gets a separate slab, and the others go on sharing.
    let many: Vec<usize> = (0..MANY).map(|_| take(&allocator, threads[0], 500)).collect();
    assert!(is_own(&allocator, threads[0], many[MANY - 1]));
    assert!(!is_own(&allocator, threads[1], take(&allocator, threads[1], 500)));
}

#[test]
fn a_bin_earns_its_slab_within_a_second_and_keeps_it() {
    let (fake, allocator) = allocator(OPTIONS);
    let heap = threads(&allocator, 1)[0];
    let own = |slots: usize| -> usize {
        let one = |_| usize::from(is_own(&allocator, heap, take(&allocator, heap, 1000)));
        (0..slots).map(one).sum()
    };
    for _ in 0..5 {
        assert_eq!(own(30), 0, "the demand is low");
        fake.pass(1000);
    }
    assert!(own(MANY) > MANY / 2);
    fake.pass(1000);
    assert_eq!(own(MANY), MANY, "it has earned a slab");
}

/// A shared heap has no thread that could be about to use what it has claimed.
#[test]
fn what_a_shared_heap_has_claimed_goes_when_it_is_idle() {
    let (fake, allocator) = allocator(Options { quarantine: 0, ..OPTIONS });
    let heap = threads(&allocator, 1)[0];
    fill_short_slabs(1000, || {
        // The demand is low.
        fake.pass(25);
        take(&allocator, heap, 1000)
    });
    let blocks: Vec<usize> = (0..20).map(|_| take(&allocator, heap, 1000)).collect();
    blocks.iter().for_each(|&block| bytes_of(block, 1000).fill(1));
    blocks[1..].iter().for_each(|&block| allocator.free(heap, block, Call::Free));
    // The shared heap draws from what it has collected.
    let next = take(&allocator, heap, 1000);
    assert!(!is_own(&allocator, heap, next));
    let claimed = || with_slab(&allocator, next, |slab, _| slab.claimed());
    assert_ne!(claimed(), 0);
    let (base, bytes) =
        with_slab(&allocator, next, |slab, _| (slab.base(), slab.slots() * slab.size()));
    let pages = || (base..base + bytes).step_by(4096);
    let resident = || pages().map(|page| fake.resident_prefix(page, 4096)).sum::<usize>();
    let before = resident();
    (0..3).for_each(|_| _ = allocator.sweeper().sweep(Which::Idle).unwrap());
    assert_eq!(claimed(), 0);
    assert!(resident() < before, "{before} bytes stay");
    assert_eq!(allocator.check(), Ok(()));
    take(&allocator, heap, 1000);
}

/// Blocks of a shared slab are freed by their threads, by others, and twice; memory stays bounded.
#[test]
fn what_threads_free_serves_all_of_them() {
    let (fake, allocator) = allocator(Options { quarantine: 0, ..OPTIONS });
    let threads = threads(&allocator, 8);
    let sizes = [16, 100, 500, 1000];
    let mut live: BTreeMap<usize, usize> = BTreeMap::new();
    let mut most = 0;
    for round in 0..2000 {
        let heap = threads[round % threads.len()];
        let size = sizes[round * 7 / 3 % sizes.len()];
        let block = take(&allocator, heap, size);
        assert!(live.insert(block, round).is_none(), "handed out twice");
        if live.len() > 50 {
            let (&old, _) = live.iter().min_by_key(|(_, round)| **round).unwrap();
            live.remove(&old);
            allocator.free(threads[(round + 3) % threads.len()], old, Call::Free);
        }
        // Demand stays low.
        fake.pass(25);
        if round == 1000 {
            most = slabs(&allocator);
        }
    }
    assert_eq!(slabs(&allocator), most, "slabs are not used again");
    let block = take(&allocator, threads[0], 500);
    allocator.free(threads[0], block, Call::Free);
    allocator.free(threads[1], block, Call::Free);
    let reports = fake.take_reports();
    assert!(reports.iter().any(|report| report.contains("already free")), "{reports:?}");
}

#[test]
fn a_shared_heap_is_no_threads() {
    let (_, allocator) = allocator(OPTIONS);
    let threads = threads(&allocator, 2);
    let block = take(&allocator, threads[0], 500);
    let shared = allocator.heaps.shared_count();
    let is_shared = |&number: &u32| allocator.heaps.heap_state(number) == HeapState::Shared;
    assert_eq!((0..allocator.heaps.count()).filter(is_shared).count(), shared as usize);
    let number = (0..allocator.heaps.count()).find(is_shared).unwrap();
    assert_eq!(snapshot(&allocator).threads, SHARE_FROM as usize + 2);
    // Nor is it any thread's in a child, which draws from it as its parent did.
    allocator.after_fork_in_child(threads[1]);
    assert_eq!(allocator.heaps.heap_state(number), HeapState::Shared);
    allocator.free(threads[1], block, Call::Free);
    assert!(!is_own(&allocator, threads[1], take(&allocator, threads[1], 500)));
}
