//! The run of the laboratory, and what its record says of each case and variant.

use super::variants::BASE;
use crate::libraries::build_folder;
use clap::Parser;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use toft_bench::cli::{self, Bench};
use toft_bench::interval::Interval;
use toft_bench::mount::Mount;
use toft_bench::stats::{Summary, geometric_mean};

/// A quantity that a table compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The time that a case takes.
    Time,
    /// Its peak resident memory.
    Memory,
    /// The number of instructions of an operation.
    Instructions,
}

impl About {
    /// Returns the metrics of cases that measure this: key, unit, and true if less is better.
    fn metrics(self) -> &'static [(&'static str, &'static str, bool)] {
        match self {
            About::Time => {
                &[("ns", "ns/op", true), ("seconds", "s", true), ("mops", "Mops", false)]
            }
            About::Memory => &[("peak_mb", "MB", true)],
            About::Instructions => &[("instructions", "", true)],
        }
    }
}

/// A case of a table.
#[derive(Debug)]
pub struct Row {
    /// The case.
    pub case: String,
    /// The base's figure, and its unit.
    pub base: Summary,
    pub unit: &'static str,
    /// The median of each variant, and its cost as a multiple of the base's; `None` if it failed.
    pub variants: Vec<Option<(f64, Interval)>>,
}

/// The record of a run.
#[derive(Debug)]
pub struct Results {
    /// The names of the variants, which are all libraries but the first.
    pub variants: Vec<String>,
    record: Value,
}

/// The laboratory's options, as it parses them itself.
#[derive(Parser)]
struct Program {
    #[command(flatten)]
    bench: Bench,
}

/// Runs the cases on all libraries, and returns the record.
pub fn all(
    libraries: &[(&str, PathBuf)],
    cases: &[&str],
    runs: usize,
    quick: bool,
) -> Result<Results, String> {
    let file = build_folder("cost").join("record.json");
    let peers = libraries.iter().map(|(name, library)| format!("{name}={}", library.display()));
    let mut words = vec!["toft-bench".to_owned()];
    words.extend(["--workloads".into(), cases.join(",")]);
    words.extend(["--peers".into(), peers.collect::<Vec<_>>().join(",")]);
    words.extend(["--runs".into(), runs.to_string()]);
    words.extend(["--output".into(), file.display().to_string()]);
    if quick {
        words.push("--quick".into());
    }
    if Command::new("valgrind").arg("--version").output().is_ok_and(|it| it.status.success()) {
        words.push("--callgrind".into());
    } else {
        println!("instructions are not counted: valgrind is not installed");
    }
    let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
    // A failed run is in the record.
    cli::bench(&program.bench, Mount::default())?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let names = libraries[1..].iter().map(|(name, _)| (*name).to_owned());
    Results::of(&text, names.collect()).map_err(|e| format!("{}: {e}", file.display()))
}

impl Results {
    /// Reads a record.
    pub fn of(text: &str, variants: Vec<String>) -> Result<Results, String> {
        let record = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Results { variants, record })
    }

    fn cases(&self) -> &[Value] {
        self.record["cases"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns true if every library has run every case.
    pub fn is_complete(&self) -> bool {
        let ran = |case: &Value| {
            let names = self.variants.iter().map(String::as_str);
            [BASE].into_iter().chain(names).all(|name| case["peers"][name].is_array())
        };
        !self.cases().is_empty() && self.cases().iter().all(ran)
    }

    /// Returns the cases that measure this.
    pub fn rows(&self, about: About) -> Vec<Row> {
        self.cases().iter().filter_map(|case| self.row(case, about)).collect()
    }

    fn row(&self, case: &Value, about: About) -> Option<Row> {
        let has = |key: &str| case["metrics"].as_array().is_some_and(|keys| has_key(keys, key));
        let &(key, unit, less) = about.metrics().iter().find(|(key, ..)| has(key))?;
        let samples = |name: &str| -> Option<Summary> {
            let outcomes = case["peers"][name].as_array()?.iter();
            let samples = outcomes.map(|outcome| outcome["metrics"][key].as_f64());
            Summary::of(&samples.collect::<Option<Vec<f64>>>()?)
        };
        let variant = |name: &String| {
            let mut ratios = case["ratios"].as_array()?.iter();
            let ratio = ratios.find(|it| it["metric"] == key && it["to"] == **name)?;
            Some((samples(name)?.median, of_record(ratio, less)?))
        };
        Some(Row {
            case: case["case"].as_str()?.to_owned(),
            base: samples(BASE)?,
            unit,
            variants: self.variants.iter().map(variant).collect(),
        })
    }
}

fn has_key(keys: &[Value], key: &str) -> bool {
    keys.iter().any(|it| it == key)
}

/// Returns the cost of the variant as a multiple of the base's. The record has the base's figure as
/// a multiple of the variant's. Of rates the two are the same. A ratio of one round has no ends.
fn of_record(ratio: &Value, less: bool) -> Option<Interval> {
    let median = ratio["median"].as_f64()?;
    let number = |key: &str| ratio[key].as_f64();
    let turned = |value: f64| if less { 1.0 / value } else { value };
    let (low, high) = number("low").zip(number("high")).unwrap_or((0.0, f64::INFINITY));
    let (one, other) = (turned(low), turned(high));
    Some(Interval {
        ratio: turned(number("mean").unwrap_or(median)),
        low: one.min(other),
        high: one.max(other),
    })
}

/// Returns the geometric mean of a variant's ratios over the rows in which all variants have one
/// that tells something, and the number of these rows.
pub fn mean(rows: &[Row], variant: usize) -> (Option<f64>, usize) {
    let clear = |row: &&Row| row.variants.iter().all(|it| it.is_some_and(|(_, it)| !it.too_wide()));
    let ratios: Vec<f64> = rows
        .iter()
        .filter(clear)
        .filter_map(|row| row.variants[variant].map(|(_, ratio)| ratio.ratio))
        .collect();
    (geometric_mean(&ratios), ratios.len())
}
