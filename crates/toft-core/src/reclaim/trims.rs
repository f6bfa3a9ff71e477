//! The times of the last purge and of the last count of free memory for `malloc_trim`.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// The times of the last purge and of the last count for a trim (`keeper/sweeper/trim.rs`). Any
/// thread. Two threads at once may make a purge or a count too many.
#[derive(Debug)]
pub struct Trims {
    /// The tick of the last purge.
    purged_at: AtomicU32,
    /// The processor's counter at the end of the last purge. Zero before the first.
    purged_until: AtomicU64,
    /// The counter's difference during the last purge.
    purge_cost: AtomicU64,
    /// The processor's counter at the end of the last count.
    counted_at: AtomicU64,
    /// The counter's difference during the last count.
    cost: AtomicU64,
}

impl Trims {
    /// Returns true if there was no purge yet.
    pub fn are_first(&self) -> bool {
        self.purged_until.load(Relaxed) == 0
    }

    /// Returns true if at least `ticks` have passed since the last purge, and at least `patience`
    /// times its duration.
    pub fn are_late(&self, tick: u32, ticks: u32, now: u64, patience: u64) -> bool {
        let passed = now.wrapping_sub(self.purged_until.load(Relaxed));
        tick.wrapping_sub(self.purged_at.load(Relaxed)) >= ticks
            && passed >= self.purge_cost.load(Relaxed).saturating_mul(patience)
    }

    /// Notes a purge.
    pub fn note_purge(&self, tick: u32, begun: u64, now: u64) {
        self.purged_at.store(tick, Relaxed);
        self.purged_until.store(now, Relaxed);
        self.purge_cost.store(now.wrapping_sub(begun), Relaxed);
    }

    /// Returns true if `patience` times the duration of the last count has passed since its end.
    pub fn may_count(&self, now: u64, patience: u64) -> bool {
        let passed = now.wrapping_sub(self.counted_at.load(Relaxed));
        passed >= self.cost.load(Relaxed).saturating_mul(patience)
    }

    /// Notes a count. Its duration counts as at most twice that of the count before, because the
    /// system may have interrupted it. The first counts of a process therefore follow each other
    /// closely.
    pub fn note_count(&self, begun: u64, now: u64) {
        let most = self.cost.load(Relaxed).max(1) * 2;
        self.cost.store(now.wrapping_sub(begun).min(most), Relaxed);
        self.counted_at.store(now, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn none() -> Trims {
        Trims {
            purged_at: AtomicU32::new(0),
            purged_until: AtomicU64::new(0),
            purge_cost: AtomicU64::new(0),
            counted_at: AtomicU64::new(0),
            cost: AtomicU64::new(0),
        }
    }

    /// A long pause follows a long purge.
    #[test]
    fn purges_are_rare() {
        let trims = none();
        assert!(trims.are_first());
        trims.note_purge(100, 1000, 1500);
        assert!(!trims.are_first());
        assert!(!trims.are_late(139, 40, 1_000_000, 32));
        assert!(!trims.are_late(140, 40, 17_499, 32) && trims.are_late(140, 40, 17_500, 32));
    }

    /// The program runs 16 times as long as it counts.
    #[test]
    fn counts_are_rare() {
        let trims = none();
        let (mut now, mut counting) = (1000, 0);
        for _ in 0..10_000 {
            now += 10;
            if trims.may_count(now, 16) {
                counting += 50;
                now += 50;
                trims.note_count(now - 50, now);
            }
        }
        assert!((4_000..8_000).contains(&counting), "{counting} of {now}");
    }

    /// The system interrupts a count for a long time.
    #[test]
    fn an_interrupted_count_delays_the_next_one_little() {
        let trims = none();
        for begun in (0..100_000).step_by(1000) {
            trims.note_count(begun, begun + 50);
        }
        trims.note_count(100_000, 900_000);
        assert!(!trims.may_count(901_599, 16) && trims.may_count(901_600, 16));
    }
}
