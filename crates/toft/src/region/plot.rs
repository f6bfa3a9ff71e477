//! Plots: where a partition's slabs come from, and whether an address lies in one.
//!
//! ```text
//! tier   | plot 0 | plot 1 | ...                                   | plot N-1 |
//! plot   | .....first|slab slab slab ... count|next step............|
//! ```
//!
//! `bounds[plot]` packs `(first, count)`: slab indices `first .. first + count` are mapped, with
//! their descriptors. Any thread reads it to recognise a pointer: one load, one subtraction, one
//! comparison, and never a fault.
//!
//! Invariants
//! - P1 `first` of a plot never changes once set; `count` only grows.
//! - P2 below `first + count` both the slabs and their descriptors are mapped.
//! - P3 `next[plot] <= count`: only mapped slabs are handed out, each once.

use super::Carve;
use crate::os::{Error, Os};
use crate::slab::{SLAB_BYTES, Slab};
use crate::sync::{AtomicU32, AtomicU64, Ordering, SPIN_LIMIT, pause};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Which tier, as a constant parameter.
pub type TierNumber = usize;
/// The small tier.
pub const SMALL: TierNumber = 0;
/// The medium tier.
pub const MEDIUM: TierNumber = 1;

/// What a tier's slabs look like.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// log2 of the bytes in a slab.
    pub shift: u32,
    /// Bytes that a plot grows by at first.
    first_step: usize,
}

impl Tier {
    /// The tier of a number.
    #[inline(always)]
    pub const fn of(tier: TierNumber) -> Tier {
        match tier {
            SMALL => Tier { shift: 16, first_step: 1 << 18 },
            _ => Tier { shift: 20, first_step: 1 << 20 },
        }
    }

    /// Bytes in a slab.
    pub const fn slab_bytes(self) -> usize {
        1 << self.shift
    }
}

/// Bytes that a plot grows by at most.
const STEP_MAX: usize = 64 << 20;
/// Bytes of descriptors mapped at a time.
const DESCRIPTOR_STEP: usize = 64 << 10;

/// What moves as a plot grows. One to a plot.
#[derive(Debug)]
struct Growth {
    /// Slabs handed out. Any thread, by compare and exchange.
    next: AtomicU32,
    /// Descriptors of this plot, as mapped so far.
    descriptors: Carve,
}

/// The plots of one tier.
#[derive(Debug)]
pub struct Plots<const TIER: TierNumber> {
    /// First address of the tier.
    base: usize,
    /// log2 of the number of slabs in a plot.
    shift: u32,
    /// Number of plots, a power of two, and of partitions.
    plots: usize,
    partitions: usize,
    /// Keys that place slabs: which plot a partition gets, and where in it the slabs begin.
    order_key: usize,
    place_key: u64,
    page_size: usize,
    bounds: *const AtomicU64,
    growth: *const Growth,
    /// The plot that each partition draws from. Any thread, by compare and exchange.
    current: *const AtomicU32,
    /// Plots taken beyond the first of each partition.
    extra: *const AtomicU32,
    /// Descriptors, by slab index in the tier.
    slabs: usize,
}

impl<const TIER: TierNumber> Plots<TIER> {
    /// How many plots a tier is cut into.
    pub fn count_for(partitions: usize) -> usize {
        (4 * partitions).next_power_of_two().max(512)
    }

    /// Bytes of tables that `new` needs, zeroed.
    pub fn table_bytes(partitions: usize) -> usize {
        let plots = Self::count_for(partitions);
        plots * (8 + size_of::<Growth>()) + partitions * 4 + 64
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Self {
        Plots {
            base: 0,
            shift: 0,
            plots: 0,
            partitions: 0,
            order_key: 0,
            place_key: 0,
            page_size: 4096,
            bounds: core::ptr::null(),
            growth: core::ptr::null(),
            current: core::ptr::null(),
            extra: core::ptr::null(),
            slabs: 0,
        }
    }

    /// The plots of a tier of `span` bytes from `base`, with descriptors from `slabs` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes(partitions)` zero bytes that live for ever, are
    ///    aligned to 64, and belong to this object alone.
    /// 2. The span, and descriptors for it from `slabs` on, are address space for this object alone.
    pub unsafe fn new(
        os: &impl Os,
        base: usize,
        span: usize,
        partitions: usize,
        slabs: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let plots = Self::count_for(partitions);
        let bounds = core::ptr::with_exposed_provenance(tables);
        let growth = core::ptr::with_exposed_provenance(tables + plots * 8);
        let current = tables + plots * (8 + size_of::<Growth>());
        let extra = core::ptr::with_exposed_provenance(current + partitions * 4);
        Ok(Plots {
            base,
            shift: (span / plots).trailing_zeros() - Tier::of(TIER).shift,
            plots,
            partitions,
            order_key: os.random()? as usize,
            place_key: os.random()? | 1,
            page_size: os.page_size(),
            bounds,
            growth,
            current: core::ptr::with_exposed_provenance(current),
            extra,
            slabs,
        })
    }

    fn bounds(&self, plot: usize) -> &AtomicU64 {
        debug_assert!(plot < self.plots);
        // SAFETY: `new` duty 1: the table holds `plots` words that live for ever.
        unsafe { &*self.bounds.add(plot) }
    }

    fn growth(&self, plot: usize) -> &Growth {
        debug_assert!(plot < self.plots);
        // SAFETY: `new` duty 1, as above; all-zero is a `Growth`.
        unsafe { &*self.growth.add(plot) }
    }

    fn current(&self, partition: usize) -> &AtomicU32 {
        debug_assert!(partition < self.partitions);
        // SAFETY: `new` duty 1, as above.
        unsafe { &*self.current.add(partition) }
    }

    /// The descriptor of the slab that an offset from the tier's base lies in, if it is mapped.
    ///
    /// 2 loads, 3 shifts and a comparison; touches nothing but the tables.
    #[inline(always)]
    pub fn slab_at(&self, offset: usize) -> Option<&Slab> {
        let index = offset >> Tier::of(TIER).shift;
        let plot = index >> self.shift;
        // SAFETY: the caller's offset is below the tier's span (checked in debug builds), so the
        // plot is below the number of plots, the length of the table (`new` duty 1).
        debug_assert!(plot < self.plots);
        let bounds = unsafe { (*self.bounds.add(plot)).load(Acquire) };
        let (first, count) = (bounds as u32, (bounds >> 32) as u32);
        if (index as u32).wrapping_sub(first) >= count {
            return None;
        }
        Some(self.slab(index))
    }

    #[inline(always)]
    fn slab(&self, index: usize) -> &Slab {
        // SAFETY: P2: the descriptor of a mapped slab is mapped; zero bytes are a `Slab`; all
        // fields are atomics, so shared references are enough for everybody.
        unsafe { &*core::ptr::with_exposed_provenance(self.slabs + index * SLAB_BYTES) }
    }

    /// Address of a slab index's first byte.
    pub fn address(&self, index: usize) -> usize {
        self.base + (index << Tier::of(TIER).shift)
    }

    /// A slab that nobody has had, for `partition`: its descriptor, still zero, and its address.
    pub fn take(&self, os: &impl Os, partition: usize) -> Result<(&Slab, usize), Error> {
        loop {
            let current = self.current(partition).load(Acquire);
            let plot = if current == 0 {
                self.nth_plot(partition)
            } else {
                current as usize - 1
            };
            match self.take_from(os, plot) {
                Ok(index) => return Ok((self.slab(index), self.address(index))),
                Err(Error::Occupied) => self.move_on(partition, current)?,
                Err(error) => return Err(error),
            }
        }
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

    /// A plot is used up, or something foreign lies in it: the partition goes on in another.
    #[cold]
    fn move_on(&self, partition: usize, from: u32) -> Result<(), Error> {
        // SAFETY: `new` duty 1.
        let extra = unsafe { &*self.extra }.fetch_add(1, Relaxed) as usize;
        if extra >= self.plots - self.partitions {
            return Err(Error::NoMemory);
        }
        let plot = self.nth_plot(self.partitions + extra) as u32 + 1;
        // Losing the race costs one plot and is fine: somebody else has moved the partition on.
        let _ = self.current(partition).compare_exchange(from, plot, AcqRel, Relaxed);
        Ok(())
    }

    fn take_from(&self, os: &impl Os, plot: usize) -> Result<usize, Error> {
        let growth = self.growth(plot);
        let mut spins = 0;
        loop {
            let bounds = self.bounds(plot).load(Acquire);
            let (first, count) = (bounds as u32, (bounds >> 32) as u32);
            let next = growth.next.load(Acquire);
            if next < count {
                let taken = growth.next.compare_exchange(next, next + 1, AcqRel, Relaxed);
                if taken.is_ok() {
                    return Ok((first + next) as usize);
                }
            } else {
                match self.grow(os, plot, bounds) {
                    Ok(()) => {}
                    // Either another thread is growing this plot just now, and will be seen to have
                    // done so, or the place is taken for good.
                    Err(Error::Occupied) if spins < SPIN_LIMIT => {
                        if self.bounds(plot).load(Acquire) == bounds {
                            spins += 1;
                            pause();
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Maps the next step of a plot. Only the thread whose mapping succeeds advances `count`.
    #[cold]
    fn grow(&self, os: &impl Os, plot: usize, bounds: u64) -> Result<(), Error> {
        let tier = Tier::of(TIER);
        let count = (bounds >> 32) as usize;
        let first = if bounds == 0 { self.first_slab(plot) } else { bounds as u32 as usize };
        let room = ((plot + 1) << self.shift) - (first + count);
        let mapped = count << tier.shift;
        let full_step = mapped.clamp(tier.first_step, STEP_MAX) >> tier.shift;
        let mut step = full_step.min(room);
        if step == 0 {
            return Err(Error::Occupied);
        }
        loop {
            match self.map_step(os, plot, first, count, step) {
                Ok(()) => break,
                // Near a limit a single slab may still fit.
                Err(Error::NoMemory) if step > 1 => step = 1,
                Err(error) => return Err(error),
            }
        }
        // publish slabs: pairs with `slab_at` and `take_from`.
        let grown = first as u64 | ((count + step) as u64) << 32;
        self.bounds(plot).store(grown, Release);
        Ok(())
    }

    fn map_step(
        &self,
        os: &impl Os,
        plot: usize,
        first: usize,
        count: usize,
        step: usize,
    ) -> Result<(), Error> {
        let descriptors = &self.growth(plot).descriptors;
        let start = self.slabs + first * SLAB_BYTES;
        let end = start + (count + step) * SLAB_BYTES;
        descriptors.reach(os, start, end, DESCRIPTOR_STEP.max(self.page_size))?;
        let shift = Tier::of(TIER).shift;
        os.map(self.address(first + count), step << shift)
    }

    /// Where in a plot its slabs begin: a keyed place in its lower half, so that its descriptors
    /// begin on a page of their own.
    fn first_slab(&self, plot: usize) -> usize {
        let slabs = 1usize << self.shift;
        let unit = self.page_size / SLAB_BYTES;
        let places = (slabs / 2 / unit).max(1);
        let hash = (plot as u64 + 1).wrapping_mul(self.place_key);
        let place = ((u128::from(hash ^ hash.rotate_left(32)) * places as u128) >> 64) as usize;
        (plot << self.shift) + place * unit
    }

    /// Every mapped slab descriptor with its plot's partition-independent index, in address order.
    pub fn for_each(&self, mut each: impl FnMut(&Slab)) {
        for plot in 0..self.plots {
            let bounds = self.bounds(plot).load(Acquire);
            let first = bounds as u32 as usize;
            let handed_out = self.growth(plot).next.load(Acquire) as usize;
            for index in first..first + handed_out.min((bounds >> 32) as usize) {
                let slab = self.slab(index);
                if slab.is_open() {
                    each(slab);
                }
            }
        }
    }

    /// Bytes of slabs mapped, and of their descriptors.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let (mut data, mut descriptors) = (0, 0);
        for plot in 0..self.plots {
            let count = (self.bounds(plot).load(Acquire) >> 32) as usize;
            data += count << Tier::of(TIER).shift;
            descriptors += (count * SLAB_BYTES).next_multiple_of(self.page_size);
        }
        (data, descriptors)
    }
}
