//! The figures of a whole process, from the same reading of its tables as its profile.

use crate::account::within;
use crate::memory::read_u64;
use crate::{Block, Error, HeapOf, Mapping, Memory, Run, Slab, Slot, Tables};

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
    /// The resident parts of the free bytes: in slabs that a heap owns, in empty slabs, in large
    /// blocks.
    pub free_resident: [u64; 3],
    /// Blocks that were ever allocated.
    pub allocations: u64,
    /// Blocks that were ever freed.
    pub frees: u64,
    /// Invalid calls that were ignored.
    pub misuses: u64,
    /// Bytes of free memory that sweeps have returned to the kernel, resident before or not.
    pub returned_bytes: u64,
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

    /// Counts the resident parts of the free bytes by the kernel's list of pages, and reads the
    /// counters.
    pub(crate) fn add_resident(
        &mut self,
        memory: &impl Memory,
        tables: &Tables,
        mappings: &[Mapping],
        blocks: &[Block],
    ) -> Result<(), Error> {
        let [owned, empty, large] = &mut self.free_resident;
        tables.for_each_slab(memory, mappings, |slab, pages| {
            let of = if slab.owner() == 0 { &mut *empty } else { &mut *owned };
            *of += free_resident(slab, pages);
        })?;
        for block in blocks.iter().filter(|block| !block.live && block.mapped != 0) {
            let pages = memory.pages(block.base, block.base + block.extent)?;
            *large += pages.iter().map(|run| run.end - run.start).sum::<u64>();
        }
        let word = |at| {
            let unread = || memory.unread("the counters cannot be read");
            read_u64(memory, at).ok_or_else(unread)
        };
        self.misuses = word(tables.root.misuses)?;
        self.returned_bytes = word(tables.root.returned)?;
        Ok(())
    }

    pub(crate) fn add_heap(&mut self, heap: &HeapOf) {
        if heap.live {
            self.threads += 1;
        } else if !heap.shared {
            self.ended_threads += 1;
        }
    }
}

/// Returns the resident bytes of the free slots of a slab. Those of a lent slot count where they
/// are used.
fn free_resident(slab: &Slab<'_>, pages: &[Run]) -> u64 {
    let end = slab.base + slab.slots as u64 * slab.size;
    let of_run = |run: Run| -> u64 {
        let (from, to) = (run.start - slab.base, run.end - slab.base);
        let is_free = |slot: &u64| !matches!(slab.slot(*slot as usize), Slot::Live | Slot::Lent);
        let bytes = |slot: u64| ((slot + 1) * slab.size).min(to) - (slot * slab.size).max(from);
        (from / slab.size..to.div_ceil(slab.size)).filter(is_free).map(bytes).sum()
    };
    within(pages, slab.base, end).map(of_run).sum()
}
