//! Where slabs of the secure builds are: each partition has its own plots, at random places, far
//! from those of others.
//!
//! ```text
//! field | near plots of 4 MiB, each a granule | unused | far plots |
//! plot  | ......first slab| slab | slab | next ... mapped ... |
//! ```
//!
//! A partition begins in a near plot, at a random place in it. If that is used up it gets another
//! near one, then far ones, each as large as the field allows. Near plots share page tables: 1024
//! of them have four of their tables of the second level. Most partitions of a small program have
//! only near ones. The order in which plots are given out is secret.
//!
//! A thread that is stopped while a plot grows stops no other one (`run.rs`). If something foreign
//! is in a plot's way, its partition gets another plot, but only [`MOVES_MOST`] times in a process.
//! After that the plots of other partitions serve it, and those that were blocked are tried again.
//!
//! - P1 a plot belongs to one run. Its number is below `begun`.
//! - P2 the plot of a number has a place that no other number has, or none yet.

use super::tree::GRANULE_SHIFT;
use super::{SlabNeed, Supply};
use crate::os::{Error, Memory, Os};
use crate::region::Partition;
use crate::region::run::{Mood, NoUnits, Run, Spares, State as RunState};
use crate::sync::{AtomicU32, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The bytes of a near plot.
const NEAR: usize = 1 << GRANULE_SHIFT;
/// The most near plots that a partition gets.
const NEAR_MOST: u32 = 2;
/// The least and the most near plots of a field that is large enough, as a power of two. There are
/// two for each partition.
const NEAR_PLOTS: (usize, usize) = (4096, 1 << 16);
/// The far plots of a field that is large enough.
const FAR_PLOTS: usize = 2048;
/// The least and the most bytes that are mapped at a time.
const STEPS: (usize, usize) = (256 << 10, 64 << 20);
/// How often partitions move on because something foreign is in a plot's way.
const MOVES_MOST: u32 = 64;
/// How often one request may do so.
const MOVES_OF_REQUEST: u32 = 8;
/// The number of plots of other partitions that one request tries.
const OTHERS_MOST: usize = 8;

/// Numbers about all plots. In the metadata tables, zero at first. Any thread writes.
#[derive(Debug)]
#[repr(C, align(64))]
struct Totals {
    mood: Mood,
    /// The near plots and the far plots that were given out.
    given: [AtomicU32; 2],
    /// The plots that were begun.
    begun: AtomicU32,
    /// How often a partition has moved on because of something foreign.
    moves: AtomicU32,
    /// The plot of another partition that was tried last.
    tried: AtomicU32,
    /// Numbers of plots that were begun for nothing.
    spares: Spares,
}

/// A plot that was begun. In the metadata tables, in the order in which plots are begun.
#[derive(Debug)]
#[repr(C, align(64))]
struct Plot {
    run: RunState,
    /// The place of the plot, plus one, or zero. Far places follow the near ones. The thread that
    /// has begun the plot writes it, once.
    place: AtomicU32,
    /// The number of plots that its partition had before. That thread writes it, before `place`.
    before: AtomicU32,
}

/// The plots of a field.
#[derive(Debug)]
pub struct Plots {
    /// The first address, and the number of near and far plots. Both are powers of two, or zero.
    base: usize,
    near: usize,
    far: usize,
    /// The first address of far plots, and the bytes of each.
    far_base: usize,
    far_bytes: usize,
    partitions: usize,
    /// The keys that place slabs: the order of plots, and where in each slabs begin.
    order_key: usize,
    place_key: u64,
    page_size: usize,
    totals: *const Totals,
    /// The number of the plot that serves each partition, plus one; zero if there is none yet. Any
    /// thread changes it, by compare and exchange.
    current: *const AtomicU32,
    plots: *const Plot,
}

/// The number of near and of far plots, and the bytes of a far one.
fn shape(bytes: usize, partitions: usize) -> (usize, usize, usize) {
    // The first half of the field is for near plots.
    let half = bytes / 2;
    let wanted = (2 * partitions).next_power_of_two().clamp(NEAR_PLOTS.0, NEAR_PLOTS.1);
    let near = floor_power(half / NEAR).min(wanted);
    let far_bytes = floor_power(half / FAR_PLOTS).max(NEAR);
    (near, floor_power(half / far_bytes), far_bytes)
}

/// Returns the largest power of two that is at most `number`, or zero.
fn floor_power(number: usize) -> usize {
    number.checked_ilog2().map_or(0, |log| 1 << log)
}

impl Plots {
    fn totals(&self) -> &Totals {
        // SAFETY: `new` duty 1; all-zero is a `Totals`.
        unsafe { &*self.totals }
    }

    fn plot(&self, number: usize) -> &Plot {
        debug_assert!(number < self.near + self.far);
        // SAFETY: `new` duty 1: one for each plot, by P1; all-zero is a `Plot`.
        unsafe { &*self.plots.add(number) }
    }

    fn current(&self, partition: Partition) -> &AtomicU32 {
        debug_assert!(partition.number() < self.partitions);
        // SAFETY: `new` duty 1: one for each partition.
        unsafe { &*self.current.add(partition.number()) }
    }

    /// Returns the number of plots that were begun.
    pub(super) fn begun(&self) -> usize {
        self.totals().begun.load(Acquire) as usize
    }

    /// Returns the run of a plot that was begun, or `None` if it has no place yet.
    fn run(&self, number: usize) -> Option<Run> {
        let plot = self.plot(number);
        let place = (plot.place.load(Acquire) as usize).checked_sub(1)?;
        let (start, bytes) = match place.checked_sub(self.near) {
            None => (self.base + place * NEAR, NEAR),
            Some(far) => (self.far_base + far * self.far_bytes, self.far_bytes),
        };
        let lead = self.lead(place, bytes);
        let mood = &raw const self.totals().mood;
        let places = (start + lead, bytes - lead);
        let before = plot.before.load(Relaxed) as usize * NEAR;
        let steps = (STEPS.0, STEPS.1, before);
        // SAFETY: (1) P2: the state is this plot's; (2) so is the address space; (3) `new` duty 1.
        Some(unsafe { Run::new(places, steps, self.page_size, &raw const plot.run, mood) })
    }

    /// Returns the bytes before the first slab of a plot: a keyed number that leaves at least a
    /// quarter of the plot. If there are few plots, all of their addresses are needed.
    fn lead(&self, place: usize, bytes: usize) -> usize {
        if self.near < NEAR_PLOTS.0 {
            return 0;
        }
        let unit = self.page_size.max(<super::TreeMap as super::PageMap>::UNIT);
        let places = bytes / unit / 4 * 3;
        let hash = (place as u64 + 1).wrapping_mul(self.place_key);
        let number = (u128::from(hash ^ hash.rotate_left(32)) * places as u128) >> 64;
        number as usize * unit
    }

    /// Begins a plot for a partition that has had `before` others. Returns its number, or `None` if
    /// there is none left.
    fn begin(&self, before: u32) -> Option<usize> {
        let totals = self.totals();
        let wants_near = before < NEAR_MOST;
        let order = if wants_near { [0, 1] } else { [1, 0] };
        let place = order.into_iter().find_map(|kind| self.give(kind))?;
        // Each place is given once, so there are as many numbers.
        let number = totals.begun.fetch_add(1, Release) as usize;
        let plot = self.plot(number);
        plot.before.store(before, Relaxed);
        // begin plot: pairs with `run`. In the child of a fork that ends this thread before, no
        // partition has the plot.
        plot.place.store(place as u32 + 1, Release);
        Some(number)
    }

    /// Gives out a near plot (0) or a far one (1). Returns its place.
    fn give(&self, kind: usize) -> Option<usize> {
        let (count, first) = if kind == 0 { (self.near, 0) } else { (self.far, self.near) };
        let given = self.totals().given.get(kind)?;
        let mut seen = given.load(Relaxed);
        while (seen as usize) < count {
            match given.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
                Ok(_) => return Some(first + self.nth(seen as usize, count)),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Returns the n-th of `count` plots in the secret order, which is a keyed permutation.
    pub(super) fn nth(&self, n: usize, count: usize) -> usize {
        let mask = count - 1;
        let bits = count.trailing_zeros();
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

    /// Takes addresses from the plot of another partition, or from one that was blocked.
    fn take_of_others(
        &self,
        os: &impl Memory,
        need: SlabNeed,
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let begun = self.begun();
        let first = (self.totals().tried.load(Relaxed) as usize).min(begun);
        let mut tried = 0;
        for number in (first..begun).chain(0..first) {
            let Some(run) = self.run(number) else { continue };
            match run.take(os, (need.bytes, need.align), was_mapped) {
                Ok(address) => {
                    self.totals().tried.store(number as u32, Relaxed);
                    return Ok(address);
                }
                Err(NoUnits::Refused(error)) => return Err(error),
                Err(NoUnits::UsedUp) => {}
                Err(NoUnits::Foreign) => {
                    tried += 1;
                    if tried == OTHERS_MOST {
                        self.totals().tried.store(number as u32 + 1, Relaxed);
                        break;
                    }
                }
            }
        }
        Err(Error::NoMemory)
    }

    /// Calls `each` with the run of every plot that was begun.
    pub(super) fn for_each_run(&self, each: impl FnMut(Run)) {
        (0..self.begun()).filter_map(|number| self.run(number)).for_each(each);
    }
}

impl Supply for Plots {
    const NONE: Self = Plots {
        base: 0,
        near: 0,
        far: 0,
        far_base: 0,
        far_bytes: 0,
        partitions: 0,
        order_key: 0,
        place_key: 0,
        page_size: 4096,
        totals: core::ptr::null(),
        current: core::ptr::null(),
        plots: core::ptr::null(),
    };

    fn table_bytes(bytes: usize, partitions: usize) -> usize {
        let (near, far, _) = shape(bytes, partitions);
        let current = (partitions * size_of::<AtomicU32>()).next_multiple_of(64);
        size_of::<Totals>() + current + (near + far) * size_of::<Plot>()
    }

    unsafe fn new(
        os: &impl Os,
        (base, bytes): (usize, usize),
        partitions: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let (near, far, far_bytes) = shape(bytes, partitions);
        let current = tables + size_of::<Totals>();
        let plots = current + (partitions * size_of::<AtomicU32>()).next_multiple_of(64);
        Ok(Plots {
            base,
            near,
            far,
            far_base: base + bytes / 2,
            far_bytes,
            partitions,
            order_key: os.random()? as usize,
            place_key: os.random()? | 1,
            page_size: os.page_size(),
            totals: core::ptr::with_exposed_provenance(tables),
            current: core::ptr::with_exposed_provenance(current),
            plots: core::ptr::with_exposed_provenance(plots),
        })
    }

    fn take(
        &self,
        os: &impl Memory,
        need: SlabNeed,
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let (totals, word) = (self.totals(), self.current(need.partition));
        let was_locked = totals.mood.is_locked();
        let mut moves = 0;
        loop {
            let seen = word.load(Acquire);
            let number = (seen as usize).checked_sub(1);
            if let Some(run) = number.and_then(|number| self.run(number)) {
                match run.take(os, (need.bytes, need.align), was_mapped) {
                    Ok(address) => {
                        if !was_locked && totals.mood.is_locked() {
                            self.for_each_run(|run| run.retract(os));
                        }
                        return Ok(address);
                    }
                    Err(NoUnits::Refused(error)) => return Err(error),
                    Err(NoUnits::UsedUp) => {}
                    Err(NoUnits::Foreign) => {
                        moves += 1;
                        let is_last =
                            moves > MOVES_OF_REQUEST || totals.moves.load(Relaxed) >= MOVES_MOST;
                        if is_last {
                            return self.take_of_others(os, need, was_mapped);
                        }
                        totals.moves.fetch_add(1, Relaxed);
                    }
                }
            }
            let before = number.map_or(0, |number| self.plot(number).before.load(Relaxed) + 1);
            let spare = totals.spares.take(1).map(|(number, _)| number);
            let Some(next) = spare.or_else(|| self.begin(before)) else {
                return self.take_of_others(os, need, was_mapped);
            };
            // current plot: pairs with the load above.
            if word.compare_exchange(seen, next as u32 + 1, AcqRel, Relaxed).is_err() {
                // Another thread was first.
                totals.spares.put(next, 1);
            }
        }
    }

    fn grow_ahead(&self) {
        self.totals().mood.set_modest(false);
    }

    fn retract(&self, os: &impl Memory) {
        self.totals().mood.set_modest(true);
        self.for_each_run(|run| run.retract(os));
    }

    fn repair(&self) {
        self.for_each_run(|run| run.repair());
    }

    fn for_each_ahead(&self, mut each: impl FnMut(usize, usize)) {
        self.for_each_run(|run| {
            let (address, bytes) = run.ahead();
            if bytes != 0 {
                each(address, bytes);
            }
        });
    }

    fn mapped_bytes(&self) -> usize {
        self.totals().mood.mapped_bytes()
    }

    fn check(&self) -> bool {
        let mut sound = self.begun() <= self.near + self.far;
        self.for_each_run(|run| sound &= run.check());
        sound
    }
}
