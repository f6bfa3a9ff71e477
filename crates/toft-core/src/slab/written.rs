//! Finds writes to free slots whose pages are about to be given back, in the secure build.
//!
//! Every byte of a free slot is zero in the full build, until a program writes to what it has
//! freed. Malloc checks the slot before it hands it out. A page that is given back becomes zero
//! again, which would hide the write. So the thread that gives pages back checks them first, and
//! keeps those on which anything was written. Malloc then finds the write there. When a block
//! leaves the quarantine, its two ends are checked, because its slot may not be handed out again.

use super::pages::SlabPages;
use super::slots::SlotIndex;
use super::states::{
    DIRTY, DIRTY_FRESH, HELD, LEFT, REMOTE_CLEAN, REMOTE_HELD, StateByte, ZERO_CLEAN,
};
#[cfg(not(loom))]
use crate::harden::{Long, is_zero};
use crate::policy::CHECK_PAGES;
use crate::sync::Ordering::Acquire;

/// Each slot begins and ends at a multiple of this number of bytes.
#[cfg(not(loom))]
const UNIT: usize = 16;

impl SlabPages<'_> {
    /// Returns true if a free slot has a byte other than zero among the bytes `start..stop` from
    /// the slab's start. The bytes are of slots of which some may not be zero. Always false in the
    /// default build. The caller has the pages for itself.
    pub(super) fn is_written(&self, (start, stop): (usize, usize)) -> bool {
        if !CHECK_PAGES {
            return false;
        }
        let size = self.size();
        let end = stop.div_ceil(size).min(self.slots());
        SlotIndex::range(start / size..end).any(|slot| {
            let begin = slot.begin(size);
            let (first, last) = (begin.max(start), (begin + size).min(stop));
            self.must_be_zero(slot) && !self.is_all_zero(first, last)
        })
    }

    /// Returns true if a slot that may not be zero was written to. The slab has no live slots.
    pub fn has_been_written(&self) -> bool {
        CHECK_PAGES
            && self.all_slots().any(|slot| {
                let begin = slot.begin(self.size());
                self.states.of(slot).load(Acquire) == DIRTY
                    && !self.is_all_zero(begin, begin + self.size())
            })
    }

    /// Returns true if a slot is free and may have readable pages. Guard pages cannot be read.
    fn must_be_zero(&self, slot: SlotIndex) -> bool {
        let state = self.states.of(slot).load(Acquire);
        match state {
            LEFT | REMOTE_CLEAN | REMOTE_HELD => true,
            _ if state.has(HELD) => is_free(state.without(HELD)),
            _ => is_free(state),
        }
    }

    /// Returns true for no bytes. The models are of the default build, which does not call this.
    #[cfg(loom)]
    fn is_all_zero(&self, first: usize, last: usize) -> bool {
        first >= last
    }

    #[cfg(not(loom))]
    fn is_all_zero(&self, first: usize, last: usize) -> bool {
        debug_assert!(first.is_multiple_of(UNIT) && last.is_multiple_of(UNIT));
        // SAFETY: (1) a part of a slot of a slab that is not dormant. Its pages are mapped, except
        // guard pages. Pages and slots begin and end at multiples of 16.
        first >= last || unsafe { is_zero(self.base() + first, last - first, Long::NONE) }
    }
}

fn is_free(state: StateByte) -> bool {
    matches!(state, DIRTY | DIRTY_FRESH | ZERO_CLEAN)
}
