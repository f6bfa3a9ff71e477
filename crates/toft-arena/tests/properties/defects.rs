//! What went wrong in Talloc 2.0.1 and in talc, each as a test that fails where it is so here.

use crate::common::contract::{layout, threads_free_each_others_blocks};
use crate::common::shapes::{Tiny, within};
use crate::common::words::{heap_of, memory, once};
use crate::common::{Op, Shadow};
use std::alloc::Layout;
use std::ptr::NonNull;
#[cfg(feature = "allocator-api2")]
use toft_arena::OneThread;
use toft_arena::shape::{Narrow, Packed, Shape, Standard, Within};
use toft_arena::source::Source;
use toft_arena::{Anywhere, Arena, Fast, Heap, NoMemory, Shared, Span, SpanError};

#[test]
fn talloc_1_shrinking_gives_memory_back() {
    let mut heap = heap_of::<Packed>(65_536);
    let block = heap.allocate(layout(40_000, 8)).unwrap();
    let rest = heap.survey().free_bytes;
    // SAFETY: a live block.
    unsafe { heap.shrink_in_place(block, 1000) };
    assert_eq!(heap.survey().free_bytes, rest + 39_000);
    let barrier = heap.allocate(layout(1, 1)).unwrap();
    // A live block after it: what is cut off is a separate chunk.
    // SAFETY: a live block.
    unsafe { heap.shrink_in_place(block, 500) };
    assert!(heap.allocate(layout(480, 8)).unwrap().addr() < barrier.addr());
}

#[cfg(feature = "allocator-api2")]
#[test]
fn talloc_2_growing_to_a_stricter_alignment_copies_the_old_block_only() {
    use crate::common::words::is_full_of;
    use allocator_api2::alloc::Allocator;
    let arena = &Shared::<Packed, _, _>::new(Anywhere, once(1 << 16), OneThread::new());
    let old = layout(64, 8);
    let block = Allocator::allocate(&arena, old).unwrap().cast::<u8>();
    // Behind the block lies another, which is not to be found in the new one.
    let behind = Allocator::allocate(&arena, layout(4000, 8)).unwrap().cast::<u8>();
    // SAFETY: live blocks of these sizes; what is behind the old bytes is zero when asked for.
    unsafe {
        block.as_ptr().write_bytes(1, 64);
        behind.as_ptr().write_bytes(0xAA, 4000);
        let grown = Allocator::grow_zeroed(&arena, block, old, layout(2000, 512)).unwrap();
        assert_eq!(grown.cast::<u8>().addr().get() % 512, 0);
        assert!(is_full_of(1, grown.cast(), 64));
        assert!(is_full_of(0, grown.cast().add(64), 2000 - 64));
    }
}

#[cfg(feature = "allocator-api2")]
#[test]
fn talloc_3_and_talc_nothing_is_aligned() {
    use allocator_api2::alloc::Allocator;
    let shared = Shared::<Packed, _, _>::new(Anywhere, once(1 << 16), OneThread::new());
    for align in [1, 8, 4096, 1 << 20] {
        let nothing = Allocator::allocate(&&shared, layout(0, align)).unwrap();
        assert_eq!((nothing.cast::<u8>().addr().get() % align, nothing.len()), (0, 0));
    }
    let block = Allocator::allocate(&&shared, layout(100, 256)).unwrap().cast::<u8>();
    // SAFETY: a live block of that layout.
    let shrunk = unsafe { Allocator::shrink(&&shared, block, layout(100, 256), layout(0, 256)) };
    assert_eq!(shrunk.unwrap().cast::<u8>().addr().get() % 256, 0);
    assert_eq!(shared.look(|arena| arena.heap().survey().live_blocks), Some(0));
}

/// Bins whose bit is in another word than the first, with words of 32 bits.
#[test]
fn talloc_4_bits_of_high_bins_are_not_those_of_low_ones() {
    let mut shadow = Shadow::<Narrow>::new(1 << 20, within);
    shadow.claim(0, 1 << 20, false);
    for size in (1..200).map(|n| n * 40) {
        shadow.allocate(size, 1, false);
        shadow.allocate(1, 1, false);
    }
    for which in (0..398).rev().step_by(2) {
        shadow.step(&Op::Free { which, way: 0 });
    }
    for size in (1..200).map(|n| n * 39) {
        shadow.allocate(size, 1, false);
        shadow.compare();
    }
    shadow.finish();
}

/// A pointer to no more than its object frees it: the right to the tag comes from the claim. That
/// it is so in every other respect, only an interpreter can say; see docs/arena.md.
#[test]
fn talloc_5_a_pointer_to_the_object_alone_frees_it() {
    let mut heap = heap_of::<Packed>(4096);
    let block = heap.allocate(Layout::new::<u64>()).unwrap();
    // SAFETY: a live block that has room for it; the box is not dropped.
    unsafe {
        block.cast::<u64>().write(7);
        let boxed = Box::from_raw(block.cast::<u64>().as_ptr());
        let narrow = NonNull::from(Box::leak(boxed)).cast::<u8>();
        heap.deallocate(narrow);
    }
    assert_eq!(heap.survey().live_blocks, 0);
}

/// The lock is free while a large block is copied: a source that is asked meanwhile may say so.
#[test]
fn talloc_6_the_lock_is_not_held_while_a_large_block_is_copied() {
    use std::cell::Cell;
    use toft_arena::Exclusive;
    struct Counts<'a>(&'a Cell<usize>);
    // SAFETY: used by one thread, and `work` does not come back here.
    unsafe impl Exclusive for Counts<'_> {
        fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
            self.0.set(self.0.get() + 1);
            Some(work())
        }
    }
    let held = Cell::new(0);
    let shared = Shared::<Packed, _, _>::new(Anywhere, once(1 << 20), Counts(&held));
    // SAFETY: blocks are live and of these layouts.
    unsafe {
        for (size, times) in [(100_000, 2), (1000, 1)] {
            let block = shared.allocate(layout(size, 8)).unwrap();
            let barrier = shared.allocate(layout(8, 8)).unwrap();
            held.set(0);
            let moved = shared.reallocate(block, layout(size, 8), 2 * size).unwrap();
            assert_ne!(moved, block);
            // Asks whether it can grow and allocates, then frees; or all under one.
            assert_eq!(held.get(), times, "{size}");
            shared.deallocate(barrier);
        }
    }
}

#[test]
fn talloc_7_an_extension_by_one_chunk_is_used() {
    let start = memory(512);
    let mut heap = Heap::<Packed>::new(Anywhere);
    // SAFETY: the memory is never used by anybody else.
    unsafe {
        let span = heap.claim(start.add(64), 128).unwrap();
        while heap.allocate(layout(16, 8)).is_ok() {}
        assert_eq!(heap.survey().live_blocks, 5);
        let up = heap.extend(span, Span::new(span.start, span.size + 24)).unwrap();
        assert_eq!(up.size, span.size + 24);
        assert!(heap.allocate(layout(16, 8)).is_ok() && heap.allocate(layout(0, 1)).is_err());
        let down = Span::new(up.start.sub(24), up.size + 24);
        assert_eq!(heap.extend(up, down).unwrap(), down);
        assert!(heap.allocate(layout(16, 8)).is_ok() && heap.allocate(layout(0, 1)).is_err());
    }
    heap.check().unwrap();
}

#[test]
fn talloc_7_a_giant_alignment_does_not_wrap() {
    let mut heap = heap_of::<Packed>(65_536);
    for bits in 20..usize::BITS - 1 {
        match heap.allocate(layout(1, 1 << bits)) {
            Err(NoMemory) => {}
            // The memory may have an address that is such a multiple, below the end of all
            // addresses.
            Ok(block) => {
                assert!(block.addr().get().is_multiple_of(1 << bits) && bits < 48, "{bits}");
                // SAFETY: it was allocated above.
                unsafe { heap.deallocate(block) };
            }
        }
    }
    for size in [usize::MAX / 2 - 4096, isize::MAX as usize - 8, isize::MAX as usize / 2] {
        assert_eq!(heap.allocate(layout(size, 1)), Err(NoMemory));
        assert_eq!(
            heap.allocate(layout(size.min(isize::MAX as usize / 2), 1 << 20)),
            Err(NoMemory)
        );
    }
    heap.check().unwrap();
}

/// 8 was slow with two threads: what is there is that it is right with them.
#[test]
fn talloc_8_threads_share_an_arena() {
    let shared = Shared::<Packed, _, _>::new(Anywhere, once(1 << 22), toft_arena::Spin::new());
    threads_free_each_others_blocks(&shared, 4);
    shared.check().unwrap().unwrap();
    assert_eq!(shared.survey().unwrap().live_blocks, 0);
}

/// talc must be told the right size when a block is freed.
#[test]
fn talc_1_a_block_is_freed_without_its_size() {
    let mut heap = heap_of::<Standard>(65_536);
    for size in [0, 1, 100, 5000] {
        for align in [1, 64, 4096] {
            let block = heap.allocate(layout(size, align)).unwrap();
            // SAFETY: a live block.
            unsafe {
                assert!(heap.usable_size(block) >= size);
                heap.deallocate(block);
            }
        }
    }
    assert_eq!((heap.survey().live_blocks, heap.survey().free_blocks), (0, 1));
}

/// talc looks for an aligned block only in gaps as large as the alignment.
#[test]
fn talc_2_an_aligned_place_in_a_small_gap_is_found() {
    let mut heap = heap_of::<Packed>(65_536);
    let span = heap.spans().next().unwrap();
    // The block before 4096-aligned memory, and the one that holds it, in gaps of 200 bytes.
    let first = (span.start.addr() + 200).next_multiple_of(4096);
    let lead = first - span.start.addr() - 100;
    let before = heap.allocate(layout(lead - 8, 8)).unwrap();
    let gap = heap.allocate(layout(200, 8)).unwrap();
    assert!(gap.addr().get() <= first && first + 16 <= gap.addr().get() + 200);
    let all = heap.largest_free().unwrap();
    heap.allocate(layout(all, 8)).unwrap();
    assert!(heap.allocate(layout(16, 4096)).is_err());
    // SAFETY: a live block.
    unsafe { heap.deallocate(gap) };
    let found = heap.allocate(layout(16, 4096)).unwrap();
    assert_eq!(found.addr().get(), first);
    heap.check().unwrap();
    let _ = before;
}

/// hermit's many aligned blocks: they take no more than blocks of as many bytes as their distance.
#[test]
fn talc_44_many_aligned_blocks_take_little_more_than_unaligned_ones() {
    const COUNT: usize = 16_384;
    fn taken<S: Shape<Space = Anywhere>>(size: usize, align: usize) -> usize {
        let mut heap = heap_of::<S>((COUNT + 2) * 4096 * 2);
        let before = heap.top_size();
        for _ in 0..COUNT {
            heap.allocate(layout(size, align)).unwrap();
        }
        before - heap.top_size()
    }
    for (aligned, plain) in [
        (taken::<Packed>(1, 4096), taken::<Packed>(4096, 1)),
        (taken::<Standard>(1, 4096), taken::<Standard>(4096, 1)),
        (taken::<Fast>(1, 4096), taken::<Fast>(4096, 1)),
    ] {
        assert!(aligned <= plain + 8192, "{aligned} {plain}");
    }
}

/// talc's tag was one byte for a while, and did not hold large gaps (its pull request 49).
#[test]
fn talc_49_gaps_of_many_megabytes() {
    let mut heap = heap_of::<Packed>(64 << 20);
    let low = heap.allocate(layout(20 << 20, 8)).unwrap();
    let high = heap.allocate(layout(20 << 20, 1 << 20)).unwrap();
    // SAFETY: live blocks.
    unsafe {
        heap.deallocate(low);
        heap.check().unwrap();
        let again = heap.allocate(layout(17 << 20, 8)).unwrap();
        heap.check().unwrap();
        heap.deallocate(again);
        heap.deallocate(high);
    }
    heap.check().unwrap();
    assert_eq!(heap.survey().free_blocks, 1);
}

/// A handler that says that it has given memory, and has not (Talloc asked it for ever).
#[test]
fn talloc_a_source_that_lies_ends_in_an_error() {
    #[derive(Default)]
    struct Liar(usize);
    // SAFETY: it leaves the heap as it is, or claims what stays.
    unsafe impl<S: Shape> Source<S> for Liar {
        unsafe fn more(&mut self, _: &mut Heap<S>, _: Layout) -> Result<(), NoMemory> {
            self.0 += 1;
            Ok(())
        }
    }
    let mut arena = Arena::<Packed, Liar>::new(Anywhere, Liar::default());
    assert_eq!(arena.allocate(layout(1, 1)), Err(NoMemory));
    assert_eq!(arena.source().0, 2);
    /// Gives a little each time, and never enough.
    struct Miser(usize);
    // SAFETY: it leaves the heap as it is, or claims what stays.
    unsafe impl Source<Packed> for Miser {
        unsafe fn more(&mut self, heap: &mut Heap<Packed>, _: Layout) -> Result<(), NoMemory> {
            self.0 += 1;
            // SAFETY: the memory is never used by anybody else.
            unsafe { heap.claim(memory(128), 128) }.map(|_| ()).map_err(|_| NoMemory)
        }
    }
    let mut arena = Arena::<Packed, Miser>::new(Anywhere, Miser(0));
    assert_eq!(arena.allocate(layout(4096, 1)), Err(NoMemory));
    assert_eq!(arena.source().0, 2);
    assert_eq!(arena.try_allocate(layout(4096, 1)), Err(NoMemory));
    assert_eq!(arena.source().0, 2);
    assert!(arena.allocate(layout(64, 1)).is_ok());
}

/// `Talloc` could not be moved once it had memory.
#[test]
fn talloc_a_heap_with_blocks_is_moved() {
    let mut shadow = Shadow::<Tiny>::new(1 << 16, within);
    shadow.claim(0, 1 << 16, false);
    for size in 0..60 {
        shadow.allocate(size * 7, 1, false);
        shadow.step(&Op::Free { which: size / 2, way: 0 });
        shadow.step(&Op::Move);
    }
    shadow.finish();
}

/// Found by the shadow, rarely: a free chunk that was nearly all of the memory was taken for a
/// broken one, where the span with `top` had been released and the one below it extended over its
/// memory.
#[test]
fn toft_a_free_chunk_may_be_all_of_the_memory() {
    let start = memory(8192);
    let mut heap = Heap::<Packed>::new(Anywhere);
    // SAFETY: the memory is never used by anybody else; blocks are live, and freed once.
    unsafe {
        let low = heap.claim(start, 1024).unwrap();
        let high = heap.claim(start.add(1024), 7168).unwrap();
        heap.release_span(high).unwrap();
        heap.extend(low, Span::new(start, 8192)).unwrap();
        heap.check().unwrap();
        let blocks: Vec<_> = (0..3).map(|_| heap.allocate(layout(2000, 8)).unwrap()).collect();
        for block in blocks {
            heap.deallocate(block);
            heap.check().unwrap();
        }
        assert!(heap.allocate(layout(8000, 8)).is_ok());
        assert_eq!(heap.faults().0, 0);
    }
}

/// Places are counted from the origin: where that is not aligned, no block would be.
#[test]
fn an_origin_that_is_not_aligned_is_refused() {
    let start = memory(4096);
    for offset in 0..20 {
        // SAFETY: the memory is never used by anybody else, and the last heap on it is gone.
        let claimed = unsafe {
            let origin = start.add(offset);
            let mut heap = Heap::<Narrow>::new(Within::new(origin, 4000));
            heap.claim(origin, 4000).map(|_| heap.allocate(layout(24, 8)).unwrap().addr().get())
        };
        match offset % 8 {
            0 => assert_eq!(claimed.unwrap() % 8, 0),
            _ => assert_eq!(claimed, Err(SpanError::Misaligned), "{offset}"),
        }
    }
}

/// Nothing overflows where addresses end.
#[test]
fn a_range_at_the_end_of_the_addresses_is_refused() {
    for from in 1..200 {
        for size in 0..=from {
            let start = std::ptr::without_provenance_mut::<u8>(usize::MAX - from);
            if size < 24 {
                // SAFETY: too small for a block, so nothing of it is touched.
                let claimed = unsafe { Heap::<Packed>::new(Anywhere).claim(start, size) };
                let refused = matches!(claimed, Err(SpanError::TooSmall | SpanError::OutOfReach));
                assert!(refused, "{from} {size} {claimed:?}");
            }
        }
    }
}

/// The largest request that would be met is one that may be made, also where a chunk is larger than
/// any block.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn the_largest_request_is_one_that_is_met() {
    use crate::common::words::mapped;
    const SIZE: usize = 3 << 30;
    // SAFETY: a new mapping, of which the ends are used.
    unsafe {
        let start = mapped(SIZE);
        let mut heap = Heap::<Narrow>::new(Within::new(start, SIZE));
        heap.claim(start, SIZE).unwrap();
        let largest = heap.largest_free().unwrap();
        assert!(largest > 2_147_000_000 && heap.allocate(layout(largest + 1, 1)).is_err());
        assert!(heap.allocate(layout(largest, 1)).is_ok());
        heap.check().unwrap();
        libc::munmap(start.cast(), SIZE);
    }
}
