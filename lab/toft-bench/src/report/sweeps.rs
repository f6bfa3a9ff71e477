//! Cases that differ in one number only, such as in how many threads there are: what they show
//! together is a line.

use super::Report;
use crate::measured::Measured;
use crate::metrics::Metric;
use std::collections::BTreeMap;

/// The numbers that make a line, and what the axis calls them.
const AXES: &[(&str, &str)] = &[
    ("threads", "threads"),
    ("size", "bytes"),
    ("slots", "live blocks"),
    ("batch", "blocks in a batch"),
];

/// The numbers that say how long a case runs, which its figures do not depend on.
const EFFORT: &[&str] = &["ops", "rounds", "repeat", "count", "batches", "requests"];

/// Cases of one workload, in the order of the number that they differ in.
pub(super) struct Sweep<'a> {
    pub(super) workload: &'static str,
    pub(super) axis: &'static str,
    pub(super) metric: Metric,
    pub(super) cases: Vec<(u64, &'a Measured)>,
}

/// Every sweep of at least three cases.
pub(super) fn of(report: &Report) -> Vec<Sweep<'_>> {
    let mut sweeps = Vec::new();
    for (key, axis) in AXES {
        // By the workload, the metric and the other numbers.
        let mut groups: BTreeMap<(usize, String), Sweep> = BTreeMap::new();
        for (place, result) in report.measured.iter().enumerate() {
            let Some((at, others)) = split(result, key) else { continue };
            for metric in &result.job.case.metrics {
                let workload = result.job.workload();
                let name = format!("{workload} {} {others}", metric.key);
                let known = groups.iter_mut().find(|((_, known), _)| *known == name);
                match known {
                    Some((_, sweep)) => sweep.cases.push((at, result)),
                    None => {
                        let cases = vec![(at, result)];
                        let sweep = Sweep { workload, axis, metric: *metric, cases };
                        groups.insert((place, name), sweep);
                    }
                }
            }
        }
        for mut sweep in groups.into_values() {
            sweep.cases.sort_by_key(|(at, _)| *at);
            sweep.cases.dedup_by_key(|(at, _)| *at);
            if sweep.cases.len() > 2 {
                sweeps.push(sweep);
            }
        }
    }
    sweeps
}

/// A case's number called `key`, and the others that matter as text.
fn split(result: &Measured, key: &str) -> Option<(u64, String)> {
    let full = &result.job.case.full;
    let words = full.words();
    let is = |word: &String, name: &str| word.split_once('=').is_some_and(|(key, _)| key == name);
    words.iter().find(|word| is(word, key))?;
    let others: Vec<String> = words
        .into_iter()
        .filter(|word| !is(word, key) && !EFFORT.iter().any(|effort| is(word, effort)))
        .collect();
    Some((full.get(key, 0), others.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;
    use crate::runner::choose;

    #[test]
    fn cases_that_differ_in_one_number_are_together_in_its_order() {
        let mut report = Report::parse(TEXT).unwrap();
        let names = ["handover-8", "handover-2", "handover-4", "handover-2-batch", "larson-2"];
        let jobs = choose(&names.map(str::to_owned)).unwrap();
        report.measured =
            jobs.into_iter().map(|job| Measured { job, series: Vec::new() }).collect();
        let sweeps = of(&report);
        let said: Vec<(&str, &str)> =
            sweeps.iter().map(|sweep| (sweep.axis, sweep.metric.key)).collect();
        assert_eq!(said, [("threads", "mops"), ("threads", "peak_mb")]);
        let at: Vec<u64> = sweeps[0].cases.iter().map(|(at, _)| *at).collect();
        assert_eq!((sweeps[0].workload, at), ("handover", vec![2, 4, 8]));
    }
}
