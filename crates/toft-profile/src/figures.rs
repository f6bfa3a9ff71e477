//! The figures of a whole process, from the same reading of its tables as its profile.

use crate::{Block, HeapOf, Slab};

/// What there is of everything. Bytes are of address space that belongs to blocks, resident or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Slabs that a heap owns.
    pub slabs: u64,
    /// The bytes of their slots, and of those that the program has.
    pub slot_bytes: u64,
    /// See there.
    pub slot_live_bytes: u64,
    /// Empty slabs that are unowned, and their bytes.
    pub pooled_slabs: u64,
    /// See there.
    pub pooled_bytes: u64,
    /// Large blocks that the program has, and the bytes that it may use of them.
    pub large_blocks: u64,
    /// See there.
    pub large_live_bytes: u64,
    /// Free large blocks that are mapped, and their bytes.
    pub large_kept: u64,
    /// See there.
    pub large_kept_bytes: u64,
    /// Heaps that a running thread has, and others.
    pub threads: u64,
    /// See there.
    pub ended_threads: u64,
    /// Descriptors that were read.
    pub descriptors: u64,
}

impl Figures {
    pub(crate) fn add_slab(&mut self, slab: &Slab<'_>, live: u64) {
        let bytes = slab.slots as u64 * slab.size;
        if slab.owner() == 0 {
            self.pooled_slabs += 1;
            self.pooled_bytes += bytes;
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
