//! The end of the heap: `top`, the free memory above the last chunk. It grows by pages of the OS,
//! and what is free beyond a limit is returned.

use super::{Heap, count};
use crate::chunk::{Chunk, LIVE, SMALLEST};
use crate::memory::{PAGE, STEP};
use crate::variant::{Release, Variant};
use std::ptr::null_mut;

/// The amount that stays halves if memory is returned more often than this without being wanted.
const UNWANTED: usize = 8;

impl<V: Variant> Heap<V> {
    /// Reserves memory, and makes the lists.
    #[cold]
    pub(super) fn begin(&mut self) -> bool {
        let most = self.most;
        if !self.memory.reserve(most) || !self.memory.use_up_to(self.top.0 + SMALLEST) {
            return false;
        }
        self.memory.clean = self.top.0.next_multiple_of(PAGE);
        // SAFETY: the heads are below `top`, and there is no chunk yet.
        unsafe { self.empty_lists() };
        true
    }

    /// Hands out the first `size` bytes of `top`, or returns null if there is no more memory.
    #[inline]
    pub(super) fn take_top(&mut self, size: usize) -> *mut u8 {
        let chunk = self.top;
        if !self.reach(size) {
            return null_mut();
        }
        self.top = chunk.above(size);
        // SAFETY: usable memory above all chunks. The chunk below `top` is live.
        unsafe { self.memory.set_tag(chunk, size | LIVE) };
        self.memory.pointer(chunk.block())
    }

    /// Makes the first `size` bytes of `top` usable.
    #[inline]
    pub(super) fn reach(&mut self, size: usize) -> bool {
        let end = self.top.0.checked_add(size);
        let Some(end) = end.and_then(|end| end.checked_add(SMALLEST)) else { return false };
        if end > self.memory.usable && !self.memory.use_up_to(end) {
            return false;
        }
        if end > self.memory.clean {
            self.wanted(end);
        }
        true
    }

    /// Notes that memory beyond what is resident is used.
    #[cold]
    fn wanted(&mut self, end: usize) {
        if V::CHOICES.release == Release::Hysteresis && self.returned > 0 {
            self.keep = self.keep.saturating_mul(2);
        }
        self.returned = 0;
        self.memory.clean = end.next_multiple_of(PAGE);
    }

    /// Makes a free chunk, and all above it, part of `top`.
    ///
    /// # Safety
    /// 1. `chunk` is free, in no list, and what is above it is `top`.
    #[inline]
    pub(super) unsafe fn join_top(&mut self, chunk: Chunk) {
        count!(self.merged);
        self.top = chunk;
        let resident = self.memory.clean.saturating_sub(chunk.0);
        let limit = match V::CHOICES.release {
            Release::Fixed => STEP + PAGE,
            Release::Hysteresis => self.keep.saturating_mul(2),
        };
        if resident >= limit {
            self.trim();
        }
    }

    /// Returns what is free beyond the limit to the OS.
    #[cold]
    fn trim(&mut self) {
        count!(self.trims);
        self.memory.release_from(self.top.0 + self.keep);
        self.returned += 1;
        // One decline of the heap, freed from its end down, is returned in several steps.
        if V::CHOICES.release == Release::Hysteresis && self.returned > UNWANTED {
            self.keep = (self.keep / 2).max(STEP);
            self.returned = 1;
        }
    }
}
