//! The spans: ranges of memory that a heap was handed.
//!
//! ```text
//! start                                                                    end
//!   | chunk | chunk | ...                                     | fence |      |      the first span
//!   | chunk | chunk | ...                                     | fence | base | next |   further ones
//! ```
//!
//! The heap itself knows its first span, so a heap of one span pays one word, for the fence.
//! Further spans are found by the words behind their fences; so there may be any number of them.
//!
//! Every change of an end is one of two things: memory is made free as if a block there had been
//! freed, or a free chunk at the end is taken out and made shorter.

use super::Heap;
use crate::chunk::{BELOW_FREE, LIVE};
use crate::fault::SpanError;
use crate::shape::{Shape, Sizes};
use crate::space::{Anywhere, Space};
use crate::table::Tables;
use core::mem::MaybeUninit;

/// A range of memory: `size` bytes from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: *mut u8,
    /// Its bytes.
    pub size: usize,
}

impl Span {
    /// A span of this many bytes.
    #[must_use]
    pub const fn new(start: *mut u8, size: usize) -> Self {
        Self { start, size }
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, pointer: *const u8) -> bool {
        pointer.addr().wrapping_sub(self.start.addr()) < self.size
    }

    /// Whether all of another is in it.
    #[must_use]
    pub fn contains_span(&self, other: &Self) -> bool {
        let from = other.start.addr().wrapping_sub(self.start.addr());
        from <= self.size && other.size <= self.size - from
    }

    /// The first address behind it.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start.addr().wrapping_add(self.size)
    }
}

/// Where the spans are.
pub(super) struct Spans {
    /// The first span's first chunk and its fence; both 0 if there is none.
    pub(super) base: usize,
    pub(super) fence: usize,
    /// The fence of the next span, or 0.
    pub(super) next: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Its first chunk, or its fence if it has none.
    pub(super) base: usize,
    pub(super) fence: usize,
    /// Behind its last word.
    pub(super) end: usize,
    /// The word in which a further span's `next` is written; 0 for the first one.
    pub(super) links: usize,
}

impl<S: Shape<Space = Anywhere>> Heap<S> {
    /// Hands memory to the heap for ever. This is safe, because no other code can have the memory.
    ///
    /// # Errors
    /// As [`claim`](Self::claim). The memory is lost then.
    pub fn claim_static(
        &mut self,
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<Span, SpanError> {
        // SAFETY: 1. the reference is exclusive, and lives for ever; all pointers into the memory
        // are derived from it.
        unsafe { self.claim(memory.as_mut_ptr().cast(), memory.len()) }
    }
}

impl<S: Shape> Heap<S> {
    /// Hands a range of memory to the heap. Bytes that are lost to alignment at the ends are not
    /// part of the span that is returned.
    ///
    /// # Errors
    /// Nothing has happened.
    ///
    /// # Safety
    /// 1. Until the heap has let go of it, or is gone, no other code reads or writes the range,
    ///    except for live blocks.
    pub unsafe fn claim(&mut self, start: *mut u8, size: usize) -> Result<Span, SpanError> {
        // SAFETY: by 1.
        unsafe { self.claim_span(start, size, false) }
    }

    /// As [`claim`](Self::claim), for memory that is full of zeros: blocks of zeros from it are not
    /// filled.
    ///
    /// # Errors
    /// As `claim`.
    ///
    /// # Safety
    /// 1. As `claim`, 1.
    /// 2. Every byte is zero.
    pub unsafe fn claim_zeroed(&mut self, start: *mut u8, size: usize) -> Result<Span, SpanError> {
        // SAFETY: by 1 and 2.
        unsafe { self.claim_span(start, size, true) }
    }

    unsafe fn claim_span(
        &mut self,
        start: *mut u8,
        size: usize,
        zeroed: bool,
    ) -> Result<Span, SpanError> {
        let further = self.spans.fence != 0;
        let (base, _, end) = self.admitted(start, size, further)?;
        if self.bounds().any(|span| base < span.end && span.base < end) {
            return Err(SpanError::Overlaps);
        }
        // SAFETY: by 1 of `claim`. No memory reaches up to its own start.
        unsafe { self.add(start.addr(), start, size, zeroed, false) }
    }

    /// Adds memory that overlaps no span. It becomes a span, and a further one if it is to grow.
    ///
    /// A source has all memory from the address `from` on. If the newest further span ends there,
    /// that one grows instead, also over what the heap has let go of at its end.
    ///
    /// # Errors
    /// Nothing has happened.
    ///
    /// # Safety
    /// 1. As [`claim`](Self::claim), and every byte is zero if that is said.
    /// 2. What is between `from` and `start` is of one allocation with it, and in use by this heap
    ///    only.
    pub(crate) unsafe fn add(
        &mut self,
        from: usize,
        start: *mut u8,
        size: usize,
        zeroed: bool,
        grows: bool,
    ) -> Result<Span, SpanError> {
        let further = grows || self.spans.fence != 0;
        let old = self.spans.next;
        let old_end = old + 3 * S::WORD;
        let place = self.memory.space.place(start);
        let extends = from < self.memory.space.address(old_end) && old_end <= place;
        let (base, fence, end) = self.admitted(start, size, further)?;
        let base = if extends { old } else { base };
        let more = fence - base;
        // SAFETY: the words from `base` to `end` are this heap's (by 1 and 2), and those of the old
        // fence are read before they become a chunk's.
        unsafe {
            let (span, link) = match extends {
                true => (self.memory.get(old + S::WORD), self.memory.get(old + 2 * S::WORD)),
                false => (base, old),
            };
            if further {
                self.memory.put(fence + S::WORD, span);
                self.memory.put(fence + 2 * S::WORD, link);
                self.spans.next = fence;
            } else {
                (self.spans.base, self.spans.fence) = (span, fence);
            }
            self.memory.put(fence, LIVE);
            self.memory.cover(span, end);
            self.memory.close(base, end);
            // `top` is the largest end, or the one that may grow again.
            if grows || more > self.top_size {
                self.retire_top();
                self.top = fence;
                let below_free = extends && self.memory.get(old) & BELOW_FREE != 0;
                self.insert(base, more, below_free);
                self.set_marks();
                self.reached = 0;
                self.clean = if zeroed { place } else { usize::MAX };
            } else {
                self.insert(base, more, false);
            }
            Ok(Span::new(self.memory.space.pointer(span), end - span))
        }
    }

    /// Lets a span reach further, at either end or both. `span` is any part of the one that is
    /// meant.
    ///
    /// # Errors
    /// Nothing has happened.
    ///
    /// # Safety
    /// 1. As [`claim`](Self::claim), for all of `new`; and where that is an allocation, all of it
    ///    is one allocation.
    pub unsafe fn extend(&mut self, span: Span, new: Span) -> Result<Span, SpanError> {
        // SAFETY: by 1.
        unsafe { self.extend_span(span, new, false) }
    }

    /// As [`extend`](Self::extend), with memory that is full of zeros.
    ///
    /// # Errors
    /// As `extend`.
    ///
    /// # Safety
    /// 1. As `extend`, 1.
    /// 2. Every byte that was not in the span is zero.
    pub unsafe fn extend_zeroed(&mut self, span: Span, new: Span) -> Result<Span, SpanError> {
        // SAFETY: by 1 and 2.
        unsafe { self.extend_span(span, new, true) }
    }

    unsafe fn extend_span(
        &mut self,
        span: Span,
        new: Span,
        zeroed: bool,
    ) -> Result<Span, SpanError> {
        let old = self.find_span(span)?;
        let (base, fence, end) = self.admitted(new.start, new.size, old.links != 0)?;
        let overlaps = |other: Bounds| base < other.end && other.base < end;
        if self.bounds().any(|other| other.fence != old.fence && overlaps(other)) {
            return Err(SpanError::Overlaps);
        }
        // An end that was nearer to the last byte than a chunk's place allows is not moved inwards.
        let (base, fence) = (base.min(old.base), fence.max(old.fence));
        if self.span(old).start.addr() < new.start.addr() || end < old.end {
            return Err(SpanError::Unknown);
        }
        // A gap that is too small for a chunk cannot be used yet.
        let base = if old.base - base < S::MIN { old.base } else { base };
        let fence = if fence - old.fence < S::MIN { old.fence } else { fence };
        let new = Bounds { base, fence, end: fence + (old.end - old.fence), ..old };
        // SAFETY: by 1 the new memory is the heap's. The old fence becomes a chunk's tag, with what
        // it said of the chunk below, or a part of `top`; the record behind it is moved first.
        unsafe {
            self.memory.cover(base, new.end);
            self.memory.close(base, old.base);
            self.memory.close(old.end, new.end);
            if fence != old.fence {
                let tag = self.memory.get(old.fence);
                self.move_record(old, new);
                self.memory.put(fence, LIVE);
                if self.top + self.top_size == old.fence {
                    // The words of the old fence are not zero.
                    self.clean = if zeroed { old.end } else { usize::MAX };
                    self.top_size += fence - old.fence;
                } else {
                    self.insert(old.fence, fence - old.fence, tag & BELOW_FREE != 0);
                }
            }
            if base != old.base {
                self.put_base(new, base);
                self.insert(base, old.base - base, false);
            }
        }
        Ok(self.span(new))
    }

    /// Forgets all blocks; the spans stay.
    ///
    /// # Safety
    /// 1. No block is used any more, and none is freed.
    pub unsafe fn reset(&mut self) {
        (self.top, self.top_size, self.rest, self.rest_size) = (0, 0, 0, 0);
        (self.bins, self.counters.live_blocks, self.counters.live_bytes) = (S::Bins::EMPTY, 0, 0);
        (self.clean, self.reached, self.live) = (usize::MAX, 0, 0);
        let mut next = self.bounds().next();
        while let Some(span) = next {
            // SAFETY: the memory is in a span, and by 1 not in use.
            unsafe {
                self.memory.close(span.base, span.end);
                self.memory.put(span.fence, LIVE);
                if span.fence - span.base > self.top_size {
                    self.retire_top();
                    (self.top, self.top_size) = (span.base, span.fence - span.base);
                    self.set_marks();
                } else if span.fence != span.base {
                    self.insert(span.base, span.fence - span.base, false);
                }
            }
            next = self.bounds().skip_while(|other| other.fence != span.fence).nth(1);
        }
    }

    /// The span that has a byte of this range; the first of them if there are several.
    #[must_use]
    pub fn span_of(&self, range: Span) -> Option<Span> {
        let touches = |span: &Span| {
            let (from, to) = (span.start.addr(), range.start.addr());
            if from <= to { to - from < span.size } else { from - to < range.size }
        };
        self.spans().find(touches)
    }

    /// The bytes that lie free at the end of a span; 0 if the heap has no such span.
    #[must_use]
    pub fn free_at_end(&self, span: Span) -> usize {
        let free = self.find_span(span).ok().map(|bounds| self.free_at_fence(bounds));
        free.and_then(Result::ok).unwrap_or(0)
    }

    /// All spans.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.bounds().map(|bounds| self.span(bounds))
    }

    pub(super) fn bounds(&self) -> impl Iterator<Item = Bounds> + '_ {
        let Spans { base, fence, next, .. } = self.spans;
        let first = Bounds { base, fence, end: fence + S::WORD, links: 0 };
        let mut at = next;
        let further = core::iter::from_fn(move || {
            let fence = at;
            // SAFETY: after the fence of a further span are two words, which only the heap writes.
            (fence != 0).then(|| unsafe {
                at = self.memory.get(fence + 2 * S::WORD);
                let base = self.memory.get(fence + S::WORD);
                Bounds { base, fence, end: fence + 3 * S::WORD, links: fence + 2 * S::WORD }
            })
        });
        (fence != 0).then_some(first).into_iter().chain(further)
    }

    /// The span that has a place in it.
    pub(super) fn bounds_of(&self, place: usize) -> Option<Bounds> {
        self.bounds().find(|span| span.base <= place && place < span.end)
    }

    pub(super) fn find_span(&self, span: Span) -> Result<Bounds, SpanError> {
        self.bounds_of(self.memory.space.place(span.start)).ok_or(SpanError::Unknown)
    }

    pub(super) fn span(&self, bounds: Bounds) -> Span {
        Span::new(self.memory.space.pointer(bounds.base), bounds.end - bounds.base)
    }

    /// Where the first chunk, the fence and the end of a range would be.
    fn admitted(
        &mut self,
        start: *mut u8,
        size: usize,
        further: bool,
    ) -> Result<(usize, usize, usize), SpanError> {
        // SAFETY: the caller of `claim` or `extend` has promised that the range is the heap's;
        // nothing is read or written before all of it has been looked at.
        let place = unsafe { self.memory.space.admit(start, size) };
        let place = place.ok_or(SpanError::OutOfReach)?;
        let record = if further { 3 * S::WORD } else { S::WORD };
        if size < record + S::MIN {
            return Err(SpanError::TooSmall);
        }
        // Place 0 means that there is nothing.
        let base = S::place_from(place.max(1));
        let last = place + size - record;
        if last - S::MIN < base {
            return Err(SpanError::TooSmall);
        }
        // Places are aligned from the origin, which may itself lie anywhere.
        if self.memory.space.address(base.wrapping_add(S::WORD)) % S::ALIGN != 0 {
            return Err(SpanError::Misaligned);
        }
        let fence = last - (last - S::LEAD) % S::ALIGN;
        Ok((base, fence, fence + record))
    }

    /// Makes what is in `top` an ordinary free chunk.
    ///
    /// # Safety
    /// 1. `top` is set to something else, or to nothing, before it is read again.
    unsafe fn retire_top(&mut self) {
        let (chunk, size) = (self.top, self.top_size);
        (self.top, self.top_size) = (0, 0);
        if size != 0 {
            // SAFETY: it is a chunk that is not in use, and after it is the fence.
            unsafe {
                self.mark_below(chunk + size, true);
                self.file(chunk, size);
            }
        }
    }

    /// Writes where a span begins.
    ///
    /// # Safety
    /// 1. `span` is one of the heap's.
    pub(super) unsafe fn put_base(&mut self, span: Bounds, base: usize) {
        if span.links == 0 {
            self.spans.base = base;
        } else {
            // SAFETY: the words behind the fence.
            unsafe { self.memory.put(span.fence + S::WORD, base) };
        }
    }

    /// Writes what is behind a fence behind another.
    ///
    /// # Safety
    /// 1. `old` is a span, and the words from `new.fence` to `new.end` are the heap's and no
    ///    chunk's.
    pub(super) unsafe fn move_record(&mut self, old: Bounds, new: Bounds) {
        if old.links == 0 {
            self.spans.fence = new.fence;
            return;
        }
        // SAFETY: both are the words behind the fence of a further span. The link to it is found
        // before anything is written.
        unsafe {
            let next = self.memory.get(old.links);
            let base = self.memory.get(old.fence + S::WORD);
            self.replace_link(old.fence, new.fence);
            self.memory.put(new.fence + S::WORD, base);
            self.memory.put(new.fence + 2 * S::WORD, next);
        }
    }

    /// Makes whatever leads to a span lead to another.
    pub(super) fn replace_link(&mut self, from: usize, to: usize) {
        if self.spans.next == from {
            self.spans.next = to;
            return;
        }
        let mut at = self.spans.next;
        while at != 0 {
            // SAFETY: the words behind the fence of a further span.
            unsafe {
                let next = self.memory.get(at + 2 * S::WORD);
                if next == from {
                    self.memory.put(at + 2 * S::WORD, to);
                    return;
                }
                at = next;
            }
        }
    }
}
