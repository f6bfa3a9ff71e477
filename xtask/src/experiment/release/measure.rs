//! What is run, and running it in rounds: each run in a fresh process, the methods in turn.

use crate::place;
use std::collections::BTreeMap;
use std::time::Duration;
use toft::os::release::Method;
use toft_bench::child::{self, Limits};
use toft_bench::stats::{Summary, paired};

/// Bytes of a piece.
pub const BYTES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 1 << 20];
/// Pieces of a batch.
pub const BATCHES: [usize; 4] = [1, 8, 64, 512];

/// What the other thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beside {
    /// There is none.
    Alone,
    /// It writes to pages that it has.
    Touching,
    /// It writes to pages that it has not.
    Faulting,
}

impl Beside {
    /// Each.
    pub const ALL: [Beside; 3] = [Beside::Alone, Beside::Touching, Beside::Faulting];

    fn word(self) -> &'static str {
        match self {
            Beside::Alone => "alone",
            Beside::Touching => "touching",
            Beside::Faulting => "faulting",
        }
    }
}

/// One thing that is measured. The method by its place in [`Method::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub beside: Beside,
    pub bytes: usize,
    pub batch: usize,
    pub method: usize,
}

/// What one run has told, in nanoseconds for each piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub time: f64,
    /// Processor time of the process, with what the kernel's own threads do for it.
    pub processor: f64,
    /// What the other thread has lost.
    pub lost: f64,
}

/// One of a sample's figures.
pub type Figure = fn(&Sample) -> f64;

/// All that was measured.
#[derive(Default)]
pub struct Results {
    samples: BTreeMap<Point, Vec<Sample>>,
    /// What the driver has said of a method that does not work here.
    pub refused: BTreeMap<usize, String>,
}

impl Results {
    fn figures(&self, point: Point, of: Figure) -> Vec<f64> {
        self.samples.get(&point).map_or(&[][..], Vec::as_slice).iter().map(of).collect()
    }

    /// A figure of a point.
    pub fn summary(&self, point: Point, of: Figure) -> Option<Summary> {
        Summary::of(&self.figures(point, of))
    }

    /// How many times the same figure of `madvise` that of a point is, round by round.
    pub fn ratio(&self, point: Point, of: Figure) -> Option<Summary> {
        let plain = Point { method: 0, ..point };
        paired(&self.figures(point, of), &self.figures(plain, of))
    }

    #[cfg(test)]
    pub fn add(&mut self, point: Point, sample: Sample) {
        self.samples.entry(point).or_default().push(sample);
    }
}

/// Every point; those that are compared with each other stand side by side.
fn points(quick: bool) -> Vec<Point> {
    let taken = |all: [usize; 4]| if quick { vec![all[0], all[2]] } else { all.to_vec() };
    let mut points = Vec::new();
    for beside in Beside::ALL {
        for bytes in taken(BYTES) {
            for batch in taken(BATCHES) {
                points.extend((0..Method::ALL.len()).map(|method| Point {
                    beside,
                    bytes,
                    batch,
                    method,
                }));
            }
        }
    }
    points
}

/// Builds the driver and runs all points, in rounds.
pub fn all(runs: usize, quick: bool) -> Result<Results, String> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--release", "--package", "toft", "--example", "release"]);
    let built = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if !built.success() {
        return Err("the driver does not build".into());
    }
    let mut results = Results::default();
    for round in 1..=runs {
        println!("round {round} of {runs}");
        for point in points(quick) {
            if results.refused.contains_key(&point.method) {
                continue;
            }
            match one(point, quick)? {
                Ok(sample) => results.samples.entry(point).or_default().push(sample),
                Err(why) => {
                    println!("{why}");
                    results.refused.insert(point.method, why);
                }
            }
        }
    }
    Ok(results)
}

/// One run; or why the method does not work here.
fn one(point: Point, quick: bool) -> Result<Result<Sample, String>, String> {
    let driver = place::target_dir().join("release/examples/release");
    let mut command = std::process::Command::new(driver);
    command.arg(Method::ALL[point.method].name());
    command.args([point.bytes, point.batch].map(|number| number.to_string()));
    command.arg(point.beside.word()).arg(if quick { "20" } else { "60" });
    let limits = Limits { timeout: Duration::from_secs(60), pin: None };
    match child::run(command, limits) {
        Ok(ended) => sample(&ended.output).map(Ok),
        // The driver says so, and why.
        Err(why) if why.contains("status: 3") => Ok(Err(why)),
        Err(why) => Err(why),
    }
}

fn sample(output: &str) -> Result<Sample, String> {
    let figures: Result<Vec<f64>, _> = output.split_whitespace().map(str::parse).collect();
    match figures.as_deref() {
        Ok(&[time, processor, lost]) if time > 0.0 => Ok(Sample { time, processor, lost }),
        _ => Err(format!("unreadable figures {output:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_measured_once() {
        let mut all = points(false);
        assert_eq!(all.len(), 3 * 4 * 4 * 3);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 3 * 4 * 4 * 3);
        assert!(points(true).iter().all(|point| all.contains(point)));
    }

    #[test]
    fn figures_are_read_or_missed() {
        let figures = Sample { time: 1.5, processor: 2.0, lost: -0.25 };
        assert_eq!(sample("1.5 2.0 -0.25\n"), Ok(figures));
        assert!(sample("1.5 2.0").is_err() && sample("0 1 2").is_err() && sample("a b c").is_err());
    }
}
