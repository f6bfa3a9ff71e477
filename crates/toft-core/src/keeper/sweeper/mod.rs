//! Sweeps and purges: pages of free slots are returned to the OS.

mod exited_threads;
mod sweep;
mod trim;

pub use sweep::{Swept, Which};

use crate::allocator::{Allocator, handle};

handle!(Sweeper, sweeper);
