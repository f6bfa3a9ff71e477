//! Giving up a part of a span, or all of it. What can be given up is free memory at its ends.

use super::Heap;
use super::spans::{Bounds, Span};
use crate::bins::list;
use crate::bins::list::Broken;
use crate::chunk::{BELOW_FREE, LIVE};
use crate::fault::SpanError;
use crate::shape::{Checks, Shape, Sizes};
use crate::space::Space;

impl<S: Shape> Heap<S> {
    /// Lets a span end earlier, begin later, or both. What is kept is at least `keep`, which is a
    /// part of it, and little more; with a `keep` of no size the span is given up, as by
    /// [`release_span`](Self::release_span).
    ///
    /// # Errors
    /// [`SpanError::Live`]: there are live blocks outside of `keep`. Nothing has happened, as with
    /// all of them.
    pub fn truncate(&mut self, span: Span, keep: Span) -> Result<Span, SpanError> {
        self.settle();
        let old = self.find_span(span)?;
        if keep.size == 0 {
            self.give_up(old)?;
            return Ok(Span::new(keep.start, 0));
        }
        if !self.span(old).contains_span(&keep) {
            return Err(SpanError::Unknown);
        }
        let record = old.end - old.fence;
        let low = self.memory.space.place(keep.start);
        let high = (low + keep.size).saturating_sub(record);
        let mut base = (low - (low.wrapping_sub(S::LEAD) % S::ALIGN)).max(old.base);
        let mut fence = S::place_from(high).min(old.fence);
        let (free_low, free_high) = self.free_at_ends(old)?;
        let whole = free_low == old.fence - old.base;
        if whole {
            fence = fence.max(base + S::MIN).min(old.fence);
            base = base.min(fence - S::MIN);
        } else {
            if base - old.base > free_low || old.fence.saturating_sub(fence) > free_high {
                return Err(SpanError::Live);
            }
            // What remains of a free chunk is nothing or a chunk.
            let (left_low, left_high) =
                (free_low - (base - old.base), free_high + fence - old.fence);
            base -= if left_low == 0 { 0 } else { S::MIN.saturating_sub(left_low) };
            fence += if left_high == 0 { 0 } else { S::MIN.saturating_sub(left_high) };
        }
        let new = Bounds { base, fence, end: fence + record, ..old };
        // SAFETY: what is cut off is the front of a free chunk, and the end of one, which may be
        // the same: then what is left between is a chunk.
        unsafe {
            if base != old.base {
                self.cut_base(old, base, free_low);
            }
            if fence != old.fence {
                // One chunk may be both: then it is shorter now.
                let free = if whole { old.fence - base } else { free_high };
                self.cut_fence(Bounds { base, ..old }, new, free);
            }
        }
        self.memory.open(old.base, base);
        self.memory.open(new.end, old.end);
        Ok(self.span(new))
    }

    /// Gives up a span in which nothing is live. Its memory is the caller's again.
    ///
    /// # Errors
    /// Nothing has happened.
    pub fn release_span(&mut self, span: Span) -> Result<Span, SpanError> {
        self.settle();
        let old = self.find_span(span)?;
        self.give_up(old)?;
        Ok(self.span(old))
    }

    /// The smallest part of a span that holds its live blocks: what [`truncate`](Self::truncate)
    /// may keep. Without any its size is 0.
    ///
    /// # Errors
    /// The heap has no such span, or the free memory at its ends was written over.
    pub fn reserved(&mut self, span: Span) -> Result<Span, SpanError> {
        self.settle();
        let bounds = self.find_span(span)?;
        let (free_low, free_high) = self.free_at_ends(bounds)?;
        let low = bounds.base + free_low;
        let high = (bounds.fence - free_high).max(low);
        let size = if high == low { 0 } else { high + (bounds.end - bounds.fence) - low };
        Ok(Span::new(self.memory.space.pointer(low), size))
    }

    /// The sizes of the free chunks that a span begins and ends with, or 0; a fault is noted.
    fn free_at_ends(&mut self, span: Bounds) -> Result<(usize, usize), SpanError> {
        let low = self.free_at_base(span);
        match low.and_then(|low| Ok((low, self.free_at_fence(span)?))) {
            Ok(sizes) => Ok(sizes),
            Err(broken) => {
                self.broken(broken);
                Err(SpanError::Broken)
            }
        }
    }

    /// The size of a free chunk of a span, if both of its ends say it and its links lead to it,
    /// where checks are on: then taking it out of its list succeeds.
    ///
    /// # Safety
    /// 1. `chunk` is a free chunk in a list, or, where checks are on, a place.
    unsafe fn listed(&self, span: Bounds, chunk: usize, size: usize) -> Result<usize, Broken> {
        // SAFETY: by 1; nothing is read before the place is found to be a chunk's, and inside.
        let sound = S::CHECKS < Checks::Links
            || unsafe {
                chunk >= span.base
                    && chunk < span.fence
                    && size <= span.fence - chunk
                    && self.is_whole(chunk, size)
                    && list::is_linked::<S>(&self.bins, &self.memory, chunk, size)
            };
        if sound { Ok(size) } else { Err(Broken(chunk)) }
    }

    /// The size of the free chunk that a span begins with, or 0.
    fn free_at_base(&self, span: Bounds) -> Result<usize, Broken> {
        // SAFETY: at the base is a chunk, or the fence.
        unsafe {
            match span.base {
                base if base == span.fence => Ok(0),
                base if base == self.top => Ok(self.top_size),
                base if base == self.rest => Ok(self.rest_size),
                base if self.memory.get(base) & LIVE != 0 => Ok(0),
                base => self.listed(span, base, self.memory.free_size(base)),
            }
        }
    }

    /// The size of the free chunk that a span ends with, or 0.
    pub(super) fn free_at_fence(&self, span: Bounds) -> Result<usize, Broken> {
        if self.top + self.top_size == span.fence {
            return Ok(self.top_size);
        }
        if self.rest_size != 0 && self.rest + self.rest_size == span.fence {
            return Ok(self.rest_size);
        }
        // SAFETY: a fence has the bit for a free chunk below, whose size is before the fence.
        unsafe {
            if self.memory.get(span.fence) & BELOW_FREE == 0 {
                return Ok(0);
            }
            let size = self.memory.get(span.fence - S::WORD);
            self.listed(span, span.fence.wrapping_sub(size), size)
        }
    }

    /// Takes a free chunk out of wherever it is.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is a free chunk, and `listed` if it is in no register.
    unsafe fn take_out(&mut self, chunk: usize, size: usize) {
        if chunk == self.top {
            (self.top, self.top_size) = (0, 0);
        } else if chunk == self.rest {
            (self.rest, self.rest_size) = (0, 0);
        } else {
            // SAFETY: it is in the list of its size.
            let done = unsafe { list::unlink::<S>(&mut self.bins, &self.memory, chunk, size) };
            if let Err(broken) = done {
                self.broken(broken);
            }
        }
    }

    /// # Safety
    /// 1. `free` is what `free_at_base` says; `[old.base, base)` is of it, and what is left of the
    ///    free chunk there is nothing or a chunk.
    unsafe fn cut_base(&mut self, old: Bounds, base: usize, free: usize) {
        let left = free - (base - old.base);
        // SAFETY: the free chunk is taken out before its end becomes a separate chunk, or is gone.
        unsafe {
            if old.base == self.top {
                (self.top, self.top_size) = (base, left);
            } else {
                self.take_out(old.base, free);
                if left == 0 {
                    self.mark_below(base, false);
                } else {
                    self.file(base, left);
                }
            }
            self.put_base(old, base);
        }
    }

    /// # Safety
    /// 1. `free` is what `free_at_fence` says; `[new.fence, old.fence)` is of it, and what is left
    ///    of the free chunk there is nothing or a chunk.
    unsafe fn cut_fence(&mut self, old: Bounds, new: Bounds, free: usize) {
        let left = free - (old.fence - new.fence);
        let chunk = old.fence - free;
        // SAFETY: the record is moved before the memory is written; the chunk is taken out before
        // it is made shorter.
        unsafe {
            if chunk == self.top {
                self.top_size = left;
                self.move_record(old, new);
                self.memory.put(new.fence, LIVE);
                return;
            }
            self.take_out(chunk, free);
            self.move_record(old, new);
            self.memory.put(new.fence, LIVE);
            if left != 0 {
                self.insert(chunk, left, false);
            }
        }
    }

    fn give_up(&mut self, span: Bounds) -> Result<(), SpanError> {
        let (free, _) = self.free_at_ends(span)?;
        if free != span.fence - span.base {
            return Err(SpanError::Live);
        }
        if self.top + self.top_size == span.fence {
            (self.top, self.top_size) = (0, 0);
        } else if free != 0 {
            // SAFETY: all of the span is one free chunk.
            unsafe { self.take_out(span.base, free) };
        }
        if span.links == 0 {
            self.spans.base = 0;
            self.spans.fence = 0;
        } else {
            // SAFETY: the words behind this fence are still the heap's.
            let next = unsafe { self.memory.get(span.links) };
            self.replace_link(span.fence, next);
        }
        self.memory.open(span.base, span.end);
        Ok(())
    }
}
