//! The demand of each bin of a heap: the number of slots that it lately took from shared heaps.
//!
//! A slab of a thread costs at least a page and a descriptor. A bin earns separate slabs by
//! [`EARNED`] slots in about a second.
//!
//! Several bins share a count. A bin can therefore earn its slab earlier than that, but never
//! later.

use crate::os::SECOND;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU8, AtomicU32};

/// The number of slots that a bin draws before it earns a slab.
pub const EARNED: u8 = 32;
/// The number of counts. A power of two.
const COUNTS: usize = 1024;
const SHIFT: u32 = u64::BITS - COUNTS.ilog2();
/// 2^64 divided by the golden ratio. Neighbouring bins get counts that are far apart.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The counts of one heap. Holder only.
#[derive(Debug)]
pub struct Demand {
    /// The last tick at which all counts were set to zero.
    since: AtomicU32,
    counts: [AtomicU8; COUNTS],
}

impl Demand {
    /// Returns counts of zero.
    pub const fn new() -> Demand {
        Demand { since: AtomicU32::new(0), counts: [const { AtomicU8::new(0) }; COUNTS] }
    }

    /// Returns the number that counts frees of a class. It is above the numbers of all bins.
    pub fn of_frees(class: usize) -> usize {
        usize::MAX / 4 - class
    }

    /// Counts a slot for bin `number` at tick `now`. Returns true if the bin has not earned a slab.
    /// All counts are set to zero about every second.
    pub fn is_low(&self, number: usize, now: u32) -> bool {
        if now.wrapping_sub(self.since.load(Relaxed)) >= SECOND {
            self.since.store(now, Relaxed);
            self.counts.iter().for_each(|count| count.store(0, Relaxed));
        }
        let place = (number as u64).wrapping_mul(SCATTER) >> SHIFT;
        let Some(count) = self.counts.get(place as usize) else { return false };
        let slots = count.load(Relaxed);
        if slots >= EARNED {
            return false;
        }
        count.store(slots + 1, Relaxed);
        true
    }
}

impl Default for Demand {
    fn default() -> Demand {
        Demand::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_bin_earns_a_slab_by_demand() {
        let demand = Demand::new();
        assert!((0..EARNED).all(|_| demand.is_low(32, 1)));
        assert!(!demand.is_low(32, 1), "earned");
        assert!(demand.is_low(33, 1), "another bin");
        assert!(!demand.is_low(32, SECOND - 1), "still earned");
        assert!(demand.is_low(32, SECOND), "a second later");
    }

    #[test]
    fn bins_of_one_partition_have_separate_counts() {
        extern crate std;
        let demand = Demand::new();
        let low = (0..64).filter(|&bin| demand.is_low(bin, 1)).count();
        assert_eq!(low, 64);
        let counted = demand.counts.iter().filter(|count| count.load(Relaxed) != 0).count();
        assert!(counted > 60, "{counted}");
    }
}
