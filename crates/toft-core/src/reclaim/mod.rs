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

mod batch;
mod decay;
mod group_pressure;
mod groups;
mod life;
mod limit;
mod pace;
mod page_idleness;
mod pool;
mod pressure;
mod room;
mod share;
mod sort;
mod tails;
mod trims;

pub use batch::{BATCH, ColdTurn, Control, Reclaimer, Turn};
pub use group_pressure::has_group_pressure;
pub use groups::{Entry, Groups, Shared, Status};
pub use life::{APART, BURST, Life, LifeCycle};
pub use limit::{Limit, Promise};
pub use pace::{Pace, Usage};
pub use page_idleness::Idleness;
pub use pool::Pool;
pub use pressure::{GRANTS, Pressure};
pub use share::{SavedShare, Share};
pub use sort::{heap_sort, sort};
pub use trims::Trims;
