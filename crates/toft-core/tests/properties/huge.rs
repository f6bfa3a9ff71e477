//! Huge pages: only for what is dense and has been for some scans, and slabs are advised against
//! them otherwise.

use crate::common::plain::with_slab;
use crate::common::program::Program;
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use toft_core::keeper::Which;
use toft_core::options::{Huge, LimitTo, Options, Reclaim};
use toft_core::os::fake::{Fault, PageState, Request};
use toft_core::os::{HUGE, HugeHabit};

const OPTIONS: Options = Options { partitions: 1, reclaim: Reclaim::Off, ..Options::DEFAULT };
const SITE: usize = 3;
/// Looks until something dense is made huge.
const SCANS: usize = 5;

fn with_huge(huge: Huge) -> Program {
    Program::with_habit(HugeHabit { unasked: true, middle: false }, Options { huge, ..OPTIONS })
}

impl Program {
    fn take_ones(&self, size: usize) -> usize {
        self.take_filled(size, SITE, 1)
    }

    fn take_bytes(&self, bytes: usize, size: usize) -> Vec<usize> {
        (0..bytes / size).map(|_| self.take_ones(size)).collect()
    }

    /// Takes blocks, frees them, has their slabs unmapped, and takes them again.
    fn unmap_what_is_empty(&self, take: impl Fn() -> Vec<usize>) -> Vec<usize> {
        let blocks = take();
        blocks.iter().for_each(|&block| self.free(block));
        // The system has no more: everything that is empty is unmapped.
        self.fake.set_fault(Some(Fault::from(0).only(Request::Map)));
        assert!(self.allocator.allocate(self.heap, 8 << 20, code_address(SITE)).is_none());
        self.fake.set_fault(None);
        let unmapped = |&block: &usize| self.fake.page(block) == PageState::Free;
        assert!(blocks.iter().any(unmapped), "none was unmapped");
        take()
    }

    fn scan(&self, times: usize) -> usize {
        let made = (0..times).map(|_| self.allocator.page_activity().make_dense_huge()).sum();
        assert_eq!(self.fake.descriptors(), 0, "a descriptor is left open");
        made
    }
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn dense_slabs_get_huge_pages_and_sparse_ones_do_not() {
    for size in [256, 1024, 2048, 16384] {
        let program = with_huge(Huge::Dense);
        let blocks = program.take_bytes(16 << 20, size);
        assert_eq!(program.scan(SCANS - 1), 0, "{size}: too early");
        let made = program.scan(1);
        assert!((7..=8).contains(&made), "{size}: {made} huge pages for 16 MiB");
        assert_eq!(program.scan(3), 0, "{size}: made twice");
        for address in program.fake.huge_pages() {
            let live = blocks.iter().filter(|&&b| b >= address && b < address + HUGE).count();
            assert!(live * size >= HUGE / 16 * 15, "{size}: {live} blocks in {address:#x}");
        }
        // One block in eight goes: what is dense no more is not made again.
        let program = with_huge(Huge::Dense);
        for (n, &block) in program.take_bytes(16 << 20, size).iter().enumerate() {
            if n % 8 == 0 {
                program.free(block);
            }
        }
        assert_eq!(program.scan(2 * SCANS), 0, "{size}: sparse");
    }
}

/// Small slots fill a part of their slab's addresses only, where slabs are in plots: such slabs are
/// never dense.
#[test]
#[cfg_attr(
    not(feature = "secure-light"),
    ignore = "a slab of the field has no more than its slots"
)]
fn slabs_with_room_behind_are_not_dense() {
    let program = with_huge(Huge::Dense);
    program.take_bytes(8 << 20, 64);
    assert_eq!(program.scan(2 * SCANS), 0);
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn density_must_last() {
    let program = with_huge(Huge::Dense);
    let mut blocks = program.take_bytes(8 << 20, 1024);
    for _ in 0..SCANS {
        assert_eq!(program.scan(SCANS - 1), 0);
        blocks.iter().step_by(3).for_each(|&block| program.free(block));
        assert_eq!(program.scan(1), 0);
        blocks.iter_mut().step_by(3).for_each(|block| *block = program.take_ones(1024));
    }
    assert!(program.scan(SCANS) > 0);
}

/// Large blocks: those parts of which the pages are there.
#[test]
fn large_blocks_get_huge_pages_where_they_are_touched() {
    let program = with_huge(Huge::Dense);
    let size = 16 << 20;
    let block = program.allocator.allocate(program.heap, size, code_address(SITE)).unwrap();
    bytes_of(block, size)[..size / 2].fill(1);
    assert_eq!(program.scan(SCANS - 1), 0);
    let made = program.scan(1);
    assert!((3..=4).contains(&made), "{made} huge pages for 8 MiB");
    assert!(
        program.fake.huge_pages().iter().all(|&at| at >= block && at + HUGE <= block + size / 2)
    );
    // The rest, once it is there.
    bytes_of(block, size).fill(1);
    let made = program.scan(1);
    assert!((3..=5).contains(&made), "{made} huge pages for the rest");
    assert_eq!(program.scan(3), 0);
    // A new one begins from the start.
    program.free(block);
    program.take_ones(size - 4096);
    assert_eq!(program.scan(SCANS - 1), 0);
}

/// A block that is kept for reuse is not live, and scans leave its place in the queue as it is.
#[test]
fn free_large_blocks_are_left_alone() {
    let program = with_huge(Huge::Dense);
    let live = program.allocator.allocate(program.heap, 32 << 20, code_address(SITE));
    program.free(program.take_ones(16 << 20));
    assert!(
        live.is_some() && program.allocator.large().figures().kept_bytes() != 0,
        "none is kept"
    );
    assert_eq!(program.scan(4 * SCANS), 0);
}

/// Not too much at once.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn one_scan_makes_so_many() {
    let program = with_huge(Huge::Dense);
    program.take_bytes(150 << 20, 8192);
    assert_eq!(program.scan(SCANS), 64);
    assert!((74 - 64..=75 - 64).contains(&program.scan(1)));
    // Likewise of a large block.
    let program = with_huge(Huge::Dense);
    program.take_ones(140 << 20);
    assert_eq!(program.scan(SCANS), 64);
    assert!((69 - 64..=70 - 64).contains(&program.scan(1)));
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn a_system_that_refuses_is_not_asked_again() {
    let program = with_huge(Huge::Dense);
    program.take_bytes(8 << 20, 1024);
    program.fake.set_fault(Some(Fault::from(0).only(Request::MakeHuge)));
    program.scan(4 * SCANS);
    let asked = program.fake.calls(Request::MakeHuge);
    assert!((3..=4).contains(&asked), "asked {asked} times");
}

/// Where it would, and whatever the option is, but for `kernel`: the system makes no huge pages of
/// slabs by itself, so that what is returned to it stays away.
#[test]
fn slabs_are_advised_against_huge_pages() {
    for (huge, advised) in [(Huge::Off, true), (Huge::Dense, true), (Huge::Kernel, false)] {
        let program = with_huge(huge);
        for size in [16, 200, 3000] {
            for &block in &program.take_bytes(4 << 20, size) {
                assert_eq!(program.fake.is_kept_small(block), advised, "{huge:?} {size}");
            }
        }
        // Large blocks are the system's business: dense as a rule, and given back from the end.
        assert!(!program.fake.is_kept_small(program.take_ones(4 << 20)));
    }
}

/// A system that makes none by itself is told nothing; what is dense is made huge all the same.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn a_system_that_waits_to_be_asked_is_not_advised() {
    for huge in [Huge::Off, Huge::Dense] {
        let habit = HugeHabit { unasked: false, middle: true };
        let program = Program::with_habit(habit, Options { huge, prefault: false, ..OPTIONS });
        program.take_bytes(16 << 20, 1024);
        assert_eq!(program.fake.calls(Request::KeepSmall), 0, "{huge:?}");
        assert!(program.scan(SCANS) >= 7);
        program.unmap_what_is_empty(|| program.take_bytes(4 << 20, 2000));
        assert_eq!(program.fake.calls(Request::KeepSmall), 0, "{huge:?}: slabs that wake");
    }
}

/// How the system makes huge pages is learned when the first huge page fits in a plot. Slabs from
/// before are advised then.
#[test]
fn a_small_program_does_not_learn_the_habit() {
    for (huge, learned) in [(Huge::Off, 1), (Huge::Kernel, 0)] {
        let program = with_huge(huge);
        let mut blocks = program.take_bytes(400 << 10, 1024);
        assert_eq!(program.fake.calls(Request::HugeHabit), 0, "{huge:?}");
        assert!(blocks.iter().all(|&block| !program.fake.is_kept_small(block)), "{huge:?}");
        blocks.append(&mut program.take_bytes(8 << 20, 1024));
        assert_eq!(program.fake.calls(Request::HugeHabit), learned, "{huge:?}");
        let is_kept_small = |&block: &usize| program.fake.is_kept_small(block);
        assert!(blocks.iter().all(|block| is_kept_small(block) == (learned == 1)), "{huge:?}");
    }
}

/// A process may have no free descriptor when it grows. It learns the habit at a later growth.
#[test]
fn the_habit_is_asked_for_until_there_is_an_answer() {
    let program = with_huge(Huge::Off);
    program.fake.set_fault(Some(Fault::from(0).only(Request::HugeHabit)));
    let mut blocks = program.take_bytes(8 << 20, 1024);
    assert!(program.fake.calls(Request::HugeHabit) > 1);
    assert!(blocks.iter().all(|&block| !program.fake.is_kept_small(block)));
    program.fake.set_fault(None);
    blocks.append(&mut program.take_bytes(32 << 20, 1024));
    assert!(blocks.iter().all(|&block| program.fake.is_kept_small(block)));
}

/// A slab whose pages were unmapped and that is used again is as it was.
#[test]
fn slabs_that_wake_are_advised_again() {
    let program = with_huge(Huge::Off);
    for block in program.unmap_what_is_empty(|| program.take_bytes(4 << 20, 1024)) {
        assert!(program.fake.is_kept_small(block), "{block:#x}");
    }
}

/// Slabs that share pages are no part of a huge page, however much is live around them; and units
/// that become private again are advised as their neighbours. (The fake refuses to make what is
/// shared huge.)
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn what_shares_pages_is_not_made_huge() {
    let habit = HugeHabit { unasked: true, middle: false };
    let options = Options { compact: true, huge: Huge::Dense, ..OPTIONS };
    let program = Program::with_habit(habit, options);
    let blocks = program.take_bytes(8 << 20, 1024);
    // Two neighbours in the middle of a huge page keep every fourth block, not the same ones.
    let middle = (blocks[blocks.len() / 2] & !(HUGE - 1)) + HUGE / 2;
    for &block in &blocks {
        let (slab, slot) = ((block.wrapping_sub(middle)) >> 16, (block >> 10) % 64);
        if slab < 2 && slot % 4 != slab {
            program.free(block);
        }
    }
    assert!(program.allocator.compactor().compact(Which::Free).unwrap().bytes > 0);
    assert!(program.fake.shared_bytes() > 0);
    assert!(program.scan(SCANS) > 0, "nothing else is dense");
    let window = middle & !(HUGE - 1);
    assert!(!program.fake.huge_pages().contains(&window), "made of what is shared");
    // Before a fork all is private again.
    program.allocator.compactor().prepare_fork();
    assert_eq!(program.fake.shared_bytes(), 0);
    for &block in &blocks {
        assert!(program.fake.is_kept_small(block), "{block:#x}");
    }
    program.allocator.compactor().fork_is_done();
    // And so it is, when a slab leaves the others.
    assert!(program.allocator.compactor().compact(Which::Free).unwrap().bytes > 0);
    let shares = |block: usize| with_slab(&program.allocator, block, |slab, _| slab.is_shared());
    let sharing: Vec<usize> = blocks.iter().copied().filter(|&block| shares(block)).collect();
    for &block in sharing.iter().filter(|&&block| block >= middle) {
        let (slab, slot) = ((block - middle) >> 16, (block >> 10) % 64);
        if slab < 2 && slot % 4 == slab {
            program.free(block);
        }
    }
    program.allocator.compactor().compact_now(program.heap);
    assert_eq!(program.fake.shared_bytes(), 0);
    assert!(blocks.iter().all(|&block| program.fake.is_kept_small(block)));
}

/// Without leave for unusual calls, which the advice is, nothing is scanned and nothing is made.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn under_a_filter_everything_is_left_alone() {
    let program = with_huge(Huge::Dense);
    program.take_bytes(8 << 20, 1024);
    program.take_ones(8 << 20);
    program.allocator.filter().about_to_install(&program.fake);
    assert_eq!(program.scan(2 * SCANS), 0);
    for request in [Request::Scan, Request::MakeHuge] {
        assert_eq!(program.fake.calls(request), 0, "{request:?}");
    }
    assert_eq!(program.fake.pages_opened(), 0);
    program.allocator.filter().was_refused();
    assert!((6..=8).contains(&program.scan(2 * SCANS)));
    assert!(program.fake.calls(Request::Scan) > 0);
}

/// Live is not the same as there: what the program has never written to stays away.
#[test]
fn what_was_never_touched_is_not_made_huge() {
    let program = with_huge(Huge::Dense);
    let untouched = |_| {
        let block = program.allocator.allocate(program.heap, 16384, code_address(SITE)).unwrap();
        bytes_of(block, 1).fill(1);
        block
    };
    let blocks: Vec<usize> = (0..1024).map(untouched).collect();
    assert_eq!(program.scan(2 * SCANS), 0);
    blocks.iter().for_each(|&block| bytes_of(block, 16384).fill(1));
    assert!(program.scan(2 * SCANS) >= 7);
}

/// A large block that cannot be made huge is not tried at each scan.
#[test]
fn a_large_block_that_stays_small_is_tried_rarely() {
    let program = with_huge(Huge::Dense);
    program.take_ones(200 << 20);
    program.fake.set_fault(Some(Fault::from(0).only(Request::MakeHuge)));
    program.scan(10 * SCANS);
    let asked = program.fake.calls(Request::MakeHuge);
    assert!((8..=12).contains(&asked), "asked {asked} times");
    program.fake.set_fault(None);
    assert!(program.scan(2 * SCANS) >= 64);
}

/// Under a limit what is free in a huge page would be resident, and count for nothing.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn under_a_limit_only_what_is_full_is_made_huge() {
    for (limit, made) in [(LimitTo::Nothing, 3..=4), (LimitTo::Bytes(1 << 30), 0..=0)] {
        let habit = HugeHabit { unasked: true, middle: false };
        let program = Program::with_habit(habit, Options { huge: Huge::Dense, limit, ..OPTIONS });
        for (number, &block) in program.take_bytes(8 << 20, 2048).iter().enumerate() {
            if number % 64 == 0 {
                program.free(block);
            }
        }
        let found = program.scan(2 * SCANS);
        assert!(made.contains(&found), "{limit:?}: {found}");
    }
}
