//! All that is in the spans, in the order of addresses within each.

use super::Heap;
use super::spans::Bounds;
use crate::bins::{index, list};
use crate::chunk::{LIVE, PARKED};
use crate::shape::{Checks, Shape, Sizes};
use crate::table::Tables;

/// Something in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's first byte, if it is live; where one would begin.
    pub start: *mut u8,
    /// The bytes that it has for its user.
    pub size: usize,
    /// Whether it is live.
    pub live: bool,
}

/// Sums over all spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// How many spans there are.
    pub spans: usize,
    /// Their bytes.
    pub claimed: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// Their bytes, with their tags and what rounding added.
    pub live_bytes: usize,
    /// Free chunks.
    pub free_blocks: usize,
    /// Their bytes.
    pub free_bytes: usize,
    /// The largest of them.
    pub largest_free: usize,
}

impl Survey {
    /// The part of the free bytes that is not in the largest free chunk, in thousandths: 0 when all
    /// free memory is in one piece.
    ///
    /// ```
    /// # use toft_arena::Survey;
    /// let free = |free_bytes, largest_free| Survey { free_bytes, largest_free, ..Survey::default() };
    /// assert_eq!(free(4000, 3000).fragmentation(), 250);
    /// assert_eq!((free(4000, 4000).fragmentation(), free(0, 0).fragmentation()), (0, 0));
    /// ```
    #[must_use]
    pub fn fragmentation(&self) -> usize {
        let split = self.free_bytes - self.largest_free;
        split.saturating_mul(1000).checked_div(self.free_bytes).unwrap_or(0)
    }
}

/// Blocks by size: entry `n` counts those whose chunks have at least `1 << n` bytes, and less than
/// twice that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Live blocks.
    pub live: [usize; usize::BITS as usize],
    /// Free chunks, and parked ones.
    pub free: [usize; usize::BITS as usize],
}

impl<S: Shape> Heap<S> {
    /// Calls `visit` with each block and each free chunk, in the order of addresses within each
    /// span. Ends where a tag is broken.
    pub fn walk(&self, mut visit: impl FnMut(Block)) {
        for span in self.bounds() {
            let _ = self.walk_span(span, |chunk, size, live| {
                let start = self.memory.block(chunk);
                visit(Block { start, size: size - S::WORD, live });
            });
        }
    }

    /// Calls `visit` with place, size and whether it is live; `Err` with a place where no chunk can
    /// be.
    pub(super) fn walk_span(
        &self,
        span: Bounds,
        mut visit: impl FnMut(usize, usize, bool),
    ) -> Result<(), usize> {
        let mut chunk = span.base;
        while chunk != span.fence {
            if span.fence - chunk < S::MIN {
                return Err(chunk);
            }
            // SAFETY: a chunk begins here, as the one before says, inside of the span; it is seen
            // below that the next one does too.
            let (size, live) = unsafe {
                if chunk == self.top {
                    (self.top_size, false)
                } else if chunk == self.rest {
                    (self.rest_size, false)
                } else {
                    let tag = self.memory.get(chunk);
                    match tag & LIVE {
                        0 => (self.memory.free_size(chunk), false),
                        _ => (tag & !S::FLAGS, S::Bins::PARKS == 0 || tag & PARKED == 0),
                    }
                }
            };
            if size < S::MIN || size % S::ALIGN != 0 || size > span.fence - chunk {
                return Err(chunk);
            }
            visit(chunk, size, live);
            chunk += size;
        }
        Ok(())
    }

    /// The bytes of all spans.
    #[must_use]
    pub fn claimed(&self) -> usize {
        self.bounds().map(|span| span.end - span.base).sum()
    }

    /// Counts everything: as long as there are blocks.
    #[must_use]
    pub fn survey(&self) -> Survey {
        let mut sums = Survey::default();
        for span in self.bounds() {
            sums.spans += 1;
            sums.claimed += span.end - span.base;
            let _ = self.walk_span(span, |_, size, live| {
                if live {
                    sums.live_blocks += 1;
                    sums.live_bytes += size;
                } else {
                    sums.free_blocks += 1;
                    sums.free_bytes += size;
                    sums.largest_free = sums.largest_free.max(size);
                }
            });
        }
        sums
    }

    /// Counts everything by size: as long as there are blocks.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let none = [0; usize::BITS as usize];
        let mut sizes = Histogram { live: none, free: none };
        for span in self.bounds() {
            let _ = self.walk_span(span, |_, size, live| {
                let counts = if live { &mut sizes.live } else { &mut sizes.free };
                if let Some(count) = counts.get_mut(size.ilog2() as usize) {
                    *count += 1;
                }
            });
        }
        sizes
    }

    /// The largest size that a request without alignment may have now and be met; `None` if no
    /// block can be had at all. In a shape that is not [thorough](Shape::THOROUGH) it may fail all
    /// the same.
    #[must_use]
    pub fn largest_free(&mut self) -> Option<usize> {
        self.settle();
        let mut largest = self.top_size.max(self.rest_size);
        // The highest bin that has a chunk; only within it do sizes differ.
        let mut bin = index::of_request::<S>(S::MIN);
        let mut highest = None;
        while let Some(found) = self.bins.find(bin) {
            highest = Some(found);
            bin = found + 1;
        }
        // SAFETY: `first` and `next` check what they follow, where checks are on.
        unsafe {
            let mut found =
                highest.map_or(Ok(0), |bin| list::first::<S>(&self.bins, &self.memory, bin));
            while let Ok(chunk) = found {
                if chunk == 0 {
                    break;
                }
                let size = self.memory.free_size(chunk);
                if S::CHECKS < Checks::Links || self.is_whole(chunk, size) {
                    largest = largest.max(size);
                }
                found = list::next(&self.memory, chunk);
            }
        }
        // No block is larger than this, however large a chunk is.
        largest.checked_sub(S::WORD).map(|size| size.min(S::LIMIT - 2 * S::ALIGN - 1))
    }
}
