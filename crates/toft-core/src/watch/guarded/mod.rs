//! Accesses to blocks between guard pages.

pub(crate) mod fault;
mod uninitialized;

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator, as the watcher of uninitialized blocks sees it.
    UninitializedReads,
    /// Returns what reports reads of uninitialized memory.
    uninitialized_reads
}
