//! For comparison only: one flat table for the whole tier, with an entry for each slab: the address
//! of its descriptor, or zero. It is mapped at the start and touched as slabs are.

use super::map_sparse;
use crate::os::{Error, Os};
use crate::region::{Tier, TierNumber};
use crate::sync::{AtomicUsize, Ordering};
use Ordering::{Acquire, Release};
use core::marker::PhantomData;

/// The table.
#[derive(Debug)]
pub struct Lookup<const TIER: TierNumber, D> {
    /// Slab index of the first entry.
    first: usize,
    /// Number of entries: zero before there is a table.
    entries: usize,
    table: *const AtomicUsize,
    descriptors: PhantomData<D>,
}

impl<const TIER: TierNumber, D> Lookup<TIER, D> {
    const SHIFT: u32 = Tier::of(TIER).shift;

    /// Bytes of zeroed table that `new` needs.
    pub const TABLE_BYTES: usize = 0;

    /// Bytes of address space that `new` needs for itself, for a tier of `span` bytes.
    pub const fn span_bytes(span: usize) -> usize {
        let bytes = (span >> Self::SHIFT) * size_of::<AtomicUsize>();
        // Whole pages of any system.
        bytes.next_multiple_of(crate::region::STEP)
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Self {
        Lookup { first: 0, entries: 0, table: core::ptr::null(), descriptors: PhantomData }
    }

    /// A table that has no descriptor yet.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. `space` is the address of `span_bytes(span)` bytes of address space for this object
    ///    alone.
    pub unsafe fn new(
        os: &impl Os,
        (base, span): (usize, usize),
        _tables: usize,
        space: usize,
    ) -> Result<Self, Error> {
        map_sparse(os, space, Self::span_bytes(span))?;
        Ok(Lookup {
            first: base >> Self::SHIFT,
            entries: span >> Self::SHIFT,
            table: core::ptr::with_exposed_provenance(space),
            descriptors: PhantomData,
        })
    }

    #[inline(always)]
    fn entry(&self, index: usize) -> Option<&AtomicUsize> {
        let index = index.wrapping_sub(self.first);
        if index >= self.entries {
            return None;
        }
        // SAFETY: `new` duty 2: the table has more than `index` entries, and is mapped for ever.
        Some(unsafe { &*self.table.add(index) })
    }

    /// The address of the descriptor of the slab that contains an address, if it is mapped.
    ///
    /// 4 loads, 1 shift, 1 subtraction and 2 comparisons.
    #[inline(always)]
    pub fn descriptor_of(&self, address: usize) -> Option<usize> {
        // publish slabs: pairs with `publish`.
        let slab = self.entry(address >> Self::SHIFT)?.load(Acquire);
        (slab != 0).then_some(slab)
    }

    /// From now on the slab indices `first .. end`, which are of one granule, have descriptors,
    /// from the address `slabs` on. Every call for a granule names the same first one.
    pub fn publish(&self, first: usize, end: usize, slabs: usize) {
        for index in first..end {
            let Some(entry) = self.entry(index) else { return };
            // What was published before is on pages that need not be written again.
            if entry.load(Acquire) == 0 {
                // publish slabs: pairs with `descriptor_of`.
                entry.store(slabs + (index - first) * size_of::<D>(), Release);
            }
        }
    }
}
