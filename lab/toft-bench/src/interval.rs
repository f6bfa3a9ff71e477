//! How sure a ratio is: 95 % confidence intervals of geometric means, on logarithms.
//!
//! Disturbances of a machine multiply, so logarithms of times are near normal, and Student's t is
//! then right for any number of rounds. A bootstrap would assume less, but of five to seven samples
//! it has too few to draw from: its 95 % intervals hold the truth in fewer than 90 % of the cases.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A row in which a ratio's interval is wider than this share of the ratio tells nothing.
pub const TOO_WIDE: f64 = 0.15;

/// A ratio and where it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The geometric mean of the ratios, or the ratio of the geometric means.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// A ratio of counts that come out the same each time.
    pub fn exact(ratio: f64) -> Self {
        Self { ratio, low: ratio, high: ratio }
    }

    /// Around a mean of logarithms.
    fn around(mean: f64, error: f64, freedom: f64) -> Self {
        // Without any spread there is nothing that could be uncertain.
        let reach = if error > 0.0 { quantile(freedom) * error } else { 0.0 };
        Self { ratio: mean.exp(), low: (mean - reach).exp(), high: (mean + reach).exp() }
    }

    /// The distance of the ends, as a share of the ratio.
    pub fn width(&self) -> f64 {
        (self.high - self.low) / self.ratio
    }

    /// Whether the interval leaves open which of the two is larger. That two are exactly equal in
    /// every round is not open.
    pub fn open(&self) -> bool {
        self.low < self.high && self.low <= 1.0 && self.high >= 1.0
    }

    /// Whether it is too wide to tell anything.
    pub fn too_wide(&self) -> bool {
        self.width() > TOO_WIDE
    }
}

/// The interval of a ratio taken round by round. Rounds in which one of the two is not positive
/// have no logarithm and are left out; `None` with fewer than two others.
pub fn paired(ours: &[f64], theirs: &[f64]) -> Option<Interval> {
    let logs: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .filter(|(our, their)| **our > 0.0 && **their > 0.0)
        .map(|(our, their)| (our / their).ln())
        .collect();
    let (mean, variance) = moments(&logs)?;
    let count = logs.len() as f64;
    Some(Interval::around(mean, (variance / count).sqrt(), count - 1.0))
}

/// The interval of the ratio of two sets of samples that have nothing to do with each other, by
/// Welch's t, which does not assume that both vary as much. `None` when one has fewer than two
/// positive samples.
pub fn unpaired(new: &[f64], old: &[f64]) -> Option<Interval> {
    let logs = |samples: &[f64]| -> Vec<f64> {
        samples.iter().filter(|sample| **sample > 0.0).map(|sample| sample.ln()).collect()
    };
    let (new, old) = (logs(new), logs(old));
    let ((new_mean, new_variance), (old_mean, old_variance)) = (moments(&new)?, moments(&old)?);
    let (a, b) = (new_variance / new.len() as f64, old_variance / old.len() as f64);
    let (a_freedom, b_freedom) = (new.len() as f64 - 1.0, old.len() as f64 - 1.0);
    let freedom = (a + b).powi(2) / (a * a / a_freedom + b * b / b_freedom);
    Some(Interval::around(new_mean - old_mean, (a + b).sqrt(), freedom))
}

/// Mean and variance of a sample of at least two.
fn moments(samples: &[f64]) -> Option<(f64, f64)> {
    if samples.len() < 2 || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    Some((mean, squares / (count - 1.0)))
}

/// How many standard errors 95 % of the means of such samples lie within.
fn quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() < within, "{a} is not {b}");
    }

    /// The values of the printed tables.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, value) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (6.0, 2.447), (8.0, 2.306), (30.0, 2.042)]
        {
            near(quantile(freedom), value, 6e-4);
        }
    }

    /// Logarithms -0.1, 0, 0.1, 0.2, 0.3: mean 0.1, standard error 0.0707107, times 2.776445.
    #[test]
    fn a_paired_interval_is_that_of_the_textbook() {
        let logs = [-0.1_f64, 0.0, 0.1, 0.2, 0.3];
        let ours: Vec<f64> = logs.iter().map(|log| 7.0 * log.exp()).collect();
        let interval = paired(&ours, &[7.0; 5]).unwrap();
        near(interval.ratio.ln(), 0.1, 1e-9);
        near(interval.low.ln(), 0.1 - 0.196_324, 1e-5);
        near(interval.high.ln(), 0.1 + 0.196_324, 1e-5);
        assert!(interval.open() && interval.too_wide());
    }

    /// Logarithms 1, 2, 3 against 0, 4, 8, 12: variances 1 and 26.667, error 2.645751, freedom
    /// 3.295143 by Welch and Satterthwaite, and its quantile 3.027111, by integration of the
    /// density.
    #[test]
    fn an_unpaired_interval_is_that_of_the_textbook() {
        let of = |logs: &[f64]| -> Vec<f64> { logs.iter().map(|log| log.exp()).collect() };
        let interval = unpaired(&of(&[1.0, 2.0, 3.0]), &of(&[0.0, 4.0, 8.0, 12.0])).unwrap();
        near(interval.ratio.ln(), -4.0, 1e-9);
        let (a, b) = (1.0_f64 / 3.0, 80.0_f64 / 3.0 / 4.0);
        let freedom = (a + b).powi(2) / (a * a / 2.0 + b * b / 3.0);
        near(freedom, 3.295_143, 1e-5);
        near(quantile(freedom), 3.027_111, 1e-5);
        let reach = (interval.high.ln() - interval.low.ln()) / 2.0;
        near(reach, 8.008_982, 1e-5);
    }

    #[test]
    fn what_disturbs_both_cancels_only_where_rounds_are_paired() {
        let (ours, theirs) = ([11.0, 22.0, 110.0, 33.0], [10.0, 20.0, 100.0, 30.0]);
        let close = paired(&ours, &theirs).unwrap();
        near(close.ratio, 1.1, 1e-9);
        assert!(!close.open() && !close.too_wide());
        assert!(unpaired(&ours, &theirs).unwrap().open());
    }

    #[test]
    fn too_few_samples_and_those_without_a_logarithm_tell_nothing() {
        assert_eq!(paired(&[1.0], &[2.0]), None);
        assert_eq!(paired(&[1.0, 0.0], &[2.0, 2.0]), None);
        assert_eq!(unpaired(&[1.0, 2.0], &[-1.0, 2.0]), None);
        assert_eq!(
            unpaired(&[1.0, f64::NAN, 2.0], &[1.0, 1.0]).map(|i| i.ratio.is_nan()),
            Some(false)
        );
    }

    #[test]
    fn equal_is_not_open() {
        let equal = paired(&[3.0; 3], &[3.0; 3]).unwrap();
        assert_eq!(equal, Interval::exact(1.0));
        assert!(!equal.open());
        assert!(Interval { ratio: 1.0, low: 0.99, high: 1.01 }.open());
        assert!(!Interval { ratio: 1.02, low: 1.01, high: 1.03 }.open());
    }
}
