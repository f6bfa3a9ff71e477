//! Holds a run against an earlier one: what became slower or larger by more than noise explains.
//!
//! The two were not interleaved, so their samples are compared as two sets, not round by round. A
//! figure is a regression when it is worse by more than a threshold and the confidence interval of
//! the ratio excludes 1. The threshold keeps out what does not matter, and the slow drift of a
//! machine between two runs. The interval keeps out what may be chance.

use crate::grid::Grid;
use crate::interval::{Interval, unpaired};
use crate::measured::apart;
use crate::metrics::{Better, INSTRUCTIONS, Metric, metric};
use crate::outcome::Outcome;
use crate::record::{CaseRecord, Record, SeriesRecord};
use crate::stats::Summary;
use crate::table::plain;

/// What can be said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Worse by more than the threshold, and not by chance.
    Regression,
    /// Better by more than the threshold, and not by chance.
    Improvement,
    /// Beyond the threshold, and as well by chance.
    Unsure,
    /// Within the threshold.
    Same,
}

/// A figure that both runs have.
#[derive(Clone, Debug)]
pub struct Change {
    pub case: String,
    pub peer: String,
    pub metric: Metric,
    pub old: f64,
    pub new: f64,
    /// The ratio of new to old.
    pub interval: Interval,
    pub verdict: Verdict,
}

/// Two runs, held against each other.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Every figure that both have.
    pub changes: Vec<Change>,
    /// What worked in the earlier run and fails now.
    pub broken: Vec<String>,
    /// What could not be compared, and why.
    pub missing: Vec<String>,
}

impl Comparison {
    /// Compares `new` with `old`. The threshold is a share: 0.03 is 3 %.
    pub fn of(new: &Record, old: &Record, threshold: f64) -> Self {
        let mut comparison = Self::default();
        comparison.machines(new, old);
        let (both, gone): (Vec<_>, Vec<_>) =
            old.cases.iter().partition(|case| find(new, &case.case).is_some());
        comparison.only("cases", "the baseline", gone.iter().map(|case| case.case.as_str()));
        let fresh = new.cases.iter().filter(|case| find(old, &case.case).is_none());
        comparison.only("cases", "this run", fresh.map(|case| case.case.as_str()));
        comparison.peers(new, old);
        for case in both {
            let Some(now) = find(new, &case.case) else { continue };
            if now.numbers != case.numbers {
                let (now, then) = (now.numbers.join(" "), case.numbers.join(" "));
                comparison.missing.push(format!(
                    "{} is not compared: it ran with `{now}`, in the baseline with `{then}`",
                    case.case
                ));
                continue;
            }
            comparison.case(now, case, threshold);
        }
        comparison
    }

    pub fn regressed(&self) -> bool {
        !self.broken.is_empty() || self.count(Verdict::Regression) > 0
    }

    /// How many figures have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.changes.iter().filter(|change| change.verdict == verdict).count()
    }

    /// What is said of it: a table of what changed, what could not be compared, and a last line.
    pub fn text(&self, threshold: f64) -> String {
        let mut text = String::new();
        if self.changes.iter().any(|change| change.verdict != Verdict::Same) {
            text += &format!("{}\n", self.draw());
        }
        for line in &self.broken {
            text += &format!("FAILS NOW: {line}\n");
        }
        for line in &self.missing {
            text += &format!("{line}\n");
        }
        text + &format!(
            "{} figures compared: {} worse, {} better, {} too noisy to tell, {} within {} %\n",
            self.changes.len(),
            self.count(Verdict::Regression),
            self.count(Verdict::Improvement),
            self.count(Verdict::Unsure),
            self.count(Verdict::Same),
            threshold * 100.0,
        )
    }

    fn draw(&self) -> Grid {
        let head = ["case", "peer", "unit", "baseline", "now", "now / baseline", ""];
        let mut table = Grid::new(3, head);
        for change in self.changes.iter().filter(|change| change.verdict != Verdict::Same) {
            let Interval { ratio, low, high } = change.interval;
            let word = match change.verdict {
                Verdict::Regression => "REGRESSION",
                Verdict::Improvement => "better",
                Verdict::Unsure => "too noisy to tell",
                Verdict::Same => "",
            };
            table.push([
                change.case.clone(),
                change.peer.clone(),
                change.metric.unit.to_owned(),
                plain(change.old),
                plain(change.new),
                format!("{ratio:.3} ({low:.3}-{high:.3})"),
                word.to_owned(),
            ]);
        }
        table
    }

    fn only<'a>(&mut self, what: &str, whose: &str, names: impl Iterator<Item = &'a str>) {
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            self.missing.push(format!("{what} only in {whose}: {}", names.join(", ")));
        }
    }

    fn machines(&mut self, new: &Record, old: &Record) {
        for field in ["cpu", "cpus", "kernel", "thp", "libc"] {
            let (now, then) = (&new.machine[field], &old.machine[field]);
            if now != then {
                self.missing
                    .push(format!("another machine: {field} is {now}, in the baseline {then}"));
            }
        }
    }

    fn peers(&mut self, new: &Record, old: &Record) {
        let names = |record: &Record| -> Vec<String> {
            record.peers.iter().map(|peer| peer.name.clone()).collect()
        };
        let (now, then) = (names(new), names(old));
        let gone = then.iter().filter(|name| !now.contains(name));
        self.only("peers", "the baseline", gone.map(String::as_str));
        let fresh = now.iter().filter(|name| !then.contains(name));
        self.only("peers", "this run", fresh.map(String::as_str));
    }

    fn case(&mut self, new: &CaseRecord, old: &CaseRecord, threshold: f64) {
        for (peer, then) in &old.peers {
            let place = format!("{} on {peer}", new.case);
            let (now, then) = match (new.peers.get(peer), then) {
                (None, _) => continue,
                (Some(SeriesRecord::Samples(now)), SeriesRecord::Samples(then)) => (now, then),
                (Some(SeriesRecord::Failed { failed }), SeriesRecord::Samples(_)) => {
                    self.broken.push(format!("{place}: {failed}"));
                    continue;
                }
                (Some(_), SeriesRecord::Failed { failed }) => {
                    self.missing.push(format!("{place} failed in the baseline: {failed}"));
                    continue;
                }
            };
            if apart(now.iter().chain(then)) {
                self.missing.push(format!(
                    "{place} is not compared: the machine's processors were further apart in one \
                     run than in the other"
                ));
                continue;
            }
            for key in &new.metrics {
                match change(new, peer, key, (now, then), threshold) {
                    Ok(change) => self.changes.push(change),
                    Err(why) => self.missing.push(format!("{place}: {key} {why}")),
                }
            }
        }
    }
}

fn find<'a>(record: &'a Record, name: &str) -> Option<&'a CaseRecord> {
    record.cases.iter().find(|case| case.case == name)
}

fn change(
    case: &CaseRecord,
    peer: &str,
    key: &str,
    (new, old): (&[Outcome], &[Outcome]),
    threshold: f64,
) -> Result<Change, String> {
    let metric = metric(key).ok_or("is no metric that is known")?;
    let samples = |outcomes: &[Outcome]| -> Option<Vec<f64>> {
        outcomes.iter().map(|outcome| outcome.metrics.get(key).copied()).collect()
    };
    let new = samples(new).filter(|new| !new.is_empty()).ok_or("is missing in this run")?;
    let old = samples(old).filter(|old| !old.is_empty()).ok_or("is missing in the baseline")?;
    let interval = interval(&metric, &new, &old)
        .ok_or("has fewer than two rounds with a figure above 0: nothing can be told")?;
    let median = |samples: &[f64]| Summary::of(samples).map_or(f64::NAN, |summary| summary.median);
    Ok(Change {
        case: case.case.clone(),
        peer: peer.to_owned(),
        metric,
        old: median(&old),
        new: median(&new),
        interval,
        verdict: judge(&interval, metric.better, threshold),
    })
}

fn interval(metric: &Metric, new: &[f64], old: &[f64]) -> Option<Interval> {
    if new.iter().chain(old).all(|sample| *sample == 0.0) {
        return Some(Interval::exact(1.0));
    }
    // A count needs no second look.
    let counted = metric.key == INSTRUCTIONS.key && new.len() == 1 && old.len() == 1;
    if counted && new[0] > 0.0 && old[0] > 0.0 {
        return Some(Interval::exact(new[0] / old[0]));
    }
    unpaired(new, old)
}

fn judge(interval: &Interval, better: Better, threshold: f64) -> Verdict {
    let worse = match better {
        Better::Less => interval.ratio,
        Better::More => 1.0 / interval.ratio,
    };
    let beyond = worse.max(1.0 / worse) > 1.0 + threshold;
    match (beyond, interval.open(), worse > 1.0) {
        (false, ..) => Verdict::Same,
        (true, true, _) => Verdict::Unsure,
        (true, false, true) => Verdict::Regression,
        (true, false, false) => Verdict::Improvement,
    }
}

#[cfg(test)]
mod tests;
