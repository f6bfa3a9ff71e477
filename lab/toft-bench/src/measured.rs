//! The outcomes of a case on every peer, and what can be said of them.

use crate::interval::{self, Interval};
use crate::metrics::{Better, INSTRUCTIONS, Metric};
use crate::outcome::Outcome;
use crate::runner::Job;
use crate::stats::{Summary, paired};

/// The outcomes of one case on one peer, round by round, or how it failed.
pub type Series = Result<Vec<Outcome>, String>;

/// A case on every peer.
#[derive(Clone)]
pub struct Measured {
    pub job: Job,
    /// One series per peer, in the order of the peers.
    pub series: Vec<Series>,
}

impl Measured {
    /// The samples of a metric on a peer, unless it failed or does not have it.
    pub fn samples(&self, peer: usize, metric: &Metric) -> Option<Vec<f64>> {
        let outcomes = self.series[peer].as_ref().ok()?;
        outcomes.iter().map(|outcome| outcome.metrics.get(metric.key).copied()).collect()
    }

    pub fn summary(&self, peer: usize, metric: &Metric) -> Option<Summary> {
        Summary::of(&self.samples(peer, metric)?)
    }

    /// The best of some peers by the median.
    pub fn best(&self, among: impl IntoIterator<Item = usize>, metric: &Metric) -> Option<usize> {
        among
            .into_iter()
            .filter_map(|peer| Some((peer, self.summary(peer, metric)?.median)))
            .min_by(|a, b| match metric.better {
                Better::Less => a.1.total_cmp(&b.1),
                Better::More => b.1.total_cmp(&a.1),
            })
            .map(|(peer, _)| peer)
    }

    /// The ratio of one peer to another, paired round by round. Rounds in which the two did not
    /// find the same machine are left out.
    pub fn ratio(&self, ours: usize, theirs: usize, metric: &Metric) -> Option<Summary> {
        let (mine, others) = self.rounds(ours, theirs, metric)?;
        paired(&mine, &others)
    }

    /// How many times the cost of one peer is that of another, round by round. Of a rate, which is
    /// better when it is more, this is the inverse of the ratio.
    pub fn cost(&self, ours: usize, theirs: usize, metric: &Metric) -> Option<Summary> {
        let ratio = self.ratio(ours, theirs, metric)?;
        Some(match metric.better {
            Better::Less => ratio,
            Better::More => {
                Summary { median: 1.0 / ratio.median, min: 1.0 / ratio.max, max: 1.0 / ratio.min }
            }
        })
    }

    /// The ratio of two peers as a geometric mean with its confidence interval.
    pub fn interval(&self, ours: usize, theirs: usize, metric: &Metric) -> Option<Interval> {
        let (mine, others) = self.rounds(ours, theirs, metric)?;
        interval::paired(&mine, &others).or_else(|| {
            // A count needs no second look.
            (metric.key == INSTRUCTIONS.key && mine.len() == 1 && others[0] > 0.0)
                .then(|| Interval::exact(mine[0] / others[0]))
        })
    }

    /// The samples of two peers, of the rounds in which both found the same machine.
    fn rounds(&self, ours: usize, theirs: usize, metric: &Metric) -> Option<(Vec<f64>, Vec<f64>)> {
        let rounds =
            self.series[ours].as_ref().ok()?.iter().zip(self.series[theirs].as_ref().ok()?);
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for (a, b) in rounds.filter(|(a, b)| !apart([*a, *b])) {
            mine.push(*a.metrics.get(metric.key)?);
            others.push(*b.metrics.get(metric.key)?);
        }
        Some((mine, others))
    }

    /// Whether in some round the peers did not all find the same machine.
    pub fn moved(&self) -> bool {
        let rounds =
            self.series.iter().filter_map(|series| Some(series.as_ref().ok()?.len())).max();
        (0..rounds.unwrap_or(0)).any(|round| moved(&self.series, round))
    }
}

/// Whether the peers of a round found different machines.
pub(crate) fn moved(series: &[Series], round: usize) -> bool {
    apart(series.iter().filter_map(|series| series.as_ref().ok()?.get(round)))
}

/// Whether outcomes are of different machines, by the time that a message took between two
/// processors, where the workload measures it.
pub(crate) fn apart<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> bool {
    let link = |outcome: &Outcome| outcome.metrics.get("link_ns").copied();
    let links: Vec<f64> = outcomes.into_iter().filter_map(link).collect();
    Summary::of(&links).is_some_and(|links| links.max > 1.6 * links.min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::jobs;

    #[test]
    fn rounds_on_different_machines_are_not_compared() {
        let outcome = |mops, link| Outcome::default().with("mops", mops).with("link_ns", link);
        let measured = Measured {
            job: jobs()[0],
            series: vec![
                Ok(vec![outcome(60.0, 50.0), outcome(20.0, 450.0)]),
                Ok(vec![outcome(15.0, 440.0), outcome(16.0, 460.0)]),
            ],
        };
        assert!(measured.moved());
        assert_eq!(measured.ratio(0, 1, &crate::metrics::MOPS).unwrap().median, 1.25);
        assert_eq!(measured.interval(0, 1, &crate::metrics::MOPS), None);
    }

    #[test]
    fn a_count_is_sure_after_one_run_and_a_time_is_not() {
        let outcome =
            |value| Ok(vec![Outcome::default().with("instructions", value).with("ns", value)]);
        let measured = Measured { job: jobs()[0], series: vec![outcome(30.0), outcome(20.0)] };
        assert_eq!(measured.interval(0, 1, &INSTRUCTIONS), Some(Interval::exact(1.5)));
        assert_eq!(measured.interval(0, 1, &crate::metrics::NS), None);
    }

    #[test]
    fn the_best_follows_the_direction_of_the_metric() {
        use crate::metrics::{MOPS, NS};
        let series =
            |ns: f64| Ok(vec![Outcome::default().with("ns", ns).with("mops", 1000.0 / ns)]);
        let measured = Measured {
            job: jobs()[0],
            series: vec![series(8.0), Err("crashed".into()), series(5.0), series(9.0)],
        };
        assert_eq!(measured.best(0..4, &NS), Some(2));
        assert_eq!(measured.best(0..4, &MOPS), Some(2));
        assert_eq!(measured.best([0, 3], &NS), Some(0));
        assert_eq!(measured.best([1], &NS), None);
        assert_eq!(measured.ratio(0, 2, &NS).unwrap().median, 1.6);
    }
}
