//! Accesses to blocks between guard pages.

pub(crate) mod fault;
mod uninitialized;

use crate::allocator::{Allocator, handle};

handle!(UninitializedReads, uninitialized_reads);
