//! Runs all points, in rounds, and checks what each run says.

use super::plan::{Driver, Point};
use super::subjects::{Subject, Subjects};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use toft_bench::child::{self, Ended, Limits};
use toft_bench::outcome::Outcome;
use toft_bench::stats::{Summary, paired};

/// The figures of one run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Nanoseconds for each operation of all threads together.
    pub ns: f64,
    /// Nanoseconds of processor time for each operation, the start of the process included.
    pub cpu_ns: f64,
    /// What the allocator counted, for each call.
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
    fn figures(&self, point: Point, of: Figure) -> Vec<f64> {
        self.0.get(&point).map_or(&[][..], Vec::as_slice).iter().map(of).collect()
    }

    /// A figure of a point.
    pub fn summary(&self, point: Point, of: Figure) -> Option<Summary> {
        Summary::of(&self.figures(point, of))
    }

    /// How many times the figure of another point that of a point is, round by round.
    pub fn ratio(&self, ours: Point, theirs: Point, of: Figure) -> Option<Summary> {
        paired(&self.figures(ours, of), &self.figures(theirs, of))
    }

    /// A count of a point for each call.
    pub fn count(&self, point: Point, name: &str) -> Option<Summary> {
        let samples = self.0.get(&point)?;
        let counts: Option<Vec<f64>> =
            samples.iter().map(|sample| sample.counts.get(name).copied()).collect();
        Summary::of(&counts?)
    }

    /// The point, if it was measured.
    pub fn point(
        &self,
        driver: Driver,
        threads: usize,
        arenas: usize,
        subject: Subject,
    ) -> Option<Point> {
        let arenas = if subject.has_arenas() { arenas } else { 0 };
        let point = Point { driver, threads, arenas, subject };
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
    subjects: &Subjects,
    runs: usize,
    quick: bool,
) -> Result<Results, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let million = if quick { 100_000 } else { 1_000_000 };
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
                let sample = once(&program, point, subjects, million).map_err(|why| {
                    let Point { driver, threads, arenas, subject } = point;
                    let (name, driver) = (subjects.name(subject), driver.name());
                    format!("{name}, {arenas} arenas, {threads} threads, {driver}: {why}")
                })?;
                results.push(point, sample);
            }
        }
    }
    Ok(results)
}

/// One run of a point.
fn once(
    program: &Path,
    point: Point,
    subjects: &Subjects,
    million: usize,
) -> Result<Sample, String> {
    let mut command = child::on_peer(&subjects.peer(point.subject), program);
    command.arg("work").args(point.driver.words(point.threads, million));
    command.envs(point.subject.variables(point.arenas));
    let ended = child::run(command, Limits { timeout: Duration::from_secs(60), pin: None })?;
    sample(point, &ended)
}

fn sample(point: Point, ended: &Ended) -> Result<Sample, String> {
    let outcome: Outcome = serde_json::from_str(&ended.output)
        .map_err(|error| format!("unreadable outcome {:?}: {error}", ended.output))?;
    let ns = outcome.metrics.get("ns").copied().ok_or("an outcome without a time")?;
    let counts = match point.subject {
        Subject::Variant(..) => checked(point, &ended.said, outcome.ops)?,
        _ => BTreeMap::new(),
    };
    Ok(Sample { ns, cpu_ns: ended.cpu_seconds * 1e9 / outcome.ops as f64, counts })
}

/// Blocks that a process of this program may leave. The driver frees all its blocks.
const LEFT: f64 = 1000.0;

/// The counts of ar-malloc's line for each call, if they add up.
fn checked(point: Point, said: &str, ops: u64) -> Result<BTreeMap<String, f64>, String> {
    let line = said.lines().find_map(|line| line.strip_prefix("ar-malloc: arenas="));
    let line = format!("arenas={}", line.ok_or("no counts")?);
    for (variable, value) in point.subject.variables(point.arenas) {
        let name = variable.trim_start_matches("TOFT_AR_").to_lowercase();
        if name != "stats" && !line.split(' ').any(|word| word == format!("{name}={value}")) {
            return Err(format!("{variable} was not {value}: {line}"));
        }
    }
    let count = |name: &str| {
        let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.and_then(|number| number.parse::<f64>().ok())
            .ok_or_else(|| format!("no count called {name}: {line}"))
    };
    let calls = count("allocated")? + count("freed")?;
    let locks = count("locks")?;
    let wrong = [
        (count("lost")? != 0.0, "blocks were lost"),
        (count("live")? > LEFT, "blocks were not freed"),
        // Of a large block the call that allocates is counted, and the one that frees is not.
        (
            point.driver.counts_calls() && calls + 2.0 * count("passed")? < ops as f64,
            "calls were not counted",
        ),
        (count("contended")? > locks, "more locks were contended than taken"),
        (
            match point.subject {
                Subject::Variant("none", _) => locks != 0.0,
                Subject::Variant(_, false) => locks != calls,
                _ => locks > calls,
            },
            "the number of locks is not that of the calls that take one",
        ),
    ];
    if let Some((_, what)) = wrong.iter().find(|(is, _)| *is) {
        return Err(format!("{what}: {line}"));
    }
    let names = ["locks", "contended", "transfers", "cache_hits"];
    names.into_iter().map(|name| Ok((name.to_owned(), count(name)? / calls))).collect()
}

#[cfg(test)]
pub mod tests {
    use super::super::plan::groups;
    use super::super::subjects::{ARENA, ARENA_CACHE, OWN_HEAP};
    use super::*;

    /// Results with one round, of which each run took what `ns` says.
    pub fn made(ns: impl Fn(Point) -> f64) -> Results {
        let mut results = Results::default();
        for point in groups(false, 0).concat() {
            let counted = matches!(point.subject, Subject::Variant(..));
            let names = ["locks", "contended", "transfers", "cache_hits"];
            let counts = names.map(|name| (name.to_owned(), 0.25)).into_iter();
            let counts = counts.filter(|_| counted).collect();
            results.push(point, Sample { ns: ns(point), cpu_ns: 1.5 * ns(point), counts });
        }
        results
    }

    const LINE: &str = "x\nar-malloc: arenas=2 lock=arena cache=off allocated=6 freed=4 passed=1 \
        locks=10 contended=1 transfers=5 cache_hits=0 live=2 lost=0\n";

    fn of(subject: Subject, said: &str, ops: u64) -> Result<BTreeMap<String, f64>, String> {
        checked(Point { driver: Driver::Uniform, threads: 1, arenas: 2, subject }, said, ops)
    }

    #[test]
    fn counts_are_taken_for_each_call() {
        let counts = of(ARENA, LINE, 12).unwrap();
        assert_eq!((counts["locks"], counts["contended"], counts["transfers"]), (1.0, 0.1, 0.5));
    }

    #[test]
    fn a_run_that_does_not_add_up_is_refused_and_says_why() {
        let refused = |subject, from: &str, to: &str, ops, why: &str| {
            let error = of(subject, &LINE.replace(from, to), ops).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused(ARENA, "lost=0", "lost=1", 12, "blocks were lost");
        refused(ARENA, "live=2", "live=2000", 12, "blocks were not freed");
        refused(ARENA, "", "", 13, "calls were not counted");
        refused(ARENA, "locks=10", "locks=9", 12, "the number of locks");
        refused(ARENA, "contended=1", "contended=11", 12, "contended than taken");
        refused(ARENA, "arenas=2", "arenas=4", 12, "TOFT_AR_ARENAS was not 2");
        refused(ARENA, "cache=off", "cache=on", 12, "TOFT_AR_CACHE was not off");
        refused(ARENA, " transfers=5", "", 12, "no count called transfers");
        refused(ARENA, "ar-malloc", "x", 12, "no counts");
        refused(OWN_HEAP, "lock=arena", "lock=none", 12, "the number of locks");
        let cached = LINE.replace("cache=off", "cache=on").replace("locks=10", "locks=3");
        assert!(of(ARENA_CACHE, &cached, 12).is_ok());
    }

    #[test]
    fn a_run_needs_an_outcome() {
        let ended = |output: &str| Ended {
            seconds: 1.0,
            cpu_seconds: 2.0,
            peak_kib: 1,
            minor_faults: 1,
            output: output.into(),
            said: LINE.into(),
        };
        let point = Point { driver: Driver::Uniform, threads: 1, arenas: 2, subject: ARENA };
        let read = sample(point, &ended(r#"{"ops":10,"metrics":{"ns":5.0}}"#)).unwrap();
        assert_eq!((read.ns, read.cpu_ns), (5.0, 2e8));
        assert!(sample(point, &ended("")).unwrap_err().contains("unreadable"));
        assert!(sample(point, &ended(r#"{"ops":10,"metrics":{}}"#)).is_err());
    }
}
