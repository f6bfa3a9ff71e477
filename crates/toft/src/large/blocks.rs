//! Allocation, growth and release of large blocks.

use super::{Block, BlockState, stack};
use crate::os::{Error, Os};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, SPIN_LIMIT, pause};
use Ordering::{AcqRel, Acquire, Relaxed};

const UNIT_SHIFT: u32 = 16;
const UNIT: usize = 1 << UNIT_SHIFT;
/// log2 of the units whose descriptors are mapped together: 64 KiB of descriptors, whole pages on
/// every kernel.
const CHUNK_SHIFT: u32 = 10;
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
/// Bytes of free blocks that are kept whatever is live, and the share of the live bytes that is
/// kept on top, as a shift. `TOFT_LARGE_KEEP` is the limit of both together.
const KEEP_LEAST: usize = 1 << 20;
const KEEP_SHIFT: u32 = 1;

/// The class of a large block: one per doubling. Address space costs nothing and only what is asked
/// for is mapped, so few classes are best: a freed block fits more requests, and a growing one is
/// moved less often.
pub fn large_class(bytes: usize) -> usize {
    ((bytes - 1).ilog2() - CLASS_BASE) as usize
}

/// Bytes that the largest request of a class needs.
fn class_bytes(class: usize) -> usize {
    1usize << (CLASS_BASE + class as u32 + 1).min(usize::BITS - 1)
}

/// What `resize` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The block has its new size where it is.
    InPlace,
    /// The block's pages are now at this address.
    Moved(usize),
    /// Nothing happened: copy instead.
    No,
}

/// Counters and frontiers; lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// Units handed out from the first one on. Any thread.
    next: AtomicUsize,
    /// Bytes of free blocks that are still resident. Any thread.
    kept: AtomicUsize,
    live_bytes: AtomicUsize,
    live_blocks: AtomicUsize,
    peak_bytes: AtomicUsize,
    allocations: AtomicU64,
    /// Blocks that have a mapping of their own, live or kept.
    separate: AtomicUsize,
}

/// All large blocks.
#[derive(Debug)]
pub struct Blocks {
    base: usize,
    /// Units in the tier.
    units: usize,
    /// The first unit in use, at a random place.
    first: usize,
    page_size: usize,
    keep: usize,
    /// Where the descriptor of unit 0 would be.
    blocks: usize,
    state: *const State,
    stacks: *const AtomicU64,
    /// One bit for each chunk whose descriptors are mapped. Any thread sets, none clears.
    chunks: *const AtomicU64,
}

impl Blocks {
    /// Bytes of tables that `new` needs for a tier of `span` bytes, zeroed.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        let chunk_words = (span >> UNIT_SHIFT >> CHUNK_SHIFT) / 64 + 1;
        size_of::<State>().next_multiple_of(64) + (partitions * LARGE_CLASSES + chunk_words) * 8
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Blocks {
        Blocks {
            base: 0,
            units: 0,
            first: 0,
            page_size: 4096,
            keep: 0,
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
            blocks,
            state: core::ptr::with_exposed_provenance(tables),
            stacks: core::ptr::with_exposed_provenance(stacks),
            chunks: core::ptr::with_exposed_provenance(chunks),
        })
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    fn stack(&self, partition: usize, class: usize) -> &AtomicU64 {
        // SAFETY: `new` duty 1: there is one word for each partition and class.
        unsafe { &*self.stacks.add(partition * LARGE_CLASSES + class) }
    }

    fn block(&self, unit: usize) -> &Block {
        let address = self.blocks + unit * size_of::<Block>();
        // SAFETY: callers name units whose descriptors `reach` has mapped, or that `is_mapped`
        // confirms; zero bytes are a `Block`, and all its fields are atomics.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    fn chunk(&self, unit: usize) -> (&AtomicU64, u64) {
        let chunk = unit >> CHUNK_SHIFT;
        // SAFETY: `new` duty 1: one bit for each chunk of the tier, and callers' units are below
        // `units`.
        let word = unsafe { &*self.chunks.add(chunk / 64) };
        (word, 1 << (chunk % 64))
    }

    /// Whether a unit has a descriptor.
    fn is_mapped(&self, unit: usize) -> bool {
        if unit >= self.units {
            return false;
        }
        let (word, bit) = self.chunk(unit);
        word.load(Acquire) & bit != 0
    }

    /// Makes sure that a unit has a descriptor.
    fn map_descriptor(&self, os: &impl Os, unit: usize) -> Result<(), Error> {
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

    fn unit_of(&self, block: &Block) -> usize {
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
    fn reuse(
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
            self.state().kept.fetch_add(block.mapped.load(Relaxed), Relaxed);
            stack::push(head, unit, block);
            return Some(Err(error));
        }
        Some(Ok((block, zero)))
    }

    /// A block in an extent that nobody has had.
    fn fresh(
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

    /// The descriptor of a new extent, filled in but for the mapping.
    fn prepare(
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
    fn give_up(&self, unit: usize, block: &Block) {
        if !self.return_units(unit, block.extent() >> UNIT_SHIFT) {
            block.publish_free();
            self.push_free(block);
        }
    }

    fn return_units(&self, unit: usize, units: usize) -> bool {
        let (end, begin) = (unit + units - self.first, unit - self.first);
        self.state().next.compare_exchange(end, begin, AcqRel, Relaxed).is_ok()
    }

    /// The first of `units` units that nobody has had, at a multiple of `align`.
    fn take_units(&self, units: usize, align: usize) -> Result<usize, Error> {
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

    /// Maps the held block for `bytes`, from whatever it has now.
    fn map_to(&self, os: &impl Os, block: &Block, bytes: usize) -> Result<(), Error> {
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
    fn is_shared(&self, block: &Block) -> bool {
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
        let budget = self.keep.min(KEEP_LEAST + (live >> KEEP_SHIFT));
        if kept.saturating_add(mapped) > budget || self.is_shared(block) {
            self.state().kept.fetch_sub(mapped, Relaxed);
            self.drop_pages(os, block);
        }
        self.push_free(block);
        true
    }

    fn push_free(&self, block: &Block) {
        let class = block.class.load(Relaxed) as usize;
        stack::push(self.stack(block.partition(), class), self.unit_of(block), block);
    }

    /// Gives the pages of a held, free block back; its address stays with its partition.
    fn drop_pages(&self, os: &impl Os, block: &Block) {
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

    /// Changes the size of a live block without copying, where that can be done.
    pub fn resize(&self, os: &impl Os, block: &Block, size: usize) -> Resize {
        let Some(bytes) = size.checked_next_multiple_of(self.page_size) else { return Resize::No };
        let (old, address) = (block.bytes(), self.address(block));
        if self.is_shared(block) {
            return if bytes <= old && bytes >= old / 2 { Resize::InPlace } else { Resize::No };
        }
        if bytes <= old {
            if bytes < old {
                // SAFETY: (1) the tail that the program has just given up.
                if unsafe { os.unmap(address + bytes, old - bytes) }.is_err() {
                    return Resize::InPlace;
                }
                self.change_size(block, bytes);
            }
            return Resize::InPlace;
        }
        if bytes <= block.extent() - self.page_size {
            // SAFETY: (1) the block's own mapping, within its extent.
            if unsafe { os.extend(address, old, bytes) }.is_err() {
                return Resize::No;
            }
            self.change_size(block, bytes);
            return Resize::InPlace;
        }
        self.relocate(os, block, bytes)
    }

    fn change_size(&self, block: &Block, bytes: usize) {
        self.uncount(block.bytes());
        block.mapped.store(bytes, Relaxed);
        block.bytes.store(bytes, Relaxed);
        self.count_bytes(bytes);
    }

    /// Moves a block's pages to a larger extent of the same partition.
    fn relocate(&self, os: &impl Os, block: &Block, bytes: usize) -> Resize {
        let (old, address) = (block.bytes(), self.address(block));
        let class = large_class(bytes);
        let Some(extent) = class_bytes(class)
            .checked_add(self.page_size)
            .and_then(|extent| extent.checked_next_multiple_of(UNIT))
        else {
            return Resize::No;
        };
        let Ok(unit) = self.take_units(extent >> UNIT_SHIFT, UNIT) else { return Resize::No };
        let Ok(target) = self.prepare(os, unit, block.partition(), class, extent) else {
            self.return_units(unit, extent >> UNIT_SHIFT);
            return Resize::No;
        };
        target.site.store(block.site(), Relaxed);
        let to = self.address(target);
        // SAFETY: (1) the program gives the old address up; (2) the new extent is the caller's.
        if unsafe { os.relocate(address, old, to, bytes) }.is_err() {
            self.give_up(unit, target);
            return Resize::No;
        }
        target.mapped.store(bytes, Relaxed);
        target.bytes.store(bytes, Relaxed);
        target.publish();
        self.uncount(old);
        self.count_bytes(bytes);
        // The old extent keeps its address and has no pages.
        block.mapped.store(0, Relaxed);
        if block.take() {
            self.push_free(block);
        }
        Resize::Moved(to)
    }

    /// Gives back the pages of every free block; says how many bytes went.
    pub fn drop_kept(&self, os: &impl Os, partitions: usize) -> usize {
        let mut dropped = 0;
        for index in 0..partitions * LARGE_CLASSES {
            // SAFETY: `new` duty 1: there is one word for each partition and class.
            let head = unsafe { &*self.stacks.add(index) };
            let mut held = 0u32;
            while let Some(unit) = stack::pop(head, |unit| self.block(unit)) {
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
        }
        dropped
    }

    /// Pushes a chain of held blocks, given as unit numbers plus one.
    fn put_back(&self, head: &AtomicU64, mut held: u32) {
        while let Some(unit) = held.checked_sub(1) {
            let block = self.block(unit as usize);
            held = block.below.load(Relaxed);
            stack::push(head, unit as usize, block);
        }
    }

    fn count(&self, bytes: usize) {
        self.state().allocations.fetch_add(1, Relaxed);
        self.count_bytes(bytes);
    }

    fn count_bytes(&self, bytes: usize) {
        let state = self.state();
        state.live_blocks.fetch_add(1, Relaxed);
        let live = state.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        state.peak_bytes.fetch_max(live, Relaxed);
    }

    fn uncount(&self, bytes: usize) {
        self.state().live_blocks.fetch_sub(1, Relaxed);
        self.state().live_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Live blocks, live bytes, most live bytes ever, allocations ever, and resident free bytes.
    pub fn figures(&self) -> (usize, usize, usize, u64, usize) {
        let state = self.state();
        (
            state.live_blocks.load(Relaxed),
            state.live_bytes.load(Relaxed),
            state.peak_bytes.load(Relaxed),
            state.allocations.load(Relaxed),
            state.kept.load(Relaxed),
        )
    }

    /// Every block, live or free, in address order.
    pub fn for_each(&self, mut each: impl FnMut(&Block)) {
        let end = self.first + self.state().next.load(Acquire);
        let mut unit = self.first;
        while unit < end {
            if !self.is_mapped(unit) {
                unit = ((unit >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT;
                continue;
            }
            let block = self.block(unit);
            match block.state() {
                BlockState::None => unit += 1,
                _ => {
                    each(block);
                    unit += (block.extent() >> UNIT_SHIFT).max(1);
                }
            }
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
