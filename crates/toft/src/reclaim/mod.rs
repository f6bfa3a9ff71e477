//! L4: which physical memory is returned to the OS, and when.
//!
//! A slab without live slots leaves its thread: it goes to a pool. Any thread that draws from the
//! same (partition, class) takes it from there before it asks for a new one (law 1 holds: the
//! address stays with its pair). So memory moves between threads, and unused memory is in one
//! place.
//!
//! The pool keeps pages while that costs nothing: slabs in use and kept ones together stay within
//! the most that were ever in use, and a little more. Who would grow beyond it moves the pages of a
//! kept slab to where it needs them, or gives them back. A program that allocates and frees the
//! same again makes no system call; one that goes from one kind of block to another does not pay
//! for both.

mod batch;
mod decay;
mod group_pressure;
mod groups;
mod limit;
mod page_idleness;
mod pool;
mod pressure;
mod room;
mod sort;
mod trims;

pub use batch::{BATCH, Control, Life, Looking, Reclaimer, Turn};
pub use group_pressure::is_tight;
pub use groups::{Entry, Groups, Shared, Status};
pub use limit::{Limit, Promise};
pub use page_idleness::Warmth;
pub use pool::Pool;
pub use pressure::{GRANTS, Pressure};
pub use sort::{heap_sort, sort};
pub use trims::Trims;
