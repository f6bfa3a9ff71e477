//! L3: slots in a run of address space: size classes, the descriptor with its bitmaps, `check()`.

mod class;
#[allow(clippy::module_inception)]
mod slab;

pub use class::{
    CLASSES, Class, MEDIUM_MAX, SMALL_CLASSES, SMALL_MAX, class_of_medium, class_of_small,
};
#[cfg(not(loom))]
pub use slab::EMPTY_SLAB;
pub use slab::{
    LINK_OPEN, PENDING, Put, SLAB_BYTES, SLOTS_MAX, Slab, SlotState, Spent, Violation,
    WORDS, WORD_SLOTS,
};
pub use crate::region::{MEDIUM, SMALL, Tier, TierNumber};
