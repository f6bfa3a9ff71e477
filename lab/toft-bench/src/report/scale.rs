//! Scales: from a value to a place on an axis, and the round values that an axis names.

/// From values to places by their logarithms: twice and half are equally far from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Over the positive ones of `values` and `padding` (a factor) on both sides, at places from
    /// `from` to `to`.
    #[must_use]
    pub fn over(values: impl IntoIterator<Item = f64>, padding: f64, from: f64, to: f64) -> Self {
        let usable = values.into_iter().filter(|v| v.is_finite() && *v > 0.0);
        let range =
            usable.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if range.1 > 0.0 { range } else { (1.0, 1.0) };
        Self { low: low / padding, high: high * padding, from, to }
    }

    /// The place of a value; that of the nearer end for a value beyond the scale.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln();
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    /// Of ticks, those that are at least so far from each other, and always 1.
    pub(super) fn apart(&self, ticks: &[f64], gap: f64) -> Vec<f64> {
        let mut kept = vec![1.0];
        for tick in ticks {
            let free = |other: &f64| (self.at(*other) - self.at(*tick)).abs() >= gap;
            if kept.iter().all(free) {
                kept.push(*tick);
            }
        }
        kept
    }

    /// Round values on the scale: those of the finest set of which no more than `wanted` are on it.
    #[must_use]
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        const SETS: &[&[f64]] = &[
            &[
                1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0,
                8.0, 9.0,
            ],
            &[1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            &[1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5],
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
            &[1.0, 3.0],
            &[1.0],
        ];
        let inside = |set: &[f64]| -> Vec<f64> {
            let (low, high) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let values = (low..=high).flat_map(|e| set.iter().map(move |m| m * 10_f64.powi(e)));
            values.filter(|v| (self.low..=self.high).contains(v)).collect()
        };
        let sets = SETS.iter().map(|set| inside(set));
        let last = inside(&[1.0]);
        sets.into_iter().find(|ticks| ticks.len() <= wanted).unwrap_or(last)
    }
}

/// A number of an axis, without zeros that say nothing.
#[must_use]
pub fn label(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

/// A place as SVG has it.
#[must_use]
pub fn number(place: f64) -> String {
    format!("{place:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_equally_far() {
        let scale = Scale::over([0.5, 2.0], 1.0, 0.0, 100.0);
        assert_eq!([0.5, 2.0].map(|v| scale.at(v)), [0.0, 100.0]);
        assert!((scale.at(1.0) - 50.0).abs() < 1e-9);
        assert_eq!((scale.at(0.0), scale.at(9.0)), (0.0, 100.0));
        let down = Scale::over([0.5, 2.0], 1.0, 100.0, 0.0);
        assert_eq!(down.at(2.0), 0.0);
    }

    #[test]
    fn scales_of_nothing_and_of_one_value_have_places() {
        for scale in
            [Scale::over([], 1.1, 0.0, 10.0), Scale::over([0.0, f64::NAN, 1.0], 1.0, 0.0, 10.0)]
        {
            for value in [0.0, 1.0, f64::NAN] {
                assert!((0.0..=10.0).contains(&scale.at(value)), "{scale:?} {value}");
            }
        }
    }

    #[test]
    fn ticks_are_round_inside_in_order_and_few() {
        for (low, high) in
            [(0.6, 1.4), (0.95, 1.1), (0.5, 8.0), (1.0, 300.0), (0.01, 50.0), (3.1, 3.2)]
        {
            let scale = Scale::over([low, high], 1.0, 0.0, 1.0);
            let ticks = scale.ticks(7);
            assert!(ticks.len() <= 7, "{ticks:?}");
            assert!(ticks.windows(2).all(|two| two[0] < two[1]), "{ticks:?}");
            assert!(ticks.iter().all(|tick| (low..=high).contains(tick)), "{ticks:?}");
        }
        assert!(Scale::over([0.6, 1.4], 1.0, 0.0, 1.0).ticks(7).contains(&1.0));
    }

    #[test]
    fn ticks_that_would_touch_are_left_out_but_1_stays() {
        let scale = Scale::over([0.5, 8.0], 1.0, 0.0, 100.0);
        assert_eq!(scale.apart(&[0.5, 0.9, 1.0, 2.0, 2.1, 4.0], 14.0), [1.0, 0.5, 2.0, 4.0]);
    }

    #[test]
    fn labels_carry_no_idle_zeros() {
        assert_eq!(
            [1.0, 0.5, 1.25, 300.0, 0.02, 0.0].map(label),
            ["1", "0.5", "1.25", "300", "0.02", "0"]
        );
    }
}
