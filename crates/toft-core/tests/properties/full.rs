//! The address space is full of mappings that are not the allocator's, or a thread was stopped
//! while it maps: requests are refused or served after a bounded number of system calls, none of
//! which lets time pass.

use crate::common::plain::{birth, one_heap};
use crate::common::world::code_address;
use toft_core::Allocator;
use toft_core::options::Options;
use toft_core::os::Error;
use toft_core::os::fake::{Fake, Fault, Request};
use toft_core::report::Call;
use toft_core::thread::Heap;

const SIZES: [usize; 8] = [16, 1000, 5000, 30_000, 100_000, 200_000, 5 << 20, 1 << 30];

/// Mappings that the requests up to the first refused one try.
const MOST_OF_FIRST: u64 = if cfg!(feature = "secure-light") { 600 } else { 2000 };
/// Mappings that a refused request tries after that: the field passes by 48 places before and after
/// idle memory is returned, unless the request before has found it full. The secure builds try
/// eight plots, of which each passes by few. The rest is for a block with a separate extent.
const MOST_OF_LATER: u64 = if cfg!(feature = "secure-light") { 80 } else { 200 };

fn fill(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> Vec<usize> {
    let one = || allocator.allocate(heap, size, code_address(1));
    std::iter::from_fn(one).take(100_000).collect()
}

/// Every place that is asked for is taken. The first requests pass many by, each later one a few.
#[test]
fn a_full_address_space_costs_a_few_calls_and_no_time() {
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let foreign = Fault::from(0).only(Request::Map).with(Error::Occupied);
    for round in 0..3 {
        fake.set_fault(Some(foreign));
        for size in SIZES {
            let before = fake.calls(Request::Map);
            // What is claimed or kept may serve some; the request after those is refused.
            let blocks = fill(&allocator, heap, size);
            let calls = fake.calls(Request::Map) - before;
            assert!(
                calls <= MOST_OF_FIRST,
                "round {round}: {calls} mappings were tried for the first {size} bytes"
            );
            for _ in 0..20 {
                let before = fake.calls(Request::Map);
                assert_eq!(allocator.allocate(heap, size, code_address(1)), None, "{size}");
                let calls = fake.calls(Request::Map) - before;
                assert!(calls <= MOST_OF_LATER, "{calls} mappings were tried for {size} bytes");
            }
            blocks.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
        }
        // A heap's place is known; there is no other.
        let before = fake.calls(Request::Map);
        assert!(allocator.held_heaps().acquire_heap().is_err());
        assert_eq!(fake.calls(Request::Map), before + 1);
        assert_eq!(fake.waits(), 0);
        fake.set_fault(None);
        for size in SIZES {
            let block = allocator.allocate(heap, size, code_address(round));
            assert!(block.is_some(), "{size} bytes, once there is room again");
        }
        assert_eq!(birth(&allocator).address(), allocator.heaps.heap(round as u32 + 1).address());
    }
    allocator.check().unwrap();
}

/// A program that asks a hundred thousand times uses no addresses up that way.
#[test]
fn refused_requests_use_no_addresses_up() {
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let foreign = Fault::from(0).only(Request::Map).with(Error::Occupied);
    fake.set_fault(Some(foreign));
    for _ in 0..100_000 {
        assert_eq!(allocator.allocate(heap, 1 << 30, code_address(1)), None);
    }
    fake.set_fault(None);
    for _ in 0..8 {
        assert!(allocator.allocate(heap, 1 << 30, code_address(1)).is_some());
    }
    allocator.check().unwrap();
}
