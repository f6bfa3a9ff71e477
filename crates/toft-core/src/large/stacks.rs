//! The stacks of free blocks without pages, one for each partition and class.

use super::class::LARGE_CLASSES;
use crate::policy::SECURE;
use crate::region::Partition;
use crate::sync::AtomicU64;

/// The heads of the stacks (`sync/stack.rs`).
#[derive(Debug)]
pub(super) struct Stacks {
    heads: *const AtomicU64,
    partitions: usize,
}

impl Stacks {
    /// The number of stacks. In the secure build there is one partition more, which no program has
    /// (`held.rs`).
    const fn count(partitions: usize) -> usize {
        (partitions + SECURE as usize) * LARGE_CLASSES
    }

    /// Bytes of tables that `new` needs, zeroed.
    pub(super) const fn table_bytes(partitions: usize) -> usize {
        Self::count(partitions) * size_of::<AtomicU64>()
    }

    /// Before anything is known.
    pub(super) const fn none() -> Stacks {
        Stacks { heads: core::ptr::null(), partitions: 1 }
    }

    /// Returns the stacks of `partitions` partitions.
    ///
    /// # Safety
    /// 1. `table` is the address of `table_bytes(partitions)` zero bytes that live for ever, are
    ///    aligned to 8, and belong to this object alone.
    pub(super) unsafe fn new(table: usize, partitions: usize) -> Stacks {
        Stacks { heads: core::ptr::with_exposed_provenance(table), partitions }
    }

    /// The stack of a partition and class.
    pub(super) fn of(&self, partition: Partition, class: usize) -> &AtomicU64 {
        // SAFETY: `new` duty 1: there is one head for each partition and class.
        unsafe { &*self.heads.add(partition.number() * LARGE_CLASSES + class) }
    }

    /// The partition that no program has: the stacks of holders without pages.
    pub(super) fn held_partition(&self) -> Partition {
        Partition::new(self.partitions)
    }

    /// The partition and the class of each stack.
    pub(super) fn all(&self) -> impl Iterator<Item = (Partition, usize)> {
        let indices = 0..Self::count(self.partitions);
        indices.map(|index| (Partition::new(index / LARGE_CLASSES), index % LARGE_CLASSES))
    }
}
