//! Scans of memory for pointers: blocks without any, and pointers to freed blocks.

mod causes;
mod dangling;
pub(crate) mod leaks;
mod reachability;

use crate::allocator::{Allocator, handle};

handle!(PointerScan, pointer_scan);
