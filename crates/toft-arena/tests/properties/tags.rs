//! The tag of a live block, and the fence of a span, when they were written over: what is believed
//! of them in shapes that do not check every pointer. Each with its twin.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each is a call on memory that was written over, as the comment above them says"
)]

use crate::common::words::{blocks, heap_within, layout};
use std::ptr::NonNull;
use toft_arena::shape::{Narrow, Packed, Relative, Shape, Within, Word};
use toft_arena::{Anywhere, Fault, Heap};

const SIZE: usize = 1 << 16;

/// The tag before a block of words of this width.
unsafe fn tag<W: Word>(block: NonNull<u8>) -> usize {
    // SAFETY: the caller's block has one.
    unsafe { block.as_ptr().cast::<W>().sub(1).read() }.to_usize()
}

unsafe fn put_tag<W: Word>(block: NonNull<u8>, value: usize) {
    // SAFETY: as above.
    unsafe { block.as_ptr().cast::<W>().sub(1).write(W::from_usize(value)) };
}

fn broken_tags<W: Word, S: Shape<Space = Within<W>>>() {
    type Call<S> = unsafe fn(&mut Heap<S>, NonNull<u8>) -> bool;
    // SAFETY, of all: a tag that was written over is what is tested.
    let calls: [Call<S>; 6] = [
        |heap, block| unsafe { heap.deallocate(block) != 0 },
        |heap, block| unsafe { heap.deallocate_sized(block, layout(100)) != 0 },
        |heap, block| unsafe { heap.grow_in_place(block, 110) },
        |heap, block| unsafe { heap.reallocate(block, layout(100), 300).is_ok() },
        |heap, block| unsafe { heap.resize(block, 8, 300).is_ok() },
        |heap, block| unsafe {
            heap.shrink_in_place(block, 10);
            false
        },
    ];
    for (number, call) in calls.into_iter().enumerate() {
        // What it becomes of what it is: larger than all, of no size, unaligned, free, up to the
        // block behind's inside, and up to a block that says that this one is free.
        let changes: [fn(usize) -> usize; 5] =
            [|_| 0x4141_4141, |_| 1, |tag| tag + 4, |tag| tag & !1, |tag| tag + 8];
        for (which, change) in changes.into_iter().enumerate() {
            let mut heap = heap_within::<W, S>(SIZE);
            let blocks = blocks(&mut heap, 4, 100);
            let block = blocks[1];
            // SAFETY: live blocks; what is behind this one says that it is free, if a tag reaches
            // there.
            unsafe {
                blocks[2].as_ptr().write_bytes(3, 100);
                let was = tag::<W>(block);
                put_tag::<W>(block, change(was));
                let live = heap.survey().live_blocks;
                let address = block.as_ptr().addr();
                assert!(!call(&mut heap, block), "call {number}, change {which}");
                assert_eq!(heap.faults(), (1, Some(Fault::BrokenTag(address))), "{number} {which}");
                assert_eq!(heap.survey().live_blocks, live);
                put_tag::<W>(block, was);
                heap.check().unwrap();
                // Its twin: the tag that it had.
                call(&mut heap, block);
                assert_eq!(heap.faults().0, 1);
            }
            heap.check().unwrap();
        }
    }
}

#[test]
fn a_tag_that_was_written_over_is_not_believed() {
    broken_tags::<u32, Narrow>();
    broken_tags::<usize, Relative>();
}

/// A block that was freed twice is one whose tag does not say that it lives.
#[test]
fn a_second_free_has_no_effect() {
    for freed_first in [0, 1, 2] {
        let mut heap = heap_within::<u32, Narrow>(SIZE);
        let all = blocks(&mut heap, 4, 100);
        // SAFETY: the second free is what is tested.
        unsafe {
            assert!(heap.deallocate(all[freed_first]) > 0);
            assert_eq!(heap.deallocate(all[freed_first]), 0);
        }
        assert_eq!(heap.faults(), (1, Some(Fault::BrokenTag(all[freed_first].as_ptr().addr()))));
        assert_eq!(heap.survey().live_blocks, 3);
        heap.check().unwrap();
    }
}

/// Of a span that has another above it: nothing behind the fence is read, and the fence is one
/// again.
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "maps memory that may not be read")]
#[test]
fn a_fence_with_a_span_above_it_is_not_taken_for_a_chunk() {
    use crate::common::words::mapped;
    const WORD: usize = size_of::<usize>();
    type Call = unsafe fn(&mut Heap<Packed>, NonNull<u8>);
    // SAFETY, of all: a fence that was written over is what is tested.
    let calls: [Call; 3] = [
        |heap, block| unsafe {
            heap.deallocate(block);
        },
        |heap, block| unsafe { assert!(!heap.grow_in_place(block, SIZE)) },
        |heap, block| unsafe { heap.shrink_in_place(block, 100) },
    ];
    for further in [false, true] {
        for (number, call) in calls.into_iter().enumerate() {
            for value in [0, 8] {
                let mut heap = Heap::<Packed>::new(Anywhere);
                // SAFETY: a new mapping, of which every second part may not be read.
                unsafe {
                    let start = mapped(6 * SIZE);
                    let part = |number| start.add(number * SIZE);
                    for closed in [1, 3, 5] {
                        assert_eq!(libc::mprotect(part(closed).cast(), SIZE, libc::PROT_NONE), 0);
                    }
                    // The one whose fence is broken: the first that was claimed, or one after it.
                    if further {
                        heap.claim(part(4), SIZE).unwrap();
                    }
                    let span = heap.claim(part(0), SIZE).unwrap();
                    let words = if further { 4 } else { 2 };
                    let mut blocks = Vec::new();
                    while let Ok(block) = heap.allocate(layout(SIZE - words * WORD)) {
                        blocks.push(block);
                    }
                    heap.claim(part(2), SIZE).unwrap();
                    let block = *blocks.iter().find(|block| span.contains(block.as_ptr())).unwrap();
                    let fence = block.add(SIZE - words * WORD).cast::<usize>();
                    assert_eq!(fence.read(), 1);
                    fence.write(value);
                    call(&mut heap, block);
                    // Growing needs more than the fence of a further span says that there is, and
                    // looks no further.
                    let unseen = further && number == 1;
                    assert_eq!(heap.faults().0, u64::from(!unseen), "{further} {value}");
                    if unseen {
                        fence.write(1);
                    }
                    heap.check().unwrap();
                    let live = heap.survey().live_blocks;
                    heap.release_span(span).map_or_else(|_| assert!(live > 0), |_| ());
                    libc::munmap(start.cast(), 6 * SIZE);
                }
            }
        }
    }
}
