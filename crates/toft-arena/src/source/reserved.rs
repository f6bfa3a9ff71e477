//! Address space that is reserved at once, committed in steps as the heap grows, and given back
//! with hysteresis. What was used a moment ago is likely to be used again, and a page that was
//! given back costs a fault then.
//!
//! ```text
//! reserved  |#########################|++++++++++++|...............................|
//!             the heap's span          given back   never committed yet
//! ```

use super::{Source, room_for};
use crate::fault::NoMemory;
use crate::heap::{Heap, Span};
use crate::shape::Shape;
use core::alloc::Layout;

/// Pages of a system.
///
/// # Safety
/// 1. `reserve` returns address space that nothing else uses until `release`, or `None`.
/// 2. After `commit` has returned `true` the range may be read and written; it is full of zeros if
///    it was not committed since `reserve`, or since a `decommit` that returned `true`.
pub unsafe trait Pages {
    /// A multiple of the size of a page.
    const PAGE: usize;
    /// Reserves address space.
    fn reserve(&mut self, size: usize) -> Option<*mut u8>;
    /// Makes a part of it usable.
    ///
    /// # Safety
    /// 1. The range is of what `reserve` returned, both its ends are multiples of `PAGE` from its
    ///    start, and it is not committed.
    unsafe fn commit(&mut self, start: *mut u8, size: usize) -> bool;
    /// Gives the memory of a part of it back, but not the addresses. `false` if it may still have
    /// its content when it is committed again.
    ///
    /// # Safety
    /// 1. As `commit`, but the range is committed, and not used any more.
    unsafe fn decommit(&mut self, start: *mut u8, size: usize) -> bool;
    /// Gives all of it back.
    ///
    /// # Safety
    /// 1. The range is all that one `reserve` returned, and not used any more.
    unsafe fn release(&mut self, start: *mut u8, size: usize);
}

/// A source of pages: one span, at the front of reserved address space.
#[derive(Debug)]
pub struct Reserved<P: Pages> {
    pages: P,
    /// Null before the first request.
    start: *mut u8,
    size: usize,
    committed: usize,
    /// The heap grows by at least this.
    step: usize,
    /// The heap keeps this much free memory at its end.
    keep: usize,
    /// Or this much: what was given back was wanted again.
    wanted: usize,
    /// Whether memory was given back since the heap last grew.
    gave: bool,
    span: Option<Span>,
    /// Whether all that has ever been given back is zero now.
    zeroed: bool,
}

// SAFETY: the range is the source's own, and bound to no thread.
unsafe impl<P: Pages + Send> Send for Reserved<P> {}

impl<P: Pages> Reserved<P> {
    /// A source of at most `size` bytes. It commits in steps of 1 MiB, and keeps 1 MiB, or an
    /// eighth of what is committed if that is more. Memory that is given back and wanted again is
    /// kept longer: twice as much each time, and half as much each time that it is given back and
    /// not wanted.
    #[must_use]
    pub const fn new(pages: P, size: usize) -> Self {
        let size = size & !(P::PAGE - 1);
        let start = core::ptr::null_mut();
        Self {
            pages,
            start,
            size,
            committed: 0,
            step: 1 << 20,
            keep: 1 << 20,
            wanted: 0,
            gave: false,
            span: None,
            zeroed: true,
        }
    }

    /// Other steps: how much is committed at once, and how much stays when memory is given back.
    /// With a `keep` of 0 no more is ever kept than an eighth.
    #[must_use]
    pub const fn with_steps(mut self, step: usize, keep: usize) -> Self {
        self.step = if step < P::PAGE { P::PAGE } else { step };
        self.keep = keep;
        self
    }

    /// The bytes that are committed.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.committed
    }

    fn kept(&self) -> usize {
        self.keep.max(self.committed / 8).max(self.wanted)
    }

    /// Twice what is kept has to be free before anything goes, so that a load that goes up and down
    /// by less than what is kept makes no system call.
    fn worth(keep: usize) -> usize {
        keep.saturating_mul(2).saturating_add(4 * P::PAGE)
    }

    /// The heap's span, of which it may have let go of a part, or of all, since it was remembered.
    fn own<S: Shape>(&self, heap: &Heap<S>) -> Option<Span> {
        self.span.and_then(|_| heap.span_of(Span::new(self.start, self.committed)))
    }

    /// Lets the heap end earlier, with `keep` free bytes at its end.
    fn give_back<S: Shape>(&mut self, heap: &mut Heap<S>, keep: usize) {
        let Some(span) = self.own(heap) else { return };
        let Ok(reserved) = heap.reserved(span) else { return };
        let used = match reserved.size {
            0 => 0,
            _ => reserved.end() - self.start.addr(),
        };
        let whole = used.saturating_add(keep).saturating_add(2 * P::PAGE);
        let whole = whole.checked_next_multiple_of(P::PAGE).unwrap_or(usize::MAX).max(P::PAGE);
        if whole >= self.committed {
            return;
        }
        let front = span.start.addr() - self.start.addr();
        let Some(size) = (whole - P::PAGE).checked_sub(front) else { return };
        let Ok(now) = heap.truncate(span, Span::new(span.start, size)) else { return };
        let used = now.end() - self.start.addr();
        let end = used.checked_next_multiple_of(P::PAGE).unwrap_or(self.committed);
        if end < self.committed {
            let from = self.start.wrapping_add(end);
            // SAFETY: the heap has let go of it, and `end` is a page's. What stays committed behind
            // the span is made zero, as it will be taken for when the span is extended.
            unsafe {
                self.zeroed &= self.pages.decommit(from, self.committed - end);
                self.start.add(used).write_bytes(0, end - used);
            }
            self.committed = end;
        } else {
            // SAFETY: as above, up to what is committed.
            unsafe { self.start.add(used).write_bytes(0, self.committed - used) };
        }
        self.span = Some(now);
    }
}

// SAFETY: 1. it claims, extends and truncates only. 2. pages are given back after the heap has let
// go of them, or in `drop`.
unsafe impl<S: Shape, P: Pages> Source<S> for Reserved<P> {
    const TAKES_BACK: bool = true;

    unsafe fn more(&mut self, heap: &mut Heap<S>, layout: Layout) -> Result<(), NoMemory> {
        if self.start.is_null() {
            self.start = self.pages.reserve(self.size).ok_or(NoMemory)?;
        }
        if self.gave && self.keep != 0 {
            self.wanted = self.kept().saturating_mul(2).min(self.size);
        }
        self.gave = false;
        let left = self.size - self.committed;
        // What lies free at the end already counts; or a load that goes up and down would get more
        // each time than it needs, and give it back.
        let need = room_for::<S>(layout)?;
        let own = self.own(heap);
        let there = own.map_or(0, |own| heap.free_at_end(own).min(need - 1));
        let least = (need - there).checked_next_multiple_of(P::PAGE).ok_or(NoMemory)?;
        let step = least.max(self.step.min(left) & !(P::PAGE - 1));
        if step > left {
            return Err(NoMemory);
        }
        let end = self.start.wrapping_add(self.committed);
        // SAFETY: what is after `committed` is reserved and not committed; all are multiples of
        // `PAGE`.
        if !unsafe { self.pages.commit(end, step) } {
            return Err(NoMemory);
        }
        let all = Span::new(self.start, self.committed + step);
        // SAFETY: all of it is reserved for this source, is committed, and the new part is zero
        // (Pages, 1 and 2).
        let span = unsafe {
            match own {
                None if self.committed == 0 && self.zeroed => {
                    heap.claim_zeroed(all.start, all.size)
                }
                None => heap.claim(all.start, all.size),
                // Where the heap has let go of a part, that has been used.
                Some(own) if self.zeroed && self.span == Some(own) => {
                    let size = all.end().wrapping_sub(own.start.addr());
                    heap.extend_zeroed(own, Span::new(own.start, size))
                }
                Some(own) => heap.extend(own, all),
            }
        };
        match span {
            Ok(span) => {
                self.span = Some(span);
                self.committed += step;
                Ok(())
            }
            Err(_) => {
                let from = self.start.wrapping_add(self.committed);
                // SAFETY: it was committed above, and no span has it.
                self.zeroed &= unsafe { self.pages.decommit(from, step) };
                Err(NoMemory)
            }
        }
    }

    unsafe fn less(&mut self, heap: &mut Heap<S>) -> usize {
        let worth = Self::worth(self.kept());
        if self.own(heap).is_some_and(|own| heap.free_at_end(own) >= worth) {
            if self.gave {
                self.wanted /= 2;
            }
            self.gave = true;
            let keep = self.kept();
            self.give_back(heap, keep);
            return Self::worth(keep);
        }
        worth
    }

    unsafe fn least(&mut self, heap: &mut Heap<S>) {
        (self.wanted, self.gave) = (0, false);
        self.give_back(heap, 0);
    }
}

impl<P: Pages> Drop for Reserved<P> {
    fn drop(&mut self) {
        // A heap that outlives its source has lost its memory; `Arena` owns both.
        if !self.start.is_null() {
            // SAFETY: all of what was reserved; the heap is gone, or has lost it.
            unsafe { self.pages.release(self.start, self.size) };
        }
    }
}
