//! The guard pages of the secure build, on a system that knows guards and on one that does not.

use crate::common::plain::birth;
use crate::common::world::code_address;
use std::collections::BTreeSet;
use toft_core::Allocator;
use toft_core::large::BlockState;
use toft_core::options::{Options, Reclaim};
use toft_core::os::fake::{Fake, Fault, Machine, PageState, Request};
use toft_core::policy::GUARD_PAGE_MAPPINGS;
use toft_core::report::Call;
use toft_core::thread::Heap;

const OPTIONS: Options =
    Options { partitions: 4, reclaim: Reclaim::Off, warn_only: true, ..Options::DEFAULT };
const REACH: usize = 64 << 10;
const PAGE: usize = 4096;

struct Program {
    fake: Fake,
    allocator: Allocator<Fake>,
    heap: &'static Heap,
}

impl Program {
    fn new(machine: Machine) -> Program {
        let fake = Fake::new(machine);
        let allocator = Allocator::new(fake.clone(), OPTIONS, false).unwrap();
        let heap = birth(&allocator);
        Program { fake, allocator, heap }
    }

    fn try_take(&self, size: usize, site: usize) -> Option<usize> {
        self.allocator.allocate(self.heap, size, code_address(site))
    }

    fn take(&self, size: usize, site: usize) -> usize {
        self.try_take(size, site).unwrap()
    }

    fn free(&self, address: usize) {
        self.allocator.free(self.heap, address, Call::Free);
        assert!(self.fake.take_reports().is_empty());
    }

    /// Bytes from an address on to the first page that faults.
    fn reach(&self, address: usize) -> usize {
        let pages = (address / PAGE * PAGE..).step_by(PAGE);
        let guard = pages.into_iter().find(|&page| self.fake.page(page) != PageState::Mapped);
        guard.unwrap().saturating_sub(address)
    }
}

#[test]
fn there_is_a_guard_page_within_reach_of_every_block() {
    let program = Program::new(Machine::LARGE);
    for size in [1, 16, 100, 240, 500, 1000, 1500, 4000, 9000, 30_000, 60_000, 100_000, 120_000] {
        for _ in 0..300 {
            let block = program.take(size, size % 7);
            assert!(program.reach(block + size) <= REACH, "{size}");
        }
    }
    program.allocator.check().unwrap();
    // None of them is a mapping: what one plot has stays one.
    assert_eq!(program.fake.calls(Request::Forbid), 0);
    assert!(program.fake.mappings() < 60, "{}", program.fake.mappings());
}

/// Where the system has no guards, guard pages are mappings; as those become many, the ones inside
/// slabs are left out, and then all.
#[test]
fn without_guards_guard_pages_are_counted_and_become_few() {
    let program = Program::new(Machine { guards: false, ..Machine::LARGE });
    let early = program.take(240, 1);
    assert!(program.reach(early + 240) <= REACH);
    assert!(program.fake.calls(Request::Forbid) > 0);
    let mut last = early;
    for _ in 0..1_200_000 {
        last = program.take(240, 1);
    }
    let guards = program.fake.mappings();
    assert!(guards > GUARD_PAGE_MAPPINGS / 2 && guards < GUARD_PAGE_MAPPINGS + 100, "{guards}");
    assert!(program.reach(last + 240) > REACH, "there is a guard page still");
    program.allocator.check().unwrap();
}

/// A filter that the process has installed itself may know `madvise`, and not what it would be
/// told.
#[test]
fn under_a_filter_of_its_own_a_process_has_mappings_for_guard_pages() {
    let program = Program::new(Machine::LARGE);
    program.take(240, 1);
    let guards = program.fake.calls(Request::Guard);
    assert!(guards > 0);
    program.allocator.filter().about_to_install(&program.fake);
    for _ in 0..2000 {
        let block = program.take(240, 1);
        assert!(program.reach(block + 240) <= REACH);
    }
    assert_eq!(program.fake.calls(Request::Guard), guards);
    assert!(program.fake.calls(Request::Forbid) > 0);
}

/// Slabs that were unmapped, because the system had refused memory, get their guard pages again.
#[test]
fn guard_pages_come_back_with_the_pages() {
    let program = Program::new(Machine::LARGE);
    let blocks: Vec<usize> = (0..4000).map(|_| program.take(200, 1)).collect();
    // From here on what becomes empty is unmapped: the system has no more.
    program.fake.set_fault(Some(Fault::from(0).only(Request::Map)));
    assert!(program.try_take(8 << 20, 1).is_none());
    program.fake.set_fault(None);
    blocks.iter().for_each(|&block| program.free(block));
    assert!(blocks.iter().any(|&block| program.fake.page(block) == PageState::Free));
    for _ in 0..4000 {
        let block = program.take(200, 1);
        assert!(program.reach(block + 200) <= REACH);
    }
    program.allocator.check().unwrap();
}

#[test]
fn a_freed_large_block_is_gone_and_its_address_waits() {
    let program = Program::new(Machine::LARGE);
    let first = program.take(1 << 20, 1);
    program.free(first);
    assert_eq!(program.fake.page(first), PageState::Free);
    for number in 1..=256 {
        let other = program.take(1 << 20, 1);
        assert_ne!(other / PAGE, first / PAGE, "{number}");
        program.free(other);
        program.allocator.check().unwrap();
    }
    let (count, bytes) = program.allocator.large().waiting().figures();
    assert!(count > 256 / 2 && bytes >= count << 20, "{count} {bytes}");
}

/// The pages of a freed large block are cleared, wait where no program has ever been, and go to the
/// next block, of any site. Where the system refuses, they are its own again.
#[test]
fn pages_of_freed_large_blocks_are_handed_on() {
    let size = 600_000;
    let refusals = [
        None,
        Some(Request::Relocate),
        Some(Request::Map),
        Some(Request::Unmap),
        Some(Request::Allow),
    ];
    for refused in refusals.into_iter().chain([None]) {
        let program = Program::new(Machine::LARGE);
        program.allocator.filter().watch();
        let large = program.allocator.large();
        let live = program.take(8 << 20, 2);
        crate::common::shadow::bytes_of(live, 8 << 20).fill(1);
        let mut given = BTreeSet::new();
        for number in 0..300 {
            let fault = refused.filter(|_| number % 3 == 0);
            let block = program.take(size, number % 3);
            given.insert(block >> 16);
            let bytes = crate::common::shadow::bytes_of(block, size);
            assert!(bytes.iter().all(|&byte| byte == 0), "{refused:?} {number}");
            bytes.fill(0xEE);
            program.fake.set_fault(fault.map(|kind| Fault::from(0).only(kind)));
            program.free(block);
            program.fake.set_fault(None);
            program.allocator.check().unwrap();
            if fault.is_none() {
                assert_ne!(program.fake.page(block), PageState::Mapped, "{refused:?} {number}");
                assert!(large.figures().kept_bytes() >= size, "{refused:?} {number}");
            }
            // Nothing that is free and accessible lies where the program has had a block.
            large.units().for_each(|other| {
                let (start, mapped) = large.pages().mapping(other);
                let kept = other.state() == BlockState::Free && mapped != 0;
                if kept && program.fake.page(start) == PageState::Mapped && refused.is_none() {
                    assert!(!given.contains(&(start >> 16)), "{number}");
                    let bytes = crate::common::shadow::bytes_of(start, mapped);
                    assert!(bytes.iter().all(|&byte| byte == 0), "{number}: not cleared");
                }
            });
        }
        assert!(large.figures().kept_bytes() <= (9 << 20) + size);
        large.kept_blocks().unmap_all(&program.fake);
        assert_eq!(large.figures().kept_bytes(), 0, "{refused:?}");
        program.allocator.check().unwrap();
    }
}

/// Under a filter of system calls the allocator does not ask what is in memory, and nothing is
/// kept. Blocks that were never touched are not kept either.
#[test]
fn what_is_not_known_to_be_in_memory_is_not_kept() {
    for (filtered, touched) in [(true, true), (false, false), (false, true)] {
        let program = Program::new(Machine::LARGE);
        program.allocator.filter().watch();
        if filtered {
            program.allocator.filter().about_to_install(&program.fake);
        }
        let block = program.take(600_001, 1);
        if touched {
            crate::common::shadow::bytes_of(block, 600_001).fill(1);
        }
        program.free(block);
        assert_eq!(program.fake.page(block), PageState::Free);
        let kept = program.allocator.large().figures().kept_bytes() != 0;
        assert_eq!(kept, touched && !filtered, "{filtered} {touched}");
        program.allocator.check().unwrap();
    }
}

/// What waits is bounded by address space, and is let go of before malloc says that there is none.
#[test]
fn addresses_that_wait_are_had_back_in_time() {
    let program = Program::new(Machine::SMALL);
    for number in 0..4000 {
        let block = program.try_take(1 << 20, 1).unwrap_or_else(|| panic!("number {number}"));
        program.free(block);
    }
    program.allocator.check().unwrap();
    // As many as fit at once, twice.
    let mut counts = [0; 2];
    for count in &mut counts {
        let mut blocks = Vec::new();
        while let Some(block) = program.try_take(1 << 20, 1) {
            blocks.push(block);
        }
        *count = blocks.len();
        blocks.iter().for_each(|&block| program.free(block));
        program.allocator.check().unwrap();
    }
    assert!(counts[0] > 100 && counts[1] + 2 >= counts[0], "{counts:?}");
}

/// Beyond so many, large blocks share mappings: what is before and behind them faults all the same.
#[test]
fn large_blocks_that_share_a_mapping_have_guards() {
    let program = Program::new(Machine::LARGE);
    let size = (131_073 + 15) & !15;
    let blocks: Vec<usize> = (0..9000).map(|_| program.take(size, 1)).collect();
    assert!(program.fake.calls(Request::Guard) > 0 && program.fake.mappings() < 9000);
    for &block in &blocks {
        assert_ne!(program.fake.page(block + size), PageState::Mapped);
        assert_ne!(program.fake.page((block & !(PAGE - 1)) - PAGE), PageState::Mapped);
    }
    program.allocator.check().unwrap();
    blocks.iter().for_each(|&block| program.free(block));
    assert!(blocks.iter().all(|&block| program.fake.page(block) != PageState::Mapped));
    program.allocator.check().unwrap();
    let mappings = program.fake.mappings();
    // And again, in whatever order they come back.
    let blocks: Vec<usize> = (0..9000).map(|_| program.take(size, 1)).collect();
    for &block in &blocks {
        assert_eq!(program.reach(block), size);
        assert_ne!(program.fake.page((block & !(PAGE - 1)) - PAGE), PageState::Mapped);
    }
    assert!(program.fake.mappings() < mappings + 8192 + 700);
    program.allocator.check().unwrap();
}

#[test]
fn blocks_of_no_bytes_are_nowhere() {
    let program = Program::new(Machine::LARGE);
    let blocks: Vec<usize> = (0..700_000).map(|_| program.take(0, 1)).collect();
    assert!(blocks.iter().all(|&block| program.fake.page(block) == PageState::Free));
    let mut sorted = blocks.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), blocks.len());
    program.allocator.check().unwrap();
    blocks.iter().for_each(|&block| program.free(block));
    program.allocator.check().unwrap();
    program.allocator.free(program.heap, blocks[9], Call::Free);
    let reports = program.fake.take_reports();
    assert!(reports[0].contains("double free") && reports[0].contains("0-byte"), "{reports:?}");
}

/// Where the system knows no guards, and even where it cannot take out a range at the limit of
/// mappings, the place of a freed large block is had again.
#[test]
fn without_guards_large_blocks_come_back_all_the_same() {
    for refused in [None, Some(Request::Unmap)] {
        let program = Program::new(Machine { guards: false, ..Machine::LARGE });
        let size = (131_073 + 15) & !15;
        let blocks: Vec<usize> = (0..9000).map(|_| program.take(size, 1)).collect();
        let places: BTreeSet<usize> = blocks.iter().map(|block| block >> 16).collect();
        // The last ones share mappings.
        for &block in &blocks[8500..] {
            program.fake.set_fault(refused.map(|kind| Fault::from(0).only(kind)));
            program.free(block);
            program.fake.set_fault(None);
        }
        blocks[..8500].iter().for_each(|&block| program.free(block));
        program.allocator.check().unwrap();
        for round in 0..2 {
            let again: Vec<usize> = (0..9000).map(|_| program.take(size, 1)).collect();
            let old = again.iter().filter(|&&block| places.contains(&(block >> 16)));
            assert!(old.count() > 4000, "{round}: addresses are not used again");
            for &block in &again {
                let bytes = crate::common::shadow::bytes_of(block, size);
                assert!(bytes[0] == 0 && bytes[size - 1] == 0);
                (bytes[0], bytes[size - 1]) = (1, 1);
            }
            program.allocator.check().unwrap();
            again.iter().for_each(|&block| program.free(block));
        }
        program.allocator.check().unwrap();
    }
}
