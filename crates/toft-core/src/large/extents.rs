//! Where extents without pages come from: from a stack, from units that were never used, or from
//! outside the window.

use super::blocks::{Blocks, Need, TRIES, view};
use super::class::class_bytes;
use super::units::{UNIT, units_in};
use super::{Block, BlockState};
use crate::os::{Error, Memory};
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;
use crate::sync::stack;

view!(pub(super) Extents, extents, "The extents without pages, or nearly so.");

impl<'a> Extents<'a> {
    /// The descriptor of a new extent, filled in but for the mapping.
    fn prepare(
        self,
        os: &impl Memory,
        unit: usize,
        need: &Need,
        apart: bool,
        extent: usize,
    ) -> Result<&'a Block, Error> {
        self.0.units().map_descriptor(os, unit)?;
        let block = self.0.units().block(unit);
        block.set_class(need.class, apart);
        block.partition.store(need.partition.number() as u32, Relaxed);
        block.extent.store(extent, Relaxed);
        Ok(block)
    }

    /// A held block of this partition and class without pages, or nearly so: from the stack, else
    /// in an extent that was never used. `Occupied` means that the window has no place for one.
    pub(super) fn take(self, os: &impl Memory, need: &Need) -> Result<&'a Block, Error> {
        if let Some(block) = self.pop(need, TRIES) {
            return Ok(block);
        }
        let all = self.0.units();
        let placement = self.0.placement();
        let extent = class_bytes(need.class)
            .max(need.bytes)
            .checked_add(placement.extent_beside())
            .and_then(|extent| extent.checked_next_multiple_of(UNIT))
            .ok_or(Error::NoMemory)?;
        let units = units_in(extent);
        // The first unit that could not be used, and the number of chunks with something foreign.
        let (mut passed, mut foreign) = (None, 0);
        loop {
            let apart = self.0.pages().may_be_separate();
            let gap = placement.choose_gap(apart);
            let take = |gap| all.take(units, need.align, gap);
            let unit = match take(gap).or_else(|_| take(0)) {
                Ok(unit) => unit,
                // Before memory is refused, the one at the right multiple may lie further down. The
                // tier has no more address space, but there may be some outside the window.
                Err(_) => return self.pop(need, all.count()).ok_or(Error::Occupied),
            };
            // Addresses that wait have descriptors. New ones would take the memory that the block
            // needs.
            if SECURE
                && self.0.kept_blocks().is_short()
                && !all.is_mapped(unit)
                && self.0.waiting().stop(need.bytes)
                && let Some(block) = self.pop(need, all.count())
            {
                all.put_back(unit, units);
                return Ok(block);
            }
            let error = match self.prepare(os, unit, need, apart, extent) {
                Ok(block) => return Ok(block),
                Err(error) => error,
            };
            // The next chunk of descriptors is another matter. What is passed by is left alone,
            // unless something foreign is everywhere.
            let end = unit + units;
            let goes_on = match error {
                // Another thread is mapping the chunk. It maps one chunk at a time, so `n` such
                // threads make this one pass by `n` chunks, which the tier has for 64 MiB each.
                Error::Busy => true,
                Error::Occupied => {
                    passed.get_or_insert(unit);
                    foreign += 1;
                    foreign < TRIES
                }
                _ => false,
            };
            if !goes_on || !all.skip_chunk(unit, end) {
                let first = passed.unwrap_or(unit);
                all.put_back(first, end - first);
                let is_full = matches!(error, Error::Occupied | Error::Busy);
                return Err(if is_full { Error::Occupied } else { Error::NoMemory });
            }
        }
    }

    /// A held block of this partition and class outside the window, without pages. None is larger
    /// than the tier.
    pub(super) fn take_outside(self, os: &impl Memory, need: &Need) -> Result<&'a Block, Error> {
        let units = self.0.units();
        if units_in(need.bytes) >= units.count() {
            return Err(Error::NoMemory);
        }
        if let Some(block) = self.pop_if(need, units.count(), |unit| units.is_outside(unit)) {
            return Ok(block);
        }
        let bytes = need.bytes.checked_add(self.0.placement().extent_beside());
        let block = units.take_outside(os, bytes.ok_or(Error::NoMemory)?, need.align)?;
        block.set_class(need.class, false);
        block.partition.store(need.partition.number() as u32, Relaxed);
        Ok(block)
    }

    /// What `take_outside` gave was of no use. An extent that no block was in is returned to the
    /// system.
    pub(super) fn put_back_outside(self, os: &impl Memory, block: &Block) {
        if block.state() == BlockState::None {
            self.0.units().put_back_outside(os, block);
        } else {
            self.push(block);
        }
    }

    fn pop(self, need: &Need, tries: usize) -> Option<&'a Block> {
        self.pop_if(need, tries, |_| true)
    }

    fn pop_if(
        self,
        need: &Need,
        tries: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Option<&'a Block> {
        let units = self.0.units();
        let head = self.0.stacks().of(need.partition, need.class);
        // An extent outside the window may be smaller than its class.
        let room = need.bytes.saturating_add(self.0.placement().extent_beside());
        let fits = |unit| {
            wanted(unit)
                && units.extent_address(unit) & (need.align - 1) == 0
                && (!units.is_outside(unit) || room <= units.block(unit).extent())
        };
        // Blocks that do not fit are held, linked by `below`, and put back.
        let mut held = 0u32;
        let mut found = None;
        for _ in 0..tries {
            let below = |unit: u32| units.block(unit as usize).below.load(Relaxed);
            let Some(unit) = stack::pop(head, below) else { break };
            let unit = unit as usize;
            if fits(unit) {
                found = Some(units.block(unit));
                break;
            }
            units.block(unit).below.store(held, Relaxed);
            held = unit as u32 + 1;
        }
        while let Some(unit) = held.checked_sub(1) {
            let block = units.block(unit as usize);
            held = block.below.load(Relaxed);
            stack::push(head, unit, |below| block.below.store(below, Relaxed));
        }
        let block = found?;
        self.0.figures().take(block.resident.load(Relaxed));
        Some(block)
    }

    /// Puts a held, free block on its stack.
    pub(super) fn push(self, block: &Block) {
        self.0.figures().put(block.resident.load(Relaxed));
        let head = self.0.stacks().of(block.partition(), block.class());
        let unit = self.0.units().of(block) as u32;
        stack::push(head, unit, |below| block.below.store(below, Relaxed));
    }

    /// What `take` gave was of no use. Units that were never used are returned if no thread has
    /// taken more since, else the block waits on its stack for a request that has more luck.
    pub(super) fn put_back(self, block: &Block) {
        if block.state() == BlockState::None {
            let units = self.0.units();
            if units.put_back(units.of(block), units_in(block.extent())) {
                return;
            }
            block.publish_free();
        }
        self.push(block);
    }
}
