//! Reports of bad calls and of damage, and their details.

mod bounds;
pub(crate) mod damage;
mod describe;
pub(crate) mod facts;
pub(crate) mod misuse;

pub use facts::BlockFacts;

use crate::allocator::{Allocator, handle};

handle!(Reports, reports);
