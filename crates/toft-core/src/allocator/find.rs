//! Finds the block that begins at an address or contains it, from metadata alone. Used by calls
//! that the fast paths have not settled, and by reports that name a bad address.

use crate::allocator::Allocator;
use crate::guarded::Slot;
use crate::large::Block;
use crate::os::Os;
use crate::region::Descriptor;
use crate::slab::{Slab, SlotIndex};
use crate::zero_size::ZeroSizePlace;

/// What an address is to the allocator.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// The start of a slot.
    Slot(&'a Slab, SlotIndex),
    /// Within a slab, but not the start of a slot.
    InSlab(&'a Slab, usize),
    /// The start of a large block.
    Large(&'a Block),
    /// Within a large block's extent.
    InLarge(&'a Block),
    /// In or near a sampled block between guard pages.
    Guarded(&'a Slot),
    /// Among the zero-size blocks.
    ZeroSize(ZeroSizePlace),
    /// Not ours.
    Foreign,
}

impl<O: Os> Allocator<O> {
    /// Whether an address is where blocks may be.
    #[inline]
    pub fn may_be_block(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.data_bytes()
            || self.large.units().may_be_outside(address)
    }

    /// What an address is. Touches nothing but metadata.
    #[inline]
    pub fn find(&self, address: usize) -> Found<'_> {
        if let Some(slab) = self.slabs.slab_at(address)
            && let Some(slot) = slab.slot_of(address)
        {
            return Found::Slot(slab, slot);
        }
        self.find_other(address)
    }

    /// What an address is that does not begin a slot.
    #[inline(never)]
    fn find_other(&self, address: usize) -> Found<'_> {
        if self.large.units().may_be_outside(address)
            && let found @ (Found::Large(_) | Found::InLarge(_)) = self.find_large(address)
        {
            return found;
        }
        let offset = address.wrapping_sub(self.base);
        if offset < self.span {
            in_slab(self.slabs.slab_at(address), address)
        } else if offset < self.span + self.large_span {
            if let Some(place) = self.zero_size.at(address) {
                return Found::ZeroSize(place);
            }
            self.find_large(address)
        } else {
            self.guarded.slot_around(address).map_or(Found::Foreign, Found::Guarded)
        }
    }

    fn find_large(&self, address: usize) -> Found<'_> {
        match self.large.units().block_at(address) {
            Some(block) => Found::Large(block),
            None => match self.large.units().block_around(address) {
                Some(block) => Found::InLarge(block),
                None => Found::Foreign,
            },
        }
    }
}

fn in_slab(slab: Option<&Slab>, address: usize) -> Found<'_> {
    let Some(slab) = slab.filter(|slab| slab.is_open()) else { return Found::Foreign };
    let offset = address.wrapping_sub(slab.base());
    match slab.slot_at(offset) {
        Some(slot) => Found::Slot(slab, slot),
        None if slab.pages().is_without_tail() && offset >= slab.slots() * slab.size() => {
            Found::Foreign
        }
        None => Found::InSlab(slab, offset),
    }
}
