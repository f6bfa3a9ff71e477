//! Heaps change hands only whole: the thread that finds one whose thread was ended in the middle of
//! a change repairs it.

use crate::common::plain::{AT_ONCE, birth, one_heap, two_heaps};
use crate::common::world::code_address;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use toft_core::Allocator;
use toft_core::bin::BinIndex;
use toft_core::keeper::Which;
use toft_core::options::{Options, SiteMode};
use toft_core::os::fake::Fake;
use toft_core::report::Call;
use toft_core::slab::{PENDING, SMALL_MAX};
use toft_core::thread::{EXITED_HEAP, Heap, HeapState};

const SIZE: usize = 100;
const BLOCKS: usize = 500;

fn allocate(allocator: &Allocator<Fake>, heap: &Heap) -> usize {
    allocator.allocate(heap, SIZE, code_address(1)).expect("there is memory")
}

/// Leaves the first heap in the middle of a change, when no list knows of any slab. Returns its
/// free and its live blocks. `other` has freed some without notice to the owner: one thread was
/// about to notify, or the other to collect.
fn torn(allocator: &Allocator<Fake>, other: &Heap) -> [BTreeSet<usize>; 2] {
    let heap = allocator.heaps.heap(0);
    let blocks: Vec<usize> = (0..BLOCKS).map(|_| allocate(allocator, heap)).collect();
    allocator.for_each_slab(|slab| _ = slab.set_owner_flag(PENDING));
    let (mut free, mut live) = (BTreeSet::new(), BTreeSet::new());
    for (number, &block) in blocks.iter().enumerate() {
        match number % 3 {
            0 => _ = live.insert(block),
            who => {
                allocator.free(if who == 1 { heap } else { other }, block, Call::Free);
                free.insert(block);
            }
        }
    }
    allocator.publish_frees(other);
    core::mem::forget(heap.enter().expect("no other call has the guard"));
    for index in BinIndex::all(allocator.heaps.partitions()) {
        heap.bins().clear(index);
    }
    [free, live]
}

/// Whichever thread finds it: nothing that was free is lost, nothing that is live comes again, and
/// every invariant holds.
fn is_made_whole_by(find: impl Fn(&Allocator<Fake>, &Heap)) {
    is_made_whole(|allocator, heap| allocator.heaps.orphan(heap), find);
}

/// As `is_made_whole_by`, where `end` ends its thread.
fn is_made_whole(end: impl Fn(&Allocator<Fake>, &Heap), find: impl Fn(&Allocator<Fake>, &Heap)) {
    let (_, allocator, first, other) = two_heaps(AT_ONCE);
    let [free, live] = torn(&allocator, other);
    end(&allocator, first);
    find(&allocator, other);
    assert!(first.enter().is_some(), "it was not repaired");
    allocator.check().unwrap();
    let adopter = birth(&allocator);
    assert!(core::ptr::eq(adopter, first));
    let again: BTreeSet<usize> = (0..2 * BLOCKS).map(|_| allocate(&allocator, adopter)).collect();
    assert_eq!(again.len(), 2 * BLOCKS);
    assert!(again.is_disjoint(&live));
    assert!(again.is_superset(&free), "{} are lost", free.difference(&again).count());
    allocator.check().unwrap();
}

#[test]
fn a_thread_that_adopts_it_mends_it() {
    is_made_whole_by(|allocator, _| {
        let heap = birth(allocator);
        allocator.check().unwrap();
        allocator.heaps.orphan(heap);
    });
}

#[test]
fn a_call_without_a_heap_mends_the_one_that_it_borrows() {
    is_made_whole_by(|allocator, _| {
        let ended = EXITED_HEAP.heap();
        let block = allocator.allocate(ended, 5000, code_address(2)).expect("there is memory");
        allocator.free(ended, block, Call::Free);
    });
}

#[test]
fn a_sweep_and_a_purge_mend_it() {
    is_made_whole_by(|allocator, _| _ = allocator.sweeper().sweep(Which::Free));
    is_made_whole_by(|allocator, other| _ = allocator.sweeper().purge(Some(other)));
}

#[test]
fn malloc_mends_it_before_it_takes_a_new_slab() {
    is_made_whole_by(|allocator, other| {
        // Of another size: it finds nothing there that it can use.
        allocator.allocate(other, 3000, code_address(1)).expect("there is memory");
    });
}

#[test]
fn one_whose_thread_is_found_dead_is_repaired_as_well() {
    let end = |allocator: &Allocator<Fake>, heap: &Heap| {
        heap.set_thread(7);
        allocator.heaps.orphan_exited(|thread| thread == 7);
        assert_eq!(allocator.heaps.heap_state(0), HeapState::Live, "it runs");
        allocator.heaps.orphan_exited(|_| false);
        assert_eq!(allocator.heaps.heap_state(0), HeapState::Orphan);
    };
    is_made_whole(end, |allocator, other| _ = allocator.sweeper().purge(Some(other)));
}

/// A thread that is ended while it collects what others have freed leaves the rest for its
/// successor.
#[test]
fn what_was_about_to_be_collected_is_collected_by_the_next() {
    let (_, allocator, first, other) = two_heaps(AT_ONCE);
    let sizes = [100, 500, 900, 3000];
    let blocks = sizes.map(|size| allocator.allocate(first, size, code_address(1)));
    for block in blocks {
        allocator.free(other, block.expect("there is memory"), Call::Free);
    }
    let pending = || {
        let mut count = 0;
        allocator.for_each_slab(|slab| {
            count += usize::from(slab.set_owner_flag(0) & PENDING != 0);
        });
        count
    };
    assert_eq!(pending(), sizes.len());
    let guard = first.enter().expect("no other call has the guard");
    let mut met = 0;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let bad = |_: &_, _| panic!("each was freed once");
        first.collect(&guard, bad, |_| {
            met += 1;
            assert!(met < 2, "the thread is ended here");
        });
    }));
    core::mem::forget(guard);
    assert!(ended.is_err() && pending() == sizes.len() - 2);
    allocator.heaps.orphan(first);
    let adopter = birth(&allocator);
    assert!(core::ptr::eq(adopter, first));
    allocator.sweeper().purge(Some(adopter));
    assert_eq!(pending(), 0);
    allocator.check().unwrap();
}

/// Where each call site has a partition, malloc does not look into a row by the hash first.
#[test]
fn every_request_of_an_exact_heap_goes_by_row() {
    let by_hash = |sites| {
        let (_fake, _allocator, heap) = one_heap(Options { sites, ..Options::DEFAULT });
        [1, SMALL_MAX, SMALL_MAX + 1].map(|size| heap.hashed_size(size).is_some())
    };
    assert_eq!(by_hash(SiteMode::Exact), [false; 3]);
    assert_eq!(by_hash(SiteMode::Hash), [true, true, false]);
}
