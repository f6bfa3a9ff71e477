//! L3: slabs, which are runs of slots: size classes, the descriptor with the slot states, and
//! `check()`.
//!
//! `Slab` has what malloc, free and the lists of bins need. Other concerns have types:
//!
//! | type | is | about |
//! |---|---|---|
//! | `States`, `RemoteBits` | a field | the state of each slot; frees by other threads |
//! | `Slacks`, `CanarySeeds` | a field | the secure build's knowledge of blocks |
//! | `ScanRecord` | a field | what scanning threads remember of the slab |
//! | `SlabPages` | a view | pages: which are needed, written to, or unmapped |
//! | `RemoteFrees` | a view | frees by other threads, published or not |
//! | `Pinning` | a view | free slots that are held while their pages go |
//! | `Units` | a view | pages that several slabs share |
//! | `LimitCount` | a view | bytes that count against the limit |
//! | `GuardPages`, `ReservedSlots` | a view | slots that are never handed out |

mod activity;
mod batch;
mod canary_seeds;
mod check;
mod claim;
mod class;
mod credit;
#[cfg(not(loom))]
mod guard_pages;
#[cfg(all(test, not(loom)))]
mod memory;
#[cfg(not(loom))]
mod outside;
mod page_sharing;
mod pages;
mod permanent;
mod pinning;
mod quarantined;
mod remote;
mod requested_sizes;
mod reserved;
mod sampling;
#[allow(clippy::module_inception)]
mod slab;
mod slots;
mod states;
mod suspended;
mod tail;
mod written;

pub use activity::SlabActivity;
pub use batch::{Batch, Offered};
pub use check::Violation;
pub use claim::{Groups, Put, lowest_bit};
pub use class::{
    CLASSES, MEDIUM_MAX, MediumSize, NO_SLOTS, SMALL_CLASSES, SMALL_MAX, SMALL_STEPS, SPAN_MAX,
    SizeClass, SmallSize, small_classes,
};
pub use credit::Spent;
#[cfg(not(loom))]
pub use outside::SlabFields;
pub use page_sharing::{SlotSet, are_disjoint, either, has_slot};
pub use requested_sizes::SLACK_MOST;
pub use slab::{
    BATCHED, FLAGS, GROUP_SLOTS, GROUPS, HOLDING, LINK_OPEN, MEDIUM_SLOTS, PENDING, SHARED,
    SLAB_BYTES, SLOTS_MAX, Slab, UNITS,
};
pub use slots::{LastByte, Rest, SlotCare, SlotIndex, SlotState};
