//! Sweeps and purges: pages of free slots go back to the OS.

mod discard;
mod exited_threads;
mod sweep;
mod trim;

pub use sweep::{Swept, Which};

use crate::allocator::{Allocator, handle};

handle!(Sweeper, sweeper);
