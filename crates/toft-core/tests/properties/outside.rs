//! Foreign mappings fill the address space but for a hole. Large blocks come from the hole, and are
//! blocks like all others.

use crate::common::plain::one_heap;
use crate::common::world::code_address;
use toft_core::Allocator;
use toft_core::options::Options;
use toft_core::os::Memory;
use toft_core::os::fake::{Fake, Fault, PageState, Request};
use toft_core::report::Call;
use toft_core::thread::Heap;

const MIB: usize = 1 << 20;
const HOLE: usize = 64 * MIB;
const OPTIONS: Options = Options { warn_only: true, ..Options::DEFAULT };

fn fill(allocator: &Allocator<Fake>, heap: &Heap, size: usize, site: usize) -> Vec<usize> {
    let one = || allocator.allocate(heap, size, code_address(site));
    std::iter::from_fn(one).take(10_000).collect()
}

/// A hole at the bottom of the address space, where no window is.
fn full_but_for_a_hole(fake: &Fake) -> std::ops::Range<usize> {
    let start = fake.address_space().start + 16 * MIB;
    let hole = start..start + HOLE;
    fake.occupy_all_but(core::slice::from_ref(&hole));
    hole
}

fn bytes_of(address: usize, size: usize) -> &'static mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: a block that the test has, of `size` bytes.
    unsafe { core::slice::from_raw_parts_mut(start, size) }
}

#[test]
fn a_hole_outside_the_windows_serves_large_blocks() {
    for early in [0, 5] {
        let (fake, allocator, heap) = one_heap(OPTIONS);
        let before: Vec<usize> = (0..early)
            .map(|_| allocator.allocate(heap, 3 * MIB, code_address(9)).unwrap())
            .collect();
        let hole = full_but_for_a_hole(&fake);
        let mut last = 0;
        for round in 0..3 {
            let blocks = fill(&allocator, heap, MIB, 1);
            assert!(blocks.len() >= 56 && blocks.len() >= last, "{} {last}", blocks.len());
            last = blocks.len();
            for (number, &block) in blocks.iter().enumerate() {
                assert!(hole.contains(&block) && hole.contains(&(block + MIB)));
                let usable = allocator.requests().usable_size(block, Call::UsableSize);
                assert!(usable.is_some_and(|usable| usable >= MIB));
                bytes_of(block, MIB).fill(number as u8 + 1);
            }
            for (number, &block) in blocks.iter().enumerate() {
                assert!(bytes_of(block, MIB).iter().all(|&byte| byte == number as u8 + 1));
                // Something that cannot be accessed follows.
                let end = (block + MIB).next_multiple_of(4096);
                assert_eq!(fake.page(end), PageState::Forbidden);
            }
            allocator.check().unwrap();
            blocks.iter().for_each(|&block| allocator.free(heap, block, Call::Free));
            assert_eq!(fake.take_reports(), [] as [String; 0], "round {round}");
            allocator.check().unwrap();
            // Nothing of the blocks can be accessed, or has pages.
            for &block in &blocks {
                assert_eq!(fake.page(block), PageState::Forbidden);
            }
        }
        before.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
        assert_eq!(fake.take_reports(), [] as [String; 0]);
        allocator.check().unwrap();
    }
}

#[test]
fn misuse_of_such_blocks_is_named() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let hole = full_but_for_a_hole(&fake);
    let block = allocator.allocate(heap, MIB, code_address(1)).unwrap();
    let free = |address| allocator.free(heap, address, Call::Free);
    free(block + 4096);
    free(hole.start + 64);
    free(block);
    free(block);
    let reports = fake.take_reports();
    let expected = ["4096 bytes inside", "not a block of this allocator", "already free"];
    assert_eq!(reports.len(), expected.len(), "{reports:?}");
    for (report, words) in reports.iter().zip(expected) {
        assert!(report.contains(words), "{words}: {report}");
    }
    allocator.check().unwrap();
}

/// Law 1: what one call site had in the hole, no other gets.
#[test]
fn addresses_in_a_hole_never_change_owner() {
    let options = Options { partitions: 64, ..OPTIONS };
    let (fake, allocator, heap) = one_heap(options);
    let _hole = full_but_for_a_hole(&fake);
    let sites = [1, 2, 3, 4, 5, 6];
    let mut had: Vec<(usize, usize)> = Vec::new();
    for round in 0..30 {
        let site = sites[round % sites.len()];
        let size = [MIB, 300_000, 5 * MIB, 200_000][round % 4];
        let some: Vec<usize> =
            (0..3).map_while(|_| allocator.allocate(heap, size, code_address(site))).collect();
        let partition = |address| {
            let mut found = None;
            allocator.large().units().for_each(|block| {
                if allocator.large().placement().address(block) == address {
                    found = Some((block.partition().number(), block.class()));
                }
            });
            found.unwrap()
        };
        for &block in &some {
            let (number, class) = partition(block);
            for page in (block & !4095..block + size).step_by(4096) {
                let owner = number << 8 | class;
                assert!(had.iter().all(|&(other, by)| other != page || by == owner));
                had.push((page, owner));
            }
        }
        had.sort_unstable();
        had.dedup();
        some.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
        allocator.check().unwrap();
    }
    assert_eq!(fake.take_reports(), [] as [String; 0]);
    assert!(had.len() > 1000, "{}", had.len());
}

/// The pages of free blocks in the windows are unmapped, so the kernel offers those addresses, and
/// first, because they are higher.
#[test]
fn addresses_of_other_blocks_are_refused() {
    for outside in [false, true] {
        refused(outside);
    }
}

fn refused(outside: bool) {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let page = fake.page_size();
    let free_block = |size| {
        let address = allocator.allocate(heap, size, code_address(1)).unwrap();
        allocator.free(heap, address, Call::Free);
        address & !(page - 1)..(address + size).next_multiple_of(page)
    };
    // Of two classes, so that the second does not use the first again.
    let mut holes = vec![free_block(8 * MIB), free_block(40 * MIB)];
    allocator.large().kept_blocks().unmap_all(&fake);
    holes.sort_by_key(|hole| hole.start);
    let start = fake.address_space().start + 16 * MIB;
    if outside {
        holes.insert(0, start..start + HOLE);
    }
    fake.occupy_all_but(&holes);
    let blocks = fill(&allocator, heap, MIB, 2);
    assert!(blocks.iter().all(|block| (start..start + HOLE).contains(block)));
    assert!(if outside { blocks.len() >= 56 } else { blocks.is_empty() }, "{}", blocks.len());
    for hole in holes.iter().skip(usize::from(outside)) {
        for at in hole.clone().step_by(page) {
            assert_eq!(fake.page(at), PageState::Free);
        }
    }
    allocator.check().unwrap();
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

/// The system reserves addresses, and then refuses the pages.
#[test]
fn refused_requests_leave_nothing_in_a_hole() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let hole = full_but_for_a_hole(&fake);
    // One that is there decides where the descriptors are.
    let kept = allocator.allocate(heap, MIB, code_address(1)).unwrap();
    let before = fake.mapped_bytes();
    fake.set_fault(Some(Fault::from(0).only(Request::Renew)));
    for _ in 0..2000 {
        assert_eq!(allocator.allocate(heap, MIB, code_address(2)), None);
    }
    fake.set_fault(None);
    assert_eq!(fake.mapped_bytes(), before);
    let blocks = fill(&allocator, heap, MIB, 3);
    assert!(blocks.len() >= 55 && blocks.iter().all(|block| hole.contains(block)));
    allocator.free(heap, kept, Call::Free);
    allocator.check().unwrap();
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}
