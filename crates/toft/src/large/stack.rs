//! Stacks of free large blocks, one for each (partition, class): lock-free, with a tag against ABA.
//!
//! ```text
//! head   | tag : 32 | unit number + 1 : 32 |     zero: empty
//! ```
//!
//! Descriptors are never unmapped, so reading `below` of a block that somebody else has just popped
//! gives an old number, and the tag makes the exchange fail.

use super::Block;
use crate::sync::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// Puts the block of a unit on the stack.
pub fn push(head: &AtomicU64, unit: usize, block: &Block) {
    let mut seen = head.load(Relaxed);
    loop {
        block.below.store(seen as u32, Relaxed);
        match head.compare_exchange_weak(seen, tagged(seen, unit as u32 + 1), AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Takes the top block's unit off the stack.
pub fn pop<'a>(head: &AtomicU64, block_of: impl Fn(usize) -> &'a Block) -> Option<usize> {
    let mut seen = head.load(Acquire);
    loop {
        let unit = (seen as u32).checked_sub(1)? as usize;
        let below = block_of(unit).below.load(Relaxed);
        match head.compare_exchange_weak(seen, tagged(seen, below), AcqRel, Acquire) {
            Ok(_) => return Some(unit),
            Err(now) => seen = now,
        }
    }
}

fn tagged(seen: u64, top: u32) -> u64 {
    (seen & !0xFFFF_FFFF).wrapping_add(1 << 32) | u64::from(top)
}
