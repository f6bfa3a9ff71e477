//! Every slab that was handed out, and the memory of all slabs and their descriptors.

use super::Plots;
use crate::region::{Descriptor, TierNumber};
use crate::sync::Ordering::Relaxed;

/// The place of a slab in the order of `for_each`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlotPlace {
    /// The number of the plot.
    pub plot: usize,
    /// The number of the slab in the plot.
    pub slab: usize,
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    /// Returns the number of plots of the secret order that may have been begun.
    pub(super) fn begun(&self) -> usize {
        let extra = self.totals().extra.load(Relaxed) as usize;
        self.plots.min(self.partitions + extra)
    }

    /// Returns the slabs that the n-th plot has handed out.
    #[inline(never)]
    fn handed_out(&self, n: usize) -> &[D] {
        let count = self.growth(n).counts.now().next as usize;
        if count == 0 {
            return &[];
        }
        let first = self.first_slab(self.nth_plot(n));
        let Some(slabs) = self.slab_at(first << Self::SHIFT) else { return &[] };
        // SAFETY: P3: these were handed out, so that their descriptors are mapped, one after
        // another (P2); `Descriptor` promises that zero bytes are a descriptor (1), and that shared
        // references are enough for all threads (2).
        unsafe { core::slice::from_raw_parts(slabs, count) }
    }

    /// Returns true if a place is after the last plot.
    pub fn is_end(&self, place: PlotPlace) -> bool {
        place.plot >= self.begun()
    }

    /// Returns the slab at a place that is not the end, and moves the place on to the next slab.
    /// Returns `None` at a slab that is not open yet, and after the last slab of a plot.
    pub fn step(&self, place: &mut PlotPlace) -> Option<&D> {
        let slab = self.handed_out(place.plot).get(place.slab);
        *place = match slab {
            Some(_) => PlotPlace { slab: place.slab + 1, ..*place },
            None => PlotPlace { plot: place.plot + 1, slab: 0 },
        };
        slab.filter(|slab| slab.is_open())
    }

    /// Calls `each` with every slab that was handed out.
    pub fn for_each(&self, mut each: impl FnMut(&D)) {
        for n in 0..self.begun() {
            self.handed_out(n).iter().filter(|slab| slab.is_open()).for_each(&mut each);
        }
    }

    /// Calls `each` with every slab from the one with number `from` on, in the order of `for_each`,
    /// until `each` returns false. Counts `from` up. Returns false if `each` has ended it.
    pub fn for_each_from(&self, from: &mut usize, mut each: impl FnMut(&D) -> bool) -> bool {
        let mut passed = 0;
        for n in 0..self.begun() {
            let slabs = self.handed_out(n);
            for slab in slabs.iter().skip(*from - passed) {
                *from += 1;
                if slab.is_open() && !each(slab) {
                    return false;
                }
            }
            passed += slabs.len();
        }
        true
    }

    /// Returns the bytes of descriptors that may have pages, which are those of handed-out slabs.
    pub fn descriptor_bytes(&self) -> usize {
        let bytes = |n| match self.growth(n).counts.now().next as usize {
            0 => 0,
            slabs if self.is_short(n) => {
                (slabs * Self::BYTES + self.page_size - 1) & !(self.page_size - 1)
            }
            // The first need not begin a page, and the last need not end one.
            slabs => slabs * Self::BYTES + 2 * self.page_size,
        };
        (0..self.begun()).map(bytes).sum()
    }

    /// Calls `each` with the start and length of the mapped addresses: of each slab the bytes from
    /// its start that `mapped_bytes` returns. The ranges are as few as possible.
    pub fn for_each_range(
        &self,
        mapped_bytes: impl Fn(&D) -> usize,
        mut each: impl FnMut(usize, usize),
    ) {
        for n in 0..self.begun() {
            let mapped = self.growth(n).counts.now().mapped as usize;
            if mapped == 0 {
                continue;
            }
            let mut start = self.first_slab(self.nth_plot(n));
            let end = start + mapped;
            for (index, slab) in (start..).zip(self.handed_out(n)) {
                let bytes = if slab.is_open() { mapped_bytes(slab) } else { 0 };
                if bytes < 1 << Self::SHIFT {
                    each(start << Self::SHIFT, ((index - start) << Self::SHIFT) + bytes);
                    start = index + 1;
                }
            }
            each(start << Self::SHIFT, end.saturating_sub(start) << Self::SHIFT);
        }
    }

    /// Returns the bytes of slabs that were mapped, without those that were unmapped before they
    /// were handed out. What a slab has unmapped since counts. Reads no plot.
    pub fn mapped_at_most(&self) -> usize {
        (self.totals().mapped.load(Relaxed) as usize) << Self::SHIFT
    }

    /// Returns the bytes of mapped slabs, and of their mapped descriptors.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let (mut data, mut descriptors) = (0, 0);
        for n in 0..self.begun() {
            data += (self.growth(n).counts.now().mapped as usize) << Self::SHIFT;
            descriptors += self.growth(n).descriptors.mapped();
        }
        (data, descriptors)
    }
}
