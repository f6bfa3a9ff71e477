//! L4: which physical memory is returned to the OS, and when.
//!
//! A slab without live slots leaves its thread and enters a pool. A thread that draws from the same
//! (partition, class) takes the slab from there before it requests a new one. Law 1 holds, because
//! the address stays with its pair. So memory moves between threads, and unused memory is in one
//! place.
//!
//! The pool keeps pages while that costs nothing. Slabs in use and kept slabs together stay within
//! the peak of slabs in use, and a little more. A thread that would grow beyond that moves the
//! pages of a kept slab to where it needs them, or returns them to the OS. A program that allocates
//! and frees the same blocks again makes no system call. A program that changes from one kind of
//! block to another does not pay for both.

#[cfg(not(loom))]
mod decay;
#[cfg(not(loom))]
mod group_pressure;
#[cfg(not(loom))]
mod groups;
mod life;
#[cfg(not(loom))]
mod limit;
#[cfg(not(loom))]
mod pace;
#[cfg(not(loom))]
mod page_idleness;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod pressure;
#[cfg(not(loom))]
mod reclaimer;
#[cfg(not(loom))]
mod room;
#[cfg(not(loom))]
mod sort;
#[cfg(not(loom))]
mod tails;
#[cfg(not(loom))]
mod trims;

#[cfg(not(loom))]
pub use group_pressure::has_group_pressure;
#[cfg(not(loom))]
pub use groups::{Entry, Groups, Shared, Status};
pub use life::{APART, BURST, Life, LifeCycle};
#[cfg(not(loom))]
pub use limit::{Limit, Promise};
#[cfg(not(loom))]
pub use pace::{Pace, Usage};
#[cfg(not(loom))]
pub use page_idleness::Idleness;
#[cfg(not(loom))]
pub use pool::Pool;
#[cfg(not(loom))]
pub use pressure::{GRANTS, Pressure};
#[cfg(not(loom))]
pub use reclaimer::{BATCH, ColdTurn, Control, Reclaimer, Turn};
#[cfg(not(loom))]
pub use sort::{heap_sort, sort};
#[cfg(not(loom))]
pub use trims::Trims;
