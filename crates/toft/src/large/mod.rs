//! L3: blocks above 128 KiB, one to an extent of address space.
//!
//! ```text
//! extent   | mapped pages of the block ............ | not mapped: the guard | next extent
//!          ^ 64 KiB unit, or the alignment asked for
//! ```
//!
//! An extent belongs to one (partition, large class) for ever (law 1): when its block is freed it
//! goes on that pair's stack, and only a request of the same pair takes it from there. Growth moves
//! page tables into a larger extent, never bytes. The gap behind every block is at least one page.

mod block;
mod blocks;
mod extents;
mod figures;
mod resize;
mod stack;

pub use block::{Block, BlockState};
pub use blocks::{Blocks, large_class};
pub use resize::Resize;
