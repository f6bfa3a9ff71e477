//! What the plots compare: costs, so that less is better whether a case gives a time or a rate, and
//! their geometric means.

use super::Report;
use crate::measured::Measured;
use crate::outcome::{Better, KREQ, MOPS, MS, Metric, NS, PEAK, SECONDS, US, US_PER_THREAD};
use crate::stats::{Summary, geometric_mean};

/// The metrics that say how fast a case is.
pub(super) const PACES: &[Metric] = &[NS, US, US_PER_THREAD, MS, SECONDS, MOPS, KREQ];

/// The metric that says how fast a case is, if it is about that.
pub(super) fn pace(result: &Measured) -> Option<Metric> {
    result.job.case.metrics.first().copied().filter(|metric| PACES.contains(metric))
}

/// How many times the cost of one peer is that of another, round by round. Of a rate, which is
/// better when it is more, this is the inverse of the ratio.
pub(super) fn cost(
    result: &Measured,
    ours: usize,
    theirs: usize,
    metric: &Metric,
) -> Option<Summary> {
    let ratio = result.ratio(ours, theirs, metric)?;
    Some(match metric.better {
        Better::Less => ratio,
        Better::More => {
            Summary { median: 1.0 / ratio.median, min: 1.0 / ratio.max, max: 1.0 / ratio.min }
        }
    })
}

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
pub(super) enum Standing {
    /// The cost is less.
    Win,
    /// Within 2 %, which is the error of measuring.
    Even,
    /// The rounds disagree.
    Open,
    /// The cost is more.
    Loss,
}

impl Standing {
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
    Some((best, cost(result, ours, best, metric)?))
}

/// A geometric mean, and of how many cases it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) cases: usize,
}

/// How a peer stands against the base over all cases that both ended.
#[derive(Clone, Debug)]
pub(super) struct Overall {
    pub(super) peer: usize,
    pub(super) time: Option<Mean>,
    pub(super) memory: Option<Mean>,
    /// The cases that it failed.
    pub(super) failed: usize,
}

/// The peer that the means are relative to: glibc, or else the first.
pub(super) fn base(report: &Report) -> usize {
    report.peers.iter().position(|peer| peer.name == "glibc").unwrap_or(0)
}

/// The means of every peer. Time is over the cases that are about it, memory over the cases that
/// compare its peak.
pub(super) fn overall(report: &Report) -> Vec<Overall> {
    let base = base(report);
    let mean = |peer: usize, metric_of: &dyn Fn(&Measured) -> Option<Metric>| {
        let costs: Vec<f64> = report
            .measured
            .iter()
            .filter_map(|result| Some(cost(result, peer, base, &metric_of(result)?)?.median))
            .collect();
        Some(Mean { value: geometric_mean(&costs)?, cases: costs.len() })
    };
    let peak = |result: &Measured| result.job.case.metrics.contains(&PEAK).then_some(PEAK);
    let failed = |peer: usize| report.measured.iter().filter(|r| r.series[peer].is_err()).count();
    let of = |peer| Overall {
        peer,
        time: mean(peer, &pace),
        memory: mean(peer, &peak),
        failed: failed(peer),
    };
    (0..report.peers.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::report::tests::TEXT;
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
        assert_eq!(cost(&times, 0, 1, &NS).unwrap().median, 0.5);
        assert_eq!(cost(&rates, 0, 1, &MOPS).unwrap().median, 0.5);
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
        let cost = cost(&rates, 0, 1, &MOPS).unwrap();
        assert_eq!((cost.min, cost.median, cost.max), (0.5, 1.0, 2.0));
        assert_eq!(Standing::of(&cost), Standing::Open);
    }

    #[test]
    fn standings_have_the_width_of_the_error() {
        let at = |median| Standing::of(&Summary { median, min: median, max: median });
        assert_eq!([0.97, 1.0, 1.019, 1.03].map(at), {
            use Standing::{Even, Loss, Win};
            [Win, Even, Even, Loss]
        });
    }

    #[test]
    fn means_are_relative_to_glibc_and_leave_out_what_failed() {
        let mut report = Report::parse(TEXT).unwrap();
        report.measured.push(measured("replace-100k", "ns", &[10.0, 20.0, 40.0]));
        for (peer, peak) in [(0, 8.0), (1, 4.0)] {
            for outcome in report.measured[1].series[peer].as_mut().unwrap() {
                outcome.set("peak_mb", peak);
            }
        }
        let all = overall(&report);
        let time = all[0].time.unwrap();
        assert!((time.value - (0.5_f64 * 7.0 / 12.0).sqrt()).abs() < 1e-9, "{time:?}");
        assert_eq!((time.cases, all[0].memory), (2, Some(Mean { value: 2.0, cases: 1 })));
        assert_eq!((all[1].time.unwrap().value, all[1].failed), (1.0, 0));
        assert_eq!((all[2].time, all[2].failed), (Some(Mean { value: 2.0, cases: 1 }), 1));
        assert_eq!(all[2].memory, None);
    }

    #[test]
    fn a_case_that_is_not_about_speed_has_no_pace() {
        assert_eq!(pace(&measured("churn", "steady_x", &[1.0])), None);
        assert_eq!(pace(&measured("larson-2", "mops", &[1.0])), Some(MOPS));
    }
}
