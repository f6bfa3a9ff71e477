//! The shadow of a heap: what it must look like from outside, after any operations.

use super::shapes;
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::Shape;
use toft_arena::{Heap, Span, SpanError};

/// What no span covers is filled with this, and stays so.
const OUTSIDE: u8 = 0xE7;
/// The memory is this much aligned, so that a run does not depend on where it lies.
const PAGE: usize = 4096;

/// One operation. Numbers are reduced to what there is.
#[derive(Clone, Debug)]
pub enum Op {
    Allocate { size: usize, align: u32, zeroed: bool },
    Free { which: usize, way: u8 },
    Resize { which: usize, size: usize, way: u8 },
    Extend { which: usize, low: usize, high: usize },
    Truncate { which: usize, low: usize, high: usize },
    Claim { from: usize, size: usize, zeroed: bool },
    Release { which: usize },
    Reset,
    Move,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    start: NonNull<u8>,
    layout: Layout,
    byte: u8,
}

/// A heap, its memory, and what should be in it.
pub struct Shadow<S: Shape> {
    pub heap: Heap<S>,
    memory: *mut u8,
    size: usize,
    live: Vec<Live>,
    next_byte: u8,
    zeros: Vec<Span>,
}

impl<S: Shape> Shadow<S> {
    /// A heap without a span over `size` bytes of memory.
    pub fn new(size: usize, heap: impl FnOnce(*mut u8, usize) -> Heap<S>) -> Self {
        // SAFETY: the layout has a size.
        let memory = unsafe { std::alloc::alloc(Self::layout(size)) };
        assert!(!memory.is_null());
        // SAFETY: as many bytes as were allocated.
        unsafe { memory.write_bytes(OUTSIDE, size) };
        let heap = heap(memory, size);
        Self { heap, memory, size, live: Vec::new(), next_byte: 0, zeros: Vec::new() }
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size.max(1), PAGE).unwrap()
    }

    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Claims a part of the memory; `false` if the heap refuses.
    pub fn claim(&mut self, from: usize, size: usize, zeroed: bool) -> bool {
        let start = self.memory.wrapping_add(from);
        let new = Span::new(start, size);
        let overlaps = self
            .heap
            .spans()
            .any(|span| span.start.addr() < new.end() && start.addr() < span.end());
        if overlaps {
            // What only touches the bytes that alignment loses may be claimed.
            let inner = Span::new(start.wrapping_add(128), size.saturating_sub(256));
            let overlaps = self
                .heap
                .spans()
                .any(|span| span.start.addr() < inner.end() && inner.start.addr() < span.end());
            if overlaps && size > 512 {
                // SAFETY: the heap refuses it, and so touches nothing.
                assert_eq!(unsafe { self.heap.claim(start, size) }, Err(SpanError::Overlaps));
            }
            return false;
        }
        // SAFETY: the memory is this shadow's own, and in no span.
        let claimed = unsafe {
            if zeroed {
                start.write_bytes(0, size);
                self.heap.claim_zeroed(start, size)
            } else {
                start.write_bytes(0x55, size);
                self.heap.claim(start, size)
            }
        };
        let fill = |span: Span| {
            // What was lost to alignment is outside again.
            let low = span.start.addr() - start.addr();
            // SAFETY: inside of the range, and outside of the span.
            unsafe {
                start.write_bytes(OUTSIDE, low);
                start.add(low + span.size).write_bytes(OUTSIDE, size - low - span.size);
            }
        };
        match claimed {
            Ok(span) => fill(span),
            Err(error) => {
                assert!(matches!(error, SpanError::TooSmall | SpanError::OutOfReach), "{error:?}");
                fill(Span::new(start, 0));
                return false;
            }
        }
        true
    }

    /// Carries out an operation, and compares.
    pub fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { size, align, zeroed } => self.allocate(size, 1 << align, zeroed),
            Op::Free { which, way } => self.free(which, way),
            Op::Resize { which, size, way } => self.resize(which, size, way),
            Op::Extend { which, low, high } => self.extend(which, low, high),
            Op::Truncate { which, low, high } => self.truncate(which, low, high),
            Op::Claim { from, size, zeroed } => {
                let from = from % self.size;
                self.claim(from, size.min(self.size - from), zeroed);
            }
            Op::Release { which } => self.release(which),
            Op::Reset => {
                // SAFETY: no block is used after this.
                unsafe { self.heap.reset() };
                self.live.clear();
            }
            Op::Move => {
                let moved =
                    Box::new(std::mem::replace(&mut self.heap, Heap::new(shapes::nowhere::<S>())));
                self.heap = *moved;
            }
        }
        self.compare();
    }

    pub fn allocate(&mut self, size: usize, align: usize, zeroed: bool) {
        let Ok(layout) = Layout::from_size_align(size, align) else { return };
        // Asking frees what is parked.
        let largest = if size % 4 == 0 { self.heap.largest_free() } else { None };
        let result =
            if zeroed { self.heap.allocate_zeroed(layout) } else { self.heap.allocate(layout) };
        let Ok(start) = result else {
            // No request fails that could be met.
            assert!(
                size % 4 != 0 || Some(size) > largest || align > S::ALIGN || !S::THOROUGH,
                "{layout:?} fails, {largest:?} are free"
            );
            if size < 1 << 20 {
                assert!(!S::THOROUGH || !self.could_be_met(layout), "{layout:?} would have fitted");
            }
            return;
        };
        if align <= S::ALIGN && size % 4 == 0 {
            assert!(Some(size) <= largest, "{layout:?} where only {largest:?} were free");
        }
        assert_eq!(start.as_ptr().addr() % align.max(S::ALIGN), 0);
        // SAFETY: the block is live.
        let usable = unsafe { self.heap.usable_size(start) };
        assert!(usable >= size);
        if zeroed {
            // SAFETY: the block has that many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), size) };
            assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?} is not zero");
        }
        let inside = |span: Span| {
            span.contains(start.as_ptr()) && usable <= span.end() - start.as_ptr().addr()
        };
        assert!(self.heap.spans().any(inside), "a block outside of all spans");
        let byte = self.next_byte;
        self.next_byte = byte.wrapping_add(1);
        // SAFETY: all that is usable may be written.
        unsafe { start.as_ptr().write_bytes(byte, usable) };
        self.live.push(Live { start, layout, byte });
    }

    /// Whether a free chunk has an aligned place for a layout: by looking at every one.
    fn could_be_met(&self, layout: Layout) -> bool {
        let word = std::mem::size_of::<<S::Space as toft_arena::shape::Space>::Word>();
        let least = (3 * word).next_multiple_of(S::ALIGN);
        let need = (layout.size() + word).next_multiple_of(S::ALIGN).max(least);
        let align = layout.align().max(S::ALIGN);
        let mut met = false;
        self.heap.walk(|block| {
            let (first, chunk) = (block.start.addr(), block.size + word);
            let mut gap = first.next_multiple_of(align) - first;
            while gap != 0 && gap < least {
                gap += align;
            }
            met |= !block.live && chunk >= need && gap <= chunk - need;
        });
        met
    }

    fn free(&mut self, which: usize, way: u8) {
        if self.live.is_empty() {
            return;
        }
        let Live { start, layout, .. } = self.live.swap_remove(which % self.live.len());
        // SAFETY: it is live, and not used after this.
        unsafe {
            let free = match way % 3 {
                0 => self.heap.deallocate(start),
                1 => self.heap.deallocate_sized(start, layout),
                _ => self.heap.try_deallocate(start).unwrap(),
            };
            assert!(free >= layout.size());
        }
    }

    fn resize(&mut self, which: usize, size: usize, way: u8) {
        if self.live.is_empty() {
            return;
        }
        let which = which % self.live.len();
        let Live { start, layout, byte } = self.live[which];
        let Ok(new_layout) = Layout::from_size_align(size, layout.align()) else { return };
        let same = layout.size().min(size);
        // SAFETY: it is live, and only what is returned is used.
        let new = unsafe {
            match way % 5 {
                0 => self.heap.reallocate(start, layout, size).ok(),
                1 => self.heap.resize(start, layout.align(), size).ok(),
                2 => self.heap.grow_down(start, same, layout.align(), size).ok(),
                3 if size <= layout.size() => {
                    self.heap.shrink_in_place(start, size);
                    Some(start)
                }
                _ => self.heap.grow_in_place(start, size).then_some(start),
            }
        };
        let Some(new) = new else { return };
        assert_eq!(new.as_ptr().addr() % layout.align().max(S::ALIGN), 0);
        // SAFETY: the block is live, and has that many bytes.
        unsafe {
            let usable = self.heap.usable_size(new);
            assert!(usable >= size, "{size} asked, {usable} there");
            let kept = std::slice::from_raw_parts(new.as_ptr(), same);
            assert!(kept.iter().all(|&own| own == byte), "resizing lost bytes, way {}", way % 5);
            new.as_ptr().write_bytes(byte, usable);
        }
        self.live[which] = Live { start: new, layout: new_layout, byte };
    }

    fn span(&self, which: usize) -> Option<Span> {
        let spans: Vec<_> = self.heap.spans().collect();
        (!spans.is_empty()).then(|| spans[which % spans.len()])
    }

    fn extend(&mut self, which: usize, low: usize, high: usize) {
        let Some(old) = self.span(which) else { return };
        let others = || self.heap.spans().filter(|span| span.start != old.start);
        let (start, end) = (old.start.addr(), old.end());
        let least = others().map(|o| o.end()).filter(|&e| e <= start).max();
        let most = others().map(|o| o.start.addr()).filter(|&s| s >= end).min();
        let from = (start - low.min(start - self.memory.addr())).max(least.unwrap_or(0));
        let memory_end = self.memory.addr() + self.size;
        let to = (end + high).min(most.unwrap_or(memory_end)).min(memory_end);
        let new = Span::new(self.memory.wrapping_add(from - self.memory.addr()), to - from);
        let zeroed = (low ^ high) % 2 == 0;
        let fill = |inner: Span, byte: u8| {
            let front = inner.start.addr() - from;
            // SAFETY: the memory is this shadow's, and outside of all spans but the inner one.
            unsafe {
                new.start.write_bytes(byte, front);
                new.start.add(front + inner.size).write_bytes(byte, to - inner.end());
            }
        };
        // SAFETY: the memory is this shadow's, and in no other span; zeroed if it is said to be.
        let result = unsafe {
            if zeroed {
                fill(old, 0);
                self.heap.extend_zeroed(old, new)
            } else {
                self.heap.extend(old, new)
            }
        };
        let now = result.unwrap_or(old);
        assert!(now.contains_span(&old) && now.start.addr() >= from && now.end() <= to);
        if zeroed {
            fill(now, OUTSIDE);
        }
    }

    fn truncate(&mut self, which: usize, low: usize, high: usize) {
        let Some(old) = self.span(which) else { return };
        let reserved = self.heap.reserved(old).unwrap();
        let low = low.min(old.size);
        let high = high.min(old.size - low);
        let keep = Span::new(old.start.wrapping_add(low), old.size - low - high);
        let cuts = keep.size == 0 && reserved.size != 0 || !keep.contains_span(&reserved);
        match self.heap.truncate(old, keep) {
            Ok(now) => {
                assert!(reserved.size == 0 || now.contains_span(&reserved));
                assert!(old.contains_span(&now) && now.contains_span(&keep));
                self.outside(old, now);
            }
            Err(error) => {
                assert_eq!(error, SpanError::Live);
                assert!(cuts, "refused, but no block is cut: {old:?} {keep:?} {reserved:?}");
            }
        }
    }

    fn release(&mut self, which: usize) {
        let Some(old) = self.span(which) else { return };
        let empty = self.heap.reserved(old).unwrap().size == 0;
        match self.heap.release_span(old) {
            Ok(gone) => {
                assert!(empty && gone == old);
                self.outside(old, Span::new(old.start, 0));
            }
            Err(error) => assert!(!empty && error == SpanError::Live),
        }
    }

    /// Marks what a span has given up.
    fn outside(&mut self, old: Span, now: Span) {
        let low = now.start.addr() - old.start.addr();
        // SAFETY: the heap has let go of it.
        unsafe {
            old.start.write_bytes(OUTSIDE, low);
            let high = old.start.add(low + now.size);
            high.write_bytes(OUTSIDE, old.end() - now.end());
        }
    }

    /// Everything that can be seen is as it must be.
    pub fn compare(&mut self) {
        self.heap.check().unwrap();
        assert_eq!(self.heap.faults().0, 0, "{:?}", self.heap.faults());
        for live in &self.live {
            // SAFETY: it is live, and has that many bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts(live.start.as_ptr(), live.layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == live.byte), "a block was overwritten");
        }
        let survey = self.heap.survey();
        assert_eq!(survey.live_blocks, self.live.len());
        assert_eq!(survey.spans, self.heap.spans().count());
        assert!(survey.live_bytes + survey.free_bytes <= survey.claimed);
        let mut seen: Vec<usize> = Vec::new();
        self.heap.walk(|block| {
            if block.live {
                seen.push(block.start.addr())
            }
        });
        seen.sort_unstable();
        let mut own: Vec<_> = self.live.iter().map(|live| live.start.as_ptr().addr()).collect();
        own.sort_unstable();
        assert_eq!(seen, own);
        if S::COUNT {
            let counters = self.heap.counters();
            assert_eq!(counters.live_blocks, self.live.len());
            assert_eq!(counters.live_bytes, survey.live_bytes);
            assert!(counters.peak_bytes >= counters.live_bytes);
        }
    }

    /// What no span covers was not written.
    pub fn outside_is_untouched(&self) {
        // SAFETY: the memory is this shadow's, and no other thread writes it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory, self.size) };
        let mut at = 0;
        let mut spans: Vec<_> = self.heap.spans().collect();
        spans.sort_by_key(|span| span.start.addr());
        for span in spans.iter().chain(&[Span::new(self.memory.wrapping_add(self.size), 0)]) {
            let start = span.start.addr() - self.memory.addr();
            let clean = bytes[at..start].iter().all(|&byte| byte == OUTSIDE);
            assert!(clean, "written outside of all spans, in {at}..{start}");
            at = start + span.size;
        }
    }

    /// Frees everything; then all free memory of each span is in one piece.
    pub fn finish(&mut self) {
        while !self.live.is_empty() {
            self.free(0, 0);
        }
        self.heap.settle();
        self.compare();
        let survey = self.heap.survey();
        assert_eq!((survey.live_blocks, survey.free_blocks), (0, survey.spans));
        self.outside_is_untouched();
    }
}

impl<S: Shape> Drop for Shadow<S> {
    fn drop(&mut self) {
        // The memory outlives the heap that has it.
        self.heap = Heap::new(shapes::nowhere::<S>());
        // SAFETY: allocated with this layout, and the heap is not used any more.
        unsafe { std::alloc::dealloc(self.memory, Self::layout(self.size)) };
    }
}
