//! The invariants, verified one by one. As long as there are blocks; for tests, and for a program
//! that suspects its memory.

use super::Heap;
use super::spans::Bounds;
use crate::bins::index;
use crate::chunk::{BELOW_FREE, LIVE, PARKED};
use crate::shape::{Shape, Sizes};
use crate::table::Tables;
use core::fmt;

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// T1: chunks fill each span from its base to its fence, without a gap.
    Tiling,
    /// T2: a span ends in a fence, whose size is 0.
    Fence,
    /// T3: spans do not overlap, and lie where links are believed.
    Spans,
    /// F1: two free chunks never touch.
    Merged,
    /// F2: a chunk or a fence says that the one below is free exactly if it is in a bin or is
    /// `rest`.
    BelowFree,
    /// F3: a chunk in a bin has its size at both ends.
    Sizes,
    /// B1: a chunk of a list is one of a span, and free.
    Listed,
    /// B2: each link of a list has one that points back.
    Links,
    /// B3: each chunk is in the bin of its size.
    Bin,
    /// B4: each free chunk is in a list or is `top` or `rest`.
    Lost,
    /// B5: no chunk of a bin is larger than what is known of it.
    Bound,
    /// R1: `top` ends at a fence.
    Top,
    /// R2: `rest` is a chunk of a span.
    Rest,
    /// P1: the parked chunks of the spans are those of the lists, of their sizes, and counted.
    Parked,
    /// C1: what was counted is what there is.
    Counters,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for Invariant {}

fn ensure(holds: bool, invariant: Invariant) -> Result<(), Invariant> {
    if holds { Ok(()) } else { Err(invariant) }
}

impl<S: Shape> Heap<S> {
    /// Verifies the invariants that [`Invariant`] lists.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Invariant> {
        let mut in_spans = Sums::default();
        let mut at_fence = self.top == 0 && self.top_size == 0;
        for span in self.bounds() {
            let inside = self.memory.may_hold(span.base)
                && self.memory.may_reach(span.base, span.end - span.base);
            ensure(inside && span.base <= span.fence, Invariant::Spans)?;
            let others = self.bounds().filter(|other| other.fence != span.fence);
            let overlaps = |other: Bounds| span.base < other.end && other.base < span.end;
            ensure(!others.into_iter().any(overlaps), Invariant::Spans)?;
            self.check_span(span, &mut in_spans)?;
            at_fence |= self.top + self.top_size == span.fence && self.top >= span.base;
        }
        ensure(at_fence, Invariant::Top)?;
        ensure(in_spans.rest == (self.rest_size != 0), Invariant::Rest)?;
        let in_lists = self.check_lists()?;
        ensure(in_lists == in_spans.free, Invariant::Lost)?;
        ensure(self.check_parked()? == in_spans.parked, Invariant::Parked)?;
        if S::COUNT {
            let counted = (self.counters.live_blocks, self.counters.live_bytes);
            ensure(counted == (in_spans.live, in_spans.live_bytes), Invariant::Counters)?;
        }
        // A fault may leave a chunk that is live and has no user.
        let counts_live = S::Bins::PARKS != 0 && self.faults == 0;
        ensure(!counts_live || self.live == in_spans.live, Invariant::Counters)?;
        Ok(())
    }

    fn check_span(&self, span: Bounds, sums: &mut Sums) -> Result<(), Invariant> {
        let mut below_free = false;
        // In a list or `rest`: then what is after it must say so.
        let mut below_marked = false;
        let mut result = Ok(());
        let end = self.walk_span(span, |chunk, size, live| {
            let mut one = || {
                // SAFETY: a chunk is here, as the walk says.
                unsafe {
                    let kept = chunk == self.top || chunk == self.rest;
                    // For its neighbours a parked chunk is live.
                    let parked = !live && !kept && self.memory.get(chunk) & LIVE != 0;
                    sums.parked += usize::from(parked);
                    let free = !live && !parked;
                    sums.rest |= chunk == self.rest;
                    ensure(!free || !below_free, Invariant::Merged)?;
                    if !free {
                        let says = self.memory.get(chunk) & BELOW_FREE != 0;
                        ensure(says == below_marked, Invariant::BelowFree)?;
                        sums.live += usize::from(live);
                        sums.live_bytes += if live { size } else { 0 };
                    } else if !kept {
                        ensure(self.is_whole(chunk, size), Invariant::Sizes)?;
                        sums.free.chunks += 1;
                        sums.free.bytes += size;
                    }
                    below_free = free;
                    below_marked = free && chunk != self.top;
                }
                Ok(())
            };
            if result.is_ok() {
                result = one();
            }
        });
        result?;
        ensure(end.is_ok(), Invariant::Tiling)?;
        // SAFETY: the fence is a word of the span.
        let fence = unsafe { self.memory.get(span.fence) };
        ensure(fence & !S::FLAGS == 0 && fence & LIVE != 0, Invariant::Fence)?;
        ensure((fence & BELOW_FREE != 0) == below_marked, Invariant::BelowFree)
    }

    fn check_parked(&self) -> Result<usize, Invariant> {
        let mut count = 0;
        for bin in 0..S::Bins::PARKS {
            let mut chunk = self.bins.parked(bin);
            let mut left = self.bins.waiting(bin);
            ensure(left <= Self::depth(Self::parked_size(bin)), Invariant::Parked)?;
            while left != 0 {
                let span = self.bounds_of(chunk).ok_or(Invariant::Parked)?;
                ensure(chunk < span.fence && chunk % S::ALIGN == S::LEAD, Invariant::Parked)?;
                // SAFETY: the place of a chunk, inside of a span.
                unsafe {
                    let tag = self.memory.get(chunk) & !BELOW_FREE;
                    let size = Self::parked_size(bin);
                    ensure(tag == size | LIVE | PARKED, Invariant::Parked)?;
                    left -= 1;
                    chunk = self.memory.get(chunk + S::WORD);
                }
                count += 1;
            }
        }
        Ok(count)
    }

    fn check_lists(&self) -> Result<Free, Invariant> {
        let mut sums = Free::default();
        let mut from = 0;
        while let Some(bin) = self.bins.find(from) {
            from = bin + 1;
            let (mut before, mut chunk) = (0, self.bins.first(bin));
            ensure(chunk != 0, Invariant::Listed)?;
            while chunk != 0 {
                ensure(self.memory.may_hold(chunk), Invariant::Listed)?;
                ensure(chunk % S::ALIGN == S::LEAD, Invariant::Listed)?;
                ensure(chunk != self.top && chunk != self.rest, Invariant::Listed)?;
                let span = self.bounds_of(chunk).ok_or(Invariant::Listed)?;
                ensure(chunk < span.fence, Invariant::Listed)?;
                // SAFETY: the place of a chunk, inside of a span.
                unsafe {
                    ensure(self.memory.get(chunk) & LIVE == 0, Invariant::Listed)?;
                    ensure(self.memory.get(chunk + S::WORD) == before, Invariant::Links)?;
                    let size = self.memory.free_size(chunk);
                    let own = index::of_free::<S>(size) == bin;
                    ensure(size >= S::MIN && own, Invariant::Bin)?;
                    ensure(size <= self.bins.bound(bin), Invariant::Bound)?;
                    sums.chunks += 1;
                    sums.bytes += size;
                    (before, chunk) = (chunk, self.memory.get(chunk));
                }
                // A circle would not end.
                ensure(sums.bytes <= self.claimed(), Invariant::Links)?;
            }
        }
        Ok(sums)
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Free {
    chunks: usize,
    bytes: usize,
}

#[derive(Default)]
struct Sums {
    free: Free,
    live: usize,
    live_bytes: usize,
    parked: usize,
    rest: bool,
}
