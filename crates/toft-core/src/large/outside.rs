//! Extents outside the window, for when something foreign is wherever the tier has room.
//!
//! ```text
//! chunk    | 512 descriptors | not accessible |    where the kernel finds room
//! extent   | pages           | not accessible |    as above
//! ```
//!
//! An extent has only the addresses that its first request needs. They stay reserved when the block
//! is free, so the kernel gives them to no other mapping (law 1). Addresses in the windows are
//! refused if the kernel offers them, except in units of the tier that were never used. They may
//! have an owner whose pages are unmapped at the moment.
//!
//! The units of these extents have numbers after those of the tier. A search for an address reads
//! all descriptors, unless the address is below or above all extents.

use super::Block;
use super::units::UNIT;
use crate::os::{Error, Memory};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU64, AtomicUsize, stack};
use core::mem::offset_of;
use core::ops::Range;

/// The number of descriptors that are mapped together.
const CHUNK: usize = 512;
/// The number of bytes of descriptors that are mapped together: whole pages on every kernel.
const CHUNK_BYTES: usize = CHUNK * size_of::<OutsideBlock>();
/// The most chunks, for 262 144 extents. Each extent is a separate mapping, of which a process may
/// have 65 530 by default.
const CHUNKS: usize = 512;
/// The most holes that the kernel offers for one request and that are refused.
const OFFERS: usize = 16;
/// The most bytes of a hole that are tried together. It is less than what is between the windows.
const PIECE_MOST: usize = 1 << 40;

/// A descriptor.
#[repr(C)]
#[derive(Debug)]
pub(super) struct OutsideBlock {
    pub(super) block: Block,
    /// The first address of the extent. The thread that has taken the descriptor writes it, once.
    pub(super) at: AtomicUsize,
}

/// The places of these descriptors, for readers outside the process (`stats/root.rs`).
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct OutsideFields {
    /// The address of the table of chunks.
    pub chunks: usize,
    pub chunk_count: usize,
    pub chunk_bytes: usize,
    pub bytes: usize,
    pub at: usize,
}

/// The extents; in the metadata tables, and zero at first.
#[derive(Debug)]
pub(super) struct Outside {
    /// The number of descriptors that were ever taken. Any thread adds.
    taken: AtomicUsize,
    /// The complement of the first address of the lowest extent, and the end of the highest one.
    /// Any thread raises them.
    not_lowest: AtomicUsize,
    end: AtomicUsize,
    /// The stack of descriptors without an extent.
    vacant: AtomicU64,
    /// The address of each chunk of descriptors, or zero. Any thread writes each of them once.
    chunks: [AtomicUsize; CHUNKS],
}

impl Outside {
    /// The most extents.
    pub(super) const MOST: usize = CHUNKS * CHUNK;

    /// Returns the descriptor of a number, if its chunk is mapped.
    pub(super) fn get(&self, number: usize) -> Option<&OutsideBlock> {
        // pairs: publish outside chunk.
        let chunk = self.chunks.get(number / CHUNK)?.load(Acquire);
        let address = chunk + number % CHUNK * size_of::<OutsideBlock>();
        // SAFETY: `map_chunk` has mapped the chunk for ever; zero bytes are an `OutsideBlock`, and
        // all its fields are atomics.
        (chunk != 0).then(|| unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Returns the number of a descriptor.
    pub(super) fn number_of(&self, descriptor: usize) -> Option<usize> {
        self.mapped_chunks().enumerate().find_map(|(index, chunk)| {
            let offset = descriptor.wrapping_sub(chunk);
            (offset < CHUNK_BYTES).then_some(index * CHUNK + offset / size_of::<OutsideBlock>())
        })
    }

    /// Returns every descriptor that was taken.
    pub(super) fn all(&self) -> impl Iterator<Item = &OutsideBlock> {
        (0..self.taken.load(Acquire)).map_while(|number| self.get(number))
    }

    /// Returns true if an address may be in one of the extents.
    #[inline]
    pub(super) fn may_contain(&self, address: usize) -> bool {
        address < self.end.load(Acquire) && !address <= self.not_lowest.load(Acquire)
    }

    /// Returns the ranges of the chunks, and of the extents.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let chunks = self.mapped_chunks().map(|at| at..at + CHUNK_BYTES);
        chunks.chain(self.all().map(OutsideBlock::range))
    }

    /// Returns the places of the descriptors.
    pub(super) fn fields(&self) -> OutsideFields {
        OutsideFields {
            chunks: self.chunks.as_ptr().expose_provenance(),
            chunk_count: CHUNKS,
            chunk_bytes: CHUNK_BYTES,
            bytes: size_of::<OutsideBlock>(),
            at: offset_of!(OutsideBlock, at),
        }
    }

    /// Returns the number of bytes that are mapped for descriptors.
    pub(super) fn descriptor_bytes(&self) -> usize {
        self.mapped_chunks().count() * CHUNK_BYTES
    }

    fn mapped_chunks(&self) -> impl Iterator<Item = usize> {
        self.chunks.iter().map(|chunk| chunk.load(Acquire)).take_while(|&chunk| chunk != 0)
    }

    /// Takes a new extent of `bytes` bytes, which are whole pages, at a multiple of `align`, and
    /// returns its descriptor. `is_refused` returns true for ranges that must not be used.
    pub(super) fn take(
        &self,
        os: &impl Memory,
        bytes: usize,
        align: usize,
        is_refused: &impl Fn(&Range<usize>) -> bool,
    ) -> Result<&Block, Error> {
        let number = self.take_descriptor(os, is_refused)?;
        let taken = self.get(number).ok_or(Error::NoMemory)?;
        let range = match reserve(os, bytes, align, is_refused) {
            Ok(range) => range,
            Err(error) => {
                self.push_vacant(taken, number);
                return Err(error);
            }
        };
        taken.at.store(range.start, Relaxed);
        taken.block.extent.store(bytes, Relaxed);
        // Before the block has an address.
        self.not_lowest.fetch_max(!range.start, AcqRel);
        self.end.fetch_max(range.end, AcqRel);
        Ok(&taken.block)
    }

    /// Returns a new extent to the system. Its descriptor serves another one.
    pub(super) fn put_back(&self, os: &impl Memory, number: usize) {
        let Some(taken) = self.get(number) else { return };
        let range = taken.range();
        taken.block.extent.store(0, Relaxed);
        release(os, range);
        self.push_vacant(taken, number);
    }

    fn push_vacant(&self, taken: &OutsideBlock, number: usize) {
        let link = |below| taken.block.below.store(below, Relaxed);
        stack::push(&self.vacant, number as u32, link);
    }

    /// Takes a descriptor without an extent, and returns its number.
    fn take_descriptor(
        &self,
        os: &impl Memory,
        is_refused: &impl Fn(&Range<usize>) -> bool,
    ) -> Result<usize, Error> {
        let below =
            |number: u32| self.get(number as usize).map_or(0, |at| at.block.below.load(Relaxed));
        if let Some(number) = stack::pop(&self.vacant, below) {
            return Ok(number as usize);
        }
        loop {
            let number = self.taken.load(Relaxed);
            self.map_chunk(os, number / CHUNK, is_refused)?;
            if self.taken.compare_exchange(number, number + 1, AcqRel, Relaxed).is_ok() {
                return Ok(number);
            }
        }
    }

    /// Maps a chunk of descriptors, if it is not mapped.
    ///
    /// Pages that cannot be accessed follow the chunk, so that no block is next to it (law 2).
    fn map_chunk(
        &self,
        os: &impl Memory,
        index: usize,
        is_refused: &impl Fn(&Range<usize>) -> bool,
    ) -> Result<(), Error> {
        let chunk = self.chunks.get(index).ok_or(Error::NoMemory)?;
        if chunk.load(Acquire) != 0 {
            return Ok(());
        }
        let range = reserve(os, CHUNK_BYTES + UNIT, UNIT, is_refused)?;
        // SAFETY: (1) reserved by the line above.
        if let Err(error) = unsafe { os.open_table(range.start, CHUNK_BYTES) } {
            release(os, range);
            return Err(error);
        }
        // publish outside chunk: pairs with `get`.
        if chunk.compare_exchange(0, range.start, AcqRel, Acquire).is_err() {
            release(os, range);
            return Ok(());
        }
        Ok(())
    }
}

impl OutsideBlock {
    /// Returns the addresses of the extent.
    pub(super) fn range(&self) -> Range<usize> {
        let at = self.at.load(Relaxed);
        at..at + self.block.extent()
    }
}

/// Reserves `bytes` bytes at a multiple of `align` where the kernel finds room.
fn reserve(
    os: &impl Memory,
    bytes: usize,
    align: usize,
    is_refused: &impl Fn(&Range<usize>) -> bool,
) -> Result<Range<usize>, Error> {
    let page = os.page_size();
    let align = align.max(page);
    let whole = bytes.checked_add(align - page).ok_or(Error::NoMemory)?;
    // What is refused stays reserved until the end, so that the kernel offers something else.
    let mut refused = [const { 0..0 }; OFFERS];
    let mut found = Err(Error::NoMemory);
    for offer in &mut refused {
        let start = match os.reserve(whole) {
            Ok(start) => start,
            Err(error) => {
                found = Err(error);
                break;
            }
        };
        let range = start..start + whole;
        if is_refused(&range) {
            *offer = take_hole(os, range, is_refused);
            continue;
        }
        let first = (start + align - 1) & !(align - 1);
        release(os, start..first);
        release(os, first + bytes..range.end);
        found = Ok(first..first + bytes);
        break;
    }
    refused.into_iter().for_each(|range| release(os, range));
    found
}

/// Maps what is left of a hole of which the kernel has offered the highest part, as far as it is
/// refused. Returns the whole range. The kernel would offer the rest next.
fn take_hole(
    os: &impl Memory,
    offered: Range<usize>,
    is_refused: &impl Fn(&Range<usize>) -> bool,
) -> Range<usize> {
    let page = os.page_size();
    let Range { mut start, end } = offered;
    let (mut bytes, mut grows) = (end - start, true);
    while bytes != 0 {
        let lower = start.checked_sub(bytes).filter(|&lower| is_refused(&(lower..lower + page)));
        match lower {
            Some(lower) if os.map(lower, bytes).is_ok() => start = lower,
            _ => grows = false,
        }
        bytes = if grows { (2 * bytes).min(PIECE_MOST) } else { (bytes / 2) & !(page - 1) };
    }
    start..end
}

/// Unmaps a reserved range, which may be empty. If that fails, at the limit of mappings, it stays
/// reserved.
fn release(os: &impl Memory, range: Range<usize>) {
    if !range.is_empty() {
        // SAFETY: (1) reserved or mapped in this file, and no other code knows it.
        let _ = unsafe { os.unmap(range.start, range.len()) };
    }
}
