//! How a plot grows: slabs are mapped ahead of need, handed out each once, and what is mapped and
//! not handed out may be taken back.
//!
//! P3 is held here: both counts of a plot are one word, which changes by compare and exchange only.
//!
//! ```text
//! counts   | growing : 1 | mapped : 31 | next : 32 |
//! ```
//!
//! A thread sets `growing` before it maps or unmaps slabs that were not handed out, and clears it
//! afterwards. So a mapping that it finds in its way is foreign. Other threads do not wait for it:
//! they go on in another plot.

use super::{GRANULE_SHIFT, Plots};
use crate::os::{Error, Os};
use crate::region::{Carve, Descriptor, STEP, Tier, TierNumber};
use crate::sync::{AtomicU64, Ordering, spin_until};
use Ordering::{AcqRel, Acquire, Relaxed};

/// Set while a thread maps or unmaps what comes after `next`.
const GROWING: u64 = 1 << 63;

/// Bytes that a plot grows by at most.
const STEP_MAX: usize = 64 << 20;

/// Plots to try, one after another, when there is none left that was never used.
const SHARED_TRIES: usize = 8;

/// What moves as a plot grows, by the plot's place in the secret order, so that those in use lie
/// together.
#[derive(Debug)]
pub(super) struct Growth {
    /// [`Counts`]. Any thread, by compare and exchange.
    counts: AtomicU64,
    /// Descriptors of this plot, as mapped; or, where plots share granules, of the n-th granule.
    pub(super) descriptors: Carve,
}

/// Slabs of a plot: handed out, and mapped; and whether a thread changes the latter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) next: u32,
    pub(super) mapped: u32,
    growing: bool,
}

impl Growth {
    pub(super) fn counts(&self) -> Counts {
        let word = self.counts.load(Acquire);
        let mapped = ((word & !GROWING) >> 32) as u32;
        Counts { next: word as u32, mapped, growing: word & GROWING != 0 }
    }

    /// Whether they were `from`, and are `to` now.
    fn change(&self, from: Counts, to: Counts) -> bool {
        self.counts.compare_exchange(from.word(), to.word(), AcqRel, Relaxed).is_ok()
    }

    /// As if a thread had been stopped while it grows the plot.
    #[cfg(test)]
    pub(super) fn begin(&self) {
        self.counts.fetch_or(GROWING, AcqRel);
    }

    /// Ends a claim: only the thread that has set `growing` changes `mapped`, and it adds `more`
    /// now.
    fn grown(&self, more: usize) {
        // publish step: pairs with `take_from`. The bit is set, so this clears it and adds the
        // slabs.
        self.counts.fetch_add(GROWING.wrapping_add((more as u64) << 32), AcqRel);
    }
}

impl Counts {
    fn word(self) -> u64 {
        let growing = if self.growing { GROWING } else { 0 };
        u64::from(self.next) | u64::from(self.mapped) << 32 | growing
    }
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    /// A slab that was never used, for `partition`: its descriptor, still zero, and its address.
    /// `mapped` gets the address and bytes that were mapped for it and those that come after.
    pub fn take(
        &self,
        os: &impl Os,
        partition: usize,
        mapped: impl Fn(usize, usize),
    ) -> Result<(&D, usize), Error> {
        let mut shared = 0;
        while shared <= SHARED_TRIES {
            let current = self.current(partition).load(Acquire);
            // The n-th plot in the secret order: the partition's first, or one of the extra ones.
            // Where there are fewer plots than partitions, partitions share them.
            let n = if current == 0 { partition & (self.plots - 1) } else { current as usize - 1 };
            match self.take_from(os, n, &mapped) {
                Ok(index) => return Ok((self.slab(index), index << Self::SHIFT)),
                // Used up, or something foreign is in its way, or another thread is about it.
                Err(Error::Occupied) => {
                    let alone = self.move_on(partition, current, n)?;
                    shared += usize::from(!alone);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoMemory)
    }

    /// The n-th plot is of no use: the partition goes on in another. That is one that was never
    /// used; if there is none left, one of another partition that has room. Returns true if it is
    /// an unused one. Slabs are never shared (law 1), plots are before memory is refused.
    #[cold]
    fn move_on(&self, partition: usize, from: u32, n: usize) -> Result<bool, Error> {
        let extra = self.extra()[0].fetch_add(1, Relaxed) as usize;
        let alone = extra < self.plots.saturating_sub(self.partitions);
        let n = if alone {
            self.partitions + extra
        } else {
            // As many as there are will do: it must not come round.
            self.extra()[0].fetch_sub(1, Relaxed);
            let mut others = (1..self.plots).map(|step| (n + step) & (self.plots - 1));
            others.find(|&n| self.has_room(n)).ok_or(Error::NoMemory)?
        };
        // Losing the race costs one plot and is fine: another thread has moved the partition on.
        let _ = self.current(partition).compare_exchange(from, n as u32 + 1, AcqRel, Relaxed);
        Ok(alone)
    }

    /// Whether the n-th plot has slabs that were never handed out, and no thread is mapping them.
    pub(super) fn has_room(&self, n: usize) -> bool {
        let plot = self.nth_plot(n);
        let counts = self.growth(n).counts();
        let begun = counts.growing && counts.next == counts.mapped;
        !begun && self.first_slab(plot) + (counts.next as usize) < self.end_slab(plot)
    }

    fn take_from(
        &self,
        os: &impl Os,
        n: usize,
        told: &impl Fn(usize, usize),
    ) -> Result<usize, Error> {
        let growth = self.growth(n);
        loop {
            let seen = growth.counts();
            if seen.next < seen.mapped {
                if growth.change(seen, Counts { next: seen.next + 1, ..seen }) {
                    return Ok(self.first_slab(self.nth_plot(n)) + seen.next as usize);
                }
            } else if seen.growing {
                if !spin_until(|| growth.counts() != seen) {
                    return Err(Error::Occupied);
                }
            } else if growth.change(seen, Counts { growing: true, ..seen }) {
                let done = self.grow(os, n, seen.mapped as usize);
                let (address, bytes) = *done.as_ref().unwrap_or(&(0, 0));
                growth.grown(bytes >> Self::SHIFT);
                self.extra()[2].fetch_add((bytes >> Self::SHIFT) as u32, Relaxed);
                done?;
                told(address, bytes);
            }
        }
    }

    /// Maps the next step of a plot, after its `mapped` slabs: for the thread that has set
    /// `growing`. Returns the address and the number of bytes.
    #[cold]
    fn grow(&self, os: &impl Os, n: usize, mapped: usize) -> Result<(usize, usize), Error> {
        let tier = Tier::of(TIER);
        let plot = self.nth_plot(n);
        let first = self.first_slab(plot);
        let room = self.end_slab(plot) - (first + mapped);
        let modest = self.extra()[1].load(Relaxed) != 0;
        let most = if modest { tier.first_step } else { STEP_MAX };
        let full_step = (mapped << tier.shift).clamp(tier.first_step, most) >> tier.shift;
        let mut step = full_step.min(room);
        if step == 0 {
            // As good as occupied: the next plot's slabs are there.
            return Err(Error::Occupied);
        }
        loop {
            match self.map_step(os, n, first + mapped, step) {
                Ok(()) => break,
                // Near a limit a single slab may still fit.
                Err(Error::NoMemory) if step > 1 => step = 1,
                Err(error) => return Err(error),
            }
        }
        Ok(((first + mapped) << Self::SHIFT, step << Self::SHIFT))
    }

    fn map_step(&self, os: &impl Os, n: usize, index: usize, step: usize) -> Result<(), Error> {
        let address = index << Self::SHIFT;
        // Where plots share granules, the descriptors of one end where the next one's begin.
        let unit = if self.plot_shift == GRANULE_SHIFT { STEP } else { self.page_size };
        let (first, end, carve) = if self.plot_shift == GRANULE_SHIFT {
            // From the first one's page on; what else is on that page describes nothing.
            let first = self.first_slab(self.nth_plot(n)) & !(self.page_size / Self::BYTES - 1);
            (first, index + step, &self.growth(n).descriptors)
        } else {
            // Plots that share a granule: all of the granule that is in the tier.
            let granule = address >> GRANULE_SHIFT << GRANULE_SHIFT;
            let low = granule.max(self.base);
            let high =
                (granule + (1 << GRANULE_SHIFT)).min(self.base + (self.plots << self.plot_shift));
            let nth = (address >> GRANULE_SHIFT) - (self.base >> GRANULE_SHIFT);
            (low >> Self::SHIFT, high >> Self::SHIFT, &self.growth(nth).descriptors)
        };
        let start = self.slabs.wrapping_add(first * Self::BYTES);
        let bytes = (end - first) * Self::BYTES;
        carve.reach(os, start, start + bytes, unit)?;
        os.map(address, step << Self::SHIFT)?;
        // Others may find them now.
        self.lookup.publish(first, end, start);
        Ok(())
    }

    /// There is memory again: maps ahead of need, as much as the plot has already.
    pub fn grow_ahead(&self) {
        self.extra()[1].store(0, Relaxed);
    }

    /// Memory has run out: gives back what was mapped ahead of need, and maps little ahead until
    /// [`grow_ahead`](Self::grow_ahead). What is given back is mapped again when it is needed.
    pub fn retract(&self, os: &impl Os) {
        self.extra()[1].store(1, Relaxed);
        for n in 0..self.begun() {
            let growth = self.growth(n);
            let seen = growth.counts();
            let ahead = (seen.mapped - seen.next) as usize;
            // The thread that sets `growing` owns what comes after `mapped` until it clears the
            // bit.
            let taken = Counts { mapped: seen.next, growing: true, ..seen };
            if ahead != 0 && !seen.growing && growth.change(seen, taken) {
                let first = (self.first_slab(self.nth_plot(n)) + seen.next as usize) << Self::SHIFT;
                // SAFETY: (1) these slabs were never used, and by the exchange no thread takes them
                // meanwhile.
                let gone = unsafe { os.unmap(first, ahead << Self::SHIFT) }.is_ok();
                // At the limit of mappings they stay.
                growth.grown(if gone { 0 } else { ahead });
                self.extra()[2].fetch_sub(if gone { ahead as u32 } else { 0 }, Relaxed);
            }
        }
    }

    /// In the child of a fork: finishes the descriptors that a thread that is no more had set out
    /// to map. Slabs that it had mapped and not published are left alone: the next thread to grow
    /// the plot finds them in its way, and goes on in another.
    ///
    /// The first `partitions` partitions are in use. Plots of the others are not read, because the
    /// first access to a page costs the child a fault.
    pub fn repair(&self, os: &impl Os, partitions: usize) {
        let begun = self.begun();
        // Where all plots are given out, a partition may draw from the plot of an unused one.
        let in_use = if begun == self.plots { begun } else { partitions };
        for n in (0..begun).filter(|&n| n < in_use || n >= self.partitions) {
            let growth = self.growth(n);
            if growth.counts().growing {
                growth.grown(0);
            }
            if self.plot_shift == GRANULE_SHIFT {
                let first = self.first_slab(self.nth_plot(n)) & !(self.page_size / Self::BYTES - 1);
                growth.descriptors.repair(os, self.slabs.wrapping_add(first * Self::BYTES));
            }
        }
    }
}
