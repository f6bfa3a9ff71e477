//! The pieces of code that sites were already seen in, and which module each is of: so that the
//! kernel is asked once for each.
//!
//! Ranges are only ever added; one whose end is zero is not written yet. Two threads may both add
//! one: it is there twice then, and that is all.

use super::Zero;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// Pieces of code that are remembered. Sites in others are looked up each for itself.
pub(super) const RANGES: usize = 256;

/// Code that is mapped here.
#[derive(Debug)]
struct Range {
    start: AtomicUsize,
    /// Written last.
    end: AtomicUsize,
    /// What is to be taken from an address to have the offset.
    bias: AtomicUsize,
    /// The module's number and one; zero, if no line is of it.
    module: AtomicU32,
}

/// All of it. All zero at first.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Records taken. Any thread.
    count: AtomicU32,
    /// Any thread, each once.
    ranges: [Range; RANGES],
}

// SAFETY: (1) atomic numbers.
unsafe impl Zero for Ranges {}

impl Ranges {
    /// The module, if there is one, and the offset of a site in code that is known.
    pub(super) fn find(&self, site: usize) -> Option<(Option<usize>, usize)> {
        let count = (self.count.load(Relaxed) as usize).min(RANGES);
        self.ranges.iter().take(count).find_map(|range| {
            // find range: pairs with the store in `add`.
            let end = range.end.load(Acquire);
            let inside = (range.start.load(Relaxed)..end).contains(&site);
            let module = (range.module.load(Relaxed) as usize).checked_sub(1);
            inside.then(|| (module, site.wrapping_sub(range.bias.load(Relaxed))))
        })
    }

    /// Adds a range; returns true if there was room for it.
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
