//! What becomes of empty slabs: they serve other threads, their pages move or are returned, and no
//! more of them is kept than the program has ever used.

use crate::common::plain::{
    AT_ONCE, birth, fill_short_slabs, filling, one_heap, two_heaps, with_slab,
};
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use std::collections::{BTreeMap, BTreeSet};
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::Error;
use toft_core::os::fake::{Fake, Fault, PageState, Request};
use toft_core::report::Call;
use toft_core::slab::{SlotIndex, SlotState};
use toft_core::stats::snapshot;
use toft_core::thread::Heap;

const OPTIONS: Options = Options { partitions: 4, ..AT_ONCE };

/// Blocks of `bytes` in all, written all over.
fn fill(
    allocator: &Allocator<Fake>,
    heap: &Heap,
    size: usize,
    bytes: usize,
    site: usize,
) -> Vec<usize> {
    (0..bytes / size)
        .map(|_| {
            let address = allocator.allocate(heap, size, code_address(site)).unwrap();
            bytes_of(address, size).fill(7);
            address
        })
        .collect()
}

fn free_all(allocator: &Allocator<Fake>, heap: &Heap, blocks: &[usize]) {
    for &address in blocks {
        allocator.free(heap, address, Call::Free);
    }
    allocator.check().unwrap();
}

#[test]
fn empty_slabs_serve_other_threads() {
    // What others have freed stays with its thread, which is about to need it.
    for remote in [false, true] {
        let (_fake, allocator, mine, other) = two_heaps(OPTIONS);
        let first: BTreeSet<usize> = fill(&allocator, mine, 64, 1 << 20, 3).into_iter().collect();
        let (freer, next) = if remote { (other, mine) } else { (mine, other) };
        free_all(&allocator, freer, &first.iter().copied().collect::<Vec<_>>());
        let slabs = snapshot(&allocator).slabs;
        let second = fill(&allocator, next, 64, 1 << 19, 3);
        let shared = second.iter().filter(|address| first.contains(address)).count();
        assert!(shared * 10 > second.len() * 9, "{shared} of {} (remote: {remote})", second.len());
        assert!(snapshot(&allocator).slabs <= slabs + 1);
        allocator.check().unwrap();
    }
}

/// Repeated work asks the system for nothing.
#[test]
fn a_steady_round_makes_no_system_call() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let mut calls = Vec::new();
    for _ in 0..10 {
        let small = fill(&allocator, heap, 100, 2 << 20, 3);
        let medium = fill(&allocator, heap, 5000, 2 << 20, 4);
        free_all(&allocator, heap, &small);
        free_all(&allocator, heap, &medium);
        calls.push(fake.all_calls());
    }
    assert_eq!(calls[2..], [calls[9]; 8], "{calls:?}");
}

/// A program that goes from size to size keeps about what it has used at most, wherever it is.
#[test]
fn what_is_kept_stays_within_what_was_used() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let begin = fake.resident_bytes();
    let mut owners = BTreeMap::new();
    // All of the ten sizes are 80 MiB. What is kept is an eighth of one of them; the slabs that the
    // bins draw from are 3 MiB.
    let live = 8 << 20;
    let bound = live + live / 8 + (4 << 20);
    for round in 0..3 {
        for size in [64, 208, 512, 1024, 2048, 3584, 6144, 20_480, 65_536, 98_304] {
            let size = filling(size);
            let blocks = fill(&allocator, heap, size, live, size % 7);
            // Law 1: what belonged to one pair never belongs to another, although pages move.
            for &address in &blocks {
                let class = with_slab(&allocator, address, |slab, _| slab.class().index());
                assert_eq!(*owners.entry(address).or_insert((class, size % 7)), (class, size % 7));
            }
            let most = fake.resident_bytes() - begin;
            assert!(most < bound, "{} MB, round {round}, {size}", most >> 20);
            free_all(&allocator, heap, &blocks);
        }
    }
    let moved = fake.calls(Request::Transfer);
    // In the secure build pages are returned to the system instead.
    assert!(if cfg!(feature = "secure-light") { moved == 0 } else { moved > 20 }, "{moved}");
    assert!(allocator.sweeper().purge(Some(heap)) > live / 2);
    allocator.check().unwrap();
    // What is left are the slabs that bins draw from, one for each, and the metadata.
    assert!(fake.resident_bytes() - begin < live / 2, "{}", fake.resident_bytes() - begin);
}

/// Fills with one size, frees all, and fills with another until pages are moved. Returns the blocks
/// of the second size whose slabs have got pages.
fn moved(fake: &Fake, allocator: &Allocator<Fake>, heap: &Heap, count: usize) -> Vec<usize> {
    let blocks = fill(allocator, heap, 3500, 4 << 20, 3);
    free_all(allocator, heap, &blocks);
    let mut received = Vec::new();
    for _ in 0..count {
        let address = allocator.allocate(heap, 5000, code_address(4)).unwrap();
        if with_slab(allocator, address, |slab, _| slab.has_received()) {
            received.push(address);
        }
    }
    assert!(fake.calls(Request::Transfer) > 2);
    allocator.check().unwrap();
    received
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build moves no pages between slabs")]
fn moved_pages_do_not_count_as_zero() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let received = moved(&fake, &allocator, heap, 800);
    let dirty = |&&address: &&usize| bytes_of(address, 5000).contains(&7);
    assert!(received.iter().filter(dirty).count() > received.len() / 2, "no pages were moved");
    free_all(&allocator, heap, &received);
    for _ in 0..received.len() {
        let address = allocator.allocate_zeroed(heap, 5000, code_address(4)).unwrap();
        assert!(bytes_of(address, 5000).iter().all(|&byte| byte == 0));
    }
    // In slabs that have just got their pages as well.
    let blocks = fill(&allocator, heap, 2000, 4 << 20, 3);
    free_all(&allocator, heap, &blocks);
    for _ in 0..500 {
        let address = allocator.allocate_zeroed(heap, 7000, code_address(4)).unwrap();
        assert!(bytes_of(address, 7000).iter().all(|&byte| byte == 0));
    }
    allocator.check().unwrap();
}

/// A slab that has got pages gives none to another, and what it has got does not count as zero.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build moves no pages between slabs")]
fn pages_of_a_slab_that_has_got_some_do_not_count_as_zero() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    // Pages move to longer slabs: of 128, 256 and 384 KiB.
    let blocks = fill(&allocator, heap, 2048, 4 << 20, 3);
    free_all(&allocator, heap, &blocks);
    let blocks = fill(&allocator, heap, 4096, 4 << 20, 4);
    free_all(&allocator, heap, &blocks);
    let moved = fake.calls(Request::Transfer);
    assert!(moved > 3);
    for _ in 0..(4 << 20) / 98_304 {
        let address = allocator.allocate_zeroed(heap, 98_304, code_address(5)).unwrap();
        assert!(bytes_of(address, 98_304).iter().all(|&byte| byte == 0));
    }
}

/// Slots of a slab that has got pages were still never handed out.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build moves no pages between slabs")]
fn moved_pages_are_fresh_slots() {
    let (fake, allocator, heap) = one_heap(Options { warn_only: true, ..OPTIONS });
    let received = moved(&fake, &allocator, heap, 800);
    let last = *received.iter().max().unwrap();
    let (next, state) = with_slab(&allocator, last, |slab, slot| {
        (last + slab.size(), slab.state(SlotIndex::new(slot.number() + 1)))
    });
    assert_eq!(state, SlotState::Fresh);
    allocator.free(heap, next, Call::Free);
    let reports = fake.take_reports();
    assert!(reports.len() == 1 && reports[0].contains("never handed out"), "{reports:?}");
}

/// Pages that came along for slots that were never handed out are returned to the OS when they are
/// idle, although no free has brought them.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build moves no pages between slabs")]
fn moved_pages_that_nobody_needs_go_back() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let blocks = fill(&allocator, heap, 5000, 4 << 20, 4);
    // Freed by another thread, so that they stay with their owner until it collects: then they are
    // tidy when they go to the pool.
    free_all(&allocator, birth(&allocator), &blocks);
    allocator.sweeper().purge(Some(heap));
    // 102 to a slab: of the last one only a few are had.
    let received = moved(&fake, &allocator, heap, 102 * 7 + 6);
    assert!(!received.is_empty());
    let gone: usize = (0..3).map(|_| allocator.sweeper().sweep(Which::Idle).unwrap().bytes).sum();
    assert!(gone > 256 << 10, "{gone} bytes went");
    allocator.check().unwrap();
}

/// Slabs that no thread has asked for between two sweeps go, many at a time; what the system
/// refuses to take is not zero.
#[test]
fn old_slabs_go_in_batches() {
    let total = 32 << 20;
    for refused in [false, true] {
        let (fake, allocator, heap) = one_heap(OPTIONS);
        let blocks = fill(&allocator, heap, 2000, total, 3);
        free_all(&allocator, heap, &blocks);
        assert!(allocator.kept_slab_bytes() > total / 2);
        let full = fake.resident_bytes();
        fake.set_fault(refused.then(|| Fault::from(0).only(Request::Discard)));
        allocator.sweeper().sweep(Which::Idle).unwrap();
        assert!(allocator.kept_slab_bytes() > total / 2, "a slab is old at the second sweep");
        allocator.sweeper().sweep(Which::Idle).unwrap();
        assert_eq!(allocator.kept_slab_bytes(), 0);
        fake.set_fault(None);
        let gone = full.saturating_sub(fake.resident_bytes());
        assert!(if refused { gone < total / 8 } else { gone > total / 2 }, "{gone} bytes went");
        allocator.check().unwrap();
        for _ in 0..total / 2000 {
            let address = allocator.allocate_zeroed(heap, 2000, code_address(3)).unwrap();
            assert!(bytes_of(address, 2000).iter().all(|&byte| byte == 0));
        }
        allocator.check().unwrap();
    }
}

/// A system that cannot move pages is asked once; one that fails costs no more than the place.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build moves no pages between slabs")]
fn where_pages_cannot_be_moved_they_go_back() {
    for error in [Error::Unsupported, Error::NoMemory] {
        let (fake, allocator, heap) = one_heap(OPTIONS);
        fake.set_fault(Some(Fault::from(0).only(Request::Transfer).with(error)));
        let begin = fake.resident_bytes();
        for size in [2000, 3500, 6000, 20_000] {
            let blocks = fill(&allocator, heap, size, 4 << 20, 3);
            let most = fake.resident_bytes() - begin;
            assert!(most < 13 << 19, "{size}: {most}");
            free_all(&allocator, heap, &blocks);
        }
        let asked = fake.calls(Request::Transfer);
        assert!(if error == Error::Unsupported { asked == 1 } else { asked > 3 }, "{asked}");
        assert!(fake.calls(Request::Discard) > 3);
    }
}

/// A thread that has freed the last block of a slab may announce it when it is no longer owned.
#[test]
fn a_late_announcement_of_a_pooled_slab_is_nothing() {
    let (_fake, allocator, mine, other) = two_heaps(OPTIONS);
    let size = filling(64);
    fill_short_slabs(size, || allocator.allocate(mine, size, code_address(3)).unwrap());
    let blocks = fill(&allocator, mine, size, 1 << 16, 3);
    free_all(&allocator, mine, &blocks);
    let guard = other.enter();
    let pooled = |&&address: &&usize| with_slab(&allocator, address, |slab, _| !slab.has_owner());
    let late = *blocks.iter().find(pooled).unwrap();
    with_slab(&allocator, late, |slab, _| toft_core::remote::announce(slab));
    drop(guard);
    allocator.check().unwrap();
    let again = fill(&allocator, mine, size, 1 << 16, 3);
    let slab_of = |address| with_slab(&allocator, address, |slab, _| slab.base());
    assert!(again.iter().any(|&address| slab_of(address) == slab_of(late)));
    free_all(&allocator, other, &again);
    assert_eq!(fill(&allocator, mine, size, 1 << 16, 3).len(), again.len());
}

/// Freed twice, the second time when the slab is unowned.
#[test]
fn a_double_free_into_a_pooled_slab_is_named() {
    let (fake, allocator, mine, other) = two_heaps(Options { warn_only: true, ..OPTIONS });
    let blocks = fill(&allocator, mine, 64, 1 << 16, 3);
    free_all(&allocator, mine, &blocks);
    for (heap, address) in [(mine, blocks[0]), (other, blocks[1])] {
        allocator.free(heap, address, Call::Free);
        let reports = fake.take_reports();
        assert!(reports.len() == 1 && reports[0].contains("double free"), "{reports:?}");
    }
    allocator.check().unwrap();
}

/// Where the system has refused memory, empty slabs give up their address space, and are mapped
/// again.
#[test]
fn under_pressure_pooled_slabs_are_unmapped() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let blocks = fill(&allocator, heap, 64, 1 << 18, 3);
    free_all(&allocator, heap, &blocks);
    fake.set_fault(Some(Fault::from(0).only(Request::Map)));
    assert_eq!(allocator.allocate(heap, 4 << 20, 1), None);
    fake.set_fault(None);
    assert_eq!(fake.page(blocks[0]), PageState::Free);
    let again: BTreeSet<usize> = fill(&allocator, heap, 64, 1 << 18, 3).into_iter().collect();
    assert!(blocks.iter().filter(|address| again.contains(address)).count() > blocks.len() / 2);
    allocator.check().unwrap();
}
