//! What the plots compare: costs, so that less is better whether a case gives a time or a rate.

use crate::measured::Measured;
use crate::metrics::{Better, Metric};
use crate::stats::Summary;

/// The peers that have a figure, the best first; those that have none are left out.
pub(super) fn ranked(result: &Measured, metric: &Metric) -> Vec<(usize, Summary)> {
    let mut peers: Vec<(usize, Summary)> = (0..result.series.len())
        .filter_map(|peer| Some((peer, result.summary(peer, metric)?)))
        .collect();
    peers.sort_by(|(_, a), (_, b)| match metric.better {
        Better::Less => a.median.total_cmp(&b.median),
        Better::More => b.median.total_cmp(&a.median),
    });
    peers
}

/// Whether a row was measured with too much noise: of the ratios to its best, most vary.
pub(super) fn is_noisy(result: &Measured, metric: &Metric) -> bool {
    let Some(best) = result.best(0..result.series.len(), metric) else { return false };
    let others = (0..result.series.len()).filter(|&peer| peer != best);
    let intervals: Vec<_> = others.filter_map(|peer| result.interval(peer, best, metric)).collect();
    2 * intervals.iter().filter(|interval| interval.too_wide()).count() > intervals.len()
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The cost is less.
    Win,
    /// Within 2 %, which is the error of measuring.
    Even,
    /// The rounds disagree.
    Open,
    /// The cost is more.
    Loss,
}

impl Ending {
    pub(super) fn of(cost: &Summary) -> Self {
        match cost.median {
            _ if cost.min < 0.98 && cost.max > 1.02 => Self::Open,
            median if median < 0.98 => Self::Win,
            median if median > 1.02 => Self::Loss,
            _ => Self::Even,
        }
    }

    /// Its word, which is also its class in the style sheet.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Win => "win",
            Self::Even => "even",
            Self::Open => "open",
            Self::Loss => "loss",
        }
    }
}

/// A peer's cost against that of the best of the others, and which that is.
pub(super) fn against_best(
    result: &Measured,
    ours: usize,
    metric: &Metric,
) -> Option<(usize, Summary)> {
    let others = (0..result.series.len()).filter(|&peer| peer != ours);
    let best = result.best(others, metric)?;
    Some((best, result.cost(ours, best, metric)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MOPS, NS};
    use crate::outcome::Outcome;
    use crate::runner::choose;

    fn measured(case: &str, key: &str, values: &[f64]) -> Measured {
        let series = |value: &f64| Ok(vec![Outcome::default().with(key, *value); 3]);
        Measured {
            job: choose(&[case.into()]).unwrap()[0],
            series: values.iter().map(series).collect(),
        }
    }

    #[test]
    fn a_cost_is_less_for_the_better_one_of_times_and_of_rates() {
        let times = measured("pair-64", "ns", &[5.0, 10.0]);
        let rates = measured("handover-2", "mops", &[10.0, 5.0]);
        assert_eq!(times.cost(0, 1, &NS).unwrap().median, 0.5);
        assert_eq!(rates.cost(0, 1, &MOPS).unwrap().median, 0.5);
        assert_eq!(ranked(&times, &NS)[0].0, 0);
        assert_eq!(ranked(&rates, &MOPS)[0].0, 0);
        assert_eq!(against_best(&rates, 1, &MOPS).unwrap().0, 0);
        assert_eq!(against_best(&rates, 1, &MOPS).unwrap().1.median, 2.0);
    }

    #[test]
    fn the_inverse_of_a_ratio_keeps_its_extremes_in_order() {
        let mut rates = measured("handover-2", "mops", &[10.0, 10.0]);
        rates.series[0].as_mut().unwrap()[0].set("mops", 20.0);
        rates.series[0].as_mut().unwrap()[1].set("mops", 5.0);
        let cost = rates.cost(0, 1, &MOPS).unwrap();
        assert_eq!((cost.min, cost.median, cost.max), (0.5, 1.0, 2.0));
        assert_eq!(Ending::of(&cost), Ending::Open);
    }

    #[test]
    fn standings_have_the_width_of_the_error() {
        let at = |median| Ending::of(&Summary { median, min: median, max: median });
        assert_eq!([0.97, 1.0, 1.019, 1.03].map(at), {
            use Ending::{Even, Loss, Win};
            [Win, Even, Even, Loss]
        });
    }
}
