//! The plot from which a partition takes its next slab.
//!
//! ```text
//! 1. a slab that is mapped, in any plot of the partition
//! 2. growth of a plot of the partition: of its current one, else of one that no thread grows
//! 3. a plot that was never used, which the partition keeps
//! 4. a plot of another partition; slabs are never shared (law 1)
//! 5. a plot that a foreign mapping blocked when it last grew
//! ```
//!
//! A thread may be stopped while it grows a plot. The search passes by such a plot without a system
//! call. Each thread grows one plot at a time, so that `n` stopped threads keep at most `n` plots
//! from all others. If such a thread maps descriptors that several plots share, the search passes
//! by those plots, too. The search tries each plot once, which is its bound. Only foreign mappings,
//! about which the kernel was asked, make it give up earlier.

use super::grow::NoSlab;
use super::{GRANULE_SHIFT, Plots};
use crate::os::{Error, Memory};
use crate::region::{Descriptor, Partition, TierNumber};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The number of plots of other partitions, and of blocked ones, in which one search may find
/// something foreign.
const FOREIGN_MOST: u32 = 8;

/// A search for a slab.
struct Search<'a, M, F> {
    os: &'a M,
    partition: Partition,
    /// The partition's word for its current plot when the search began.
    current: u32,
    was_mapped: &'a F,
    /// True if another thread grew a plot that has room.
    busy: bool,
    /// True if another thread mapped descriptors that plots share.
    descriptors_busy: bool,
    /// The number of plots in which something foreign was found.
    foreign: u32,
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    /// Returns a slab that was never used, for `partition`: its descriptor, still zero, and its
    /// address. If slabs were mapped for it, calls `mapped` with their start and length.
    ///
    /// `Busy` means that other threads grow all plots that have room. The system was not asked for
    /// memory then, or had some.
    pub fn take(
        &self,
        os: &impl Memory,
        partition: Partition,
        mapped: impl Fn(usize, usize),
    ) -> Result<(&D, usize), Error> {
        let current = self.current(partition).load(Acquire);
        let index = match self.take_mapped(self.plot_of(partition, current)) {
            Some(index) => index,
            None => self.search(Search {
                os,
                partition,
                current,
                was_mapped: &mapped,
                busy: false,
                descriptors_busy: false,
                foreign: 0,
            })?,
        };
        let address = index << Self::SHIFT;
        let slab = self.slab_at(address).ok_or(Error::NoMemory)?;
        Ok((slab, address))
    }

    /// Returns the plot in the secret order that a partition's word `current` names.
    fn plot_of(&self, partition: Partition, current: u32) -> usize {
        // If there are fewer plots than partitions, partitions share them.
        if current == 0 { partition.number() & (self.plots - 1) } else { current as usize - 1 }
    }

    /// Returns the plots that a partition has: its first, and those that it got later.
    fn plots_of(&self, partition: Partition) -> impl Iterator<Item = usize> {
        let owner = partition.number() as u32 + 1;
        let is_own = move |n: &usize| self.growth(*n).partition.load(Acquire) == owner;
        let later = (self.partitions..self.begun()).filter(is_own);
        core::iter::once(self.plot_of(partition, 0)).chain(later)
    }

    #[cold]
    fn search<M: Memory, F: Fn(usize, usize)>(
        &self,
        mut search: Search<'_, M, F>,
    ) -> Result<usize, Error> {
        let partition = search.partition;
        if let Some(index) = self.plots_of(partition).find_map(|n| self.take_mapped(n)) {
            return Ok(index);
        }
        let current = self.plot_of(partition, search.current);
        if let Some(done) = self.attempt(&mut search, current, true) {
            return done;
        }
        for n in self.plots_of(partition).filter(|&n| n != current) {
            if self.is_worth_trying(&search, n)
                && let Some(done) = self.attempt(&mut search, n, false)
            {
                return done;
            }
        }
        // If plots share granules, a plot more may lack the same descriptors.
        while (self.plot_shift == GRANULE_SHIFT || !search.descriptors_busy)
            && let Some(n) = self.take_unused_plot(partition)
        {
            if let Some(done) = self.attempt(&mut search, n, false) {
                return done;
            }
        }
        self.search_others(search, current)
    }

    /// Searches the plots of other partitions, and those that were blocked. A plot that no
    /// partition has is left alone, because a walk of all slabs does not visit it.
    fn search_others<M: Memory, F: Fn(usize, usize)>(
        &self,
        mut search: Search<'_, M, F>,
        current: usize,
    ) -> Result<usize, Error> {
        search.foreign = 0;
        let begun = self.begun();
        let tried_again = self.totals().tried_again.load(Relaxed) as usize;
        for (begin, blocked) in [(current, false), (tried_again, true)] {
            let all = (1..=self.plots).map(|step| (begin + step) & (self.plots - 1));
            for n in all.filter(|&n| n < begun) {
                search.busy |= self.is_growing(n);
                let is_candidate =
                    if blocked { self.is_blocked(n) } else { self.is_worth_trying(&search, n) };
                if !is_candidate {
                    continue;
                }
                if search.foreign == FOREIGN_MOST {
                    break;
                }
                if blocked {
                    self.totals().tried_again.store(n as u32, Relaxed);
                }
                if let Some(done) = self.attempt(&mut search, n, false) {
                    return done;
                }
            }
        }
        Err(if search.busy || search.descriptors_busy { Error::Busy } else { Error::NoMemory })
    }

    /// Tries to take a slab from the n-th plot. Makes the plot the partition's current one if that
    /// succeeds. Returns `None` if another plot may have more luck.
    fn attempt<M: Memory, F: Fn(usize, usize)>(
        &self,
        search: &mut Search<'_, M, F>,
        n: usize,
        patient: bool,
    ) -> Option<Result<usize, Error>> {
        match self.take_from(search.os, n, patient, search.was_mapped) {
            Ok(index) => {
                // A thread that loses this race leaves the plot to the next search.
                let word = self.current(search.partition);
                let _ = word.compare_exchange(search.current, n as u32 + 1, AcqRel, Relaxed);
                return Some(Ok(index));
            }
            Err(NoSlab::NoMemory) => return Some(Err(Error::NoMemory)),
            Err(NoSlab::UsedUp) => {}
            Err(NoSlab::Growing) => search.busy = true,
            Err(NoSlab::DescriptorsBusy) => search.descriptors_busy = true,
            Err(NoSlab::Foreign) => search.foreign += 1,
        }
        None
    }

    /// Gives a partition a plot that was never used. Returns `None` if there is none left.
    fn take_unused_plot(&self, partition: Partition) -> Option<usize> {
        let extra = &self.totals().extra;
        let most = self.plots.saturating_sub(self.partitions);
        let mut seen = extra.load(Relaxed);
        loop {
            if seen as usize >= most {
                return None;
            }
            match extra.compare_exchange(seen, seen + 1, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let n = self.partitions + seen as usize;
        // give plot: pairs with `plots_of`. In the child of a fork that ends this thread before the
        // store, no partition has the plot, and each may use it like another partition's.
        self.growth(n).partition.store(partition.number() as u32 + 1, Release);
        Some(n)
    }

    /// Returns true if the n-th plot has room, and does not need descriptors that another thread
    /// maps.
    fn is_worth_trying<M, F>(&self, search: &Search<'_, M, F>, n: usize) -> bool {
        self.has_room(n) && !(search.descriptors_busy && self.may_map_shared_descriptors(n))
    }

    /// Returns true if the n-th plot has slabs that were never handed out, no thread is mapping
    /// them, and nothing foreign was in their way.
    pub(super) fn has_room(&self, n: usize) -> bool {
        let counts = self.growth(n).counts.now();
        let is_free = counts.next < counts.mapped || !counts.growing && !counts.blocked;
        is_free && self.is_unfinished(n)
    }

    /// Returns true if the n-th plot has slabs that were never handed out.
    fn is_unfinished(&self, n: usize) -> bool {
        let first = self.first_slab(self.nth_plot(n));
        first + (self.growth(n).counts.now().next as usize) < self.end_slab(n)
    }

    /// Returns true if another thread grows the n-th plot.
    fn is_growing(&self, n: usize) -> bool {
        self.growth(n).counts.now().growing && self.is_unfinished(n)
    }

    /// Returns true if something foreign was in the way of the n-th plot, and no thread grows it.
    fn is_blocked(&self, n: usize) -> bool {
        let counts = self.growth(n).counts.now();
        counts.blocked && !counts.growing && self.is_unfinished(n)
    }
}
