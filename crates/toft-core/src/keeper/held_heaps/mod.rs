//! Heaps that the caller holds: its own, an orphan, or one without a thread.

mod collect;
mod orphans;

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator with the heaps that a caller holds.
    HeldHeaps,
    /// Returns what may be done to a heap that the caller holds.
    held_heaps
}
