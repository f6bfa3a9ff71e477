//! Counting large blocks, and walking over them.

use super::blocks::{Blocks, UNIT_SHIFT};
use super::extents::CHUNK_SHIFT;
use super::{Block, BlockState};
use crate::sync::Ordering::{Acquire, Relaxed};

impl Blocks {
    /// A held block that is mapped for `bytes` becomes the program's.
    pub(super) fn begin(&self, block: &Block, bytes: usize) {
        self.state().allocations.fetch_add(1, Relaxed);
        self.begin_bytes(block, bytes);
        block.publish();
    }

    /// As `begin`, for a block that is live already or not to be published yet.
    pub(super) fn begin_bytes(&self, block: &Block, bytes: usize) {
        let state = self.state();
        let resident = block.resident.load(Relaxed).max(self.span(block, bytes));
        block.bytes.store(bytes, Relaxed);
        block.resident.store(resident, Relaxed);
        block.since.store(0, Relaxed);
        state.live_blocks.fetch_add(1, Relaxed);
        if resident > bytes {
            state.slack.fetch_add(resident - bytes, Relaxed);
        }
        let live = state.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        for most in [&state.peak_bytes, &state.recent[0]] {
            if most.load(Relaxed) < live {
                most.fetch_max(live, Relaxed);
            }
        }
    }

    /// A live block is the holder's.
    pub(super) fn end(&self, block: &Block) {
        let (state, bytes) = (self.state(), block.bytes());
        let slack = block.resident.load(Relaxed) - bytes;
        state.live_blocks.fetch_sub(1, Relaxed);
        state.live_bytes.fetch_sub(bytes, Relaxed);
        if slack > 0 {
            state.slack.fetch_sub(slack, Relaxed);
        }
    }

    /// Bytes that may be resident: of live blocks, what follows them, and what is kept; and of
    /// descriptors.
    pub fn counted_bytes(&self) -> usize {
        let state = self.state();
        let live = state.live_bytes.load(Relaxed) + state.slack.load(Relaxed);
        live + state.kept.load(Relaxed) + state.descriptors.load(Relaxed)
    }

    /// Bytes that are mapped for blocks, or more: those that share a mapping may count twice.
    pub fn mapped_at_most(&self) -> usize {
        let state = self.state();
        state.mapped.load(Relaxed) + state.live_bytes.load(Relaxed) + state.kept.load(Relaxed)
    }

    /// Usable bytes of live blocks.
    pub fn live_bytes(&self) -> usize {
        self.state().live_bytes.load(Relaxed)
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
