//! The distributions that sizes of blocks are drawn from. A workload draws a table before its time
//! starts and walks through it, so that no arithmetic of a distribution is in the loop.

use super::prelude::*;

/// Sizes that a program asked for. The file says how it was made.
const RECORDED: &str = include_str!("../../data/python-sizes.txt");

/// How often each size from the first number to the second is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// Equally often.
    Uniform(usize, usize),
    /// As 1/size: each doubling is as frequent as the next.
    Inverse(usize, usize),
    /// As 1/size^2: half of all sizes are below twice the first number, and of each doubling there
    /// are half as many as of the one before.
    InverseSquare(usize, usize),
    /// As often as a real program asked for them.
    Recorded,
}

impl Sizes {
    /// Reads `sizes` (0 uniform, 1 inverse square, 2 recorded), `low` and `high`.
    pub fn of(params: &Params) -> Self {
        let (low, high) = (params.size("low", 8), params.size("high", 1024));
        assert!(0 < low && low <= high, "no size is in {low}..={high}");
        match params.get("sizes", 0) {
            0 => Self::Uniform(low, high),
            1 => Self::InverseSquare(low, high),
            2 => Self::Recorded,
            other => panic!("sizes={other}: 0 is uniform, 1 inverse square, 2 recorded"),
        }
    }

    pub fn table(self, count: usize, seed: u64) -> Mapped<u32> {
        let mut rng = Rng::new(seed);
        let mut table = Mapped::<u32>::new(count);
        let Some((low, high)) = self.range() else {
            let histogram = Histogram::parse(RECORDED);
            for size in table.iter_mut() {
                *size = histogram.at(rng.below(histogram.total as usize) as u64);
            }
            return table;
        };
        for size in table.iter_mut() {
            let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            // One more than the largest, of which the whole part is never reached.
            let drawn = self.quantile(unit, low as f64, (high + 1) as f64);
            *size = (drawn as u32).clamp(low as u32, high as u32);
        }
        table
    }

    /// A table that is walked again and again.
    pub fn ring(self, seed: u64) -> Ring {
        Ring { table: self.table(RING, seed), next: 0 }
    }

    fn range(self) -> Option<(usize, usize)> {
        match self {
            Self::Uniform(low, high)
            | Self::Inverse(low, high)
            | Self::InverseSquare(low, high) => Some((low, high)),
            Self::Recorded => None,
        }
    }

    /// The size below which a share `unit` of all sizes lies.
    fn quantile(self, unit: f64, low: f64, high: f64) -> f64 {
        let span = high - low;
        match self {
            Self::Uniform(..) | Self::Recorded => low + span * unit,
            Self::Inverse(..) => low * (high / low).powf(unit),
            Self::InverseSquare(..) => 1.0 / (1.0 / low - unit * (1.0 / low - 1.0 / high)),
        }
    }
}

/// The number of sizes of a ring, after which they repeat.
pub const RING: usize = 1 << 14;

/// Sizes that were drawn ahead, one after the other.
pub struct Ring {
    table: Mapped<u32>,
    next: usize,
}

impl Ring {
    /// The next size.
    #[inline(always)]
    pub fn draw(&mut self) -> usize {
        let size = self.table[self.next % RING];
        self.next += 1;
        size as usize
    }
}

/// Sizes and how many requests were of that size or a smaller one.
struct Histogram {
    sizes: Mapped<u32>,
    up_to: Mapped<u64>,
    total: u64,
}

impl Histogram {
    /// Reads lines of a size and a count; lines that begin with `#` are remarks.
    fn parse(text: &str) -> Self {
        let rows = || text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut sizes = Mapped::<u32>::new(rows().count());
        let mut up_to = Mapped::<u64>::new(sizes.len());
        let mut total = 0;
        for (index, row) in rows().enumerate() {
            let (size, count) = row.split_once(' ').expect("a row is a size and a count");
            total += count.parse::<u64>().expect("a count is a number");
            sizes[index] = size.parse().expect("a size is a number");
            up_to[index] = total;
        }
        Self { sizes, up_to, total }
    }

    /// The size of request number `index`, when they are in the order of their sizes.
    fn at(&self, index: u64) -> u32 {
        self.sizes[self.up_to.partition_point(|&up_to| up_to <= index)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    fn drawn(sizes: Sizes) -> (u32, u32, f64, Mapped<u32>) {
        let table = sizes.table(DRAWS, 88);
        let mean = table.iter().map(|&size| f64::from(size)).sum::<f64>() / DRAWS as f64;
        (*table.iter().min().unwrap(), *table.iter().max().unwrap(), mean, table)
    }

    #[test]
    fn uniform_sizes_reach_both_ends_and_lie_around_the_middle() {
        let (smallest, largest, mean, _) = drawn(Sizes::Uniform(8, 1024));
        assert_eq!((smallest, largest), (8, 1024));
        assert!((mean - 516.0).abs() < 3.0, "{mean}");
    }

    #[test]
    fn inverse_square_sizes_have_the_mean_and_the_tail_of_their_law() {
        let (smallest, largest, mean, mut table) = drawn(Sizes::InverseSquare(4, 32768));
        assert_eq!(smallest, 4);
        assert!((8_000..=32_768).contains(&largest), "{largest}");
        // The mean of the law is ln(high / low) / (1 / low - 1 / high) = 36.0; sizes are cut to
        // whole bytes, half a byte less.
        assert!((33.0..38.0).contains(&mean), "{mean}");
        let above = |size| {
            100.0 * table.iter().filter(|&&drawn| drawn > size).count() as f64 / DRAWS as f64
        };
        assert!((above(128) - 3.1).abs() < 0.2, "{}", above(128));
        assert!((above(1023) - 0.38).abs() < 0.05, "{}", above(1023));
        table.sort_unstable();
        assert!((7..=8).contains(&table[DRAWS / 2]), "{}", table[DRAWS / 2]);
    }

    fn share_below(sizes: Sizes, bound: u32) -> f64 {
        let table = sizes.table(DRAWS, 1);
        table.iter().filter(|&&size| size < bound).count() as f64 / DRAWS as f64
    }

    #[test]
    fn each_law_puts_its_share_of_the_sizes_below_a_bound() {
        let near = |sizes: Sizes, bound, share: f64| {
            let below = share_below(sizes, bound);
            assert!((below - share).abs() < 0.01, "{sizes:?}: {below} is not {share}");
        };
        near(Sizes::Uniform(1000, 1999), 1250, 0.25);
        near(Sizes::Inverse(16, 4095), 256, 0.5);
        near(Sizes::InverseSquare(16, 4095), 32, 0.5);
        near(Sizes::InverseSquare(16, 4095), 64, 0.75);
    }

    #[test]
    fn narrow_ranges_reach_both_ends_and_go_no_further() {
        for sizes in [Sizes::Uniform(3, 6), Sizes::Inverse(3, 6), Sizes::InverseSquare(3, 6)] {
            let (smallest, largest, ..) = drawn(sizes);
            assert_eq!((smallest, largest), (3, 6), "{sizes:?}");
        }
    }

    #[test]
    fn a_ring_is_the_table_again_and_again() {
        let mut ring = Sizes::Inverse(1, 1000).ring(5);
        let table = Sizes::Inverse(1, 1000).table(RING, 5);
        let walked = (0..RING + 2).map(|_| ring.draw() as u32);
        assert!(walked.eq(table.iter().copied().cycle().take(RING + 2)));
    }

    #[test]
    fn recorded_sizes_are_those_of_the_file_and_as_frequent() {
        let histogram = Histogram::parse(RECORDED);
        let mut exact = 0.0;
        let mut before = 0;
        for (&size, &up_to) in histogram.sizes.iter().zip(histogram.up_to.iter()) {
            exact += f64::from(size) * (up_to - before) as f64 / histogram.total as f64;
            before = up_to;
        }
        assert!(histogram.sizes.is_sorted() && histogram.sizes[0] > 0);
        let (smallest, _, mean, table) = drawn(Sizes::Recorded);
        assert!(table.iter().all(|size| histogram.sizes.contains(size)));
        assert_eq!(smallest, histogram.sizes[0]);
        assert!((mean / exact - 1.0).abs() < 0.1, "{mean} is not {exact}");
    }

    #[test]
    fn a_histogram_is_read_in_proportion() {
        let histogram = Histogram::parse("# a remark\n16 1\n32 3\n");
        assert_eq!(histogram.total, 4);
        assert_eq!([0, 1, 2, 3].map(|index| histogram.at(index)), [16, 32, 32, 32]);
    }

    #[test]
    fn the_numbers_of_a_case_choose_the_distribution() {
        let of = |words: &str| Sizes::of(&Params::of(words));
        assert!(matches!(of("low=8"), Sizes::Uniform(8, 1024)));
        assert!(matches!(of("sizes=1 low=4 high=32768"), Sizes::InverseSquare(4, 32768)));
        assert!(matches!(of("sizes=2"), Sizes::Recorded));
    }
}
