//! Counting large blocks, and walking over them.

use super::blocks::{Blocks, UNIT_SHIFT};
use super::extents::CHUNK_SHIFT;
use super::{Block, BlockState};
use crate::sync::Ordering::{Acquire, Relaxed};

impl Blocks {
    pub(super) fn count(&self, bytes: usize) {
        self.state().allocations.fetch_add(1, Relaxed);
        self.count_bytes(bytes);
    }

    pub(super) fn count_bytes(&self, bytes: usize) {
        let state = self.state();
        state.live_blocks.fetch_add(1, Relaxed);
        let live = state.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        state.peak_bytes.fetch_max(live, Relaxed);
    }

    pub(super) fn uncount(&self, bytes: usize) {
        self.state().live_blocks.fetch_sub(1, Relaxed);
        self.state().live_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Live blocks, live bytes, most live bytes ever, allocations ever, and resident free bytes.
    pub fn figures(&self) -> (usize, usize, usize, u64, usize) {
        let state = self.state();
        (
            state.live_blocks.load(Relaxed),
            state.live_bytes.load(Relaxed),
            state.peak_bytes.load(Relaxed),
            state.allocations.load(Relaxed),
            state.kept.load(Relaxed),
        )
    }

    /// Every block, live or free, in address order.
    pub fn for_each(&self, mut each: impl FnMut(&Block)) {
        let end = self.first + self.state().next.load(Acquire);
        let mut unit = self.first;
        while unit < end {
            if !self.is_mapped(unit) {
                unit = ((unit >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT;
                continue;
            }
            let block = self.block(unit);
            match block.state() {
                BlockState::None => unit += 1,
                _ => {
                    each(block);
                    unit += (block.extent() >> UNIT_SHIFT).max(1);
                }
            }
        }
    }
}
