//! A refused request slows nothing down unless memory is really short, and not for longer than
//! that.

use crate::common::plain::{AT_ONCE, one_heap, two_heaps};
use crate::common::world::code_address;
use toft_core::Allocator;
use toft_core::options::{LimitTo, Options};
use toft_core::os::fake::{Fake, Request};
use toft_core::path::Resized;
use toft_core::policy::SECURE;
use toft_core::reclaim::GRANTS;
use toft_core::report::Call;
use toft_core::thread::Heap;

const SITE: usize = 1;
/// A size that has an extent.
const LARGE: usize = 500_000;
/// Sizes of which a slab or an extent has a few.
const SIZES: [usize; 4] = [30_000, 60_000, 100_000, LARGE];

fn allocate(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> Option<usize> {
    allocator.allocate(heap, size, code_address(SITE))
}

/// Each of these pairs empties what it has filled.
fn pairs(allocator: &Allocator<Fake>, heap: &Heap, times: usize) {
    for _ in 0..times {
        for size in SIZES {
            let block = allocate(allocator, heap, size).expect("there is memory");
            allocator.free(heap, block, Call::Free);
        }
    }
}

/// System calls of each pair, once all is warm.
fn calls_of_pairs(fake: &Fake, allocator: &Allocator<Fake>, heap: &Heap) -> u64 {
    pairs(allocator, heap, 4);
    let before = fake.all_calls();
    pairs(allocator, heap, 100);
    fake.all_calls() - before
}

/// In the secure build a slab or two may be empty at another moment, because slots are chosen at
/// random.
fn assert_usual(usual: u64, calls: u64) {
    let room = if SECURE { 8 } else { 0 };
    assert!(calls.abs_diff(usual) <= room, "{calls} calls, before it was {usual}");
}

fn fill(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> Vec<usize> {
    std::iter::from_fn(|| allocate(allocator, heap, size)).collect()
}

/// This holds for `malloc`, and for `realloc` of a block of any size.
#[test]
fn an_impossible_request_is_two_calls_and_no_pressure() {
    let (fake, allocator, heap) = one_heap(AT_ONCE);
    let usual = calls_of_pairs(&fake, &allocator, heap);
    // As the kernel does with what is more than there is; and more than the address space has.
    fake.set_limit(1 << 36);
    let mapped = fake.mapped_bytes();
    for size in [1 << 37, 1 << 40, 1 << 44, 1 << 60, isize::MAX as usize, usize::MAX] {
        let before = fake.all_calls();
        assert_eq!(allocate(&allocator, heap, size), None);
        assert!(fake.all_calls() - before <= 2, "{size:#x}: {}", fake.all_calls() - before);
        assert!(!allocator.pressure().is_on(), "{size:#x}");
        for usable in SIZES {
            let block = allocate(&allocator, heap, usable).unwrap();
            let before = fake.all_calls();
            assert_eq!(allocator.resize(heap, block, size, SITE), Resized::NoMemory);
            let calls = fake.all_calls() - before;
            // The kernel is asked to move the pages of a large block first.
            let most = if usable == LARGE { 3 } else { 2 };
            assert!(calls <= most, "{usable} to {size:#x}: {calls}");
            assert!(!allocator.pressure().is_on(), "{usable} to {size:#x}");
            allocator.free(heap, block, Call::Free);
        }
    }
    assert!(fake.mapped_bytes() >= mapped);
    assert!(!allocator.pressure().is_on());
    assert_usual(usual, calls_of_pairs(&fake, &allocator, heap));
    allocator.check().unwrap();
}

#[test]
fn a_request_that_the_limit_refuses_is_no_pressure() {
    let options = Options { limit: LimitTo::Bytes(64 << 20), ..AT_ONCE };
    let (fake, allocator, heap) = one_heap(options);
    let usual = calls_of_pairs(&fake, &allocator, heap);
    for size in [65 << 20, 1 << 40] {
        assert_eq!(allocate(&allocator, heap, size), None);
    }
    assert!(!allocator.pressure().is_on());
    assert_usual(usual, calls_of_pairs(&fake, &allocator, heap));
    for size in [100, 30_000, 500_000] {
        let blocks = fill(&allocator, heap, size);
        blocks.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
        assert!(!allocator.pressure().is_on());
    }
    allocator.check().unwrap();
}

/// What one thread has freed serves another, block by block, while memory is short; when it is
/// there again, freeing costs no calls.
#[test]
fn under_pressure_memory_is_given_back_until_requests_succeed_again() {
    let (fake, allocator, heap, other) = two_heaps(AT_ONCE);
    let usual = calls_of_pairs(&fake, &allocator, heap);
    for round in 0..3 {
        fake.set_limit(fake.mapped_bytes() + (64 << 20));
        let blocks = fill(&allocator, heap, 30_000);
        assert!(allocator.pressure().is_on() && blocks.len() > 1000);
        let full = fake.mapped_bytes();
        // All of it, at once and by itself: the other thread can have as much.
        blocks.iter().for_each(|&block| allocator.free(heap, block, Call::Free));
        assert!(fake.mapped_bytes() < full - (56 << 20), "{round}");
        assert!(allocator.pressure().is_on());
        let theirs = fill(&allocator, other, 500_000);
        assert!(theirs.len() * 500_000 > 48 << 20, "{}", theirs.len());
        theirs.into_iter().for_each(|block| allocator.free(other, block, Call::Free));
        // There is memory again: a bounded number of calls later that is known.
        assert!(allocator.pressure().is_on());
        fake.set_limit(usize::MAX);
        let before = fake.calls(Request::Map);
        pairs(&allocator, heap, GRANTS);
        assert!(!allocator.pressure().is_on());
        let calls = fake.calls(Request::Map) - before;
        assert!(calls <= 2 * GRANTS as u64, "{calls} mappings");
        assert_usual(usual, calls_of_pairs(&fake, &allocator, heap));
    }
    // Memory is mapped ahead of need again.
    let before = fake.calls(Request::Map);
    let blocks: Vec<_> = (0..1 << 16).map(|_| allocate(&allocator, heap, 1000).unwrap()).collect();
    assert!(fake.calls(Request::Map) - before < 64, "{}", fake.calls(Request::Map) - before);
    blocks.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
    allocator.check().unwrap();
}
