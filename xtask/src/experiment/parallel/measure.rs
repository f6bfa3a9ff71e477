//! Running all points, in rounds.

use super::builds::{Build, Libraries, program};
use super::plan::{Driver, Point};
use std::collections::BTreeMap;
use std::time::Duration;
use toft_bench::child::{self, Limits};
use toft_bench::outcome::Outcome;
use toft_bench::stats::{Summary, paired};

/// What one run has told.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Nanoseconds for each operation of all threads together.
    pub ns: f64,
    /// `ns` of processor time. Where the driver does not tell, that of the whole process.
    pub cpu_ns: f64,
    /// What the allocator has counted, for each operation of the allocator.
    pub counts: BTreeMap<String, f64>,
}

/// One of a sample's figures.
pub type Figure = fn(&Sample) -> f64;

/// Wall time.
pub const TIME: Figure = |sample| sample.ns;
/// Processor time.
pub const PROCESSOR: Figure = |sample| sample.cpu_ns;

/// All that was measured.
#[derive(Default)]
pub struct Results(BTreeMap<Point, Vec<Sample>>);

impl Results {
    /// The samples of a point, in the order of the rounds.
    pub fn samples(&self, point: Point) -> &[Sample] {
        self.0.get(&point).map_or(&[], Vec::as_slice)
    }

    fn figures(&self, point: Point, of: Figure) -> Vec<f64> {
        self.samples(point).iter().map(of).collect()
    }

    /// A figure of a point.
    pub fn summary(&self, point: Point, of: Figure) -> Option<Summary> {
        Summary::of(&self.figures(point, of))
    }

    /// How many times the figure of another one that of a point is, round by round.
    pub fn ratio(&self, ours: Point, theirs: Point, of: Figure) -> Option<Summary> {
        paired(&self.figures(ours, of), &self.figures(theirs, of))
    }

    /// A count of a point for each operation.
    pub fn count(&self, point: Point, name: &str) -> Option<Summary> {
        let counts: Option<Vec<f64>> =
            self.samples(point).iter().map(|sample| sample.counts.get(name).copied()).collect();
        Summary::of(&counts?)
    }

    /// The point, if it was measured.
    pub fn point(
        &self,
        driver: Driver,
        threads: usize,
        arenas: usize,
        build: Build,
    ) -> Option<Point> {
        let arenas = if build.has_arenas() { arenas } else { 0 };
        let point = Point { driver, threads, arenas, build };
        self.0.contains_key(&point).then_some(point)
    }

    /// Adds a sample.
    pub fn push(&mut self, point: Point, sample: Sample) {
        self.0.entry(point).or_default().push(sample);
    }
}

/// Runs every group, its points in turn.
pub fn all(
    groups: &[Vec<Point>],
    libraries: &Libraries,
    runs: usize,
    quick: bool,
) -> Result<Results, String> {
    let million = if quick { 150_000 } else { 1_000_000 };
    let mut results = Results::default();
    for (number, group) in groups.iter().enumerate() {
        let Some(first) = group.first() else { continue };
        eprintln!(
            "{}/{}: {}, {} threads, {} points",
            number + 1,
            groups.len(),
            first.driver.name(),
            first.threads,
            group.len()
        );
        for _ in 0..runs {
            for &point in group {
                let sample =
                    once(point, libraries, million).map_err(|e| format!("{point:?}: {e}"))?;
                results.push(point, sample);
            }
        }
    }
    Ok(results)
}

fn once(point: Point, libraries: &Libraries, million: usize) -> Result<Sample, String> {
    let mut command = child::on_peer(&libraries.peer(point.build), program("toft-bench"));
    command.arg("work").args(point.driver.words(point.threads, million));
    if point.arenas != 0 {
        command.env(point.build.arenas_variable(), point.arenas.to_string());
    }
    if point.build.counts() {
        command.env("TOFT_STATS", "1");
    }
    let limits = Limits { timeout: Duration::from_secs(60), pin: None };
    let ended = child::run(command, limits)?;
    let outcome: Outcome = serde_json::from_str(&ended.output)
        .map_err(|e| format!("unreadable outcome {:?}: {e}", ended.output))?;
    let ns = outcome.metrics.get("ns").copied().ok_or("an outcome without a time")?;
    let counts = if point.build.counts() { counts(&ended.said)? } else { BTreeMap::new() };
    let all = ended.cpu_seconds * 1e9 / outcome.ops as f64;
    let cpu_ns = outcome.metrics.get("busy_ns").copied().unwrap_or(all);
    Ok(Sample { ns, cpu_ns, counts })
}

/// The counts of the allocator's line of statistics, for each operation.
fn counts(said: &str) -> Result<BTreeMap<String, f64>, String> {
    let line = said.lines().find(|line| line.starts_with("{\"toft\"")).ok_or("no statistics")?;
    let all: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let count = |name: &str| all.get(format!("experiment_{name}")).and_then(|v| v.as_f64());
    let operations = count("operations").filter(|&n| n > 0.0).ok_or("no operations are counted")?;
    ["lock_acquisitions", "contended_acquisitions", "transfers", "cache_hits"]
        .into_iter()
        .map(|name| Some((name.to_owned(), count(name)? / operations)))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("a count is missing: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_per_operation_and_missed_when_missing() {
        let line = r#"{"toft":"0.1","experiment_operations":10,"experiment_lock_acquisitions":5,
            "experiment_contended_acquisitions":1,"experiment_transfers":0,"experiment_cache_hits":4}"#
            .replace('\n', "");
        let counts = counts(&format!("map x\n{line}\ntoft-end\n")).unwrap();
        assert_eq!((counts["lock_acquisitions"], counts["cache_hits"]), (0.5, 0.4));
        assert!(super::counts("nothing").is_err());
        assert!(super::counts(&line.replace("transfers", "x")).is_err());
        assert!(super::counts(&line.replace(":10,", ":0,")).is_err());
    }
}
