//! Where extents come from: units of address space, and the descriptors for them.

use super::Block;
use super::blocks::{Blocks, UNIT_SHIFT};
use crate::os::{Error, Os};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU64, SPIN_LIMIT, pause};

/// log2 of the units whose descriptors are mapped together: 64 KiB of descriptors, whole pages on
/// every kernel.
pub(super) const CHUNK_SHIFT: u32 = 10;
impl Blocks {
    pub(super) fn chunk(&self, unit: usize) -> (&AtomicU64, u64) {
        let chunk = unit >> CHUNK_SHIFT;
        // SAFETY: `new` duty 1: one bit for each chunk of the tier, and callers' units are below
        // `units`.
        let word = unsafe { &*self.chunks.add(chunk / 64) };
        (word, 1 << (chunk % 64))
    }

    /// Whether a unit has a descriptor.
    pub(super) fn is_mapped(&self, unit: usize) -> bool {
        if unit >= self.units {
            return false;
        }
        let (word, bit) = self.chunk(unit);
        word.load(Acquire) & bit != 0
    }

    /// Makes sure that a unit has a descriptor.
    pub(super) fn map_descriptor(&self, os: &impl Os, unit: usize) -> Result<(), Error> {
        let start = self.blocks + (unit >> CHUNK_SHIFT << CHUNK_SHIFT) * size_of::<Block>();
        let mut spins = 0;
        while !self.is_mapped(unit) {
            match os.map(start, size_of::<Block>() << CHUNK_SHIFT) {
                Ok(()) => {
                    // publish chunk: pairs with `is_mapped`.
                    let (word, bit) = self.chunk(unit);
                    word.fetch_or(bit, AcqRel);
                }
                // Another thread is between its `map` and its bit, or something foreign is there.
                Err(Error::Occupied) if spins < SPIN_LIMIT => {
                    spins += 1;
                    pause();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The descriptor of a new extent, filled in but for the mapping.
    pub(super) fn prepare(
        &self,
        os: &impl Os,
        unit: usize,
        partition: usize,
        class: usize,
        extent: usize,
    ) -> Result<&Block, Error> {
        self.map_descriptor(os, unit)?;
        let block = self.block(unit);
        block.class.store(class as u32, Relaxed);
        block.partition.store(partition as u32, Relaxed);
        block.extent.store(extent, Relaxed);
        Ok(block)
    }

    /// An extent could not be mapped: its units go back if nobody has taken more since, else it
    /// waits on its stack for a request that has more luck.
    pub(super) fn give_up(&self, unit: usize, block: &Block) {
        if !self.return_units(unit, block.extent() >> UNIT_SHIFT) {
            block.publish_free();
            self.push_free(block);
        }
    }

    pub(super) fn return_units(&self, unit: usize, units: usize) -> bool {
        let (end, begin) = (unit + units - self.first, unit - self.first);
        self.state().next.compare_exchange(end, begin, AcqRel, Relaxed).is_ok()
    }

    /// The first of `units` units that nobody has had, at a multiple of `align`.
    pub(super) fn take_units(&self, units: usize, align: usize) -> Result<usize, Error> {
        let next = &self.state().next;
        let mut seen = next.load(Relaxed);
        loop {
            let address = self.base + ((self.first + seen) << UNIT_SHIFT);
            let start = address.checked_next_multiple_of(align).ok_or(Error::NoMemory)?;
            let unit = (start - self.base) >> UNIT_SHIFT;
            let end = unit.checked_add(units).filter(|&end| end <= self.units);
            let end = end.ok_or(Error::NoMemory)?;
            match next.compare_exchange_weak(seen, end - self.first, AcqRel, Acquire) {
                Ok(_) => return Ok(unit),
                Err(now) => seen = now,
            }
        }
    }
}
