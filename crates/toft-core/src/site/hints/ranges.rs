//! The ranges of code in which sites were seen, and the module of each. So the kernel is asked once
//! for each range.
//!
//! Ranges are only added. A range whose end is zero is not written yet. If two threads add the same
//! range, it is there twice, which does no harm.

use super::Zero;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// The number of ranges that are remembered. A site in other code is looked up every time.
pub(super) const RANGES: usize = 256;

/// A range of code that is mapped in this process.
#[derive(Debug)]
struct Range {
    start: AtomicUsize,
    /// Written last.
    end: AtomicUsize,
    /// The number to subtract from an address to get its offset.
    bias: AtomicUsize,
    /// The module's number plus one, or zero if no line names the module.
    module: AtomicU32,
}

/// All ranges. All zero at first.
#[derive(Debug)]
pub(super) struct Ranges {
    /// The number of ranges taken. Any thread.
    count: AtomicU32,
    /// Any thread writes a range, once.
    ranges: [Range; RANGES],
}

// SAFETY: (1) atomic numbers.
unsafe impl Zero for Ranges {}

impl Ranges {
    /// Returns the module, if a line names it, and the offset of an address in a remembered range.
    pub(super) fn find(&self, address: usize) -> Option<(Option<usize>, usize)> {
        let count = (self.count.load(Relaxed) as usize).min(RANGES);
        self.ranges.iter().take(count).find_map(|range| {
            // find range: pairs with the store in `add`.
            let end = range.end.load(Acquire);
            let inside = (range.start.load(Relaxed)..end).contains(&address);
            let module = (range.module.load(Relaxed) as usize).checked_sub(1);
            inside.then(|| (module, address.wrapping_sub(range.bias.load(Relaxed))))
        })
    }

    /// Adds a range. Returns true if there was room for it.
    pub(super) fn add(
        &self,
        (start, end): (usize, usize),
        bias: usize,
        module: Option<usize>,
    ) -> bool {
        let next = |count: u32| ((count as usize) < RANGES).then_some(count + 1);
        let taken = self.count.fetch_update(Relaxed, Relaxed, next);
        let Some(range) = taken.ok().and_then(|number| self.ranges.get(number as usize)) else {
            return false;
        };
        range.start.store(start, Relaxed);
        range.bias.store(bias, Relaxed);
        range.module.store(module.map_or(0, |number| number as u32 + 1), Relaxed);
        // publish range: pairs with the load in `find`.
        range.end.store(end, Release);
        true
    }
}
