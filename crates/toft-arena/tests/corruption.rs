//! For each check a heap that is wrong, and sees it; and beside it one that is right, and says nothing.

mod common;

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
#[cfg(target_pointer_width = "64")]
use toft_arena::Invariant;
use toft_arena::{Anywhere, Checked, Checks, Fault, Heap, Packed, Shape, Swift};

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
    for _ in 0..5 {
        let _ = heap.allocate(layout(size));
    }
    // SAFETY: live blocks, freed once.
    unsafe {
        for which in (3..40).step_by(2) {
            heap.deallocate(all[which]);
        }
    }
    while let Ok(block) = heap.allocate(layout(size)) {
        assert!(block.addr().get() % 8 == 0);
    }
    (heap.faults().0, sound)
}

#[test]
fn a_link_that_was_written_over_is_named_and_never_followed() {
    for size in [104, 1000] {
        // Word 0 of a chunk is just before its block: previous is block word 0, the size word 1.
        for (word, value) in [(-1, 0x10), (-1, usize::MAX & !7), (0, 0x18), (0, 0), (1, 40)] {
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
