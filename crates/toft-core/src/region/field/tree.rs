//! The page map of the secure builds: a tree of two levels.
//!
//! ```text
//! address - base   | granule : 20 or so | unit : 9 | 13 |
//! root    | 1 | 0 | 0 | 3 | 0 | 2 | ...    for each granule of 4 MiB the number of a leaf, or zero
//! leaves  | none | 1 | 2 | 3 | next ...    each with the numbers of 512 units of 8 KiB
//! ```
//!
//! Slabs of different partitions are far apart, so most granules have no slab. Leaves are in the
//! order of demand, two on a page, so that few pages hold all of them. Leaf 0 is all zero: it is
//! that of each granule without slabs.
//!
//! - F5 a leaf whose number is in the root is mapped.

use super::PageMap;
use crate::os::{Error, Memory};
use crate::region::Carve;
use crate::sync::{AtomicU32, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// log2 of the bytes of a unit, for which a leaf has an entry.
const UNIT_SHIFT: u32 = 13;
/// log2 of the bytes of a granule, which has a leaf.
pub const GRANULE_SHIFT: u32 = 22;
/// The number of entries of a leaf, and its bytes.
const ENTRIES: usize = 1 << (GRANULE_SHIFT - UNIT_SHIFT);
const LEAF: usize = ENTRIES * size_of::<AtomicU32>();
/// The bytes of leaves that are mapped at a time.
const STEP: usize = 1 << 20;

/// The shared words of the tree. In the metadata tables, before the root, zero at first.
#[derive(Debug)]
#[repr(C, align(64))]
struct State {
    /// The leaves as far as they are mapped.
    leaves: Carve,
    /// The number of leaves that were taken beside leaf 0. Any thread raises it by one, after the
    /// leaf is mapped.
    taken: AtomicU32,
}

/// The tree.
#[derive(Debug)]
pub struct TreeMap {
    /// The first address of the field, and the number of its granules. Every free reads this and
    /// the next two.
    base: usize,
    granules: usize,
    root: *const AtomicU32,
    leaves: *const AtomicU32,
    state: *const State,
    page_size: usize,
}

impl TreeMap {
    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    /// Returns the root's entry for a granule.
    ///
    /// # Safety
    /// 1. The field has this granule.
    #[inline(always)]
    unsafe fn leaf_of(&self, granule: usize) -> &AtomicU32 {
        // SAFETY: `new` duty 1, by duty 1.
        unsafe { &*self.root.add(granule) }
    }

    /// Returns the entry at a distance from the field's start.
    ///
    /// # Safety
    /// 1. The field has this distance.
    #[inline(always)]
    unsafe fn entry(&self, distance: usize) -> &AtomicU32 {
        // publish leaf: pairs with `reach`.
        // SAFETY: (1) duty 1.
        let leaf = unsafe { self.leaf_of(distance >> GRANULE_SHIFT) }.load(Acquire) as usize;
        let unit = (distance >> UNIT_SHIFT) & (ENTRIES - 1);
        // SAFETY: F5; `new` maps leaf 0.
        unsafe { &*self.leaves.add(leaf * ENTRIES + unit) }
    }

    /// Returns the number of a leaf that no granule has, mapped and all zero.
    fn take_leaf(&self, os: &impl Memory) -> Result<u32, Error> {
        let state = self.state();
        loop {
            let taken = state.taken.load(Relaxed);
            self.reach_leaves(os, taken as usize + 2)?;
            if state.taken.compare_exchange(taken, taken + 1, Release, Relaxed).is_ok() {
                return Ok(taken + 1);
            }
        }
    }

    fn reach_leaves(&self, os: &impl Memory, count: usize) -> Result<(), Error> {
        let space = (self.leaves.expose_provenance(), (self.granules + 1) * LEAF);
        self.state().leaves.reach_ahead(os, space, count * LEAF, STEP, self.page_size)
    }

    fn distances(&self, address: usize, bytes: usize) -> core::ops::Range<usize> {
        let first = address - self.base;
        first..first + bytes
    }
}

impl PageMap for TreeMap {
    const NONE: Self = TreeMap {
        base: 0,
        granules: 0,
        root: core::ptr::null(),
        leaves: core::ptr::null(),
        state: core::ptr::null(),
        page_size: 4096,
    };
    const UNIT: usize = 1 << UNIT_SHIFT;
    const FIRST: usize = STEP;

    fn space(bytes: usize) -> usize {
        ((bytes >> GRANULE_SHIFT) + 1) * LEAF
    }

    fn table_bytes(bytes: usize) -> usize {
        size_of::<State>() + (bytes >> GRANULE_SHIFT) * size_of::<AtomicU32>()
    }

    unsafe fn new(
        os: &impl Memory,
        (base, bytes): (usize, usize),
        space: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let map = TreeMap {
            base,
            granules: bytes >> GRANULE_SHIFT,
            root: core::ptr::with_exposed_provenance(tables + size_of::<State>()),
            leaves: core::ptr::with_exposed_provenance(space),
            state: core::ptr::with_exposed_provenance(tables),
            page_size: os.page_size(),
        };
        map.state().leaves.begin_with(Self::FIRST);
        Ok(map)
    }

    /// It has 2 loads, 2 shifts and a comparison.
    #[inline(always)]
    fn get(&self, address: usize) -> Option<u32> {
        let distance = address.wrapping_sub(self.base);
        if distance >> GRANULE_SHIFT >= self.granules {
            return None;
        }
        // SAFETY: (1) compared above.
        Some(unsafe { self.entry(distance) }.load(Relaxed))
    }

    unsafe fn set(&self, address: usize, bytes: usize, entry: u32) {
        for distance in self.distances(address, bytes).step_by(Self::UNIT) {
            // SAFETY: (1) the caller's duty.
            unsafe { self.entry(distance) }.store(entry, Relaxed);
        }
    }

    fn reach(&self, os: &impl Memory, address: usize, bytes: usize) -> Result<(), Error> {
        let distances = self.distances(address, bytes);
        let last = distances.end.saturating_sub(1) >> GRANULE_SHIFT;
        for granule in distances.start >> GRANULE_SHIFT..=last {
            // SAFETY: (1) the caller's addresses are of the field.
            let root = unsafe { self.leaf_of(granule) };
            if root.load(Relaxed) == 0 {
                let leaf = self.take_leaf(os)?;
                // publish leaf: pairs with `entry`. If another thread was first, a leaf is lost.
                let _ = root.compare_exchange(0, leaf, Release, Relaxed);
            }
        }
        Ok(())
    }

    fn repair(&self, os: &impl Memory) {
        self.state().leaves.repair(os, self.leaves.expose_provenance());
    }

    fn mapped_bytes(&self) -> usize {
        self.state().leaves.mapped()
    }

    fn bytes_for(&self, _slabs: usize) -> usize {
        (self.state().taken.load(Relaxed) as usize + 1) * LEAF
    }

    fn is_mapped(&self, address: usize, bytes: usize) -> bool {
        let mut granules = self.distances(address, bytes).step_by(1 << GRANULE_SHIFT);
        // SAFETY: (1) the caller's addresses are of the field.
        granules.all(|at| unsafe { self.leaf_of(at >> GRANULE_SHIFT) }.load(Relaxed) != 0)
    }
}
