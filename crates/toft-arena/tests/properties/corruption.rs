//! For each check of the heap's own words one that was written over, and sees it; and beside it a
//! heap that is right, and says nothing. Pointers that are no block's are in `misfrees.rs`.

use crate::common::words::{claim, filled, heap, layout, peek, poke};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
#[cfg(target_pointer_width = "64")]
use toft_arena::Invariant;
use toft_arena::shape::{FaultHook, OnFault, Packed, Shape, Standard};
use toft_arena::{Anywhere, Checked, Fast, Fault, Heap, SpanError};

/// The words are those of a machine of 64 bits.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_tag_that_was_written_over_is_named_before_anything_is_believed() {
    for (word, value) in [(-1, 0x41), (-1, 1), (-1, usize::MAX), (13, 0x4141_4141), (13, 24 | 3)] {
        let (mut heap, all) = filled::<Checked>(4, 104);
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
    let (mut heap, all) = filled::<S>(40, size);
    // SAFETY: each second one is freed once; then a freed one is written to, which is what is
    // tested.
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
    // No request gets a block that another has.
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
        // Sizes that are smaller, larger in the same bin, larger, and larger than all that there
        // is.
        let own = usize::next_multiple_of(size + 8, 8);
        let sizes = [40, own + 8, own + 32, 2 * own, 1 << 15, usize::MAX & !7];
        let links = [(-1, 0x10), (-1, usize::MAX & !7), (0, 0x18), (0, 0)];
        for (word, value) in links.into_iter().chain(sizes.map(|size| (1, size))) {
            let (faults, sound) = broken_list::<Packed>(word, value, size);
            assert!(faults > 0 && !sound, "word {word} as {value:#x} of {size}: {faults} {sound}");
            let (faults, sound) = broken_list::<Checked>(word, value, size);
            assert!(faults > 0 && !sound, "word {word} as {value:#x} of {size}: {faults} {sound}");
        }
        // The user's bytes between are not in use.
        assert_eq!(broken_list::<Packed>(5, 0x4141, size), (0, true));
    }
}

/// The first chunk of a list of one size is handed out by its list alone: no neighbour is asked
/// before.
#[test]
fn the_first_of_a_size_is_named_where_it_says_another() {
    for size in [120, 104, 24, 0, 1 << 15, usize::MAX & !7] {
        let (mut heap, all) = filled::<Packed>(4, 104);
        // SAFETY: freed once; the word is the size of a free chunk.
        unsafe {
            heap.deallocate(all[1]);
            let own = peek(all[1], 1);
            assert_ne!(own, size, "nothing was broken");
            poke(all[1], 1, size);
            assert_ne!(heap.allocate(layout(104)), Ok(all[1]), "{size:#x}");
            let fault = Fault::BrokenLink(all[1].addr().get());
            assert_eq!(heap.faults(), (1, Some(fault)), "{size:#x}");
        }
    }
    // Its twin: with its own size it is handed out.
    let (mut heap, all) = filled::<Packed>(4, 104);
    // SAFETY: freed once.
    unsafe { heap.deallocate(all[1]) };
    assert_eq!((heap.allocate(layout(104)), heap.faults().0), (Ok(all[1]), 0));
}

#[test]
fn a_parked_block_that_was_written_over_is_named_and_not_handed_out() {
    for (word, value) in [(-1, 0x10), (-1, (112 | 1) & !4), (0, 0x10), (0, usize::MAX)] {
        let (mut heap, all) = filled::<Fast>(6, 104);
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
    let (mut heap, all) = filled::<Fast>(6, 104);
    // SAFETY: freed once.
    unsafe {
        heap.deallocate(all[1]);
        heap.deallocate(all[3]);
    }
    assert_eq!((heap.allocate(layout(104)), heap.allocate(layout(104))), (Ok(all[3]), Ok(all[1])));
    assert_eq!(heap.faults().0, 0);
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
        let (mut heap, all) = filled::<Packed>(6, 104);
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

/// A list that leads back into itself is looked through once.
#[test]
fn a_circle_of_links_ends() {
    for aligned in [8, 64] {
        let (mut heap, all) = filled::<Packed>(40, 1090);
        let mut left = Vec::new();
        while let Ok(block) = heap.allocate(layout(16)) {
            left.push(block);
        }
        // SAFETY: freed once; the word is the link of the last of a list, and becomes that of the
        // first.
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
    let (mut heap, all) = filled::<Packed>(8, 104);
    // SAFETY: freed once; the words are a link, and the bytes of a live block, 4 beside where
    // chunks begin.
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
        let (mut heap, all) = filled::<Packed>(20, 1000);
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
        let span = claim(&mut heap, 4096);
        // SAFETY: the words are those of the chunk that all of the span is.
        unsafe {
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
    use crate::common::words::mapped;
    const PAGE: usize = 1 << 16;
    const SIZE: usize = PAGE - 2 * size_of::<usize>();
    for seems_shorter in [false, true] {
        let mut heap = Heap::<Checked>::new(Anywhere);
        // SAFETY: a new mapping, of which the last part may not be read.
        unsafe {
            let other = mapped(3 * PAGE);
            let start = other.add(PAGE);
            assert_eq!(libc::mprotect(other.add(2 * PAGE).cast(), PAGE, libc::PROT_NONE), 0);
            let span = heap.claim(start, PAGE).unwrap();
            assert_eq!(span.end(), start.addr() + PAGE);
            let block = heap.allocate(layout(SIZE)).unwrap();
            // `top` is elsewhere now.
            heap.claim(other, PAGE).unwrap();
            let fence = block.add(SIZE);
            if seems_shorter {
                // The block seems to end one word before the fence, at a free chunk.
                poke(fence, -1, 0);
                poke(block, -1, SIZE | 1);
            } else {
                poke(fence, 0, 0);
            }
            assert!(heap.check().is_err());
            assert_eq!(heap.try_deallocate(block), Err(Fault::BrokenTag(block.addr().get())));
            libc::munmap(other.cast(), 3 * PAGE);
        }
    }
}

/// A hook of any shape is called with its faults, and with nothing else.
#[test]
fn a_hook_is_called_with_the_faults_of_any_shape() {
    thread_local!(static SEEN: Cell<Option<Fault>> = const { Cell::new(None) });
    struct Note;
    impl FaultHook for Note {
        fn on_fault(fault: Fault) {
            SEEN.set(Some(fault));
        }
    }
    fn sees<S: Shape<Space = Anywhere>>() {
        let (mut heap, all) = filled::<OnFault<S, Note>>(2, 5000);
        // SAFETY: freed once; then a link of the free chunk is written over.
        unsafe {
            heap.deallocate(all[0]);
            assert_eq!(SEEN.take(), None);
            poke(all[0], -1, 16);
        }
        let _ = heap.allocate(layout(5000));
        let seen = SEEN.take().unwrap();
        assert_eq!(heap.faults(), (1, Some(seen)));
        assert!(seen.to_string().starts_with("a freed block that was overwritten: 0x"), "{seen}");
    }
    sees::<Packed>();
    sees::<Standard>();
    sees::<Checked>();
}
