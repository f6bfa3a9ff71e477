//! Checks of the bytes beside a block, in the secure build.

mod canary;
mod reserved;

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator, as checks of single slots see it.
    SlotChecks,
    /// Returns what checks the bytes beside a slot.
    slot_checks
}
