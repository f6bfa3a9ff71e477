//! Heaps that the caller holds: its own, an orphan, or one without a thread.

mod collect;
mod orphans;
mod outboxes;

use crate::allocator::{Allocator, handle};

handle!(HeldHeaps, held_heaps);
