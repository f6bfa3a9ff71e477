//! The figures of a whole process, from the same reading of its tables as its profile.

use crate::{Block, HeapOf, Slab};

/// What there is of everything. Bytes are of address space that belongs to blocks, resident or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Slabs that a heap owns.
    pub slabs: u64,
    /// Bytes of their slots.
    pub slot_bytes: u64,
    /// Bytes of their live slots.
    pub slot_live_bytes: u64,
    /// Empty slabs that are unowned.
    pub empty_slabs: u64,
    /// Bytes of the slots of empty slabs.
    pub empty_slab_bytes: u64,
    /// Live large blocks.
    pub large_blocks: u64,
    /// Usable bytes of live large blocks.
    pub large_live_bytes: u64,
    /// Free large blocks that are mapped.
    pub large_kept: u64,
    /// Mapped bytes of free large blocks.
    pub large_kept_bytes: u64,
    /// Heaps that a running thread has.
    pub threads: u64,
    /// Heaps of exited threads.
    pub ended_threads: u64,
    /// Descriptors that were read.
    pub descriptors: u64,
}

impl Figures {
    pub(crate) fn add_slab(&mut self, slab: &Slab<'_>, live: u64) {
        let bytes = slab.slots as u64 * slab.size;
        if slab.owner() == 0 {
            self.empty_slabs += 1;
            self.empty_slab_bytes += bytes;
        } else {
            self.slabs += 1;
            self.slot_bytes += bytes;
            self.slot_live_bytes += live * slab.size;
        }
    }

    pub(crate) fn add_block(&mut self, block: &Block) {
        if block.live {
            self.large_blocks += 1;
            self.large_live_bytes += block.usable;
        } else if block.mapped != 0 {
            self.large_kept += 1;
            self.large_kept_bytes += block.mapped;
        }
    }

    pub(crate) fn add_heap(&mut self, heap: &HeapOf) {
        if heap.live {
            self.threads += 1;
        } else if !heap.shared {
            self.ended_threads += 1;
        }
    }
}
