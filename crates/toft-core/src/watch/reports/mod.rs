//! Reports of bad calls and of damage, and their details.

mod bounds;
pub(crate) mod damage;
mod describe;
pub(crate) mod detail;
pub(crate) mod misuse;

use crate::allocator::{Allocator, handle};

handle!(Reports, reports);
