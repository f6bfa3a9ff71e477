//! Slabs are advised against huge pages where the system makes some by itself.

use crate::common::plain::with_slab;
use crate::common::program::Program;
use crate::common::world::code_address;
use toft_core::keeper::Which;
use toft_core::options::{Huge, Options, Reclaim};
use toft_core::os::HugeHabit;
use toft_core::os::fake::{Fault, PageState, Request};

const OPTIONS: Options = Options { partitions: 1, reclaim: Reclaim::Off, ..Options::DEFAULT };
const SITE: usize = 3;

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
}

/// Unless `kernel` is chosen, the system makes no huge pages of slabs by itself, so that what is
/// returned to it stays away.
#[test]
fn slabs_are_advised_against_huge_pages() {
    for (huge, advised) in [(Huge::Off, true), (Huge::Kernel, false)] {
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

/// A system that makes none by itself needs no advice.
#[test]
fn a_system_that_waits_to_be_asked_is_not_advised() {
    let habit = HugeHabit { unasked: false, middle: true };
    let program = Program::with_habit(habit, Options { prefault: false, ..OPTIONS });
    program.take_bytes(16 << 20, 1024);
    assert_eq!(program.fake.calls(Request::KeepSmall), 0);
    program.unmap_what_is_empty(|| program.take_bytes(4 << 20, 2000));
    assert_eq!(program.fake.calls(Request::KeepSmall), 0, "slabs that wake");
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

/// Units that become private again are advised as their neighbours.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn what_shares_pages_no_more_is_advised_again() {
    let habit = HugeHabit { unasked: true, middle: false };
    let program = Program::with_habit(habit, Options { compact: true, ..OPTIONS });
    let blocks = program.take_bytes(8 << 20, 1024);
    // Two neighbours keep every fourth block, not the same ones.
    let first = blocks[blocks.len() / 2] & !((128 << 10) - 1);
    for &block in &blocks {
        let (slab, slot) = ((block.wrapping_sub(first)) >> 16, (block >> 10) % 64);
        if slab < 2 && slot % 4 != slab {
            program.free(block);
        }
    }
    assert!(program.allocator.compactor().compact(Which::Free).unwrap().bytes > 0);
    assert!(program.fake.shared_bytes() > 0);
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
    for &block in sharing.iter().filter(|&&block| block >= first) {
        let (slab, slot) = ((block - first) >> 16, (block >> 10) % 64);
        if slab < 2 && slot % 4 == slab {
            program.free(block);
        }
    }
    program.allocator.compactor().compact_now(program.heap);
    assert_eq!(program.fake.shared_bytes(), 0);
    assert!(blocks.iter().all(|&block| program.fake.is_kept_small(block)));
}

/// The advice is an unusual call: none is given under a filter of system calls.
#[test]
fn under_a_filter_no_advice_is_given() {
    let program = with_huge(Huge::Off);
    program.allocator.filter().about_to_install(&program.fake);
    let mut blocks = program.take_bytes(8 << 20, 1024);
    for request in [Request::HugeHabit, Request::KeepSmall] {
        assert_eq!(program.fake.calls(request), 0, "{request:?}");
    }
    program.allocator.filter().was_refused();
    blocks.append(&mut program.take_bytes(32 << 20, 1024));
    assert!(blocks.iter().all(|&block| program.fake.is_kept_small(block)));
}
