//! Finds the descriptor of the slab that contains an address. The address may be any. A lookup
//! takes a few loads from tables, and never faults.
//!
//! There are a few words for each *granule* of 4 GiB, and arithmetic for the rest. The entry
//! `bounds[address >> 32]` is `(first, count, slabs)`. In that granule, the slab indices `first ..
//! first + count` have descriptors, which begin at the address `slabs`. A slab index is an address
//! shifted right; nothing is subtracted from it first. Any thread reads the table to recognise a
//! pointer, by shifts, one subtraction and two comparisons.
//!
//! - P1 `first` and `slabs` of a granule never change once set; `count` only grows, in every
//!   writer.

use crate::os::{Error, Memory};
use crate::region::{Tier, TierNumber};
use crate::sync::{AtomicU32, AtomicUsize, Ordering, Settled};
use Ordering::{Acquire, Relaxed, Release};
use core::marker::PhantomData;

/// log2 of the bytes in a granule.
pub const GRANULE_SHIFT: u32 = 32;

/// The number of granules in the largest user address space (48 bits).
const GRANULES: usize = 1 << (48 - GRANULE_SHIFT);

/// The slab indices of a granule that have descriptors, and the place of the descriptors. The
/// thread whose mapping succeeded writes it, and every free reads it.
#[repr(C, align(16))]
#[derive(Debug)]
struct Bounds {
    first: AtomicU32,
    count: AtomicU32,
    /// The address of the descriptor of slab index `first`.
    slabs: AtomicUsize,
}

/// The bytes of the entry of a lookup without a table. They are numbers and not an entry, so that
/// they are in memory that cannot be written.
static NO_DESCRIPTORS: [u128; size_of::<Bounds>() / size_of::<u128>()] =
    [0; size_of::<Bounds>() / size_of::<u128>()];

/// The table of all granules.
#[derive(Debug)]
pub struct Lookup<const TIER: TierNumber, D> {
    /// The bits of an entry's distance from the first, or zero if there is no table.
    mask: usize,
    /// The first entry. If there is no table, the only one, which has no descriptor.
    bounds: *const Bounds,
    descriptors: PhantomData<D>,
}

impl<const TIER: TierNumber, D> Lookup<TIER, D> {
    const SHIFT: u32 = Tier::of(TIER).shift;

    /// The number of zeroed bytes of table that `new` needs.
    pub const TABLE_BYTES: usize = GRANULES * size_of::<Bounds>();

    /// Returns the number of bytes of address space that `new` needs for a tier of `span` bytes.
    pub const fn span_bytes(_span: usize) -> usize {
        0
    }

    /// Returns a lookup that contains no address, for use before the allocator starts.
    pub const fn none() -> Self {
        Lookup { mask: 0, bounds: (&raw const NO_DESCRIPTORS).cast(), descriptors: PhantomData }
    }

    /// Returns a table that has no descriptor yet.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. `space` is the address of `span_bytes(span)` bytes of address space for this object
    ///    alone.
    pub unsafe fn new(
        _os: &impl Memory,
        _tier: (usize, usize),
        tables: usize,
        _space: usize,
    ) -> Result<Self, Error> {
        let bounds = core::ptr::with_exposed_provenance(tables);
        let mask = (GRANULES - 1) * size_of::<Bounds>();
        Ok(Lookup { mask, bounds, descriptors: PhantomData })
    }

    /// Returns the entry of the granule that contains the low 48 bits of an address.
    #[inline(always)]
    fn bounds_at(&self, address: usize) -> &Bounds {
        let distance = address >> (GRANULE_SHIFT - size_of::<Bounds>().ilog2()) & self.mask;
        // SAFETY: `new` duty 1: the table has an entry for each value of the mask. Without a table
        // the only entry is at zero.
        unsafe { &*self.bounds.byte_add(distance) }
    }

    /// Returns the address of the descriptor of the slab that contains an address, if it is mapped.
    ///
    /// It has 5 loads, 3 shifts and 1 comparison, and accesses only the table. The index keeps the
    /// bits of the address above the 48 that choose the entry, so an address that has one is
    /// refused.
    #[inline(always)]
    pub fn descriptor_of(&self, address: usize) -> Option<usize> {
        let bounds = self.bounds_at(address);
        // publish slabs: pairs with `publish`; the other two are read after it.
        let count = bounds.count.load(Acquire) as usize;
        // SAFETY: (1) P1: both were written before the first `count` that is not zero. Before that
        // no block is here. Any value read then is refused, because no index is below zero.
        let (first, slabs) = unsafe { (bounds.first.settled() as usize, &bounds.slabs) };
        let index = (address >> Self::SHIFT).wrapping_sub(first);
        if index >= count {
            return None;
        }
        // SAFETY: (1) P1, like `first`.
        Some(index * size_of::<D>() + unsafe { slabs.settled() })
    }

    /// Makes the descriptors of the slab indices `first .. end` visible. They begin at the address
    /// `slabs`. The indices are all of one granule. Every call for a granule passes the same
    /// `first`.
    pub fn publish(&self, first: usize, end: usize, slabs: usize) {
        // publish slabs: pairs with `descriptor_of`. In an unshared granule, threads that have
        // mapped different steps may get here in any order. In a shared one all write the same
        // values.
        let bounds = self.bounds_at(first << Self::SHIFT);
        // An exchange and not a load: if the first access to a page of the table reads, the kernel
        // maps the page twice, first a page of zeros.
        if bounds.count.compare_exchange(0, 0, Acquire, Acquire).is_ok() {
            bounds.first.store(first as u32, Relaxed);
            bounds.slabs.store(slabs, Relaxed);
        }
        bounds.count.fetch_max((end - first) as u32, Release);
    }
}
