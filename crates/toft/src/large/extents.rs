//! Where extents come from: units of address space, and the descriptors for them.

use super::Block;
use super::blocks::{Blocks, UNIT_SHIFT};
use crate::os::{Error, Os, wait_for};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

/// log2 of the units whose descriptors are mapped together: 64 KiB of descriptors, whole pages on
/// every kernel.
pub(super) const CHUNK_SHIFT: u32 = 10;
impl Blocks {
    /// The chunk of a unit: the word that says which are mapped, the one that says which somebody has
    /// set out to map, and the chunk's bit in both.
    pub(super) fn chunk(&self, unit: usize) -> (&[AtomicU64; 2], u64) {
        let chunk = unit >> CHUNK_SHIFT;
        // SAFETY: `new` duty 1: two bits for each chunk of the tier, and callers' units are below
        // `units`.
        let words = unsafe { &*self.chunks.add(chunk / 64) };
        (words, 1 << (chunk % 64))
    }

    /// Whether a unit has a descriptor.
    pub(super) fn is_mapped(&self, unit: usize) -> bool {
        if unit >= self.units {
            return false;
        }
        let ([mapped, _], bit) = self.chunk(unit);
        mapped.load(Acquire) & bit != 0
    }

    fn chunk_start(&self, unit: usize) -> usize {
        self.blocks + (unit >> CHUNK_SHIFT << CHUNK_SHIFT) * size_of::<Block>()
    }

    /// Makes sure that a unit has a descriptor.
    pub(super) fn map_descriptor(&self, os: &impl Os, unit: usize) -> Result<(), Error> {
        if self.is_mapped(unit) {
            return Ok(());
        }
        let ([mapped, intended], bit) = self.chunk(unit);
        intended.fetch_or(bit, AcqRel);
        match os.map(self.chunk_start(unit), size_of::<Block>() << CHUNK_SHIFT) {
            Ok(()) => {
                // publish chunk: pairs with `is_mapped`.
                mapped.fetch_or(bit, AcqRel);
                Ok(())
            }
            // Another thread is between its `map` and its bit, or something foreign is there.
            Err(Error::Occupied) if wait_for(os, || self.is_mapped(unit)) => Ok(()),
            Err(error) => {
                // Whatever is there is not ours, and a child must not take it for ours.
                intended.fetch_and(!bit, AcqRel);
                Err(error)
            }
        }
    }

    /// In the child of a fork: finishes the descriptors that a thread that is no more had set out to
    /// map. An extent that it held is lost to its stack, not to the address space.
    pub fn repair(&self, os: &impl Os) {
        let end = self.first + self.state().next.load(Acquire);
        let mut unit = self.first;
        while unit < end.min(self.units) {
            let ([mapped, intended], bit) = self.chunk(unit);
            if intended.load(Acquire) & !mapped.load(Acquire) & bit != 0 {
                let got = os.map(self.chunk_start(unit), size_of::<Block>() << CHUNK_SHIFT);
                if matches!(got, Ok(()) | Err(Error::Occupied)) {
                    mapped.fetch_or(bit, AcqRel);
                }
            }
            unit = ((unit >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT;
        }
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
