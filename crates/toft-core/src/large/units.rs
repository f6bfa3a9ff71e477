//! The address space of large blocks, in units of 64 KiB, and the descriptors of the units.

use super::outside::{Outside, OutsideBlock, OutsideFields};
use super::{Block, BlockState};
use crate::os::{Error, Memory};
use crate::policy::SECURE;
use crate::region::Layout;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU64, AtomicUsize, spin_until};
use core::ops::Range;

const UNIT_SHIFT: u32 = 16;
/// Bytes in a unit of address space.
pub const UNIT: usize = 1 << UNIT_SHIFT;

/// log2 of the units whose descriptors are mapped together: 64 KiB of descriptors, whole pages on
/// every kernel.
const CHUNK_SHIFT: u32 = 10;
/// Bytes of descriptors that are mapped together.
const DESCRIPTORS: usize = size_of::<Block>() << CHUNK_SHIFT;
const _: () = assert!(DESCRIPTORS == Layout::LARGE_FIRST);
const _: () = assert!(UNIT >> Layout::LARGE_SHIFT == size_of::<Block>());

/// What is in use. In the metadata tables, and zero at first. Any thread adds.
#[derive(Debug)]
pub(super) struct Frontier {
    /// Units handed out from the first one on.
    next: AtomicUsize,
    /// Bytes mapped for descriptors, without those that were there at the start.
    descriptors: AtomicUsize,
}

/// The units of the tier, and their descriptors.
#[derive(Debug)]
pub struct Units {
    base: usize,
    /// Units in the tier.
    count: usize,
    /// The first unit in use, at a random place.
    first: usize,
    /// Where the descriptor of unit 0 would end. Those of higher units are at lower addresses.
    descriptors_end: usize,
    frontier: *const Frontier,
    /// Two bits for each chunk of descriptors: mapped, and claimed by a thread that maps it. Any
    /// thread sets them; the thread that has claimed a chunk clears that bit if it cannot map it.
    /// The chunk of the first unit is mapped at the start. It has its bits from its first block on.
    chunks: *const [AtomicU64; 2],
    /// Extents outside the window.
    outside: *const Outside,
    /// The windows, in which only the part of the tier that was never used may have such extents.
    windows: [(usize, usize); 2],
}

impl Units {
    /// Bytes of tables that `new` needs for a tier of `span` bytes, zeroed.
    pub(super) fn table_bytes(span: usize) -> usize {
        let chunks = (units_in(span) >> CHUNK_SHIFT) / 64 * 16 + 16;
        size_of::<Outside>() + chunks
    }

    /// Before anything is known: contains no address.
    pub(super) const fn none() -> Units {
        Units {
            base: 0,
            count: 0,
            first: 0,
            descriptors_end: 0,
            frontier: core::ptr::null(),
            chunks: core::ptr::null(),
            outside: core::ptr::null(),
            windows: [(0, 0); 2],
        }
    }

    /// The units of a tier of `span` bytes from `base`. The first descriptors are from
    /// `first_descriptors` on, and the others below. `windows` are the ranges that the allocator
    /// uses.
    ///
    /// # Safety
    /// 1. `frontier` is the address of a zero `Frontier`, and `outside` that of `table_bytes(span)`
    ///    zero bytes. They live for ever, are aligned to 8, and belong to this object alone.
    /// 2. The span, and as much below `first_descriptors` as descriptors for it take, are address
    ///    space for this object alone.
    /// 3. `Layout::LARGE_FIRST` zero bytes from `first_descriptors` on live for ever, are aligned
    ///    to 64, and belong to this object alone.
    pub(super) unsafe fn new(
        (base, span): (usize, usize),
        first_descriptors: usize,
        (frontier, outside): (usize, usize),
        random: u64,
        windows: [(usize, usize); 2],
    ) -> Units {
        let count = units_in(span);
        // The first block lies anywhere in the first quarter.
        let first = ((u128::from(random) * (count as u128 / 4)) >> 64) as usize;
        Units {
            base,
            count,
            first,
            descriptors_end: first_descriptors + next_chunk(first) * size_of::<Block>(),
            frontier: core::ptr::with_exposed_provenance(frontier),
            chunks: core::ptr::with_exposed_provenance(outside + size_of::<Outside>()),
            outside: core::ptr::with_exposed_provenance(outside),
            windows,
        }
    }

    fn frontier(&self) -> &Frontier {
        // SAFETY: `new` duty 1; all-zero is a `Frontier`.
        unsafe { &*self.frontier }
    }

    fn outside(&self) -> Option<&Outside> {
        // SAFETY: null, or `new` duty 1; all-zero is an `Outside`.
        unsafe { self.outside.as_ref() }
    }

    /// Returns the places of the descriptors of extents outside the window.
    pub fn outside_fields(&self) -> Option<OutsideFields> {
        self.outside().map(Outside::fields)
    }

    /// Returns true if an address may be in an extent outside the window.
    #[inline]
    pub fn may_be_outside(&self, address: usize) -> bool {
        self.outside().is_some_and(|outside| outside.may_contain(address))
    }

    /// Returns the block outside the window whose extent contains an address.
    #[inline]
    fn outside_around(&self, address: usize) -> Option<&Block> {
        if self.may_be_outside(address) { self.search_outside(address) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn search_outside(&self, address: usize) -> Option<&Block> {
        let found = self.outside()?.all().find(|each| each.range().contains(&address))?;
        Some(&found.block).filter(|block| block.state() != BlockState::None)
    }

    /// Returns the ranges outside the windows that have large blocks, or descriptors of them.
    pub fn outside_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.outside().into_iter().flat_map(Outside::ranges)
    }

    /// Returns true if a unit is outside the window.
    pub(super) fn is_outside(&self, unit: usize) -> bool {
        unit >= self.count
    }

    /// Takes a new extent of `bytes` bytes outside the window, at a multiple of `align`. Returns
    /// its descriptor, in which only the extent is filled in.
    pub(super) fn take_outside(
        &self,
        os: &impl Memory,
        bytes: usize,
        align: usize,
    ) -> Result<&Block, Error> {
        let outside = self.outside().ok_or(Error::NoMemory)?;
        outside.take(os, bytes, align, &|range| self.may_be_owned(range))
    }

    /// Returns an extent to the system that `take_outside` gave and no block was in.
    pub(super) fn put_back_outside(&self, os: &impl Memory, block: &Block) {
        let number = self.of(block).checked_sub(self.count);
        if let (Some(outside), Some(number)) = (self.outside(), number) {
            outside.put_back(os, number);
        }
    }

    /// Returns true if a part of a range, which is reserved, may belong to a slab, a block or a
    /// table that has no pages at the moment.
    fn may_be_owned(&self, range: &Range<usize>) -> bool {
        if self.windows.iter().all(|&(start, end)| range.end <= start || end <= range.start) {
            return false;
        }
        let (used, unused) = (self.first + self.frontier().next.load(Acquire), self.count);
        // The last page of each extent is not mapped. So no two blocks touch.
        let is_between =
            |first, last| range.start >= self.address(first) && range.end <= self.address(last);
        !is_between(0, self.first) && !is_between(used, unused)
    }

    /// The number of units in the tier.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The bytes mapped for descriptors.
    pub(super) fn descriptor_bytes(&self) -> usize {
        let outside = self.outside().map_or(0, Outside::descriptor_bytes);
        self.frontier().descriptors.load(Relaxed) + outside
    }

    /// The address of a unit.
    pub(super) fn address(&self, unit: usize) -> usize {
        self.base + (unit << UNIT_SHIFT)
    }

    /// The address of the extent whose first unit has the number `unit`.
    pub(super) fn extent_address(&self, unit: usize) -> usize {
        self.outside_of(unit).map_or_else(|| self.address(unit), |found| found.at.load(Relaxed))
    }

    /// Returns the descriptor of a unit outside the window.
    fn outside_of(&self, unit: usize) -> Option<&OutsideBlock> {
        self.outside()?.get(unit.checked_sub(self.count)?)
    }

    /// The address of the descriptor of a unit of the tier, mapped or not.
    fn descriptor_of(&self, unit: usize) -> usize {
        self.descriptors_end.wrapping_sub((unit + 1) * size_of::<Block>())
    }

    /// The descriptor of a unit. `map_descriptor` has mapped it, or `is_mapped` confirms it.
    pub(super) fn block(&self, unit: usize) -> &Block {
        if let Some(found) = self.outside_of(unit) {
            return &found.block;
        }
        let address = self.descriptor_of(unit);
        // SAFETY: the caller's unit has a descriptor; zero bytes are a `Block`, and all its fields
        // are atomics.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The unit where a block's extent begins.
    pub(super) fn of(&self, block: &Block) -> usize {
        let address = (&raw const *block).addr();
        let below = self.descriptors_end.wrapping_sub(address) / size_of::<Block>();
        let unit = below.wrapping_sub(1);
        let outside = || Some(self.count + self.outside()?.number_of(address)?);
        if unit < self.count { unit } else { outside().unwrap_or(unit) }
    }

    /// Returns an address that stands for a block in tables by descriptor: that of its descriptor,
    /// or, for a block outside the window, one below all descriptors of the tier.
    pub fn mark_address(&self, block: &Block) -> usize {
        self.descriptor_of(self.of(block))
    }

    /// Returns the lowest address that can stand for a block.
    pub fn lowest_mark(&self) -> usize {
        self.descriptor_of(self.count + Outside::MOST)
    }

    /// Returns where the descriptor of the first unit of the tier would end. Those of the others
    /// are below it, in the order of falling addresses.
    pub fn descriptors_end(&self) -> usize {
        self.descriptors_end
    }

    /// The block that begins at an address.
    pub fn block_at(&self, address: usize) -> Option<&Block> {
        if let Some(block) = self.outside_around(address) {
            let begin = self.extent_address(self.of(block)) + block.lead();
            return Some(block).filter(|_| begin == address);
        }
        let offset = address.wrapping_sub(self.base);
        let unit = offset >> UNIT_SHIFT;
        if !SECURE && offset & (UNIT - 1) != 0 || !self.is_mapped(unit) {
            return None;
        }
        let begins = |block: &&Block| {
            // pairs: publish block. The lead was written before.
            block.state() != BlockState::None && block.lead() == offset & (UNIT - 1)
        };
        Some(self.block(unit)).filter(begins)
    }

    /// The block that an address lies inside, for naming what a wild pointer hit. Not fast.
    pub fn block_around(&self, address: usize) -> Option<&Block> {
        if let Some(block) = self.outside_around(address) {
            return Some(block);
        }
        let offset = address.checked_sub(self.base)?;
        let mut unit = offset >> UNIT_SHIFT;
        while unit < self.count {
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

    /// Every block, live or free: first those of the tier, in address order.
    pub fn for_each(&self, mut each: impl FnMut(&Block)) {
        let end = self.first + self.frontier().next.load(Acquire);
        let mut unit = self.first;
        while unit < end {
            if !self.is_mapped(unit) {
                unit = next_chunk(unit);
                continue;
            }
            let block = self.block(unit);
            match block.state() {
                BlockState::None => unit += 1,
                _ => {
                    each(block);
                    unit += units_in(block.extent()).max(1);
                }
            }
        }
        let outside = self.outside().into_iter().flat_map(Outside::all);
        let blocks = outside.map(|found| &found.block);
        blocks.filter(|block| block.state() != BlockState::None).for_each(each);
    }

    /// The chunk of a unit: the word that says which are mapped, the one that says which are mapped
    /// or claimed by a thread that maps them, and the chunk's bit in both.
    fn chunk(&self, unit: usize) -> (&[AtomicU64; 2], u64) {
        let chunk = unit >> CHUNK_SHIFT;
        // SAFETY: `new` duty 1: two bits for each chunk of the tier, and callers' units are below
        // `count`.
        let words = unsafe { &*self.chunks.add(chunk / 64) };
        (words, 1 << (chunk % 64))
    }

    /// Whether a unit has a descriptor.
    pub(super) fn is_mapped(&self, unit: usize) -> bool {
        if unit >= self.count {
            return false;
        }
        let ([mapped, _], bit) = self.chunk(unit);
        mapped.load(Acquire) & bit != 0
    }

    fn chunk_start(&self, unit: usize) -> usize {
        self.descriptors_end - next_chunk(unit) * size_of::<Block>()
    }

    /// Makes sure that a unit has a descriptor. `Occupied` means that something foreign is where it
    /// would be, and `Busy` that another thread has been stopped while it maps it: the caller takes
    /// another chunk.
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
                let was_there = next_chunk(unit) == next_chunk(self.first);
                let done = match was_there {
                    true => Ok(()),
                    false => os.map(self.chunk_start(unit), DESCRIPTORS),
                };
                if done.is_ok() {
                    let more = if was_there { 0 } else { DESCRIPTORS };
                    self.frontier().descriptors.fetch_add(more, Relaxed);
                    // publish chunk: pairs with `is_mapped`.
                    mapped.fetch_or(bit, AcqRel);
                } else {
                    // What is there is not ours, and a child must not take it for ours.
                    claimed.fetch_and(!bit, AcqRel);
                }
                return done;
            }
            if !spin_until(|| self.is_mapped(unit) || !is_claimed()) {
                return Err(Error::Busy);
            }
        }
    }

    /// In the child of a fork: finishes the descriptors that a thread that is no more had set out
    /// to map. An extent that it held is lost to its stack, not to the address space.
    pub fn repair(&self, os: &impl Memory) {
        let end = self.first + self.frontier().next.load(Acquire);
        let mut unit = self.first;
        while unit < end.min(self.count) {
            let ([mapped, claimed], bit) = self.chunk(unit);
            if claimed.load(Acquire) & !mapped.load(Acquire) & bit != 0 {
                let got = os.map(self.chunk_start(unit), DESCRIPTORS);
                if matches!(got, Ok(()) | Err(Error::Occupied)) {
                    mapped.fetch_or(bit, AcqRel);
                }
            }
            unit = next_chunk(unit);
        }
    }

    /// Takes `units` units that were never used, at a multiple of `align`, after `gap` others that
    /// stay unused. Returns the first.
    pub(super) fn take(&self, units: usize, align: usize, gap: usize) -> Result<usize, Error> {
        let next = &self.frontier().next;
        let mut seen = next.load(Relaxed);
        loop {
            let address = self.address(self.first + seen + gap);
            let start = address.checked_next_multiple_of(align).ok_or(Error::NoMemory)?;
            let unit = units_in(start - self.base);
            let end = unit.checked_add(units).filter(|&end| end <= self.count);
            let end = end.ok_or(Error::NoMemory)?;
            match next.compare_exchange_weak(seen, end - self.first, AcqRel, Acquire) {
                Ok(_) => return Ok(unit),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns units that `take` gave; false if a thread has taken more since.
    pub(super) fn put_back(&self, unit: usize, units: usize) -> bool {
        let (end, begin) = (unit + units - self.first, unit - self.first);
        self.frontier().next.compare_exchange(end, begin, AcqRel, Relaxed).is_ok()
    }

    /// Takes the units up to the next chunk, if a chunk does not end at `end`, the unit after the
    /// extent that begins at `unit`. Returns false if there are none left.
    pub(super) fn skip_chunk(&self, unit: usize, end: usize) -> bool {
        self.take(next_chunk(unit).saturating_sub(end), 1, 0).is_ok()
    }

    /// Whether the system would map `bytes` more now. It is tried at the end of the tier, where a
    /// thread that is stopped in here is in no other thread's way.
    pub fn could_map(&self, os: &impl Memory, bytes: usize) -> bool {
        let unit = self.first + self.frontier().next.load(Relaxed);
        let room = self.count.saturating_sub(unit) << UNIT_SHIFT;
        let Some(bytes) = bytes.checked_next_multiple_of(os.page_size()) else { return false };
        if bytes > room {
            return false;
        }
        let start = self.address(self.count) - bytes;
        match os.map(start, bytes) {
            // SAFETY: (1) mapped by the line above; no pointer to it was given out.
            Ok(()) => unsafe { os.unmap(start, bytes) }.is_ok(),
            // Nothing is known: what is given back may be of use.
            Err(error) => error == Error::Occupied,
        }
    }
}

/// The number of whole units in `bytes`.
pub(super) fn units_in(bytes: usize) -> usize {
    bytes >> UNIT_SHIFT
}

/// The first unit of the chunk after a unit's.
fn next_chunk(unit: usize) -> usize {
    ((unit >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT
}
