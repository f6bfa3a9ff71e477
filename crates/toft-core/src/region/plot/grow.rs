//! How a plot grows: slabs are mapped ahead of need, and each is handed out once. Slabs that are
//! mapped and not handed out may be unmapped again.
//!
//! This file keeps P3: both counts of a plot are in one word, which changes only by compare and
//! exchange.
//!
//! ```text
//! counts   | growing : 1 | mapped : 31 | next : 32 |
//! ```
//!
//! A thread sets `growing` before it maps or unmaps slabs that were not handed out, and clears it
//! afterwards. A mapping that it finds in its way is therefore foreign. Other threads do not wait
//! for the thread: they go on in another plot.

use super::{GRANULE_SHIFT, Plots, SHORT, short_bytes};
use crate::os::{Error, Memory};
use crate::region::{Carve, Descriptor, Partition, STEP, Tier, TierNumber};
use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_until};
use Ordering::{AcqRel, Acquire, Relaxed};
use core::ops::Range;

/// Set while a thread maps or unmaps slabs after `next`.
const GROWING: u64 = 1 << 63;

/// The largest step by which a plot grows, in bytes.
const STEP_MAX: usize = 64 << 20;

/// The number of bytes of descriptors of short plots that are mapped at a time. Few of their pages
/// are ever touched, and a small program has short plots in all of its partitions.
pub(super) const SHORT_STEP: usize = 512 << 10;

/// The number of plots to try, one after another, if every plot was used already.
const SHARED_TRIES: usize = 8;

/// The growing part of a plot. It is stored by the plot's place in the secret order, so that the
/// plots in use are adjacent.
#[derive(Debug)]
pub(super) struct Growth {
    /// [`Counts`]. Any thread changes it, by compare and exchange.
    counts: AtomicU64,
    /// The mapped descriptors of this plot. If plots share granules, those of the n-th granule. The
    /// first plot has those of all short plots.
    pub(super) descriptors: Carve,
    /// Where among short plots this one has its descriptors, plus one; zero before it is begun. The
    /// thread that has set `growing` writes and reads it.
    place: AtomicU32,
}

/// The numbers of slabs of a plot that were handed out and that are mapped, and whether a thread is
/// changing `mapped`.
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

    /// Changes the counts from `from` to `to`. Returns true if they were `from`.
    fn change(&self, from: Counts, to: Counts) -> bool {
        self.counts.compare_exchange(from.word(), to.word(), AcqRel, Relaxed).is_ok()
    }

    /// Acts like a thread that stops for ever while it grows the plot.
    #[cfg(test)]
    pub(super) fn begin(&self) {
        self.counts.fetch_or(GROWING, AcqRel);
    }

    /// Ends a claim and adds `more` mapped slabs. Only the thread that has set `growing` changes
    /// `mapped`.
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
    /// Returns a slab that was never used, for `partition`: its descriptor, still zero, and its
    /// address. If slabs were mapped for it, calls `mapped` with their start and length.
    pub fn take(
        &self,
        os: &impl Memory,
        partition: Partition,
        mapped: impl Fn(usize, usize),
    ) -> Result<(&D, usize), Error> {
        let mut shared = 0;
        while shared <= SHARED_TRIES {
            let current = self.current(partition).load(Acquire);
            // The n-th plot in the secret order is the partition's first plot, or one of the extra
            // plots. If there are fewer plots than partitions, partitions share them.
            let n = if current == 0 {
                partition.number() & (self.plots - 1)
            } else {
                current as usize - 1
            };
            match self.take_from(os, n, &mapped) {
                Ok(index) => {
                    let address = index << Self::SHIFT;
                    let slab = self.slab_at(address).ok_or(Error::NoMemory)?;
                    return Ok((slab, address));
                }
                // The plot is used up, something foreign is in its way, or another thread grows it.
                Err(Error::Occupied) => {
                    let alone = self.move_on(partition, current, n)?;
                    shared += usize::from(!alone);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoMemory)
    }

    /// Moves the partition on from the n-th plot, which is of no use. The new plot is one that was
    /// never used. If there is none left, it is one of another partition that has room. Returns
    /// true if it was never used. Slabs are never shared (law 1). Plots are shared before memory is
    /// refused.
    #[cold]
    fn move_on(&self, partition: Partition, from: u32, n: usize) -> Result<bool, Error> {
        let extra = self.extra()[0].fetch_add(1, Relaxed) as usize;
        let alone = extra < self.plots.saturating_sub(self.partitions);
        let n = if alone {
            self.partitions + extra
        } else {
            // The count must not wrap round, so it stays at the number of extra plots.
            self.extra()[0].fetch_sub(1, Relaxed);
            let mut others = (1..self.plots).map(|step| (n + step) & (self.plots - 1));
            others.find(|&n| self.has_room(n)).ok_or(Error::NoMemory)?
        };
        // A thread that loses this race wastes one plot, which is acceptable. Another thread has
        // moved the partition on.
        let _ = self.current(partition).compare_exchange(from, n as u32 + 1, AcqRel, Relaxed);
        Ok(alone)
    }

    /// Returns true if the n-th plot has slabs that were never handed out, and no thread is mapping
    /// them.
    pub(super) fn has_room(&self, n: usize) -> bool {
        let first = self.first_slab(self.nth_plot(n));
        let counts = self.growth(n).counts();
        let begun = counts.growing && counts.next == counts.mapped;
        !begun && first + (counts.next as usize) < self.end_slab(n)
    }

    fn take_from(
        &self,
        os: &impl Memory,
        n: usize,
        was_mapped: &impl Fn(usize, usize),
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
                was_mapped(address, bytes);
            }
        }
    }

    /// Maps the next step of a plot, after its `mapped` slabs. The caller has set `growing`.
    /// Returns the address and the number of bytes.
    #[cold]
    fn grow(&self, os: &impl Memory, n: usize, mapped: usize) -> Result<(usize, usize), Error> {
        let tier = Tier::of(TIER);
        let first = self.first_slab(self.nth_plot(n));
        let room = self.end_slab(n) - (first + mapped);
        let modest = self.extra()[1].load(Relaxed) != 0;
        let most = if modest { tier.first_step } else { STEP_MAX };
        // A partition that goes on after its short plot goes on with its steps.
        let before = if self.short != 0 && !self.is_short(n) { SHORT } else { 0 };
        let full_step =
            ((before + mapped) << tier.shift).clamp(tier.first_step, most) >> tier.shift;
        let mut step = full_step.min(room);
        if step == 0 {
            // This counts as occupied, because the next plot's slabs are there.
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

    /// Maps `step` slabs from `index` on, after their descriptors. The caller has set `growing` of
    /// the n-th plot.
    fn map_step(&self, os: &impl Memory, n: usize, index: usize, step: usize) -> Result<(), Error> {
        let (found, slabs) = if self.is_short(n) {
            let slabs = self.short_plot_descriptors(n)?;
            let end = slabs + SHORT * Self::BYTES;
            self.growth(0).descriptors.reach(os, self.short, end, SHORT_STEP)?;
            (self.first_slab(self.nth_plot(n))..index + step, slabs)
        } else {
            self.map_descriptors(os, n, index + step)?
        };
        os.map(index << Self::SHIFT, step << Self::SHIFT)?;
        // Other threads may find the slabs from here on.
        self.lookup.publish(found.start, found.end, slabs);
        Ok(())
    }

    /// Returns the address of the descriptors of the n-th plot, which is short.
    fn short_plot_descriptors(&self, n: usize) -> Result<usize, Error> {
        let place = &self.growth(n).place;
        if place.load(Relaxed) == 0 {
            place.store(self.extra()[3].fetch_add(1, Relaxed) + 1, Relaxed);
        }
        let slabs = self.short + (place.load(Relaxed) as usize - 1) * SHORT * Self::BYTES;
        // A thread that a fork ends here has taken a place for nothing.
        let is_there = slabs < self.short + short_bytes(self.plots << GRANULE_SHIFT, Self::BYTES);
        if is_there { Ok(slabs) } else { Err(Error::Occupied) }
    }

    /// Maps the descriptors of the n-th plot, which is not short, up to the slab index `end`.
    /// Returns the indices whose descriptors are mapped, and the address of the first.
    fn map_descriptors(
        &self,
        os: &impl Memory,
        n: usize,
        end: usize,
    ) -> Result<(Range<usize>, usize), Error> {
        // If plots share granules, the descriptors of one granule end where the next granule's
        // begin. They are then mapped by single pages.
        let (found, carve, unit) = if self.plot_shift == GRANULE_SHIFT {
            (self.first_with_descriptor(n)..end, &self.growth(n).descriptors, STEP)
        } else {
            // Plots that share a granule: all descriptors of the granule that are in the tier.
            let granule = (end - 1) << Self::SHIFT >> GRANULE_SHIFT << GRANULE_SHIFT;
            let low = granule.max(self.base);
            let high =
                (granule + (1 << GRANULE_SHIFT)).min(self.base + (self.plots << self.plot_shift));
            let nth = (granule >> GRANULE_SHIFT) - (self.base >> GRANULE_SHIFT);
            let found = low >> Self::SHIFT..high >> Self::SHIFT;
            (found, &self.growth(nth).descriptors, self.page_size)
        };
        let slabs = self.slabs.wrapping_add(found.start * Self::BYTES);
        carve.reach(os, slabs, slabs + found.len() * Self::BYTES, unit)?;
        Ok((found, slabs))
    }

    /// Returns the first slab index of the n-th plot that has a descriptor, where plots are
    /// granules. It is the first slab's, rounded down to a page of descriptors. The other
    /// descriptors on that page describe nothing.
    fn first_with_descriptor(&self, n: usize) -> usize {
        self.first_slab(self.nth_plot(n)) & !(self.page_size / Self::BYTES - 1)
    }

    /// Lets plots map ahead of need again, as much as each plot already has. Memory is available
    /// again.
    pub fn grow_ahead(&self) {
        self.extra()[1].store(0, Relaxed);
    }

    /// Unmaps the slabs that were mapped ahead of need, because memory has run out. Plots map
    /// little ahead until [`grow_ahead`](Self::grow_ahead). The slabs are mapped again when they
    /// are needed.
    pub fn retract(&self, os: &impl Memory) {
        self.extra()[1].store(1, Relaxed);
        for n in 0..self.begun() {
            let growth = self.growth(n);
            let seen = growth.counts();
            let ahead = (seen.mapped - seen.next) as usize;
            // The thread that sets `growing` owns the slabs after `mapped` until it clears the bit.
            let taken = Counts { mapped: seen.next, growing: true, ..seen };
            if ahead != 0 && !seen.growing && growth.change(seen, taken) {
                let first = (self.first_slab(self.nth_plot(n)) + seen.next as usize) << Self::SHIFT;
                // SAFETY: (1) these slabs were never used, and because of the exchange no thread
                // takes them meanwhile.
                let gone = unsafe { os.unmap(first, ahead << Self::SHIFT) }.is_ok();
                // If the limit of mappings prevents the unmapping, the slabs stay.
                growth.grown(if gone { 0 } else { ahead });
                self.extra()[2].fetch_sub(if gone { ahead as u32 } else { 0 }, Relaxed);
            }
        }
    }

    /// Repairs the plots in the child of a fork. Finishes the mappings of descriptors that threads
    /// of the parent had begun. Slabs that such a thread had mapped and not published are left
    /// alone. The next thread that grows the plot finds them in its way, and goes on in another
    /// plot.
    ///
    /// The first `partitions` partitions are in use. Plots of the others are not read, because the
    /// first access to a page costs the child a fault.
    pub fn repair(&self, os: &impl Memory, partitions: usize) {
        let begun = self.begun();
        // If all plots are given out, a partition may use the plot of an unused partition.
        let in_use = if begun == self.plots { begun } else { partitions };
        if self.short != 0 {
            self.growth(0).descriptors.repair(os, self.short);
        }
        for n in (0..begun).filter(|&n| n < in_use || n >= self.partitions) {
            let growth = self.growth(n);
            if growth.counts().growing {
                growth.grown(0);
            }
            if self.plot_shift == GRANULE_SHIFT && !self.is_short(n) {
                let first = self.first_with_descriptor(n);
                growth.descriptors.repair(os, self.slabs.wrapping_add(first * Self::BYTES));
            }
        }
    }
}
