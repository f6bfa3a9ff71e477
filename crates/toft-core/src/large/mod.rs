//! L3: blocks above 128 KiB, one to an extent of address space.
//!
//! ```text
//!          | bytes ........ |          |          |
//!          | resident ................ |          |
//!          | mapped ............................. |
//! extent   | pages                                | not mapped: the guard | next extent
//!          ^ 64 KiB unit, or the alignment asked for
//! ```
//!
//! An extent belongs to one (partition, large class) for ever (law 1). Its pages do not:
//!
//! - a freed block with a mapping waits in a place (`kept.rs`), where a request of the same pair
//!   finds it, the one whose resident bytes fit best;
//! - where none fits, the pages of any other waiting block are moved to the new one's address
//!   (`moves.rs`), so that they need not be cleared by the kernel again;
//! - what waits gives back the pages of the oldest first, no more than a limit asks for
//!   (`kept_blocks.rs`);
//! - a block without pages waits on its pair's stack (`sync/stack.rs`).
//!
//! `Blocks` (`blocks.rs`, `resize.rs`) allocates, frees and resizes. Its parts, and the views of it
//! that have its other methods:
//!
//! | file | type | what |
//! |---|---|---|
//! | `units.rs` | `Units` | the address space in units, and their descriptors |
//! | `outside.rs` | `Outside` | extents outside the window, where the kernel finds room |
//! | `stacks.rs` | `Stacks` | the heads of the stacks |
//! | `figures.rs` | `Figures` | counters of blocks, bytes and mappings |
//! | `tally.rs` | `Tally` | how many blocks each call site has had |
//! | `place.rs` | `Placement` | where in its extent a block is |
//! | `canary.rs` | `Canaries` | what is written beside a block |
//! | `pages.rs` | `Pages` | mapping and unmapping the pages of one block |
//! | `guard_pages.rs` | `GuardPages` | pages that become inaccessible |
//! | `extents.rs` | `Extents` | extents without pages: from a stack, or new |
//! | `waiting.rs` | `WaitingBlocks` | blocks whose addresses wait |
//! | `kept_blocks.rs` | `KeptBlocks` | free blocks with pages, and their limits |
//! | `settle.rs`, `spares.rs` | `Settlers`, `Spares` | growth into a free block, and its trimming |
//! | `moves.rs`, `held.rs` | `Moves`, `Holders` | pages that move to another extent |
//! | `check.rs` | `Checks` | the checks of L1 to L5 |
//!
//! If something foreign is wherever the tier has room, an extent is outside the window, and has
//! only the pages that it needs (`outside.rs`).
//!
//! Growth moves page tables into a larger extent, never bytes. The gap behind every mapping is at
//! least one page.
//!
//! In the secure build a block ends against its guard (`place.rs`), and what is left on its pages
//! is watched (`canary.rs`). Nothing waits with its own pages: a freed block is inaccessible at
//! once (`guard_pages.rs`), and its address waits before it is used again (`waiting.rs`). Its pages
//! are cleared and wait at addresses that no program has ever had (`held.rs`).

mod kept;
mod spares;

#[cfg(loom)]
pub use {
    kept::{Kept, Places},
    spares::{Spares, Trimmed},
};

#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod blocks;
#[cfg(not(loom))]
mod canary;
#[cfg(not(loom))]
mod check;
#[cfg(not(loom))]
mod class;
#[cfg(not(loom))]
mod extents;
#[cfg(not(loom))]
mod figures;
#[cfg(not(loom))]
mod guard_pages;
#[cfg(not(loom))]
mod held;
#[cfg(not(loom))]
mod kept_blocks;
#[cfg(not(loom))]
mod moves;
#[cfg(not(loom))]
mod outside;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
mod settle;
#[cfg(not(loom))]
mod stacks;
#[cfg(not(loom))]
mod tally;
#[cfg(not(loom))]
mod units;
#[cfg(not(loom))]
mod waiting;

#[cfg(not(loom))]
pub use self::{
    block::{Block, BlockFields, BlockState},
    blocks::Blocks,
    canary::Damage,
    class::large_class,
    kept_blocks::ReturnedBy,
    outside::OutsideFields,
    resize::Resize,
    tally::{Made, Tally, TallyPlaces},
    units::UNIT,
};
