//! How sizes are distributed, for the workloads in which small blocks are more frequent than large
//! ones. Logarithms cost as much as a `malloc`, so sizes are drawn into a table ahead of the timing.

use crate::mapped::Mapped;
use crate::rng::Rng;

/// How the frequency of a size falls between the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Along a straight line down to nothing at the largest size.
    Linear,
    /// To 1/e for each eighth of the range.
    Exponential,
    /// As 1/size: each power of two is as frequent as the next.
    Inverse,
    /// As 1/size^2: each power of two is half as frequent as the one before.
    InverseSquare,
}

/// The number of sizes of a table, after which they repeat.
pub const DRAWS: usize = 1 << 14;

/// Sizes that were drawn ahead.
pub struct Sizes {
    table: Mapped<u32>,
    next: usize,
}

impl Sizes {
    /// Draws sizes in `low..=high`.
    #[must_use]
    pub fn new(law: Law, low: usize, high: usize, rng: &mut Rng) -> Self {
        let mut table = Mapped::<u32>::new(DRAWS);
        for size in table.iter_mut() {
            let unit = rng.below(1 << 30) as f64 / f64::from(1 << 30);
            // One more than the largest, of which the whole part is never reached.
            let drawn = law.at(unit, low as f64, (high + 1) as f64);
            *size = (drawn as u32).clamp(low as u32, high as u32);
        }
        Self { table, next: 0 }
    }

    /// The next size.
    #[inline(always)]
    pub fn draw(&mut self) -> usize {
        let size = self.table[self.next % DRAWS];
        self.next += 1;
        size as usize
    }
}

impl Law {
    /// The size below which a share `unit` of all sizes lies.
    fn at(self, unit: f64, low: f64, high: f64) -> f64 {
        let span = high - low;
        match self {
            Self::Linear => low + span * (1.0 - (1.0 - unit).sqrt()),
            Self::Exponential => {
                let cut = unit * (1.0 - f64::exp(-8.0));
                low - span / 8.0 * (1.0 - cut).ln()
            }
            Self::Inverse => low * (high / low).powf(unit),
            Self::InverseSquare => 1.0 / (1.0 / low - unit * (1.0 / low - 1.0 / high)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(law: Law, low: usize, high: usize) -> Vec<usize> {
        let mut sizes = Sizes::new(law, low, high, &mut Rng::new(1));
        let drawn: Vec<usize> = (0..DRAWS).map(|_| sizes.draw()).collect();
        assert!(drawn.iter().all(|size| (low..=high).contains(size)), "{law:?}");
        assert_eq!(sizes.draw(), drawn[0], "the table does not repeat");
        drawn
    }

    fn share_below(sizes: &[usize], bound: usize) -> f64 {
        sizes.iter().filter(|&&size| size < bound).count() as f64 / sizes.len() as f64
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 0.03, "{a} is not {b}");
    }

    #[test]
    fn each_law_puts_its_share_of_the_sizes_below_a_bound() {
        near(share_below(&drawn(Law::Linear, 1000, 1999), 1500), 0.75);
        near(share_below(&drawn(Law::Exponential, 1000, 1999), 1125), 1.0 - f64::exp(-1.0));
        near(share_below(&drawn(Law::Inverse, 16, 4095), 256), 0.5);
        let square = drawn(Law::InverseSquare, 16, 4095);
        near(share_below(&square, 32), 0.5);
        near(share_below(&square, 64), 0.75);
    }

    #[test]
    fn narrow_ranges_reach_both_ends() {
        for law in [Law::Linear, Law::Exponential, Law::Inverse, Law::InverseSquare] {
            let sizes = drawn(law, 3, 6);
            assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&3), Some(&6)), "{law:?}");
        }
    }
}
