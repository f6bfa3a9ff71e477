//! Separates lost blocks into causes and the blocks that they hold.
//!
//! A *cause* is a lost block to which no other lost block leads. If its pointer had not been lost,
//! the blocks that it holds would not be lost either. Of a ring of lost blocks one is the cause.
//!
//! The words of lost blocks are read at every byte, as in the second scan of `reachability.rs`.

use super::reachability::{
    Block, Marks, Offsets, Pending, Reach, for_each_live, for_each_word, pointed_to,
};
use core::ops::Range;
use toft_core::allocator::Allocator;
use toft_core::os::Linux;
use toft_core::slab::SlotIndex;

/// The lost blocks that other lost blocks hold.
#[derive(Debug)]
pub(super) struct Causes {
    /// Blocks to which a scan of another lost block led.
    held: Marks,
    /// Blocks from which a scan has begun, or that it has reached, and that `held_by` has not
    /// counted yet.
    visited: Marks,
    pending: Pending,
}

impl Causes {
    /// Finds the causes. Returns `None` if there is no memory for the marks.
    pub(super) fn of(allocator: &Allocator<Linux>, reach: &Reach) -> Option<Causes> {
        let mut causes = Causes {
            held: Marks::new(allocator)?,
            visited: Marks::new(allocator)?,
            pending: Pending::new(allocator)?,
        };
        for_each_live(allocator, |block| {
            if !reach.is_marked(block.descriptor, block.slot) && causes.visited.set(block, true) {
                // An earlier block may be a cause until a later one leads to it. Whatever it leads
                // to was visited, so each block is scanned once.
                causes.follow(allocator, reach, block, |causes, found| {
                    causes.held.set(found, true);
                    causes.visited.set(found, true)
                });
            }
        });
        Some(causes)
    }

    /// Returns true if another lost block leads to a lost block.
    pub(super) fn is_held(&self, descriptor: usize, slot: SlotIndex) -> bool {
        self.held.has(descriptor, slot)
    }

    /// Returns the number of blocks that a cause holds, and their bytes. A block that several
    /// causes hold counts for the first.
    pub(super) fn held_by(
        &mut self,
        allocator: &Allocator<Linux>,
        reach: &Reach,
        cause: Block,
    ) -> (usize, usize) {
        let mut held = (0, 0);
        self.follow(allocator, reach, cause, |causes, found| {
            let is_new =
                causes.is_held(found.descriptor, found.slot) && causes.visited.set(found, false);
            if is_new {
                held = (held.0 + 1, held.1 + found.bytes);
            }
            is_new
        });
        held
    }

    /// Passes the lost blocks to which a block leads to `visit`, except itself. Goes on from those
    /// for which it returns true.
    fn follow(
        &mut self,
        allocator: &Allocator<Linux>,
        reach: &Reach,
        from: Block,
        mut visit: impl FnMut(&mut Causes, Block) -> bool,
    ) {
        // Several words often point into one block.
        let mut last: Range<usize> = 0..0;
        self.pending.push(from);
        while let Some(range) = self.pending.pop() {
            for_each_word(range, Offsets::Every, |word| {
                if !allocator.may_be_block(word) || last.contains(&word) {
                    return;
                }
                let Some(found) = pointed_to(allocator, word) else { return };
                last = found.begin..found.begin.saturating_add(found.bytes);
                if found != from
                    && !reach.is_marked(found.descriptor, found.slot)
                    && visit(self, found)
                {
                    self.pending.push(found);
                }
            });
        }
    }
}
