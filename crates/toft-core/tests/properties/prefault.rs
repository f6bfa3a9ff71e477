//! Pages for slabs that are about to be filled: for steady growth only, switched off with equal
//! results, and what is not used is returned to the OS.

use crate::common::plain::{birth, fill_short_slabs};
use crate::common::program::Program;
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use toft_core::keeper::Which;
use toft_core::options::{Huge, Options, Reclaim};
use toft_core::os::fake::{Fault, Request};
use toft_core::os::{HugeHabit, MIDDLE};

/// Pages of 64 KiB are made where they are asked for.
const MIDDLE_HABIT: HugeHabit = HugeHabit { unasked: false, middle: true };

fn options(prefault: bool) -> Options {
    Options { partitions: 4, reclaim: Reclaim::Off, prefault, ..Options::DEFAULT }
}

/// The fifth of the longest slabs in a row is prefaulted, and each one after it, more and more of
/// them: a sixteenth of what was filled. The program touches none of it.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn steady_growth_is_prefaulted() {
    let program = Program::with(options(true));
    fill_short_slabs(1024, || program.take(1024, 1));
    let mut prefaulted = 0;
    for slabs in 1..30usize {
        (0..57).for_each(|_| _ = program.take(1024, 1));
        program.allocator.check().unwrap();
        (0..7).for_each(|_| _ = program.take(1024, 1));
        assert_eq!(program.prefaulted(), slabs.saturating_sub(4) as u64, "{slabs} slabs");
        if slabs > 4 {
            prefaulted += (4096 * (slabs - 1)).min(64 << 10);
        }
        assert_eq!(program.fake.populated_bytes(), prefaulted, "{slabs} slabs");
        // In the middle of one, too.
        program.allocator.check().unwrap();
    }
    assert_eq!(program.fake.allowed_huge(), [] as [std::ops::Range<usize>; 0]);
}

/// Where there are pages of 64 KiB, whole slabs are put into one, which is asked for there and then
/// only.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn middle_pages_are_used_for_what_is_prefaulted() {
    for (prefault, huge, used) in
        [(true, Huge::Off, true), (true, Huge::Kernel, false), (false, Huge::Off, false)]
    {
        let options = Options { huge, ..options(prefault) };
        let program = Program::with_habit(MIDDLE_HABIT, options);
        fill_short_slabs(1024, || program.take(1024, 1));
        // A slab of 8 KiB. The next ones begin at multiples of 64 KiB.
        program.take(512, 1);
        let blocks: Vec<usize> = (0..40 * 64).map(|_| program.take(1024, 1)).collect();
        let allowed = program.fake.allowed_huge();
        // From the slab on that has sixteen filled ones behind it.
        assert_eq!(allowed.len(), if used { 40 - 16 } else { 0 }, "{prefault} {huge:?}");
        for range in allowed {
            assert_eq!((range.len(), range.start % MIDDLE), (MIDDLE, 0));
            assert!(blocks.contains(&range.start));
        }
        for &block in &blocks {
            assert_eq!(program.fake.is_kept_small(block), used, "{prefault} {huge:?}");
        }
    }
    // One that is refused is prefaulted page by page.
    let program = Program::with_habit(MIDDLE_HABIT, options(true));
    program.fake.set_fault(Some(Fault::from(0).only(Request::AllowHuge)));
    fill_short_slabs(1024, || program.take(1024, 1));
    (0..40 * 64).for_each(|_| _ = program.take(1024, 1));
    assert_eq!((program.prefaulted(), program.fake.allowed_huge().len()), (36, 0));
}

/// Of blocks that are larger than a page a program may touch the first one only.
#[test]
fn what_may_not_be_touched_is_not_prefaulted() {
    let program = Program::with(options(true));
    (0..4000).for_each(|_| _ = program.take(5000, 1));
    assert_eq!(program.prefaulted(), 0);
    (0..4000).for_each(|_| _ = program.take(4096, 1));
    assert!(program.prefaulted() > 10);
}

/// Many sites and sizes with few blocks each: nothing is prefaulted, however large the program.
#[test]
fn growth_here_and_there_is_not() {
    let program = Program::with(options(true));
    for size in (16..=16384).step_by(16) {
        (0..3).for_each(|_| _ = program.take(size, size / 16));
    }
    assert_eq!(program.prefaulted(), 0);
}

#[test]
fn small_slabs_are_not_worth_a_call() {
    let program = Program::with(options(true));
    (0..100_000).for_each(|_| _ = program.take(32, 1));
    assert_eq!(program.prefaulted(), 0);
}

#[test]
fn it_can_be_switched_off() {
    let program = Program::with(options(false));
    (0..10_000).for_each(|_| _ = program.take(1024, 1));
    assert_eq!(program.prefaulted(), 0);
}

/// What was prefaulted and is not used is given back when it has been idle, though it was never
/// handed out.
#[test]
fn what_is_not_used_goes_back() {
    let program = Program::with(options(true));
    fill_short_slabs(1024, || program.take(1024, 1));
    for _ in 0..20 * 64 + 1 {
        let block = program.take(1024, 1);
        bytes_of(block, 1024).fill(1);
    }
    assert_eq!(program.prefaulted(), 17);
    let full = program.fake.resident_bytes();
    for _ in 0..4 {
        program.allocator.sweeper().sweep(Which::Idle);
    }
    let gone = full - program.fake.resident_bytes();
    assert!(gone >= 40 << 10, "{gone} bytes of a slab of 64 KiB have gone");
    program.allocator.check().unwrap();
    // And it is had again, zero for calloc.
    for _ in 0..100 {
        let site = code_address(1);
        let block = program.allocator.allocate_zeroed(program.heap, 1024, site).unwrap();
        assert!(bytes_of(block, 1024).iter().all(|&byte| byte == 0));
    }
}

/// A system that cannot: everything is as if it were off.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn a_system_without_it_is_no_worse() {
    let program = Program::with(options(true));
    program.fake.set_fault(Some(Fault::from(0).only(Request::Populate)));
    let blocks: Vec<usize> = (0..2000).map(|_| program.take(1024, 1)).collect();
    // At every fourth slab or so.
    assert!((5..=10).contains(&program.fake.failed()), "{}", program.fake.failed());
    assert!(program.fake.resident_bytes() < 2 << 20, "nobody has touched them");
    assert_eq!(blocks.iter().collect::<std::collections::HashSet<_>>().len(), blocks.len());
    program.allocator.check().unwrap();
}

/// A slab that has got the pages of an empty one needs no others; and one that has lost its own in
/// the attempt must not be touched. (The fake panics.)
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn slabs_that_were_given_pages_are_not_prefaulted() {
    for fails in [false, true] {
        let program = Program::with(options(true));
        let blocks: Vec<usize> = (0..80 * 64)
            .map(|_| program.take(1024, 1))
            .inspect(|&block| bytes_of(block, 1024).fill(1))
            .collect();
        blocks.iter().for_each(|&block| program.free(block));
        let fault = Fault::from(0).only(Request::Transfer);
        program.fake.set_fault(fails.then_some(fault));
        let (prefaulted, moved) = (program.prefaulted(), program.fake.calls(Request::Transfer));
        (0..60 * 85).for_each(|_| _ = program.take(768, 2));
        let (prefaulted, moved) =
            (program.prefaulted() - prefaulted, program.fake.calls(Request::Transfer) - moved);
        assert!(moved > 10, "{moved} slabs were given pages");
        assert!(
            prefaulted + moved <= 60,
            "{prefaulted} of 60 slabs were prefaulted, {moved} given pages"
        );
        program.allocator.check().unwrap();
    }
}

/// A slab that another bin has filled many like is no sign that this one will.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "counts slots of the default build, in its order")]
fn a_slab_that_changes_hands_brings_no_row() {
    let program = Program::with(options(true));
    fill_short_slabs(1024, || program.take(1024, 1));
    let blocks: Vec<usize> = (0..20 * 64).map(|_| program.take(1024, 1)).collect();
    let prefaulted = program.prefaulted();
    assert!(prefaulted > 10);
    // One of the last slabs becomes empty.
    for &block in blocks.iter().skip(18 * 64).take(64) {
        program.free(block);
    }
    assert_eq!(program.allocator.kept_slab_bytes(), 64 << 10);
    let heap = birth(&program.allocator);
    let take = || program.allocator.allocate(heap, 1024, code_address(1)).unwrap();
    (0..3 * 64).for_each(|_| _ = take());
    assert_eq!(program.allocator.kept_slab_bytes(), 0);
    assert_eq!(program.prefaulted(), prefaulted);
    (0..4 * 64).for_each(|_| _ = take());
    assert!(program.prefaulted() > prefaulted, "the slabs make a new row by now");
}
