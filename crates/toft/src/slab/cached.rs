//! A block in a thread's cache: freed for the program, and not given back to its slab.
//!
//! Part of the experiment about parallelism. The state is odd, as that of a live slot is, so the
//! slab takes the slot for one that cannot be claimed; and it is not LIVE, so a second free is
//! told.

use super::slab::Slab;
use super::states::LIVE;
use crate::sync::Ordering::Relaxed;

/// In the cache of the thread that has freed it. Written by that thread only, while the program
/// keeps to the rules: where two threads free a block at the same moment, both may set it, and the
/// second to use it finds out.
const CACHED: u8 = 5;

impl Slab {
    /// Freed into a cache; returns true if the slot was live.
    pub fn enter_cache(&self, slot: usize) -> bool {
        self.pass(slot, LIVE, CACHED)
    }

    /// Taken out of a cache; returns true if it was there.
    pub fn leave_cache(&self, slot: usize) -> bool {
        self.pass(slot, CACHED, LIVE)
    }

    fn pass(&self, slot: usize, from: u8, to: u8) -> bool {
        let state = self.state_of(slot);
        let passes = state.load(Relaxed) == from && !self.is_remote(slot);
        if passes {
            state.store(to, Relaxed);
        }
        passes
    }
}
