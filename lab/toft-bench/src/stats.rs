//! The arithmetic of comparisons: medians, spreads, ratios taken round by round.

/// A set of samples in three numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle one (the mean of the middle two of an even number).
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises samples; `None` when there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }

    /// The distance between the extremes, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.max == self.min { 0.0 } else { (self.max - self.min) / self.median.abs() }
    }
}

/// The ratio of two peers, taken round by round: what disturbed the machine in one round disturbed
/// both of its runs. Rounds beyond the shorter series are left out; `None` without a whole round.
#[must_use]
pub fn paired(ours: &[f64], theirs: &[f64]) -> Option<Summary> {
    let ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .filter(|(_, their)| **their != 0.0)
        .map(|(our, their)| our / their)
        .collect();
    Summary::of(&ratios)
}

/// The geometric mean; `None` of nothing or of what is not positive.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|&v| v <= 0.0 || !v.is_finite()) {
        return None;
    }
    Some((values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::near;

    #[test]
    fn the_median_is_the_middle_in_any_order() {
        let odd = Summary::of(&[9.0, 1.0, 4.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (4.0, 1.0, 9.0));
        near(Summary::of(&[8.0, 2.0, 4.0, 1.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn the_spread_is_relative() {
        near(Summary::of(&[90.0, 100.0, 110.0]).unwrap().spread(), 0.2);
        near(Summary::of(&[0.0, 0.0]).unwrap().spread(), 0.0);
    }

    #[test]
    fn a_disturbance_that_hits_both_cancels_in_a_paired_ratio() {
        let ratio = paired(&[11.0, 22.0, 110.0], &[10.0, 20.0, 100.0]).unwrap();
        near(ratio.median, 1.1);
        near(ratio.spread(), 0.0);
        assert!(paired(&[], &[1.0]).is_none());
        assert!(paired(&[1.0], &[0.0]).is_none());
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        near(geometric_mean(&[2.0, 0.5]).unwrap(), 1.0);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[]), None);
    }
}
