//! L3: slots in a run of address space: size classes, the descriptor with its states, `check()`.

mod aside;
mod asked;
mod check;
mod claim;
mod class;
mod credit;
mod gone;
mod hold;
mod lend;
#[cfg(all(test, not(loom)))]
mod memory;
mod others;
#[cfg(not(loom))]
mod outside;
mod pages;
mod reserved;
#[allow(clippy::module_inception)]
mod slab;
mod slots;
mod states;
mod told;
#[cfg(not(loom))]
mod unused;
#[cfg(not(loom))]
mod walls;
mod words;
mod written;

pub use crate::region::{MEDIUM, SMALL, Tier, TierNumber};
pub use asked::SlotCare;
pub use check::Violation;
pub use claim::Put;
pub use class::{
    CLASSES, Class, MEDIUM_MAX, SMALL_CLASSES, SMALL_MAX, SMALL_STEPS, class_of_medium,
    class_of_small, small_classes,
};
pub use credit::Spent;
pub use gone::Rest;
pub use lend::{SlotSet, are_disjoint, either, has_slot};
#[cfg(not(loom))]
pub use outside::SlabFields;
pub use pages::Look;
pub use slab::{
    FLAGS, GROUP_SLOTS, GROUPS, HOLDING, LINK_OPEN, PENDING, SHARED, SLAB_BYTES, SLOTS_MAX, Slab,
    UNITS,
};
pub use slots::SlotState;
