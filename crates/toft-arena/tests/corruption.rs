//! For each check a heap that is wrong, and sees it; and beside it one that is right, and says nothing.

mod common;

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
#[cfg(target_pointer_width = "64")]
use toft_arena::Invariant;
use toft_arena::{Anywhere, Checked, Checks, Fault, Heap, Packed, Shape, SpanError, Swift};

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn heap<S: Shape<Space = Anywhere>>() -> Heap<S> {
    let memory = Box::leak(vec![0_u64; 1 << 13].into_boxed_slice());
    let mut heap = Heap::new(Anywhere);
    // SAFETY: the memory is never used by anybody else.
    unsafe { heap.claim(memory.as_mut_ptr().cast(), 1 << 16) }.unwrap();
    heap
}

/// Some live blocks, side by side.
fn blocks<S: Shape>(heap: &mut Heap<S>, count: usize, size: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| heap.allocate(layout(size)).unwrap()).collect()
}

/// Writes words beside a block, as a program with a defect would.
unsafe fn poke(block: NonNull<u8>, word: isize, value: usize) {
    // SAFETY: the caller names words of the same memory.
    unsafe { block.as_ptr().cast::<usize>().offset(word).write(value) };
}

unsafe fn peek(block: NonNull<u8>, word: isize) -> usize {
    // SAFETY: as `poke`.
    unsafe { block.as_ptr().cast::<usize>().offset(word).read() }
}

#[test]
fn a_block_freed_twice_is_named_whatever_it_was_merged_with() {
    freed_twice::<Checked>();
    // Here it is parked, and merged with nothing.
    freed_twice::<common::shapes::Parks>();
}

fn freed_twice<S: Shape<Space = Anywhere>>() {
    // With nothing, with the one below, the one above, both, and with the end of the heap.
    for freed_first in [vec![], vec![1], vec![3], vec![1, 3], vec![3, 4, 5]] {
        let mut heap = heap::<S>();
        let all = blocks(&mut heap, 6, 100);
        // SAFETY: the second free of a block is what is tested.
        unsafe {
            for which in freed_first {
                heap.try_deallocate(all[which]).unwrap();
            }
            heap.try_deallocate(all[2]).unwrap();
            let address = all[2].addr().get();
            assert_eq!(heap.try_deallocate(all[2]), Err(Fault::NotLive(address)));
            let live = heap.survey().live_blocks;
            assert_eq!(heap.deallocate(all[2]), 0);
            assert_eq!(heap.deallocate_sized(all[2], layout(100)), 0);
            assert!(!heap.grow_in_place(all[2], 200));
            heap.shrink_in_place(all[2], 1);
            assert!(heap.reallocate(all[2], layout(100), 300).is_err());
            assert!(heap.resize(all[2], 8, 300).is_err());
            assert!(heap.grow_down(all[2], 1, 8, 300).is_err());
            assert_eq!(heap.survey().live_blocks, live, "a fault had an effect");
            assert_eq!(heap.faults(), (8, Some(Fault::NotLive(address))));
        }
        heap.check().unwrap();
    }
}

#[test]
fn a_pointer_that_is_no_blocks_is_named() {
    let mut heap = heap::<Checked>();
    let block = heap.allocate(layout(100)).unwrap();
    let elsewhere = Box::new([0_u64; 8]);
    let odd = block.map_addr(|address| address.saturating_add(4));
    let inside = block.map_addr(|address| address.saturating_add(16));
    let beyond = heap.spans().next().unwrap().end();
    let fence = block.map_addr(|_| beyond.try_into().unwrap());
    // SAFETY: nothing is freed. The block is full of zeros.
    unsafe {
        block.as_ptr().write_bytes(0, 100);
        let foreign = NonNull::from(&*elsewhere).cast::<u8>();
        assert_eq!(heap.try_deallocate(foreign), Err(Fault::Foreign(foreign.addr().get())));
        assert_eq!(heap.try_deallocate(odd), Err(Fault::Misaligned(odd.addr().get())));
        assert_eq!(heap.try_deallocate(inside), Err(Fault::NotLive(inside.addr().get())));
        assert_eq!(heap.try_deallocate(fence), Err(Fault::Foreign(beyond)));
        let stricter = Layout::from_size_align(100, 4096).unwrap();
        let wrong = Err(Fault::WrongLayout(block.addr().get()));
        assert_eq!(heap.verify_sized(block, layout(5000)), wrong);
        assert_eq!(heap.verify_sized(block, stricter), wrong);
        assert_eq!(heap.deallocate_sized(block, layout(200)), 0);
        assert_eq!(heap.faults().0, 7);
        heap.verify_sized(block, layout(100)).unwrap();
        assert!(heap.deallocate_sized(block, layout(100)) > 0);
    }
    heap.check().unwrap();
}

/// The words are those of a machine of 64 bits.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_tag_that_was_written_over_is_named_before_anything_is_believed() {
    for (word, value) in [(-1, 0x41), (-1, 1), (-1, usize::MAX), (13, 0x4141_4141), (13, 24 | 3)] {
        let mut heap = heap::<Checked>();
        let all = blocks(&mut heap, 4, 104);
        // SAFETY: the words before and behind a block of 104 bytes, which are tags.
        unsafe {
            let was = peek(all[1], word);
            poke(all[1], word, value);
            let address = all[1].addr().get();
            assert_eq!(heap.try_deallocate(all[1]), Err(Fault::BrokenTag(address)), "{value:#x}");
            assert!(heap.check().is_err(), "{value:#x}");
            poke(all[1], word, was);
            heap.check().unwrap();
            heap.try_deallocate(all[1]).unwrap();
        }
        heap.check().unwrap();
    }
}

/// What is written into a freed block is noticed at the latest when its list is used.
fn broken_list<S: Shape<Space = Anywhere>>(word: isize, value: usize, size: usize) -> (u64, bool) {
    let mut heap = heap::<S>();
    let all = blocks(&mut heap, 40, size);
    // SAFETY: each second one is freed once; then a freed one is written to, which is what is tested.
    unsafe {
        for which in (2..40).step_by(2) {
            heap.deallocate(all[which]);
        }
        poke(all[20], word, value);
    }
    let sound = heap.check().is_ok();
    // All of the list is used: by requests, and by neighbours that are freed.
    let mut live = vec![all[1].addr().get()];
    live.extend((0..5).filter_map(|_| Some(heap.allocate(layout(size)).ok()?.addr().get())));
    // SAFETY: live blocks, freed once.
    unsafe {
        for which in (3..40).step_by(2) {
            heap.deallocate(all[which]);
        }
    }
    // Nobody gets what somebody else has.
    while let Ok(block) = heap.allocate(layout(size)) {
        assert!(block.addr().get() % 8 == 0);
        live.push(block.addr().get());
    }
    live.sort_unstable();
    let apart = live.windows(2).all(|two| two[1] - two[0] >= size + 8);
    assert!(apart, "{word} as {value:#x} of {size}: blocks overlap");
    (heap.faults().0, sound)
}

#[test]
fn a_link_that_was_written_over_is_named_and_never_followed() {
    for size in [104, 1000, 1100] {
        // Word 0 of a chunk is just before its block: previous is block word 0, the size word 1.
        // Sizes that are smaller, larger in the same bin, larger, and larger than all that there is.
        let own = usize::next_multiple_of(size + 8, 8);
        let sizes = [40, own + 8, own + 32, 2 * own, 1 << 15, usize::MAX & !7];
        let links = [(-1, 0x10), (-1, usize::MAX & !7), (0, 0x18), (0, 0)];
        for (word, value) in links.into_iter().chain(sizes.map(|size| (1, size))) {
            let (faults, sound) = broken_list::<Packed>(word, value, size);
            assert!(faults > 0 && !sound, "word {word} as {value:#x} of {size}: {faults} {sound}");
            let (faults, sound) = broken_list::<Checked>(word, value, size);
            assert!(faults > 0 && !sound, "word {word} as {value:#x} of {size}: {faults} {sound}");
        }
        // The user's bytes between are nobody's.
        assert_eq!(broken_list::<Packed>(5, 0x4141, size), (0, true));
    }
}

#[test]
fn a_parked_block_that_was_written_over_is_named_and_not_handed_out() {
    for (word, value) in [(-1, 0x10), (-1, (112 | 1) & !4), (0, 0x10), (0, usize::MAX)] {
        let mut heap = heap::<Swift>();
        let all = blocks(&mut heap, 6, 104);
        // SAFETY: freed once; the words are the tag and the link of a parked chunk.
        unsafe {
            heap.deallocate(all[1]);
            heap.deallocate(all[3]);
            heap.check().unwrap();
            let was = peek(all[3], word);
            poke(all[3], word, value);
            assert!(heap.check().is_err());
            let live = heap.allocate(layout(104)).unwrap();
            assert!(live != all[3] && live != all[1]);
            let fault = Fault::BrokenLink(all[3].addr().get());
            assert_eq!(heap.faults(), (1, Some(fault)));
            poke(all[3], word, was);
        }
    }
    // Its twin: the last that was freed comes first.
    let mut heap = heap::<Swift>();
    let all = blocks(&mut heap, 6, 104);
    // SAFETY: freed once.
    unsafe {
        heap.deallocate(all[1]);
        heap.deallocate(all[3]);
    }
    assert_eq!((heap.allocate(layout(104)), heap.allocate(layout(104))), (Ok(all[3]), Ok(all[1])));
    assert_eq!(heap.faults().0, 0);
}

#[test]
fn a_hook_is_called_with_each_fault() {
    thread_local!(static SEEN: Cell<Option<Fault>> = const { Cell::new(None) });
    struct Hooked;
    impl Shape for Hooked {
        type Space = Anywhere;
        type Bins = <Packed as Shape>::Bins;
        const ALIGN: usize = 8;
        const EXACT: usize = 1024;
        const STEPS: u32 = 4;
        const CHECKS: Checks = Checks::Pointers;
        fn on_fault(fault: Fault) {
            SEEN.set(Some(fault));
        }
    }
    let mut heap = heap::<Hooked>();
    let all = blocks(&mut heap, 3, 50);
    // SAFETY: the second free of a block is what is tested.
    unsafe {
        heap.deallocate(all[1]);
        assert_eq!(SEEN.get(), None);
        heap.deallocate(all[1]);
    }
    let fault = Fault::NotLive(all[1].addr().get());
    assert_eq!(SEEN.get(), Some(fault));
    assert!(fault.to_string().starts_with("a block that is not live: 0x"));
}

/// Each invariant, broken by one word. The words are those of a machine of 64 bits.
#[cfg(target_pointer_width = "64")]
#[test]
fn check_names_what_does_not_hold() {
    /// Word, value, relative to block 4 of six of 104 bytes, of which 2 and 4 are free.
    const CASES: &[(isize, usize, Invariant)] = &[
        (-1 - 14, 1, Invariant::Tiling),
        (-1 - 14, (4096 * 64) | 1, Invariant::Tiling),
        (-1 - 14, 112 | 1, Invariant::BelowFree),
        (-1 + 14, 112 | 1, Invariant::BelowFree),
        (12, 104, Invariant::Sizes),
        (0, 64, Invariant::Links),
        (-1, 0, Invariant::Lost),
    ];
    for &(word, value, invariant) in CASES {
        let mut heap = heap::<Packed>();
        let all = blocks(&mut heap, 6, 104);
        // SAFETY: freed once; the words are tags and links of chunks around.
        unsafe {
            heap.deallocate(all[2]);
            heap.deallocate(all[4]);
            heap.check().unwrap();
            let was = peek(all[4], word);
            assert_ne!(was, value, "nothing was broken");
            poke(all[4], word, value);
            assert_eq!(heap.check(), Err(invariant), "word {word} as {value}");
            poke(all[4], word, was);
        }
        heap.check().unwrap();
    }
    let heap = {
        let mut heap = heap::<Packed>();
        let end = heap.spans().next().unwrap().end();
        let block = heap.allocate(layout(8)).unwrap();
        // SAFETY: the last word of the span is its fence.
        unsafe { block.map_addr(|_| (end - 8).try_into().unwrap()).cast::<usize>().write(8 | 1) };
        heap
    };
    assert_eq!(heap.check(), Err(Invariant::Fence));
}

/// Words that look like live chunks, in memory that is free.
#[test]
fn what_looks_live_inside_of_free_memory_is_not() {
    let fake = |block: NonNull<u8>| {
        // SAFETY: words of a block of 400 bytes.
        unsafe {
            for word in [9, 19, 29, 39] {
                poke(block, word, (10 * size_of::<usize>()) | 1);
            }
            block.add(10 * size_of::<usize>())
        }
    };
    let mut heap = heap::<Checked>();
    let block = heap.allocate(layout(400)).unwrap();
    let inside = fake(block);
    let refused = Err(Fault::NotLive(inside.addr().get()));
    // SAFETY: what is freed is a block, or is refused.
    unsafe {
        // In `top`.
        heap.deallocate(block);
        assert_eq!(heap.try_deallocate(inside), refused);
        // In `rest`: what is left of a chunk that was split.
        let block = heap.allocate(layout(400)).unwrap();
        let barrier = heap.allocate(layout(8)).unwrap();
        fake(block);
        heap.deallocate(block);
        let front = heap.allocate(layout(16)).unwrap();
        assert_eq!((front, heap.try_deallocate(inside)), (block, refused));
        heap.deallocate(front);
        heap.deallocate(barrier);
    }
    heap.check().unwrap();
}

#[test]
fn no_more_than_sixteen_of_a_size_are_parked() {
    let mut heap = heap::<Swift>();
    let all = blocks(&mut heap, 60, 100);
    for block in all {
        // SAFETY: freed once.
        unsafe { heap.deallocate(block) };
    }
    heap.check().unwrap();
    // Sixteen parked, and what all others have become.
    assert_eq!(heap.survey().free_blocks, 17);
    assert!(heap.settle() && !heap.settle());
    assert_eq!(heap.survey().free_blocks, 1);
}

/// A list that leads back into itself is looked through once.
#[test]
fn a_circle_of_links_ends() {
    for aligned in [8, 64] {
        let mut heap = heap::<Packed>();
        let all = blocks(&mut heap, 40, 1090);
        let mut left = Vec::new();
        while let Ok(block) = heap.allocate(layout(16)) {
            left.push(block);
        }
        // SAFETY: freed once; the word is the link of the last of a list, and becomes that of the first.
        unsafe {
            for which in [2, 4, 6] {
                heap.deallocate(all[which]);
            }
            poke(all[2], -1, all[6].addr().get() - size_of::<usize>());
        }
        let wanted = Layout::from_size_align(1130, aligned).unwrap();
        assert!(heap.allocate(wanted).is_err());
        assert!(heap.faults().0 > 0);
    }
}

/// A link to where no chunk begins is not followed, also where the words there would fit.
#[test]
fn a_link_to_the_middle_of_a_word_is_not_followed() {
    let mut heap = heap::<Packed>();
    let all = blocks(&mut heap, 8, 104);
    // SAFETY: freed once; the words are a link, and the bytes of a live block, 4 beside where chunks begin.
    unsafe {
        heap.deallocate(all[2]);
        let chunk = all[2].addr().get() - size_of::<usize>();
        let fake = all[4].addr().get() + 4;
        all[4].as_ptr().add(4).cast::<usize>().write_unaligned(0);
        all[4].as_ptr().add(4 + size_of::<usize>()).cast::<usize>().write_unaligned(chunk);
        poke(all[2], -1, fake);
        let _ = heap.allocate(layout(104));
        assert_eq!(heap.faults(), (1, Some(Fault::BrokenLink(all[2].addr().get()))));
        let kept = all[4].as_ptr().add(4 + size_of::<usize>()).cast::<usize>().read_unaligned();
        assert_eq!(kept, chunk, "a live block was written to");
    }
}

/// One free chunk that was written over does not keep aligned requests from what else there is.
#[test]
fn aligned_requests_go_on_after_a_broken_chunk() {
    for (word, value) in [(1, 120), (1, 1 << 15), (-1, 0x18), (0, 0x18)] {
        let mut heap = heap::<Packed>();
        let all = blocks(&mut heap, 20, 1000);
        // SAFETY: freed once; the words are a size and links.
        unsafe {
            for which in [3, 5, 7] {
                heap.deallocate(all[which]);
            }
            poke(all[7], word, value);
        }
        for _ in 0..3 {
            for size in [64, 1000] {
                let wanted = Layout::from_size_align(size, 64).unwrap();
                let block = heap.allocate(wanted).unwrap();
                assert!(all.iter().enumerate().all(|(which, other)| {
                    matches!(which, 3 | 5 | 7)
                        || block.addr().get() >= other.addr().get() + 1000
                        || block.addr().get() + size <= other.addr().get()
                }));
            }
        }
    }
}

/// What a list still has is not given away.
#[test]
fn a_broken_chunk_at_an_end_is_not_given_up() {
    for (word, value) in [(-1, 0x18), (0, 0x18), (1, 64), (1, 1 << 20), (1, usize::MAX & !7)] {
        let mut heap = heap::<Packed>();
        let memory = Box::leak(vec![0_u64; 512].into_boxed_slice());
        // SAFETY: the memory is never used by anybody else; the words are those of the chunk that all of it is.
        unsafe {
            let span = heap.claim(memory.as_mut_ptr().cast(), 4096).unwrap();
            let first = NonNull::new(span.start.add(size_of::<usize>())).unwrap();
            let was = peek(first, word);
            poke(first, word, value);
            let shorter = toft_arena::Span::new(span.start, 1000);
            assert_eq!(heap.release_span(span), Err(SpanError::Broken), "{word} {value:#x}");
            assert_eq!(heap.truncate(span, shorter), Err(SpanError::Broken));
            assert_eq!(heap.reserved(span), Err(SpanError::Broken));
            assert_eq!((heap.faults().0, heap.spans().count()), (3, 2));
            poke(first, word, was);
            heap.check().unwrap();
            heap.release_span(span).unwrap();
        }
        heap.check().unwrap();
    }
}

/// Nothing is read behind a span, though the words at its end say that a chunk is there.
#[cfg(target_os = "linux")]
#[test]
fn nothing_behind_a_span_is_read() {
    const PAGE: usize = 1 << 16;
    const WORD: usize = size_of::<usize>();
    for (word, value) in [(0, 0), (-2, 0)] {
        let mut heap = Heap::<Checked>::new(Anywhere);
        // SAFETY: a mapping of its own, of which the second half may not be read.
        unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 3 * PAGE, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.byte_add(2 * PAGE), PAGE, libc::PROT_NONE), 0);
            let (other, start) = (start.cast::<u8>(), start.byte_add(PAGE).cast::<u8>());
            let span = heap.claim(start, PAGE).unwrap();
            assert_eq!(span.end(), start.addr() + PAGE);
            let block = heap.allocate(layout(PAGE - 2 * WORD)).unwrap();
            // `top` is elsewhere now.
            heap.claim(other, PAGE).unwrap();
            let fence = block.add(PAGE - 2 * WORD);
            if word == 0 {
                poke(fence, 0, value);
            } else {
                // The block seems to end one word before the fence, at a free chunk.
                poke(fence, -1, value);
                poke(block, -1, (PAGE - 2 * WORD) | 1);
            }
            let address = block.addr().get();
            assert!(heap.check().is_err());
            assert_eq!(heap.try_deallocate(block), Err(Fault::BrokenTag(address)));
            let mut unchecked = Heap::<Packed>::new(Anywhere);
            let span = unchecked.claim(start, PAGE).unwrap();
            let block = unchecked.allocate(layout(PAGE - 2 * WORD)).unwrap();
            unchecked.claim(other, PAGE).unwrap();
            if word == 0 {
                poke(fence, 0, value);
                unchecked.deallocate(block);
                assert_eq!(unchecked.faults().0, 1);
                unchecked.check().unwrap();
                assert_eq!(unchecked.release_span(span), Ok(span));
            }
            libc::munmap(other.cast(), 3 * PAGE);
        }
    }
}

/// The tag of a block that has moved down lies inside of it, and passes for no block's.
#[test]
fn the_old_place_of_a_block_that_moved_down_is_no_block() {
    let mut heap = heap::<Checked>();
    let all = blocks(&mut heap, 6, 200);
    // SAFETY: live blocks; that an old pointer is refused is what is tested.
    unsafe {
        heap.deallocate(all[2]);
        all[3].as_ptr().write_bytes(0, 200);
        let moved = heap.grow_down(all[3], 16, 8, 300).unwrap();
        assert_eq!(moved, all[2]);
        let refused = Err(Fault::NotLive(all[3].addr().get()));
        assert_eq!(heap.try_deallocate(all[3]), refused);
        heap.try_deallocate(moved).unwrap();
    }
    heap.check().unwrap();
}

/// Parked twice, a block would be handed out twice.
#[test]
fn what_is_parked_is_not_parked_again() {
    let mut heap = heap::<Swift>();
    let all = blocks(&mut heap, 3, 100);
    // SAFETY: the second free of a block is what is tested; its first word says that it is parked.
    unsafe {
        assert!(heap.deallocate(all[1]) > 0);
        assert_eq!(heap.deallocate(all[1]), 0);
    }
    assert_eq!(heap.faults(), (1, Some(Fault::NotLive(all[1].addr().get()))));
    heap.check().unwrap();
    assert_ne!(heap.allocate(layout(100)), heap.allocate(layout(100)));
}

/// A panic in the hook does not go through a heap that is between two states.
#[test]
fn a_hook_that_panics_ends_the_program() {
    struct Panics;
    impl Shape for Panics {
        type Space = Anywhere;
        type Bins = <Packed as Shape>::Bins;
        const ALIGN: usize = 8;
        const EXACT: usize = 1024;
        const STEPS: u32 = 4;
        const CHECKS: Checks = Checks::Pointers;
        fn on_fault(_: Fault) {
            panic!("from the hook");
        }
    }
    const CHILD: &str = "TOFT_ARENA_HOOK_PANICS";
    if std::env::var_os(CHILD).is_some() {
        let mut heap = heap::<Panics>();
        let all = blocks(&mut heap, 3, 50);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: the second free of a block is what is tested.
            unsafe {
                heap.deallocate(all[1]);
                heap.deallocate(all[1]);
            }
        }));
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_hook_that_panics_ends_the_program"]).env(CHILD, "1");
    let output = child.output().unwrap();
    assert_eq!(output.status.code(), None, "it went on: {output:?}");
}
