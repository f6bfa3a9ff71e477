//! How a plot grows: slabs are mapped ahead of need, and each is handed out once. Slabs that are
//! mapped and not handed out may be unmapped again.
//!
//! A thread claims the plot's counts (`region/counts.rs`) before it maps or unmaps slabs that were
//! not handed out. Other threads do not wait for the thread: they go on in another plot
//! (`choose.rs`).

use super::{GRANULE_SHIFT, Plots, SHORT, short_bytes};
use crate::os::{Error, Memory};
use crate::region::counts::PlotCounts;
use crate::region::{Carve, Descriptor, STEP, Tier, TierNumber};
use crate::sync::{AtomicU32, Ordering, spin_until};
use Ordering::Relaxed;
use core::ops::Range;

/// The largest step by which a plot grows, in bytes.
const STEP_MAX: usize = 64 << 20;

/// A step of this number of bytes or more is tested for pages that the system has locked. Every
/// test costs a system call.
const TEST_LEAST: usize = 1 << 20;

/// If the system locks pages, a step is at most the plot's mapped slabs divided by this number.
const LOCKED_DIVISOR: usize = 8;

/// The number of bytes of descriptors of short plots that are mapped at a time. Few of their pages
/// are ever touched, and a small program has short plots in all of its partitions.
pub(super) const SHORT_STEP: usize = 512 << 10;

/// The reason why a plot has no slab for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSlab {
    /// All its slabs were handed out.
    UsedUp,
    /// Another thread grows it.
    Growing,
    /// Another thread maps descriptors that it shares with other plots.
    DescriptorsBusy,
    /// Something foreign is in its way.
    Foreign,
    /// The system has no memory.
    NoMemory,
}

/// The growing part of a plot. It is stored by the plot's place in the secret order, so that the
/// plots in use are adjacent.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) counts: PlotCounts,
    /// The mapped descriptors of this plot. If plots share granules, those of the n-th granule. The
    /// first plot has those of all short plots.
    pub(super) descriptors: Carve,
    /// Where among short plots this one has its descriptors, plus one; zero before it is begun. The
    /// thread that has claimed the counts writes and reads it.
    place: AtomicU32,
    /// The partition that has got this plot beyond its first, plus one, or zero. The thread that
    /// has taken the plot writes it, once.
    pub(super) partition: AtomicU32,
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    /// Returns the index of a mapped slab of the n-th plot, and hands the slab out.
    pub(super) fn take_mapped(&self, n: usize) -> Option<usize> {
        let slab = self.growth(n).counts.take().ok()?;
        Some(self.first_slab(self.nth_plot(n)) + slab as usize)
    }

    /// Returns the index of a slab of the n-th plot, and hands the slab out. The plot grows if no
    /// slab is mapped. If another thread grows it, a `patient` caller spins for that thread.
    pub(super) fn take_from(
        &self,
        os: &impl Memory,
        n: usize,
        patient: bool,
        was_mapped: &impl Fn(usize, usize),
    ) -> Result<usize, NoSlab> {
        let counts = &self.growth(n).counts;
        let first = self.first_slab(self.nth_plot(n));
        loop {
            let seen = match counts.take() {
                Ok(slab) => return Ok(first + slab as usize),
                Err(seen) => seen,
            };
            if first + seen.next as usize >= self.end_slab(n) {
                return Err(NoSlab::UsedUp);
            }
            if seen.growing {
                if !patient || !spin_until(|| counts.now() != seen) {
                    return Err(NoSlab::Growing);
                }
            } else if let Some(claim) = counts.claim(seen) {
                let done = self.grow(os, n, seen.mapped as usize);
                let (address, bytes) = *done.as_ref().unwrap_or(&(0, 0));
                let slabs = (bytes >> Self::SHIFT) as u32;
                self.totals().mapped.fetch_add(slabs, Relaxed);
                claim.end(seen.mapped + slabs, done == Err(Error::Occupied));
                done.map_err(|error| match error {
                    Error::Busy => NoSlab::DescriptorsBusy,
                    Error::Occupied => NoSlab::Foreign,
                    Error::NoMemory | Error::Unsupported => NoSlab::NoMemory,
                })?;
                was_mapped(address, bytes);
            }
        }
    }

    /// Maps the next step of a plot, after its `mapped` slabs. There is room for one or more, and
    /// the caller has claimed the counts. Returns the address and the number of bytes.
    #[cold]
    fn grow(&self, os: &impl Memory, n: usize, mapped: usize) -> Result<(usize, usize), Error> {
        let tier = Tier::of(TIER);
        let first = self.first_slab(self.nth_plot(n));
        let room = self.end_slab(n) - (first + mapped);
        let modest = self.totals().is_modest.load(Relaxed) != 0;
        let most = if modest { tier.first_step } else { STEP_MAX };
        // A partition that goes on after its short plot goes on with its steps.
        let before = if self.short != 0 && !self.is_short(n) { SHORT } else { 0 };
        let wanted = (before + mapped) << tier.shift;
        let was_locked = self.totals().is_locked.load(Relaxed) != 0;
        let modest_step = (wanted / LOCKED_DIVISOR).clamp(tier.first_step, most) >> tier.shift;
        let full_step = wanted.clamp(tier.first_step, most) >> tier.shift;
        let mut step = if was_locked { modest_step } else { full_step }.min(room);
        loop {
            match self.map_step(os, n, first + mapped, step) {
                Ok(()) => break,
                // Near a limit a single slab may still fit.
                Err(Error::NoMemory) if step > 1 => step = 1,
                Err(error) => return Err(error),
            }
        }
        let (address, bytes) = ((first + mapped) << Self::SHIFT, step << Self::SHIFT);
        if (was_locked || bytes >= TEST_LEAST) && self.is_locked(os, address + bytes, was_locked) {
            let stays = modest_step.min(step) << Self::SHIFT;
            // SAFETY: (1) mapped above, and not handed out.
            let gone = stays < bytes && unsafe { os.unmap(address + stays, bytes - stays) }.is_ok();
            return Ok((address, if gone { stays } else { bytes }));
        }
        Ok((address, bytes))
    }

    /// Returns true if the system locks pages when they are mapped, as after
    /// `mlockall(MCL_FUTURE)`. All pages are then present and cannot be discarded. If that is new,
    /// unmaps what is mapped ahead of need. The caller has just mapped the page before `end`, and
    /// has claimed the counts of its plot.
    fn is_locked(&self, os: &impl Memory, end: usize, was_locked: bool) -> bool {
        // SAFETY: (1) no thread has the page.
        let is_locked = unsafe { os.discard(end - self.page_size, self.page_size) }.is_err();
        if is_locked != was_locked {
            self.totals().is_locked.store(u32::from(is_locked), Relaxed);
            if is_locked {
                self.unmap_ahead(os);
            }
        }
        is_locked
    }

    /// Maps `step` slabs from `index` on, after their descriptors. The caller has claimed the
    /// counts of the n-th plot.
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

    /// Returns true if the next growth of the n-th plot maps descriptors that other plots share.
    pub(super) fn may_map_shared_descriptors(&self, n: usize) -> bool {
        if self.plot_shift == GRANULE_SHIFT {
            return self.is_short(n);
        }
        // All descriptors of a granule are mapped at once.
        let granule = self.first_slab(self.nth_plot(n)) << Self::SHIFT >> GRANULE_SHIFT;
        self.growth(granule - (self.base >> GRANULE_SHIFT)).descriptors.mapped() == 0
    }

    /// Returns the address of the descriptors of the n-th plot, which is short.
    fn short_plot_descriptors(&self, n: usize) -> Result<usize, Error> {
        let place = &self.growth(n).place;
        if place.load(Relaxed) == 0 {
            place.store(self.totals().short.fetch_add(1, Relaxed) + 1, Relaxed);
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
        self.totals().is_modest.store(0, Relaxed);
    }

    /// Unmaps the slabs that were mapped ahead of need, because memory has run out. Plots map
    /// little ahead until [`grow_ahead`](Self::grow_ahead). The slabs are mapped again when they
    /// are needed.
    pub fn retract(&self, os: &impl Memory) {
        self.totals().is_modest.store(1, Relaxed);
        self.unmap_ahead(os);
    }

    /// Unmaps the slabs that no thread has got and that no thread is mapping.
    fn unmap_ahead(&self, os: &impl Memory) {
        for n in 0..self.begun() {
            let counts = &self.growth(n).counts;
            let seen = counts.now();
            let ahead = seen.mapped - seen.next;
            if ahead == 0 {
                continue;
            }
            let Some(claim) = counts.claim(seen) else { continue };
            let first = (self.first_slab(self.nth_plot(n)) + seen.next as usize) << Self::SHIFT;
            // SAFETY: (1) these slabs were never used, and because of the claim no thread takes
            // them meanwhile.
            let gone = unsafe { os.unmap(first, (ahead as usize) << Self::SHIFT) }.is_ok();
            // If the limit of mappings prevents the unmapping, the slabs stay.
            self.totals().mapped.fetch_sub(if gone { ahead } else { 0 }, Relaxed);
            claim.end(if gone { seen.next } else { seen.mapped }, seen.blocked);
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
            growth.counts.end_exited();
            if self.plot_shift == GRANULE_SHIFT && !self.is_short(n) {
                let first = self.first_with_descriptor(n);
                growth.descriptors.repair(os, self.slabs.wrapping_add(first * Self::BYTES));
            }
        }
    }
}
