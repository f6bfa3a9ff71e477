//! Where extents come from: units of address space, and the descriptors for them.

use super::blocks::{Blocks, Need, TRIES, UNIT, UNIT_SHIFT};
use super::class::class_bytes;
use super::{Block, BlockState};
use crate::os::{Error, Memory};
use crate::policy::SECURE;
use crate::region::Partition;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU64, spin_until, stack};

/// log2 of the units whose descriptors are mapped together: 64 KiB of descriptors, whole pages on
/// every kernel.
pub(super) const CHUNK_SHIFT: u32 = 10;
/// Bytes of descriptors that are mapped together.
const DESCRIPTORS: usize = size_of::<Block>() << CHUNK_SHIFT;

impl Blocks {
    /// The chunk of a unit: the word that says which are mapped, the one that says which are mapped
    /// or claimed by a thread that maps them, and the chunk's bit in both.
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

    /// Makes sure that a unit has a descriptor. `Occupied` means that something foreign is where it
    /// would be, or that another thread has been stopped while it maps it: the caller takes another
    /// chunk.
    pub(super) fn map_descriptor(&self, os: &impl Memory, unit: usize) -> Result<(), Error> {
        let ([mapped, claimed], bit) = self.chunk(unit);
        let is_claimed = || claimed.load(Acquire) & bit != 0;
        loop {
            if self.is_mapped(unit) {
                return Ok(());
            }
            // claim chunk: the thread that sets the bit maps the chunk, and clears the bit if it
            // cannot.
            if claimed.fetch_or(bit, AcqRel) & bit == 0 {
                let done = os.map(self.chunk_start(unit), DESCRIPTORS);
                if done.is_ok() {
                    self.state().descriptors.fetch_add(DESCRIPTORS, Relaxed);
                    // publish chunk: pairs with `is_mapped`.
                    mapped.fetch_or(bit, AcqRel);
                } else {
                    // What is there is not ours, and a child must not take it for ours.
                    claimed.fetch_and(!bit, AcqRel);
                }
                return done;
            }
            if !spin_until(|| self.is_mapped(unit) || !is_claimed()) {
                return Err(Error::Occupied);
            }
        }
    }

    /// In the child of a fork: finishes the descriptors that a thread that is no more had set out
    /// to map. An extent that it held is lost to its stack, not to the address space.
    pub fn repair(&self, os: &impl Memory) {
        let end = self.first + self.state().next.load(Acquire);
        let mut unit = self.first;
        while unit < end.min(self.units) {
            let ([mapped, claimed], bit) = self.chunk(unit);
            if claimed.load(Acquire) & !mapped.load(Acquire) & bit != 0 {
                let got = os.map(self.chunk_start(unit), DESCRIPTORS);
                if matches!(got, Ok(()) | Err(Error::Occupied)) {
                    mapped.fetch_or(bit, AcqRel);
                }
            }
            unit = ((unit >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT;
        }
    }

    /// The descriptor of a new extent, filled in but for the mapping.
    fn prepare(
        &self,
        os: &impl Memory,
        unit: usize,
        partition: Partition,
        (class, apart): (usize, bool),
        extent: usize,
    ) -> Result<&Block, Error> {
        self.map_descriptor(os, unit)?;
        let block = self.block(unit);
        block.set_class(class, apart);
        block.partition.store(partition.number() as u32, Relaxed);
        block.extent.store(extent, Relaxed);
        Ok(block)
    }

    /// A held block of this partition and class without pages, or nearly so: from the stack, else
    /// in an extent that was never used.
    pub(super) fn vacant(&self, os: &impl Memory, need: &Need) -> Result<&Block, Error> {
        if let Some(block) = self.pop_vacant(need, TRIES) {
            return Ok(block);
        }
        let extent = class_bytes(need.class)
            .max(need.bytes)
            .checked_add(self.extent_beside())
            .and_then(|extent| extent.checked_next_multiple_of(UNIT))
            .ok_or(Error::NoMemory)?;
        let units = extent >> UNIT_SHIFT;
        // The first unit that could not be used.
        let mut passed = None;
        for tries_left in (0..TRIES).rev() {
            let apart = self.may_be_separate();
            let gap = self.choose_gap(apart);
            let take = |gap| self.take_units(units, need.align, gap);
            let unit = match take(gap).or_else(|_| take(0)) {
                Ok(unit) => unit,
                // Before memory is refused, the one at the right multiple may lie further down.
                Err(error) => return self.pop_vacant(need, self.units).ok_or(error),
            };
            // Addresses that wait have descriptors. New ones would take the memory that the block
            // needs.
            if SECURE
                && self.state().short.load(Relaxed) != 0
                && !self.is_mapped(unit)
                && self.stop_waiting(need.bytes)
                && let Some(block) = self.pop_vacant(need, self.units)
            {
                self.return_units(unit, units);
                return Ok(block);
            }
            let error = match self.prepare(os, unit, need.partition, (need.class, apart), extent) {
                Ok(block) => return Ok(block),
                Err(error) => error,
            };
            // Something foreign is where the descriptor would be, or another thread is mapping it:
            // the next chunk is another matter. What is passed by is left alone, unless it is
            // everywhere.
            let (first, end) = (*passed.get_or_insert(unit), unit + units);
            let rest = (((unit >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT).saturating_sub(end);
            let goes_on = error == Error::Occupied && tries_left != 0;
            if !goes_on || self.take_units(rest, 1, 0).is_err() {
                self.return_units(first, end - first);
                break;
            }
        }
        Err(Error::NoMemory)
    }

    fn pop_vacant(&self, need: &Need, tries: usize) -> Option<&Block> {
        let head = self.stack(need.partition, need.class);
        // Blocks that are not at such a multiple are held, linked by `below`, and put back.
        let mut held = 0u32;
        let mut found = None;
        for _ in 0..tries {
            let below = |unit: u32| self.block(unit as usize).below.load(Relaxed);
            let Some(unit) = stack::pop(head, below) else { break };
            let unit = unit as usize;
            if (self.base + (unit << UNIT_SHIFT)) & (need.align - 1) == 0 {
                found = Some(self.block(unit));
                break;
            }
            self.block(unit).below.store(held, Relaxed);
            held = unit as u32 + 1;
        }
        while let Some(unit) = held.checked_sub(1) {
            let block = self.block(unit as usize);
            held = block.below.load(Relaxed);
            stack::push(head, unit, |below| block.below.store(below, Relaxed));
        }
        let block = found?;
        self.state().kept.fetch_sub(block.resident.load(Relaxed), Relaxed);
        Some(block)
    }

    /// Puts a held, free block on its stack.
    pub(super) fn push_free(&self, block: &Block) {
        self.state().kept.fetch_add(block.resident.load(Relaxed), Relaxed);
        let class = block.class();
        let head = self.stack(block.partition(), class);
        stack::push(head, self.unit_of(block) as u32, |below| block.below.store(below, Relaxed));
    }

    /// What `vacant` gave was of no use. Units that were never used are returned if no thread has
    /// taken more since, else the block waits on its stack for a request that has more luck.
    pub(super) fn put_vacant(&self, block: &Block) {
        if block.state() == BlockState::None {
            if self.return_units(self.unit_of(block), block.extent() >> UNIT_SHIFT) {
                return;
            }
            block.publish_free();
        }
        self.push_free(block);
    }

    /// Whether the system would map `bytes` more now: tried where nothing is in use yet. A thread
    /// that takes that place in the meantime finds it occupied, and takes another.
    pub fn could_map(&self, os: &impl Memory, bytes: usize) -> bool {
        let unit = self.first + self.state().next.load(Relaxed);
        let room = self.units.saturating_sub(unit) << UNIT_SHIFT;
        let Some(bytes) = bytes.checked_next_multiple_of(self.page_size) else { return false };
        if bytes > room {
            return false;
        }
        let start = self.base + (unit << UNIT_SHIFT);
        match os.map(start, bytes) {
            // SAFETY: (1) mapped by the line above; no pointer to it was given out.
            Ok(()) => unsafe { os.unmap(start, bytes) }.is_ok(),
            // Nothing is known: what is given back may be of use.
            Err(error) => error == Error::Occupied,
        }
    }

    fn return_units(&self, unit: usize, units: usize) -> bool {
        let (end, begin) = (unit + units - self.first, unit - self.first);
        self.state().next.compare_exchange(end, begin, AcqRel, Relaxed).is_ok()
    }

    /// The first of `units` units that were never used, at a multiple of `align`, after `gap`
    /// others that stay unused.
    fn take_units(&self, units: usize, align: usize, gap: usize) -> Result<usize, Error> {
        let next = &self.state().next;
        let mut seen = next.load(Relaxed);
        loop {
            let address = self.base + ((self.first + seen + gap) << UNIT_SHIFT);
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
