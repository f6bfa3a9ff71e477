//! Plots: the source of a partition's slabs, and the test whether an address is in a slab.
//!
//! ```text
//! tier   | plot 0 | plot 1 | ...                                   | plot N-1 |
//! plot   | .....first|slab slab slab ... count|next step............|
//! ```
//!
//! The [`Lookup`] finds the slab that contains an address, which may be any address. A plot is a
//! *granule* of 4 GiB. If the address space is too small for that, plots are smaller and share a
//! granule. The whole granule's descriptors are then mapped at once.
//!
//! The first plot of each partition is *short*: it has [`SHORT`] slabs, and the partition goes on
//! in a plot of full size. The descriptors of short plots are adjacent, in the order in which
//! the plots were begun. Most partitions of a small program have no other plot, so that few page
//! tables hold all its descriptors, and a fork copies fewer (decision 0049).
//!
//! ```text
//! descriptors | short plot | short plot | ... | plot 0 | plot 1 | ...
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the plots of a tier, and the descriptor of an address |
//! | `order.rs` | the secret order of plots, and where in each its slabs begin |
//! | `choose.rs` | the plot from which a partition takes its next slab |
//! | `grow.rs` | slabs that were never used: mapped in steps, each handed out once |
//! | `walk.rs` | all slabs that were handed out |
//!
//! Invariants (P1 is the lookup's)
//! - P2 a descriptor that the lookup finds is mapped; one whose slab was not handed out is all zero
//!   and fails every free.
//! - P3 and P4 are those of a plot's counts (`region/counts.rs`).
//! - P5 a partition gets another plot only if the search has found each plot that it has used up,
//!   blocked by a foreign mapping, or growing. A plot stays with its partition, and each later
//!   search begins with it. A thread that is stopped while a plot grows therefore costs its
//!   partition at most one more plot, however long it is stopped.

mod choose;
mod grow;
mod order;
mod walk;

pub use walk::PlotPlace;

use super::lookup::{GRANULE_SHIFT, Lookup};
use super::{Descriptor, Partition, Tier, TierNumber};
use crate::os::{Error, Os};
use crate::sync::AtomicU32;
use core::marker::PhantomData;
use grow::{Growth, SHORT_STEP};

/// The number of slabs of a short plot.
pub const SHORT: usize = 64;

/// Returns the number of bytes of address space for the descriptors of short plots. The tier has
/// `span` bytes, and a descriptor `bytes`. Half of all plots may be short, if plots are granules.
pub const fn short_bytes(span: usize, bytes: usize) -> usize {
    ((span >> (GRANULE_SHIFT + 1)) * SHORT * bytes).next_multiple_of(SHORT_STEP)
}

/// Numbers about all plots of a tier, in the metadata tables and zero at first. Any thread writes.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Totals {
    /// The plots taken beyond the first of each partition.
    extra: AtomicU32,
    /// Not zero if steps are to be small.
    is_modest: AtomicU32,
    /// Not zero if the system locks pages when they are mapped.
    is_locked: AtomicU32,
    /// The slabs that are mapped.
    mapped: AtomicU32,
    /// The short plots that were begun.
    short: AtomicU32,
    /// The blocked plots that were tried again. The next search begins after the last of them.
    tried_again: AtomicU32,
}

/// The plots of one tier.
#[derive(Debug)]
pub struct Plots<const TIER: TierNumber, D> {
    lookup: Lookup<TIER, D>,
    /// The address that the descriptor of slab index 0 would have.
    slabs: usize,
    /// The address of the first descriptor of a short plot, or zero if no plot is short.
    short: usize,
    /// The first address of the tier, and log2 of the bytes in a plot.
    base: usize,
    plot_shift: u32,
    /// The number of plots, which is a power of two, and the number of partitions.
    plots: usize,
    partitions: usize,
    /// The keys that place slabs: the plot that a partition gets, and the place in it where slabs
    /// begin.
    order_key: usize,
    place_key: u64,
    page_size: usize,
    growth: *const Growth,
    /// The plot from which each partition takes slabs, plus one; zero means its first. Any thread
    /// changes it, by compare and exchange.
    current: *const AtomicU32,
    totals: *const Totals,
    descriptors: PhantomData<D>,
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    const SHIFT: u32 = Tier::of(TIER).shift;
    const BYTES: usize = size_of::<D>();

    /// Returns the number of zeroed bytes of tables that `new` needs.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        let plots = span >> Self::plot_shift_for(span, partitions);
        Lookup::<TIER, D>::TABLE_BYTES + Self::words_bytes(partitions) + plots * size_of::<Growth>()
    }

    /// Returns the number of bytes of `totals` and `current`. They are before `growth`. A small
    /// program that grows therefore changes one page, and each of its children copies one page.
    fn words_bytes(partitions: usize) -> usize {
        let bytes = size_of::<Totals>() + partitions * size_of::<AtomicU32>();
        bytes.next_multiple_of(size_of::<Totals>())
    }

    /// Returns an object that contains no address, for use before the allocator starts.
    pub const fn none() -> Self {
        Plots {
            lookup: Lookup::none(),
            slabs: 0,
            short: 0,
            base: 0,
            plot_shift: 0,
            plots: 0,
            partitions: 0,
            order_key: 0,
            place_key: 0,
            page_size: 4096,
            growth: core::ptr::null(),
            current: core::ptr::null(),
            totals: core::ptr::null(),
            descriptors: PhantomData,
        }
    }

    /// Returns the plots of a tier of `span` bytes from `base`, with descriptors from `slabs` on,
    /// first those of short plots.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes(span, partitions)` zero bytes that live for ever,
    ///    are aligned to 64, and belong to this object alone.
    /// 2. The span is address space for this object alone. So is the space from `slabs` on for its
    ///    descriptors and for what the lookup needs.
    pub unsafe fn new(
        os: &impl Os,
        base: usize,
        span: usize,
        partitions: usize,
        slabs: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let plot_shift = Self::plot_shift_for(span, partitions);
        let plots = span >> plot_shift;
        let totals = tables + Lookup::<TIER, D>::TABLE_BYTES;
        let growth = totals + Self::words_bytes(partitions);
        let short = short_bytes(span, Self::BYTES);
        let is_short = plot_shift == GRANULE_SHIFT && partitions <= plots / 2;
        let behind = slabs + short + (span >> Self::SHIFT) * Self::BYTES;
        // SAFETY: (1) the first part of our tables; (2) the space after the descriptors.
        let lookup = unsafe { Lookup::new(os, (base, span), tables, behind)? };
        Ok(Plots {
            lookup,
            slabs: (slabs + short).wrapping_sub((base >> Self::SHIFT) * Self::BYTES),
            short: if is_short { slabs } else { 0 },
            base,
            plot_shift,
            plots,
            partitions,
            order_key: os.random()? as usize,
            place_key: os.random()? | 1,
            page_size: os.page_size(),
            growth: core::ptr::with_exposed_provenance(growth),
            current: core::ptr::with_exposed_provenance(totals + size_of::<Totals>()),
            totals: core::ptr::with_exposed_provenance(totals),
            descriptors: PhantomData,
        })
    }

    fn totals(&self) -> &Totals {
        // SAFETY: `new` duty 1; all-zero is a `Totals`.
        unsafe { &*self.totals }
    }

    fn growth(&self, n: usize) -> &Growth {
        debug_assert!(n < self.plots);
        // SAFETY: `new` duty 1: one for each plot; all-zero is a `Growth`.
        unsafe { &*self.growth.add(n) }
    }

    fn current(&self, partition: Partition) -> &AtomicU32 {
        debug_assert!(partition.number() < self.partitions);
        // SAFETY: `new` duty 1: one for each partition.
        unsafe { &*self.current.add(partition.number()) }
    }

    /// Returns the descriptor of the slab that contains an address, if it is mapped. An address
    /// outside this tier has none.
    #[inline(always)]
    pub fn slab_at(&self, address: usize) -> Option<&D> {
        let slab = self.lookup.descriptor_of(address)?;
        // SAFETY: P2: nothing is mapped at zero. Without this, free compares the address with zero.
        unsafe { core::hint::assert_unchecked(slab != 0) };
        // SAFETY: P2: what the lookup finds is mapped; `Descriptor` promises that zero bytes are a
        // descriptor (1), and that shared references are enough for all threads (2).
        Some(unsafe { &*core::ptr::with_exposed_provenance(slab) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
