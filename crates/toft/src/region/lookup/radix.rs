//! For comparison only: a radix tree of two levels over addresses, as many allocators have one. The
//! upper level has an entry for each granule of 4 GiB, and points to a leaf with an entry for each
//! slab of it: the address of its descriptor, or zero.
//!
//! The leaves of a tier follow each other in separate address space, so that beginning one is one
//! store.

use super::{GRANULE_SHIFT, map_sparse};
use crate::os::{Error, Os};
use crate::region::{Tier, TierNumber};
use crate::sync::{AtomicUsize, Ordering};
use Ordering::{Acquire, Release};
use core::marker::PhantomData;

/// Granules in the largest user address space there is (48 bits).
const GRANULES: usize = 1 << (48 - GRANULE_SHIFT);

/// The tree.
#[derive(Debug)]
pub struct Lookup<const TIER: TierNumber, D> {
    /// Entries of the upper level: zero before there is one.
    granules: usize,
    /// The address of each granule's leaf, or zero. Written by any thread, always the same.
    root: *const AtomicUsize,
    /// The leaf of the tier's first granule, and which that is.
    leaves: usize,
    first_granule: usize,
    descriptors: PhantomData<D>,
}

impl<const TIER: TierNumber, D> Lookup<TIER, D> {
    const SHIFT: u32 = Tier::of(TIER).shift;
    /// Entries of a leaf.
    const LEAF: usize = 1 << (GRANULE_SHIFT - Self::SHIFT);
    const LEAF_BYTES: usize = Self::LEAF * size_of::<AtomicUsize>();

    /// Bytes of zeroed table that `new` needs.
    pub const TABLE_BYTES: usize = GRANULES * size_of::<AtomicUsize>();

    /// Bytes of address space that `new` needs for itself, for a tier of `span` bytes.
    pub const fn span_bytes(span: usize) -> usize {
        // A tier that does not begin with a granule touches one more.
        ((span >> GRANULE_SHIFT) + 2) * Self::LEAF_BYTES
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Self {
        Lookup {
            granules: 0,
            root: core::ptr::null(),
            leaves: 0,
            first_granule: 0,
            descriptors: PhantomData,
        }
    }

    /// A tree that has no descriptor yet.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. `space` is the address of `span_bytes(span)` bytes of address space for this object
    ///    alone.
    pub unsafe fn new(
        os: &impl Os,
        (base, span): (usize, usize),
        tables: usize,
        space: usize,
    ) -> Result<Self, Error> {
        map_sparse(os, space, Self::span_bytes(span))?;
        Ok(Lookup {
            granules: GRANULES,
            root: core::ptr::with_exposed_provenance(tables),
            leaves: space,
            first_granule: base >> GRANULE_SHIFT,
            descriptors: PhantomData,
        })
    }

    #[inline(always)]
    fn root_at(&self, address: usize) -> Option<&AtomicUsize> {
        let granule = address >> GRANULE_SHIFT;
        if granule >= self.granules {
            return None;
        }
        // SAFETY: `new` duty 1: the upper level has `granules` entries.
        Some(unsafe { &*self.root.add(granule) })
    }

    #[inline(always)]
    fn entry(leaf: usize, index: usize) -> &'static AtomicUsize {
        let leaf: *const AtomicUsize = core::ptr::with_exposed_provenance(leaf);
        // SAFETY: `new` duty 2: the upper level holds addresses of leaves, which are mapped for
        // ever and have `LEAF` entries, a power of two.
        unsafe { &*leaf.add(index & (Self::LEAF - 1)) }
    }

    /// The address of the descriptor of the slab that contains an address, if it is mapped.
    ///
    /// 4 loads, 2 shifts and 3 comparisons.
    #[inline(always)]
    pub fn descriptor_of(&self, address: usize) -> Option<usize> {
        let leaf = self.root_at(address)?.load(Acquire);
        if leaf == 0 {
            return None;
        }
        // publish slabs: pairs with `publish`.
        let slab = Self::entry(leaf, address >> Self::SHIFT).load(Acquire);
        (slab != 0).then_some(slab)
    }

    /// From now on the slab indices `first .. end`, which are of one granule, have descriptors,
    /// from the address `slabs` on. Every call for a granule names the same first one.
    pub fn publish(&self, first: usize, end: usize, slabs: usize) {
        let Some(root) = self.root_at(first << Self::SHIFT) else { return };
        let granule = (first << Self::SHIFT) >> GRANULE_SHIFT;
        let leaf = self.leaves + (granule - self.first_granule) * Self::LEAF_BYTES;
        for index in first..end {
            let entry = Self::entry(leaf, index);
            // What was published before is on pages that need not be written again.
            if entry.load(Acquire) == 0 {
                // publish slabs: pairs with `descriptor_of`.
                entry.store(slabs + (index - first) * size_of::<D>(), Release);
            }
        }
        root.store(leaf, Release);
    }
}
