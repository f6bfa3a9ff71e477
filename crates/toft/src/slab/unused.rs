//! Pages that are not in use, although malloc may hand them out at any moment: those that a thread
//! has claimed and not used.
//!
//! What is said here is so at one moment only. How pages go all the same is told in `os/pin.rs`.

use super::slab::Slab;
use super::states::{SOILED, TAKEN};
use crate::sync::Ordering::{Acquire, Relaxed};

impl Slab {
    /// Names the pages of which no byte belongs to a live slot, and some may not be zero, by
    /// address and length. For a slab that is being held, but not to its slots that are.
    pub fn unused_pages(&self, page: usize, mut each: impl FnMut(usize, usize)) {
        if self.is_shared() || self.is_dormant() {
            return;
        }
        self.runs(
            page,
            |slot| self.is_unused_slot(slot),
            |_, (start, stop)| each(self.base() + start, stop - start),
        );
    }

    /// Whether something was written to free slots on pages that `unused_pages` has named. To be
    /// asked of pages that are in memory: to read others would bring them there.
    pub fn is_unused_written(&self, address: usize, len: usize) -> bool {
        let start = address.wrapping_sub(self.base());
        self.is_written((start, start + len))
    }

    /// Whether no slot in a range of the slab's addresses is live, and none was a moment ago.
    pub fn is_unused(&self, address: usize, len: usize) -> bool {
        let start = address.wrapping_sub(self.base());
        if start >= self.tier().slab_bytes() || self.is_shared() || self.is_dormant() {
            return false;
        }
        let size = self.size().max(1);
        let end = (start + len).div_ceil(size).min(self.slots());
        (start / size..end).all(|slot| self.is_unused_slot(slot).is_some())
    }

    /// Whether pages of what is claimed may be there: something was claimed since they went.
    pub fn may_have_unused(&self) -> bool {
        self.claimed() != 0 && self.unused_at.load(Relaxed) != self.claim_mark()
    }

    /// The pages of what is claimed are gone; or they are not, and it is to be tried again.
    pub fn note_unused(&self, gone: bool) {
        if gone {
            self.unused_at.store(self.claim_mark(), Relaxed);
        } else {
            self.tidy_at.store(0, Relaxed);
        }
    }

    /// Whether a slot is free, claimed or not; and if so, whether it may be other than zero.
    fn is_unused_slot(&self, slot: usize) -> Option<bool> {
        let state = self.state_of(slot).load(Acquire);
        (state & TAKEN == 0).then_some(state & SOILED != 0)
    }
}
