//! The group of processes that a process belongs to is short of memory: less is kept for later.

use crate::common::plain::{allocator, one_heap};
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::Group;
use toft_core::report::Call;

const MIB: usize = 1 << 20;

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn a_group_that_is_short_of_memory_keeps_little_until_it_is_better_off() {
    let (fake, allocator, heap) = one_heap(Options::DEFAULT);
    let keep = || {
        let blocks = [(); 4].map(|()| allocator.allocate(heap, 4 * MIB, code_address(1)).unwrap());
        let more = allocator.allocate(heap, 16 * MIB, code_address(1)).unwrap();
        for address in blocks {
            bytes_of(address, 4 * MIB).fill(1);
            allocator.free(heap, address, Call::Free);
        }
        let kept = allocator.large().figures().kept_bytes();
        allocator.free(heap, more, Call::Free);
        kept
    };
    let look = |fullness, pressure| {
        fake.set_group(Group { fullness, pressure });
        fake.pass(50);
        allocator.memory_limit().check_group();
        allocator.memory_limit().to_sweep()
    };
    let slabs = || {
        let blocks: Vec<usize> =
            (0..400).map(|_| allocator.allocate(heap, 20_000, code_address(2)).unwrap()).collect();
        blocks.iter().for_each(|&address| allocator.free(heap, address, Call::Free));
        // What grows now has a peak to grow to, or has not.
        let others: Vec<usize> =
            (0..40).map(|_| allocator.allocate(heap, 50_000, code_address(3)).unwrap()).collect();
        let kept = allocator.kept_slab_bytes();
        others.iter().for_each(|&address| allocator.free(heap, address, Call::Free));
        kept
    };
    assert_eq!(look(None, None), Which::Idle);
    assert!(keep() > 12 * MIB && slabs() > 2 * MIB);
    assert_eq!(look(Some(899), Some(0)), Which::Idle);
    assert_eq!(look(Some(950), Some(0)), Which::Free);
    assert!(keep() <= MIB);
    assert!(slabs() <= MIB);
    assert_eq!(look(Some(850), Some(300)), Which::Free);
    assert!(keep() <= MIB);
    assert_eq!(look(Some(500), Some(0)), Which::Idle);
    assert!(keep() > 12 * MIB && slabs() > 2 * MIB);
    // It is looked at no more often than once a second.
    fake.set_group(Group { fullness: Some(1000), pressure: None });
    allocator.memory_limit().check_group();
    assert_eq!(allocator.memory_limit().to_sweep(), Which::Idle);
}

#[test]
fn under_a_filter_the_group_is_not_looked_at() {
    for installed in [false, true] {
        let (fake, allocator) = allocator(Options::DEFAULT);
        if installed {
            allocator.filter().about_to_install(&fake);
        }
        fake.set_group(Group { fullness: Some(1000), pressure: None });
        fake.pass(50);
        allocator.memory_limit().check_group();
        let wanted = if installed { Which::Idle } else { Which::Free };
        assert_eq!(allocator.memory_limit().to_sweep(), wanted);
    }
}
