//! How a plot grows: slabs are mapped ahead of need, handed out each once, and what is mapped and not
//! handed out may be taken back.
//!
//! P3 is held here: both counts of a plot are one word, which changes by compare and exchange only.

use super::{GRANULE_SHIFT, Plots};
use crate::os::{Error, Os, wait_for};
use crate::region::{Carve, Descriptor, STEP, Tier, TierNumber};
use crate::sync::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// A plot cannot grow any more, and waiting for another thread would not help.
const GONE: Error = Error::Unsupported;

/// Bytes that a plot grows by at most.
const STEP_MAX: usize = 64 << 20;

/// Plots to try, one after another, when there is none left that nobody has.
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

/// Slabs of a plot: handed out, and mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) next: u32,
    pub(super) mapped: u32,
}

impl Growth {
    pub(super) fn counts(&self) -> Counts {
        let word = self.counts.load(Acquire);
        Counts { next: word as u32, mapped: (word >> 32) as u32 }
    }

    /// Whether they were `from`, and are `to` now.
    fn change(&self, from: Counts, to: Counts) -> bool {
        self.counts.compare_exchange(from.word(), to.word(), AcqRel, Relaxed).is_ok()
    }
}

impl Counts {
    fn word(self) -> u64 {
        u64::from(self.next) | u64::from(self.mapped) << 32
    }
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    /// A slab that nobody has had, for `partition`: its descriptor, still zero, and its address. `mapped`
    /// is told of addresses and bytes that were mapped for it and those that come after.
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
                // Used up, or something foreign is in its way.
                Err(Error::Occupied | Error::Unsupported) => {
                    let alone = self.move_on(partition, current, n)?;
                    shared += usize::from(!alone);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoMemory)
    }

    /// The n-th plot is used up, or something foreign lies in it: the partition goes on in another. That is
    /// one that nobody has; where there is none left, one of another partition that has room. Says whether
    /// it is the first. Slabs are never shared (law 1), plots are before memory is refused.
    #[cold]
    fn move_on(&self, partition: usize, from: u32, n: usize) -> Result<bool, Error> {
        // SAFETY: `new` duty 1.
        let extra = unsafe { &(*self.extra)[0] }.fetch_add(1, Relaxed) as usize;
        let alone = extra < self.plots.saturating_sub(self.partitions);
        let n = if alone {
            self.partitions + extra
        } else {
            // SAFETY: `new` duty 1. As many as there are will do: it must not come round.
            unsafe { &(*self.extra)[0] }.fetch_sub(1, Relaxed);
            let mut others = (1..self.plots).map(|step| (n + step) & (self.plots - 1));
            others.find(|&n| self.has_room(n)).ok_or(Error::NoMemory)?
        };
        // Losing the race costs one plot and is fine: somebody else has moved the partition on.
        let _ = self.current(partition).compare_exchange(from, n as u32 + 1, AcqRel, Relaxed);
        Ok(alone)
    }

    /// Whether the n-th plot has slabs that nobody has had.
    fn has_room(&self, n: usize) -> bool {
        let plot = self.nth_plot(n);
        let handed_out = self.growth(n).counts().next as usize;
        self.first_slab(plot) + handed_out < self.end_slab(plot)
    }

    fn take_from(
        &self,
        os: &impl Os,
        n: usize,
        told: &impl Fn(usize, usize),
    ) -> Result<usize, Error> {
        let growth = self.growth(n);
        let mut waited = false;
        loop {
            let seen = growth.counts();
            if seen.next < seen.mapped {
                if growth.change(seen, Counts { next: seen.next + 1, ..seen }) {
                    return Ok(self.first_slab(self.nth_plot(n)) + seen.next as usize);
                }
                continue;
            }
            match self.grow(os, n, seen.mapped as usize) {
                Ok((address, bytes)) => told(address, bytes),
                // Either another thread is growing this plot just now, or taking back what it has not
                // handed out, and will be seen to have done so; or the place is taken for good.
                Err(Error::Occupied) => {
                    if !wait_for(os, || growth.counts().mapped != seen.mapped) {
                        if waited {
                            return Err(Error::Occupied);
                        }
                        waited = true;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Maps the next step of a plot, behind the `mapped` slabs that the caller has seen. Says where it is,
    /// and how many bytes: none where another thread was first.
    #[cold]
    pub(super) fn grow(
        &self,
        os: &impl Os,
        n: usize,
        mapped: usize,
    ) -> Result<(usize, usize), Error> {
        let tier = Tier::of(TIER);
        let plot = self.nth_plot(n);
        let first = self.first_slab(plot);
        let room = self.end_slab(plot) - (first + mapped);
        // SAFETY: `new` duty 1.
        let modest = unsafe { &(*self.extra)[1] }.load(Relaxed) != 0;
        let most = if modest { tier.first_step } else { STEP_MAX };
        let full_step = (mapped << tier.shift).clamp(tier.first_step, most) >> tier.shift;
        let mut step = full_step.min(room);
        if step == 0 {
            return Err(GONE);
        }
        loop {
            match self.map_step(os, n, first + mapped, step) {
                Ok(()) => break,
                // Near a limit a single slab may still fit.
                Err(Error::NoMemory) if step > 1 => step = 1,
                Err(error) => return Err(error),
            }
        }
        // publish step: pairs with `take_from`. The mapping keeps other threads out of the place, but
        // for those that had been there before and have unmapped their slabs since: then what the
        // caller has seen is old, and the place is not a new one.
        let (address, bytes) = ((first + mapped) << Self::SHIFT, step << Self::SHIFT);
        let seen = Counts { next: mapped as u32, mapped: mapped as u32 };
        if !self.growth(n).change(seen, Counts { mapped: (mapped + step) as u32, ..seen }) {
            // SAFETY: (1) mapped by this call, and nobody was told.
            let _ = unsafe { os.unmap(address, bytes) };
            return Ok((address, 0));
        }
        Ok((address, bytes))
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
        carve.reach(os, start, start + bytes, unit).map_err(|error| match error {
            // `reach` has waited for other threads already.
            Error::Occupied => GONE,
            error => error,
        })?;
        os.map(address, step << Self::SHIFT)?;
        // Others may find them now.
        self.lookup.publish(first, end, start);
        Ok(())
    }

    /// Memory has run out: gives back what was mapped ahead of need, and maps little ahead from now
    /// on. What is given back is mapped again when it is needed.
    pub fn retract(&self, os: &impl Os) {
        // SAFETY: `new` duty 1.
        unsafe { &(*self.extra)[1] }.store(1, Relaxed);
        for n in 0..self.begun() {
            let growth = self.growth(n);
            let seen = growth.counts();
            let ahead = (seen.mapped - seen.next) as usize;
            // Whoever lowers `mapped` owns what lies behind it until it is unmapped: nobody can map
            // there before.
            if ahead != 0 && growth.change(seen, Counts { mapped: seen.next, ..seen }) {
                let first = (self.first_slab(self.nth_plot(n)) + seen.next as usize) << Self::SHIFT;
                // SAFETY: (1) nobody has had these slabs, and by the exchange nobody will before that.
                let gone = unsafe { os.unmap(first, ahead << Self::SHIFT) }.is_ok();
                // At the limit of mappings they stay. Had they been handed out, somebody had mapped them.
                let now = Counts { mapped: seen.next, ..seen };
                let _ = gone || growth.change(now, seen);
            }
        }
    }

    /// In the child of a fork: finishes the descriptors that a thread that is no more had set out to
    /// map. Slabs that it had mapped and not published are left alone: the next thread to grow the
    /// plot finds them in its way, and goes on in another.
    pub fn repair(&self, os: &impl Os) {
        for n in 0..self.begun() {
            let growth = self.growth(n);
            if self.plot_shift == GRANULE_SHIFT {
                let first = self.first_slab(self.nth_plot(n)) & !(self.page_size / Self::BYTES - 1);
                growth.descriptors.repair(os, self.slabs.wrapping_add(first * Self::BYTES));
            }
        }
    }
}
