//! Allocation, growth and release of large blocks.

use super::extents::CHUNK_SHIFT;
use super::{Block, BlockState, stack};
use crate::os::{Error, Os};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use Ordering::Relaxed;

pub(super) const UNIT_SHIFT: u32 = 16;
pub(super) const UNIT: usize = 1 << UNIT_SHIFT;
/// Live blocks with a mapping of their own. Beyond these, whole extents are mapped so that
/// neighbours share one mapping, and the guards are page-table guards where the kernel has them:
/// the number of mappings that a process may have is limited (65 530 by default).
const SEPARATE_MAX: usize = 8192;
/// Places to try when something foreign lies in the way, and stack entries to try for an alignment.
const TRIES: usize = 8;

/// log2 of the largest request that is not large.
const CLASS_BASE: u32 = 17;
/// Number of large classes.
pub const LARGE_CLASSES: usize = (usize::BITS - CLASS_BASE) as usize;
/// Bytes of free blocks that are kept whatever is live. As many as are live are kept on top;
/// `TOFT_LARGE_KEEP` is the limit of both together.
const KEEP_LEAST: usize = 1 << 20;
/// Live and kept bytes together may be larger than the most that were ever live by this share, as a
/// divisor (decision 0010).
const ROOM_SLACK: usize = 8;

/// The class of a large block: one per doubling. Address space costs nothing and only what is asked
/// for is mapped, so few classes are best: a freed block fits more requests, and a growing one is
/// moved less often.
pub fn large_class(bytes: usize) -> usize {
    ((bytes - 1).ilog2() - CLASS_BASE) as usize
}

/// Bytes that the largest request of a class needs.
pub(super) fn class_bytes(class: usize) -> usize {
    1usize << (CLASS_BASE + class as u32 + 1).min(usize::BITS - 1)
}

/// Counters and frontiers; lives in the metadata tables, zero at first.
#[derive(Debug)]
pub(super) struct State {
    /// Units handed out from the first one on. Any thread.
    pub(super) next: AtomicUsize,
    /// Bytes of free blocks that are still resident. Any thread.
    pub(super) kept: AtomicUsize,
    pub(super) live_bytes: AtomicUsize,
    pub(super) live_blocks: AtomicUsize,
    pub(super) peak_bytes: AtomicUsize,
    pub(super) allocations: AtomicU64,
    /// Blocks that have a mapping of their own, live or kept.
    pub(super) separate: AtomicUsize,
    /// Where the last search for kept blocks ended, as a number of a stack.
    pub(super) cursor: AtomicUsize,
}

/// All large blocks.
#[derive(Debug)]
pub struct Blocks {
    pub(super) base: usize,
    /// Units in the tier.
    pub(super) units: usize,
    /// The first unit in use, at a random place.
    pub(super) first: usize,
    pub(super) page_size: usize,
    pub(super) keep: usize,
    partitions: usize,
    /// Where the descriptor of unit 0 would be.
    pub(super) blocks: usize,
    pub(super) state: *const State,
    pub(super) stacks: *const AtomicU64,
    /// Two bits for each chunk of descriptors: mapped, and set out to be. Any thread sets, none
    /// clears.
    pub(super) chunks: *const [AtomicU64; 2],
}

impl Blocks {
    /// Bytes of tables that `new` needs for a tier of `span` bytes, zeroed.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        let chunk_words = (span >> UNIT_SHIFT >> CHUNK_SHIFT) / 64 + 1;
        size_of::<State>().next_multiple_of(64) + (partitions * LARGE_CLASSES + 2 * chunk_words) * 8
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Blocks {
        Blocks {
            base: 0,
            units: 0,
            first: 0,
            page_size: 4096,
            keep: 0,
            partitions: 1,
            blocks: 0,
            state: core::ptr::null(),
            stacks: core::ptr::null(),
            chunks: core::ptr::null(),
        }
    }

    /// The blocks of a tier of `span` bytes from `base`, with descriptors from `blocks` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes(span, partitions)` zero bytes that live for ever,
    ///    are aligned to 64, and belong to this object alone.
    /// 2. The span, and descriptors for it from `blocks` on, are address space for this object alone.
    pub unsafe fn new(
        os: &impl Os,
        (base, span): (usize, usize),
        blocks: usize,
        partitions: usize,
        tables: usize,
        keep: usize,
    ) -> Result<Blocks, Error> {
        let units = span >> UNIT_SHIFT;
        // The first block lies anywhere in the first quarter.
        let first = ((u128::from(os.random()?) * (units as u128 / 4)) >> 64) as usize;
        let stacks = tables + size_of::<State>().next_multiple_of(64);
        let chunks = stacks + partitions * LARGE_CLASSES * 8;
        Ok(Blocks {
            base,
            units,
            first,
            page_size: os.page_size(),
            keep,
            partitions,
            blocks,
            state: core::ptr::with_exposed_provenance(tables),
            stacks: core::ptr::with_exposed_provenance(stacks),
            chunks: core::ptr::with_exposed_provenance(chunks),
        })
    }

    pub(super) fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    pub(super) fn stack(&self, partition: usize, class: usize) -> &AtomicU64 {
        // SAFETY: `new` duty 1: there is one word for each partition and class.
        unsafe { &*self.stacks.add(partition * LARGE_CLASSES + class) }
    }

    pub(super) fn block(&self, unit: usize) -> &Block {
        let address = self.blocks + unit * size_of::<Block>();
        // SAFETY: callers name units whose descriptors `reach` has mapped, or that `is_mapped`
        // confirms; zero bytes are a `Block`, and all its fields are atomics.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    pub(super) fn unit_of(&self, block: &Block) -> usize {
        ((&raw const *block).addr() - self.blocks) / size_of::<Block>()
    }

    /// The address where a block begins.
    pub fn address(&self, block: &Block) -> usize {
        self.base + (self.unit_of(block) << UNIT_SHIFT)
    }

    /// The block that begins at an address of the tier.
    pub fn block_at(&self, address: usize) -> Option<&Block> {
        let offset = address.wrapping_sub(self.base);
        let unit = offset >> UNIT_SHIFT;
        if offset & (UNIT - 1) != 0 || !self.is_mapped(unit) {
            return None;
        }
        Some(self.block(unit)).filter(|block| block.state() != BlockState::None)
    }

    /// The block that an address lies inside, for naming what a wild pointer hit. Not fast.
    pub fn block_around(&self, address: usize) -> Option<&Block> {
        let offset = address.checked_sub(self.base)?;
        let mut unit = offset >> UNIT_SHIFT;
        while unit < self.units {
            if !self.is_mapped(unit) {
                // A block longer than a chunk covers chunks without descriptors.
                unit = (unit >> CHUNK_SHIFT << CHUNK_SHIFT).checked_sub(1)?;
                continue;
            }
            let block = self.block(unit);
            if block.state() != BlockState::None {
                let begin = unit << UNIT_SHIFT;
                return (offset - begin < block.extent()).then_some(block);
            }
            unit = unit.checked_sub(1)?;
        }
        None
    }

    /// A block of at least `size` bytes at a multiple of `align` (a power of two), and whether it
    /// is all zero.
    pub fn allocate(
        &self,
        os: &impl Os,
        size: usize,
        align: usize,
        partition: usize,
        site: usize,
    ) -> Result<(usize, bool), Error> {
        let bytes = size.checked_next_multiple_of(self.page_size).ok_or(Error::NoMemory)?;
        let class = large_class(bytes.max(1 << CLASS_BASE | 1));
        let (block, zero) = match self.reuse(os, partition, class, bytes, align) {
            Some(taken) => taken?,
            None => (self.fresh(os, partition, class, bytes, align)?, true),
        };
        block.site.store(site, Relaxed);
        block.publish();
        self.count(block.bytes());
        Ok((self.address(block), zero))
    }

    /// A free block of this partition and class, mapped for `bytes`.
    pub(super) fn reuse(
        &self,
        os: &impl Os,
        partition: usize,
        class: usize,
        bytes: usize,
        align: usize,
    ) -> Option<Result<(&Block, bool), Error>> {
        let head = self.stack(partition, class);
        // Blocks that do not lie at such a multiple are held, linked by `below`, and put back.
        let mut held = 0u32;
        let mut found = None;
        for _ in 0..TRIES {
            let Some(unit) = stack::pop(head, |unit| self.block(unit)) else { break };
            if (self.base + (unit << UNIT_SHIFT)) & (align - 1) == 0 {
                found = Some(unit);
                break;
            }
            self.block(unit).below.store(held, Relaxed);
            held = unit as u32 + 1;
        }
        self.put_back(head, held);
        let unit = found?;
        let block = self.block(unit);
        let mapped = block.mapped.load(Relaxed);
        let zero = mapped == 0;
        self.state().kept.fetch_sub(mapped, Relaxed);
        if let Err(error) = self.map_to(os, block, bytes) {
            if error == Error::Occupied {
                // Something foreign has come to lie here: leave the extent alone for ever.
                self.drop_pages(os, block);
                return None;
            }
            self.state().kept.fetch_add(block.mapped.load(Relaxed), Relaxed);
            stack::push(head, unit, block);
            return Some(Err(error));
        }
        Some(Ok((block, zero)))
    }

    /// A block in an extent that nobody has had.
    pub(super) fn fresh(
        &self,
        os: &impl Os,
        partition: usize,
        class: usize,
        bytes: usize,
        align: usize,
    ) -> Result<&Block, Error> {
        let extent = class_bytes(class)
            .max(bytes)
            .checked_add(self.page_size)
            .and_then(|extent| extent.checked_next_multiple_of(UNIT))
            .ok_or(Error::NoMemory)?;
        for _ in 0..TRIES {
            let unit = self.take_units(extent >> UNIT_SHIFT, align)?;
            let block = match self.prepare(os, unit, partition, class, extent) {
                Ok(block) => block,
                Err(Error::Occupied) => continue,
                Err(error) => {
                    self.return_units(unit, extent >> UNIT_SHIFT);
                    return Err(error);
                }
            };
            match self.map_to(os, block, bytes) {
                Ok(()) => return Ok(block),
                // Something foreign lies here: leave the extent alone for ever.
                Err(Error::Occupied) => {}
                Err(error) => {
                    self.give_up(unit, block);
                    return Err(error);
                }
            }
        }
        Err(Error::NoMemory)
    }

    /// Maps the held block for `bytes`, from whatever it has now.
    pub(super) fn map_to(&self, os: &impl Os, block: &Block, bytes: usize) -> Result<(), Error> {
        let mapped = block.mapped.load(Relaxed);
        let address = self.address(block);
        if mapped >= bytes {
            let mut usable = if self.is_shared(block) { bytes } else { mapped };
            // What was kept for a larger request is not held for a smaller one.
            if usable - bytes > bytes / 8 {
                // SAFETY: (1) the tail of a free block that the caller holds.
                let cut = unsafe { os.unmap(address + bytes, mapped - bytes) };
                if cut.is_ok() {
                    block.mapped.store(bytes, Relaxed);
                    usable = bytes;
                }
            }
            block.bytes.store(usable, Relaxed);
            return Ok(());
        }
        self.make_room(os, bytes - mapped);
        let state = self.state();
        if mapped == 0 && state.separate.load(Relaxed) >= SEPARATE_MAX {
            let extent = block.extent();
            os.map(address, extent)?;
            // SAFETY: (1) the tail of what the line above mapped; nobody has it.
            let _ = unsafe { os.guard(address + bytes, extent - bytes) };
            block.mapped.store(extent, Relaxed);
        } else {
            if mapped == 0 {
                os.map(address, bytes)?;
                state.separate.fetch_add(1, Relaxed);
            } else {
                // SAFETY: (1) the block's own mapping, within its extent.
                unsafe { os.extend(address, mapped, bytes) }?;
            }
            block.mapped.store(bytes, Relaxed);
        }
        block.bytes.store(bytes, Relaxed);
        Ok(())
    }

    /// Whether the block's whole extent is mapped, so that it may share a mapping with neighbours.
    pub(super) fn is_shared(&self, block: &Block) -> bool {
        block.mapped.load(Relaxed) == block.extent()
    }

    /// Frees a block; says no when it is free already.
    pub fn free(&self, os: &impl Os, block: &Block) -> bool {
        if !block.take() {
            return false;
        }
        self.uncount(block.bytes());
        let mapped = block.mapped.load(Relaxed);
        let kept = self.state().kept.fetch_add(mapped, Relaxed);
        let live = self.state().live_bytes.load(Relaxed);
        let budget = self.keep.min(KEEP_LEAST.saturating_add(live));
        if kept.saturating_add(mapped) > budget || self.is_shared(block) {
            self.state().kept.fetch_sub(mapped, Relaxed);
            self.drop_pages(os, block);
        }
        self.push_free(block);
        true
    }

    pub(super) fn push_free(&self, block: &Block) {
        let class = block.class.load(Relaxed) as usize;
        stack::push(self.stack(block.partition(), class), self.unit_of(block), block);
    }

    /// Gives the pages of a held, free block back; its address stays with its partition.
    pub(super) fn drop_pages(&self, os: &impl Os, block: &Block) {
        let (address, mapped) = (self.address(block), block.mapped.load(Relaxed));
        let separate = !self.is_shared(block);
        // SAFETY: (1) the block is free and held by the caller, so nobody needs its contents.
        if mapped != 0 && unsafe { os.unmap(address, mapped) }.is_ok() {
            block.mapped.store(0, Relaxed);
            if separate {
                self.state().separate.fetch_sub(1, Relaxed);
            }
        } else if mapped != 0 {
            // At the limit of mappings even giving back can fail; the pages at least can go.
            // SAFETY: (1) as above.
            let _ = unsafe { os.discard(address, mapped) };
            self.state().kept.fetch_add(mapped, Relaxed);
        }
    }

    /// Before `bytes` more are mapped: what is kept must not make the process larger than its live
    /// blocks have ever made it, or only by little.
    fn make_room(&self, os: &impl Os, bytes: usize) {
        let state = self.state();
        let kept = state.kept.load(Relaxed);
        if kept == 0 {
            return;
        }

        let peak = state.peak_bytes.load(Relaxed);
        let room = peak + peak / ROOM_SLACK;
        let wanted = state.live_bytes.load(Relaxed).saturating_add(kept).saturating_add(bytes);
        if let Some(excess) = wanted.checked_sub(room) {
            self.drop_some(os, excess.min(kept));
        }
    }

    /// Gives back the pages of every free block; says how many bytes went.
    pub fn drop_kept(&self, os: &impl Os) -> usize {
        self.drop_some(os, usize::MAX)
    }

    /// Gives back the pages of free blocks until so many bytes went, or there are no more; says how
    /// many went. Begins where the last search ended, so that a search for little is short.
    fn drop_some(&self, os: &impl Os, bytes: usize) -> usize {
        let mut dropped = 0;
        let stacks = self.partitions * LARGE_CLASSES;
        let start = self.state().cursor.load(Relaxed);
        for step in 0..stacks {
            if dropped >= bytes {
                break;
            }
            let index = (start + step) % stacks;
            // SAFETY: `new` duty 1: there is one word for each partition and class.
            let head = unsafe { &*self.stacks.add(index) };
            let mut held = 0u32;
            while dropped < bytes
                && let Some(unit) = stack::pop(head, |unit| self.block(unit))
            {
                let block = self.block(unit);
                let mapped = block.mapped.load(Relaxed);
                if mapped != 0 {
                    self.state().kept.fetch_sub(mapped, Relaxed);
                    self.drop_pages(os, block);
                    dropped += mapped;
                }
                block.below.store(held, Relaxed);
                held = unit as u32 + 1;
            }
            self.put_back(head, held);
            self.state().cursor.store(index, Relaxed);
        }
        dropped
    }

    /// Pushes a chain of held blocks, given as unit numbers plus one.
    pub(super) fn put_back(&self, head: &AtomicU64, mut held: u32) {
        while let Some(unit) = held.checked_sub(1) {
            let block = self.block(unit as usize);
            held = block.below.load(Relaxed);
            stack::push(head, unit as usize, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_monotonic_and_hold_their_requests() {
        let mut last = 0;
        for bytes in ((128usize << 10) + 1..64 << 20).step_by(4093) {
            let class = large_class(bytes);
            assert!(class >= last && class < LARGE_CLASSES);
            assert!(class_bytes(class) >= bytes, "{bytes}");
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes}");
            last = class;
        }
        assert!(large_class(isize::MAX as usize) < LARGE_CLASSES);
    }
}
