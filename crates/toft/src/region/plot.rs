//! Plots: where a partition's slabs come from, and whether an address lies in one.
//!
//! ```text
//! tier   | plot 0 | plot 1 | ...                                   | plot N-1 |
//! plot   | .....first|slab slab slab ... count|next step............|
//! ```
//!
//! Which slab an address lies in, any address at all, the [`Lookup`] says. A plot is a *granule* of
//! 4 GiB. Where the address space is too small for that, plots are smaller, share a granule, and the
//! whole granule's descriptors are mapped at once.
//!
//! Invariants (P1 is the lookup's)
//! - P2 a descriptor that the lookup finds is mapped; one whose slab was not handed out is all zero
//!   and fails every free.
//! - P3 `next[plot] <= mapped[plot]`: only mapped slabs are handed out, each once. Both are one word, so
//!   that what was mapped ahead of need can be taken back, and be mapped again.

use super::lookup::{GRANULE_SHIFT, Lookup};
use super::{Carve, Descriptor, STEP, Tier, TierNumber};
use crate::os::{Error, Os, wait_for};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};
use core::marker::PhantomData;

/// A plot cannot grow any more, and waiting for another thread would not help.
const GONE: Error = Error::Unsupported;

/// Bytes that a plot grows by at most.
const STEP_MAX: usize = 64 << 20;

/// Plots to try, one after another, when there is none left that nobody has.
const SHARED_TRIES: usize = 8;

/// What moves as a plot grows, by the plot's place in the secret order, so that those in use lie
/// together.
#[derive(Debug)]
struct Growth {
    /// [`Counts`]. Any thread, by compare and exchange.
    counts: AtomicU64,
    /// Descriptors of this plot, as mapped; or, where plots share granules, of the n-th granule.
    descriptors: Carve,
}

/// Slabs of a plot: handed out, and mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    next: u32,
    mapped: u32,
}

impl Growth {
    fn counts(&self) -> Counts {
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

/// The plots of one tier.
#[derive(Debug)]
pub struct Plots<const TIER: TierNumber, D> {
    lookup: Lookup<TIER, D>,
    /// Where the descriptor of slab index 0 would be.
    slabs: usize,
    /// First address of the tier, and log2 of the bytes in a plot.
    base: usize,
    plot_shift: u32,
    /// Number of plots, a power of two, and of partitions.
    plots: usize,
    partitions: usize,
    /// Keys that place slabs: which plot a partition gets, and where in it the slabs begin.
    order_key: usize,
    place_key: u64,
    page_size: usize,
    growth: *const Growth,
    /// The plot that each partition draws from. Any thread, by compare and exchange.
    current: *const AtomicU32,
    /// Plots taken beyond the first of each partition; and whether steps are to be small.
    extra: *const [AtomicU32; 2],
    descriptors: PhantomData<D>,
}

impl<const TIER: TierNumber, D: Descriptor> Plots<TIER, D> {
    const SHIFT: u32 = Tier::of(TIER).shift;
    const BYTES: usize = size_of::<D>();

    /// log2 of the bytes in a plot, for a tier of `span` bytes: a granule where that leaves plenty
    /// of plots for each partition.
    fn plot_shift_for(span: usize, partitions: usize) -> u32 {
        // With very many partitions most are small, and one plot to spare for each is plenty.
        let each = if partitions > 1024 { 2 } else { 4 };
        let plots = (each * partitions).next_power_of_two().max(512);
        GRANULE_SHIFT.min((span / plots).max(1).ilog2()).max(Self::SHIFT + 5)
    }

    /// Bytes of tables that `new` needs, zeroed.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        let plots = span >> Self::plot_shift_for(span, partitions);
        Lookup::<TIER, D>::TABLE_BYTES + plots * size_of::<Growth>() + partitions * 4 + 64
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Self {
        Plots {
            lookup: Lookup::none(),
            slabs: 0,
            base: 0,
            plot_shift: 0,
            plots: 0,
            partitions: 0,
            order_key: 0,
            place_key: 0,
            page_size: 4096,
            growth: core::ptr::null(),
            current: core::ptr::null(),
            extra: core::ptr::null(),
            descriptors: PhantomData,
        }
    }

    /// The plots of a tier of `span` bytes from `base`, with descriptors from `slabs` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes(span, partitions)` zero bytes that live for ever,
    ///    are aligned to 64, and belong to this object alone.
    /// 2. The span, and from `slabs` on descriptors for it and what the lookup asks for, are address
    ///    space for this object alone.
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
        let growth = tables + Lookup::<TIER, D>::TABLE_BYTES;
        let current = growth + plots * size_of::<Growth>();
        let behind = slabs + (span >> Self::SHIFT) * Self::BYTES;
        // SAFETY: (1) the first part of our tables; (2) what lies behind the descriptors.
        let lookup = unsafe { Lookup::new(os, (base, span), tables, behind)? };
        Ok(Plots {
            lookup,
            slabs: slabs.wrapping_sub((base >> Self::SHIFT) * Self::BYTES),
            base,
            plot_shift,
            plots,
            partitions,
            order_key: os.random()? as usize,
            place_key: os.random()? | 1,
            page_size: os.page_size(),
            growth: core::ptr::with_exposed_provenance(growth),
            current: core::ptr::with_exposed_provenance(current),
            extra: core::ptr::with_exposed_provenance(current + partitions * 4),
            descriptors: PhantomData,
        })
    }

    fn growth(&self, n: usize) -> &Growth {
        debug_assert!(n < self.plots);
        // SAFETY: `new` duty 1: one for each plot; all-zero is a `Growth`.
        unsafe { &*self.growth.add(n) }
    }

    fn current(&self, partition: usize) -> &AtomicU32 {
        debug_assert!(partition < self.partitions);
        // SAFETY: `new` duty 1: one for each partition.
        unsafe { &*self.current.add(partition) }
    }

    /// The descriptor of the slab that an address lies in, if it is mapped: of none, for an address
    /// that is not of this tier.
    #[inline(always)]
    pub fn slab_at(&self, address: usize) -> Option<&D> {
        let slab = self.lookup.descriptor_of(address)?;
        // SAFETY: P2: what the lookup finds is mapped; `Descriptor` promises that zero bytes are one
        // (1), and that shared references are enough for everybody (2).
        Some(unsafe { &*core::ptr::with_exposed_provenance(slab) })
    }

    #[inline(always)]
    fn slab(&self, index: usize) -> &D {
        let address = self.slabs.wrapping_add(index * Self::BYTES);
        // SAFETY: P2: the descriptor of an index within bounds is mapped; `Descriptor` promises that
        // zero bytes are one (1), and that shared references are enough for everybody (2).
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

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

    /// The n-th plot in the secret order in which plots are given out: a keyed permutation.
    fn nth_plot(&self, n: usize) -> usize {
        let mask = self.plots - 1;
        let bits = self.plots.trailing_zeros();
        let mut x = n & mask;
        // Each step is a bijection on `bits` bits: xor, multiply by an odd number, xor the top down.
        for round in 0..3 {
            x = (x ^ (self.order_key >> (16 * round))) & mask;
            x = x.wrapping_mul((self.order_key >> (8 * round)) | 1) & mask;
            x ^= x >> bits.div_ceil(2);
        }
        x
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

    /// The index behind a plot's last slab.
    fn end_slab(&self, plot: usize) -> usize {
        (self.base + ((plot + 1) << self.plot_shift)) >> Self::SHIFT
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
    fn grow(&self, os: &impl Os, n: usize, mapped: usize) -> Result<(usize, usize), Error> {
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

    /// Where in a plot its slabs begin: a keyed place that leaves an eighth of it at least.
    fn first_slab(&self, plot: usize) -> usize {
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

    /// How many plots of the secret order may have been begun.
    fn begun(&self) -> usize {
        // SAFETY: `new` duty 1.
        let extra = unsafe { &(*self.extra)[0] }.load(Relaxed) as usize;
        self.plots.min(self.partitions + extra)
    }

    /// Indices of the slabs that the n-th plot has handed out.
    #[inline(never)]
    fn handed_out(&self, n: usize) -> core::ops::Range<usize> {
        let count = self.growth(n).counts().next as usize;
        let first = if count == 0 { 0 } else { self.first_slab(self.nth_plot(n)) };
        first..first + count
    }

    /// Every slab that was handed out.
    pub fn for_each(&self, mut each: impl FnMut(&D)) {
        for n in 0..self.begun() {
            for index in self.handed_out(n) {
                let slab = self.slab(index);
                if slab.is_open() {
                    each(slab);
                }
            }
        }
    }

    /// Bytes of descriptors that may have pages: of slabs that were handed out.
    pub fn descriptor_bytes(&self) -> usize {
        let bytes = |n| match self.growth(n).counts().next as usize {
            0 => 0,
            // The first need not begin a page, nor the last end one.
            slabs => slabs * Self::BYTES + 2 * self.page_size,
        };
        (0..self.begun()).map(bytes).sum()
    }

    /// The addresses that are mapped, by start and length, without the slabs that are not `there`: as
    /// few ranges as that makes.
    pub fn for_each_range(&self, there: impl Fn(&D) -> bool, mut each: impl FnMut(usize, usize)) {
        for n in 0..self.begun() {
            let mapped = self.growth(n).counts().mapped as usize;
            if mapped == 0 {
                continue;
            }
            let mut start = self.first_slab(self.nth_plot(n));
            let end = start + mapped;
            for index in self.handed_out(n) {
                let slab = self.slab(index);
                if !slab.is_open() || !there(slab) {
                    each(start << Self::SHIFT, (index - start) << Self::SHIFT);
                    start = index + 1;
                }
            }
            each(start << Self::SHIFT, end.saturating_sub(start) << Self::SHIFT);
        }
    }

    /// Bytes of slabs mapped, and of their descriptors.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let (mut data, mut descriptors) = (0, 0);
        for n in 0..self.begun() {
            data += (self.growth(n).counts().mapped as usize) << Self::SHIFT;
            descriptors += self.growth(n).descriptors.mapped();
        }
        (data, descriptors)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};
    use crate::region::SMALL;
    extern crate std;

    /// A descriptor of 64 bytes, always open.
    #[repr(C, align(64))]
    #[derive(Debug)]
    struct Any([u8; 64]);

    // SAFETY: (1) bytes; (2) nobody writes them.
    unsafe impl Descriptor for Any {
        fn is_open(&self) -> bool {
            true
        }
    }

    /// What was taken back is mapped again, and a partition whose plots are full goes on in others': until
    /// memory is refused every slab was handed out once, whatever was refused in between.
    #[test]
    fn every_slab_is_had_before_memory_is_refused() {
        for partitions in [1, 8, 64] {
            let fake = Fake::new(Machine::LARGE);
            let os = &fake;
            let base = fake.address_space().start.next_multiple_of(1 << 40);
            let (span, tables, slabs) = (1 << 26, base + (8 << 40), base + (4 << 40));
            let bytes = Plots::<SMALL, Any>::table_bytes(span, partitions);
            os.map(tables, bytes.next_multiple_of(4096)).unwrap();
            // SAFETY: (1) mapped above; (2) nobody else uses the fake's address space.
            let plots =
                unsafe { Plots::<SMALL, Any>::new(os, base, span, partitions, slabs, tables) };
            let plots = plots.unwrap();
            let mut all = std::collections::BTreeSet::new();
            // One of many partitions has them all.
            while let Ok((_, address)) = plots.take(os, partitions / 2, |_, _| {}) {
                assert!(all.insert(address), "{address:#x} was handed out twice");
                if all.len() % 3 == 0 {
                    plots.retract(os);
                    assert_eq!(plots.mapped_bytes().0, all.len() << Plots::<SMALL, Any>::SHIFT);
                }
            }
            // The others' first plots are theirs as long as there are plots that nobody has.
            assert_eq!(all.len(), span >> Plots::<SMALL, Any>::SHIFT, "{partitions}");
        }
    }

    /// A thread that looked at a plot before it grew, and was held up until slabs of it were unmapped,
    /// maps what is not new: everything must be as if it had not.
    #[test]
    fn a_late_growth_takes_nothing_back() {
        let fake = Fake::new(Machine::LARGE);
        let os = &fake;
        let base = fake.address_space().start.next_multiple_of(1 << 40);
        let (tables, slabs) = (base + (8 << 40), base + (4 << 40));
        let bytes = Plots::<SMALL, Any>::table_bytes(1 << 41, 1);
        os.map(tables, bytes.next_multiple_of(4096)).unwrap();
        // SAFETY: (1) mapped above; (2) nobody else uses the fake's address space.
        let plots =
            unsafe { Plots::<SMALL, Any>::new(os, base, 1 << 41, 1, slabs, tables) }.unwrap();
        let taken: Vec<usize> = (0..8).map(|_| plots.take(os, 0, |_, _| {}).unwrap().1).collect();
        let before = plots.mapped_bytes();
        assert!(before.0 >= 8 << Plots::<SMALL, Any>::SHIFT);
        // The owner of the first ones gives their address space back.
        for &slab in &taken[..4] {
            // SAFETY: (1) mapped by `take`.
            unsafe { os.unmap(slab, 1 << Plots::<SMALL, Any>::SHIFT) }.unwrap();
        }
        let mapped = os.mapped_bytes();
        plots.grow(os, 0, 0).unwrap();
        assert_eq!(plots.mapped_bytes(), before);
        assert_eq!(os.mapped_bytes(), mapped);
        assert!(taken.iter().all(|&slab| plots.slab_at(slab).is_some()));
        assert!(!taken.contains(&plots.take(os, 0, |_, _| {}).unwrap().1));
    }
}
