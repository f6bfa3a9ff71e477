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
//!   (`pages.rs`), so that they need not be cleared by the kernel again;
//! - what waits gives back the pages of the oldest first, no more than a limit asks for
//!   (`room.rs`);
//! - a block without pages waits on its pair's stack (`sync/stack.rs`).
//!
//! How many blocks each call site has had is counted where they are made (`tally.rs`).
//!
//! Growth moves page tables into a larger extent, never bytes. The gap behind every mapping is at
//! least one page.
//!
//! In the secure build a block ends against its guard (`place.rs`), and what is left on its pages
//! is watched (`canary.rs`). Nothing waits with its own pages: a freed block is inaccessible at
//! once (`guard_pages.rs`), and its address waits before it is used again (`waiting.rs`). Its pages
//! are cleared and wait at addresses that no program has ever had (`held.rs`).

mod kept;

#[cfg(loom)]
pub use kept::{Kept, Places};

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
mod pages;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
mod room;
#[cfg(not(loom))]
mod tally;
#[cfg(not(loom))]
mod waiting;

#[cfg(not(loom))]
pub use block::{Block, BlockFields, BlockState};
#[cfg(not(loom))]
pub use blocks::{Blocks, UNIT};
#[cfg(not(loom))]
pub use canary::Damage;
#[cfg(not(loom))]
pub use class::large_class;
#[cfg(not(loom))]
pub use resize::Resize;
#[cfg(not(loom))]
pub use tally::{Made, Tally, TallyPlaces};
