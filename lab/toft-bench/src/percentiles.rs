//! Percentiles of all samples, by nearest rank: each is a sample that was measured, none is made up
//! between two.

/// Samples in order.
#[derive(Debug)]
pub struct Percentiles<'a> {
    sorted: &'a [u32],
}

impl<'a> Percentiles<'a> {
    /// Sorts the samples in place, without further memory.
    pub fn of(samples: &'a mut [u32]) -> Self {
        assert!(!samples.is_empty(), "percentiles of nothing");
        samples.sort_unstable();
        Self { sorted: samples }
    }

    /// The smallest sample that at least `share` of ten thousand are not above: 9990 is p99.9.
    pub fn at(&self, share: usize) -> u32 {
        assert!((1..=10_000).contains(&share), "{share} of ten thousand");
        let rank = (self.sorted.len() * share).div_ceil(10_000);
        self.sorted[rank - 1]
    }

    pub fn mean(&self) -> f64 {
        self.sorted.iter().map(|&sample| f64::from(sample)).sum::<f64>() / self.sorted.len() as f64
    }

    pub fn max(&self) -> u32 {
        self.at(10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_rounded_up() {
        let mut samples = [4, 2, 5, 1, 3];
        let all = Percentiles::of(&mut samples);
        // Of five, half is two and a half samples, so the third is the first that half are not
        // above; a rank of 4.95 is the fifth.
        assert_eq!([1, 2000, 2001, 5000, 9900].map(|share| all.at(share)), [1, 1, 2, 3, 5]);
    }

    #[test]
    fn one_rare_outlier_shows_where_it_should() {
        // One of ten thousand is slow: p99.99 is still a common one, the largest is not.
        let mut samples = vec![20; 10_000];
        samples[17] = 900;
        let all = Percentiles::of(&mut samples);
        assert_eq!((all.at(9999), all.max()), (20, 900));
        // Two of ten thousand are.
        let mut samples = vec![20; 10_000];
        samples[3] = 700;
        samples[17] = 900;
        let all = Percentiles::of(&mut samples);
        assert_eq!((all.at(9990), all.at(9999), all.max()), (20, 700, 900));
    }

    #[test]
    fn a_single_sample_is_all_of_them() {
        let mut samples = [7];
        let all = Percentiles::of(&mut samples);
        assert_eq!((all.at(1), all.at(5000), all.max()), (7, 7, 7));
        assert_eq!(Percentiles::of(&mut [9, 1, 2, 2]).mean(), 3.5);
    }
}
