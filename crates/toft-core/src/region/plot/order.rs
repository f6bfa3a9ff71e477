//! The places of plots: the secret order in which they are given out, and where in each its slabs
//! begin.

use super::{GRANULE_SHIFT, Plots, SHORT};
use crate::region::{Descriptor, TierNumber};

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    /// Returns log2 of the bytes in a plot, for a tier of `span` bytes. A plot is a granule if the
    /// tier then still has plenty of plots for each partition.
    pub(super) fn plot_shift_for(span: usize, partitions: usize) -> u32 {
        // Most of very many partitions are small, and one spare plot for each is plenty.
        let each = if partitions > 1024 { 2 } else { 4 };
        let plots = (each * partitions).next_power_of_two().max(512);
        GRANULE_SHIFT.min((span / plots).max(1).ilog2()).max(Self::SHIFT + 5)
    }

    /// Returns the n-th plot in the secret order in which plots are given out, which is a keyed
    /// permutation.
    pub(super) fn nth_plot(&self, n: usize) -> usize {
        let mask = self.plots - 1;
        let bits = self.plots.trailing_zeros();
        let mut x = n & mask;
        // Each step is a bijection on `bits` bits: xor, multiply by an odd number, xor the top
        // down.
        for round in 0..3 {
            x = (x ^ (self.order_key >> (16 * round))) & mask;
            x = x.wrapping_mul((self.order_key >> (8 * round)) | 1) & mask;
            x ^= x >> bits.div_ceil(2);
        }
        x
    }

    /// Returns the index of a plot's first slab. It is a keyed place that leaves at least an eighth
    /// of the plot.
    pub(super) fn first_slab(&self, plot: usize) -> usize {
        let slabs = 1usize << (self.plot_shift - Self::SHIFT);
        let begin = (self.base >> Self::SHIFT) + plot * slabs;
        if self.plot_shift != GRANULE_SHIFT {
            return begin;
        }
        let places = slabs / 8 * 7;
        let hash = (plot as u64 + 1).wrapping_mul(self.place_key);
        let place = ((u128::from(hash ^ hash.rotate_left(32)) * places as u128) >> 64) as usize;
        begin + place
    }

    /// Returns true if the n-th plot in the secret order is short.
    pub(super) fn is_short(&self, n: usize) -> bool {
        self.short != 0 && n < self.partitions
    }

    /// Returns the index after the last slab of the n-th plot in the secret order.
    pub(super) fn end_slab(&self, n: usize) -> usize {
        let plot = self.nth_plot(n);
        if self.is_short(n) {
            return self.first_slab(plot) + SHORT;
        }
        (self.base + ((plot + 1) << self.plot_shift)) >> Self::SHIFT
    }
}
