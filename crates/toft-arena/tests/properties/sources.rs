//! Every source, with what can go wrong in each; and random operations on an arena with one.

use crate::common::contract::layout;
use crate::common::systems::{
    Break, Counted, FAKE, FAKE_PAGE, Fake, Log, committed, linear, reserved,
};
use crate::common::words::{claim, is_full_of, memory, once};
use proptest::prelude::*;
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::Shape;
use toft_arena::source::{Blocks, Linear, Once, Reserved, Source};
use toft_arena::{Anywhere, Arena, Checked, NoMemory};

#[test]
fn pages_come_in_steps_and_go_back_with_hysteresis() {
    let log = Log::default();
    let mut arena = reserved::<Checked>(&log);
    let small = arena.allocate(layout(100, 8)).unwrap();
    assert_eq!(committed(&log), 16_384);
    let large = arena.allocate(layout(300_000, 8)).unwrap();
    let peak = committed(&log);
    assert!((300_000..340_000).contains(&peak), "{peak}");
    // SAFETY: live blocks.
    unsafe {
        arena.deallocate(large);
        // Back to what is kept, and a few pages.
        let kept = committed(&log);
        assert!((32_768..32_768 + 8 * FAKE_PAGE + peak / 8).contains(&kept), "{kept}");
        // A load that goes up and down by less than that makes no call.
        let calls = log.calls.get();
        for _ in 0..100 {
            let block = arena.allocate(layout(20_000, 8)).unwrap();
            arena.deallocate(block);
        }
        assert_eq!(log.calls.get(), calls);
        // One by more than that, and less than twice that, makes calls once.
        let block = arena.allocate(layout(50_000, 8)).unwrap();
        arena.deallocate(block);
        let calls = log.calls.get();
        for _ in 0..100 {
            let block = arena.allocate(layout(50_000, 8)).unwrap();
            arena.deallocate(block);
        }
        assert_eq!(log.calls.get(), calls);
        arena.heap().check().unwrap();
        arena.trim();
        assert!(committed(&log) <= 3 * FAKE_PAGE);
        arena.deallocate(small);
        arena.trim();
        assert!(arena.allocate(layout(200_000, 8)).is_ok());
        arena.heap().check().unwrap();
    }
    drop(arena);
    assert_eq!(log.live.get(), usize::MAX, "the addresses were not released");
}

/// Allocates a run of blocks, frees it in the same order, and returns how many calls that made.
fn up_and_down(arena: &mut Arena<Checked, Reserved<Fake>>, log: &Log, count: usize) -> usize {
    let calls = log.calls.get();
    let run: Vec<_> = (0..count).map(|_| arena.allocate(layout(20_000, 8)).unwrap()).collect();
    for block in run {
        // SAFETY: live, and freed once.
        unsafe { arena.deallocate(block) };
    }
    arena.heap().check().unwrap();
    log.calls.get() - calls
}

#[test]
fn what_goes_back_and_is_wanted_again_stays_the_next_time() {
    let log = Log::default();
    let mut arena = reserved::<Checked>(&log);
    let calls: Vec<_> = (0..20).map(|_| up_and_down(&mut arena, &log, 20)).collect();
    assert!(calls[1] > 0, "nothing went back: {calls:?}");
    assert!(calls[6..].iter().all(|&calls| calls == 0), "{calls:?}");
    // What shrinks and does not come back is given back more closely again.
    let blocks: Vec<_> = (0..45).map(|_| arena.allocate(layout(20_000, 8)).unwrap()).collect();
    for block in blocks.into_iter().rev() {
        // SAFETY: live, and freed once.
        unsafe { arena.deallocate(block) };
    }
    assert!(committed(&log) < 340_000, "{}", committed(&log));
    // To ask for all of it is to forget what was wanted.
    arena.trim();
    assert!(committed(&log) <= 3 * FAKE_PAGE);
    up_and_down(&mut arena, &log, 20);
    assert!(committed(&log) < 200_000, "{}", committed(&log));
    // Its twin: a source that is to keep nothing goes on giving back.
    let pages = Fake::new(&log);
    let source = Reserved::new(pages, FAKE).with_steps(16_384, 0);
    let mut arena = Arena::<Checked, _>::new(Anywhere, source);
    assert!((0..20).all(|_| up_and_down(&mut arena, &log, 20) > 0));
}

#[test]
fn what_was_given_back_is_zero_again_or_known_not_to_be() {
    given_back::<Checked>();
    // Its spans do not end where pages do.
    given_back::<crate::common::shapes::Lines>();
}

fn given_back<S: Shape<Space = Anywhere>>() {
    for keeps_content in [false, true] {
        let log = Log::default();
        log.keeps_content.set(keeps_content);
        let mut arena = reserved::<S>(&log);
        // As the fake leaves the first pages as they were, only given back ones are looked at.
        log.keeps_content.set(false);
        for _ in 0..3 {
            let block = arena.allocate(layout(400_000, 8)).unwrap();
            // SAFETY: a live block.
            unsafe {
                block.as_ptr().write_bytes(0xFF, 400_000);
                log.keeps_content.set(keeps_content);
                arena.deallocate(block);
            }
            let block = arena.allocate_zeroed(layout(400_000, 8)).unwrap();
            // SAFETY: a live block.
            unsafe {
                assert!(is_full_of(0, block, 400_000), "{keeps_content}");
                arena.deallocate(block);
            }
        }
    }
}

#[test]
fn a_system_that_refuses_is_no_memory_and_asked_again_later() {
    let log = Log::default();
    let mut arena = reserved::<Checked>(&log);
    log.refuse.set(true);
    assert_eq!(arena.allocate(layout(1, 1)), Err(NoMemory));
    log.refuse.set(false);
    assert!(arena.allocate(layout(1, 1)).is_ok());
    log.refuse.set(true);
    assert_eq!(arena.allocate(layout(100_000, 1)), Err(NoMemory));
    log.refuse.set(false);
    assert!(arena.allocate(layout(100_000, 1)).is_ok());
    assert_eq!(arena.allocate(layout(2 * FAKE, 1)), Err(NoMemory));
    assert!(arena.allocate(layout(800_000, 1)).is_ok());
    arena.heap().check().unwrap();
}

#[test]
fn a_range_is_claimed_once() {
    // SAFETY: the memory is used by this arena only, and is zero.
    let once = unsafe { Once::zeroed(memory(8192), 8192) };
    let mut arena = Arena::<Checked, Once>::new(Anywhere, once);
    assert_eq!(arena.heap().spans().count(), 0);
    let block = arena.allocate_zeroed(layout(8000, 8)).unwrap();
    assert!(arena.allocate(layout(500, 8)).is_err());
    assert_eq!(arena.heap().spans().count(), 1);
    // SAFETY: a live block.
    unsafe { arena.deallocate(block) };
    assert!(arena.allocate(layout(8100, 8)).is_ok());
}

#[test]
fn memory_that_grows_is_one_span() {
    let mut arena = linear(1 << 20);
    let mut bytes = 0;
    while arena.allocate(layout(1000, 8)).is_ok() {
        bytes += 1000;
    }
    assert_eq!(arena.heap().spans().count(), 1);
    // Of a mebibyte all but what is less than a block, and its tags.
    assert!(bytes > (1 << 20) * 98 / 100, "{bytes}");
    arena.heap().check().unwrap();
}

/// WebAssembly's memory must not be twice as large as what is used (talc's issue 51).
#[test]
fn talc_51_memory_does_not_grow_faster_than_it_is_used() {
    let mut arena = linear(1 << 22);
    let mut last = None;
    for size in (1..60).map(|n| n * 1000) {
        // A vector that grows: a new block, and the old one is freed.
        let block = arena.allocate(layout(size, 8)).unwrap();
        if let Some(old) = last.replace(block) {
            // SAFETY: a live block.
            unsafe { arena.deallocate(old) };
        }
    }
    let claimed = arena.heap().claimed();
    assert!(claimed < 59_000 * 3, "{claimed}");
}

#[test]
fn memory_that_others_grow_too_is_several_spans() {
    let memory = vec![0; 1 << 17].into_boxed_slice();
    let grows = Break { memory, used: 0, others: 256 };
    let mut arena = Arena::<Checked, _>::new(Anywhere, Linear::new(grows));
    let mut live = Vec::new();
    while let Ok(block) = arena.allocate(layout(3000, 8)) {
        live.push(block);
    }
    assert!(arena.heap().spans().count() > 5);
    arena.heap().check().unwrap();
    for block in live {
        // SAFETY: a live block.
        unsafe { arena.deallocate(block) };
        arena.heap().check().unwrap();
    }
    assert_eq!(arena.heap().survey().free_blocks, arena.heap().spans().count());
}

#[test]
fn blocks_of_another_allocator_go_back_when_they_are_free() {
    let counted = Counted::default();
    let mut arena = Arena::<Checked, _>::new(Anywhere, Blocks::new(counted.clone(), 65_536));
    let mut live: Vec<NonNull<u8>> =
        (0..400).map(|_| arena.allocate(layout(2000, 64)).unwrap()).collect();
    let full = counted.live.get();
    assert!(full > 800_000 && arena.heap().spans().count() > 10);
    counted.refuse.set(true);
    assert_eq!(arena.allocate(layout(70_000, 8)), Err(NoMemory));
    counted.refuse.set(false);
    // Each second one: no block is free.
    for which in (0..200).rev() {
        // SAFETY: a live block.
        unsafe { arena.deallocate(live.swap_remove(2 * which)) };
    }
    assert_eq!(counted.live.get(), full);
    for block in live.drain(..) {
        // SAFETY: a live block.
        unsafe { arena.deallocate(block) };
        arena.heap().check().unwrap();
    }
    // One stays, so that a load around nothing makes no calls.
    assert_eq!((counted.live.get(), arena.heap().spans().count()), (65_536, 1));
    arena.trim();
    assert_eq!(counted.live.get(), 0);
    assert!(arena.allocate(layout(100_000, 8)).is_ok());
    drop(arena);
    assert_eq!(counted.live.get(), 0, "a block was not given back");
}

/// Random operations: contents stay, invariants hold, everything comes back.
fn run<F: Source<Checked>>(
    mut arena: Arena<Checked, F>,
    ops: &[(u8, usize, usize)],
) -> Arena<Checked, F> {
    let mut live: Vec<(NonNull<u8>, Layout, u8)> = Vec::new();
    for &(op, which, size) in ops {
        let byte = op.wrapping_mul(31);
        match op % 8 {
            0..3 => {
                let layout = layout(size, 1 << (which % 13));
                let block = match op % 2 {
                    0 => arena.allocate(layout),
                    _ => arena.allocate_zeroed(layout),
                };
                if let Ok(block) = block {
                    // SAFETY: a live block of that layout.
                    unsafe {
                        assert!(op % 2 == 0 || is_full_of(0, block, size));
                        block.as_ptr().write_bytes(byte, size);
                    }
                    live.push((block, layout, byte));
                }
            }
            3..6 if !live.is_empty() => {
                let (block, layout, byte) = live.swap_remove(which % live.len());
                // SAFETY: a live block of that layout.
                unsafe {
                    assert!(is_full_of(byte, block, layout.size()));
                    arena.deallocate_sized(block, layout);
                }
            }
            6 if !live.is_empty() => {
                let which = which % live.len();
                let (block, old, byte) = live[which];
                // SAFETY: a live block of that layout; only what is returned is used.
                unsafe {
                    if let Ok(new) = arena.reallocate(block, old, size) {
                        assert!(is_full_of(byte, new, old.size().min(size)));
                        new.as_ptr().write_bytes(byte, size);
                        live[which] = (new, layout(size, old.align()), byte);
                    }
                }
            }
            7 if which % 16 == 0 => arena.trim(),
            _ => {}
        }
        arena.heap().check().unwrap();
        assert_eq!(arena.heap().faults().0, 0);
        assert_eq!(arena.heap().counters().live_blocks, live.len());
    }
    for (block, layout, _) in live {
        // SAFETY: a live block of that layout.
        unsafe { arena.deallocate_sized(block, layout) };
    }
    arena.trim();
    arena.heap().check().unwrap();
    let survey = arena.heap().survey();
    assert_eq!((survey.live_blocks, survey.free_blocks), (0, survey.spans));
    arena
}

/// What a heap has let go of by hand has been used, and is not zero when it comes back.
#[test]
fn memory_that_the_heap_let_go_of_is_not_taken_for_zero() {
    fn dirty<F: Source<Checked>>(mut arena: Arena<Checked, F>, released: bool) {
        // SAFETY: live blocks; what the heap lets go of is not used.
        unsafe {
            let first = arena.allocate(layout(100, 8)).unwrap();
            let block = arena.allocate(layout(12_000, 8)).unwrap();
            block.as_ptr().write_bytes(0xFF, 12_000);
            arena.deallocate(block);
            if released {
                arena.deallocate(first);
            }
            let heap = arena.heap_mut();
            let span = heap.spans().next().unwrap();
            let kept = if released { 0 } else { 1000 };
            heap.truncate(span, toft_arena::Span::new(span.start, kept)).unwrap();
        }
        for size in [20_000, 40_000, 80_000] {
            let block = arena.allocate_zeroed(layout(size, 8)).unwrap();
            // SAFETY: a live block.
            assert!(unsafe { is_full_of(0, block, size) }, "{size} after {released}");
            arena.check().unwrap();
        }
        assert!(released || arena.heap().spans().count() == 1);
        arena.trim();
        arena.check().unwrap();
    }
    for released in [false, true] {
        dirty(reserved::<Checked>(&Log::default()), released);
        dirty(linear(1 << 20), released);
    }
}

/// What lies free at the end of another span is of no use to the one that grows.
#[test]
fn free_memory_of_another_span_is_not_counted() {
    fn grows<F: Source<Checked>>(mut arena: Arena<Checked, F>) {
        arena.allocate(layout(100, 8)).unwrap();
        // SAFETY: the heap stays where it is.
        claim(unsafe { arena.heap_mut() }, 192 << 10);
        assert!(arena.allocate(layout(200_000, 8)).is_ok());
        arena.check().unwrap();
    }
    grows(reserved::<Checked>(&Log::default()));
    grows(linear(1 << 20));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn random_operations_on_every_source(
        ops in prop::collection::vec((any::<u8>(), any::<usize>(), 0..30_000_usize), 1..150)
    ) {
        let log = Log::default();
        run(reserved::<Checked>(&log), &ops);
        prop_assert_eq!(log.live.get() == usize::MAX, log.calls.get() > 0);
        run(linear(1 << 20), &ops);
        let counted = Counted::default();
        run(Arena::new(Anywhere, Blocks::new(counted.clone(), 40_000)), &ops);
        prop_assert_eq!(counted.live.get(), 0);
        run(Arena::new(Anywhere, once(200_000)), &ops);
        #[cfg(feature = "system")]
        {
            let pages = toft_arena::source::SystemPages;
            run(Arena::new(Anywhere, Reserved::new(pages, 1 << 30).with_steps(0, 0)), &ops);
        }
    }
}
