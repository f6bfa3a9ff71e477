//! The rows of the tables. Each workload has a file in `workloads/` that says what it does and
//! lists its cases: a name, the numbers, what a quick run replaces in them, and what is compared.
//! To add a row is to add four lines there.

use crate::family::Group;
use crate::host::scripted::Program;
use crate::metrics::{About, Metric, metric};
use crate::params::Params;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// A workload with its numbers: one row of the result, and one more for each further metric.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// The family that it votes in, unless that is its workload.
    pub family: Option<String>,
    /// The group of that family, unless that is its workload's.
    pub group: Option<Group>,
    pub full: Params,
    /// What `--quick` replaces in them.
    pub quick: Params,
    /// What is compared; the first is the one that the case is about.
    pub metrics: Vec<Metric>,
    /// It waits or works for seconds whatever its numbers: a quick run has no time for it unless
    /// it is named.
    pub slow: bool,
}

impl Case {
    /// The metric that says how fast it is, unless it is about other things alone.
    pub fn pace(&self) -> Option<Metric> {
        self.metrics.iter().copied().find(|metric| metric.about == About::Speed)
    }
}

/// What a workload's file says.
#[derive(Clone, Debug)]
pub struct Listed {
    /// One line: what it does, and what is an operation.
    pub about: String,
    pub group: Group,
    pub cases: Vec<Case>,
    /// The program that it is, for those that are a script for another program.
    pub program: Option<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    group: Group,
    program: Option<Program>,
    case: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    family: Option<String>,
    group: Option<Group>,
    full: String,
    #[serde(default)]
    quick: String,
    metrics: Vec<String>,
    #[serde(default)]
    slow: bool,
}

impl Listed {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let cases = file.case.into_iter().map(|row| {
            let numbers = |words: &str| {
                Params::parse(words.split_whitespace())
                    .map_err(|error| format!("{}: {error}", row.name))
            };
            let metrics = row.metrics.iter().map(|key| {
                metric(key).ok_or_else(|| format!("{}: no metric is called {key}", row.name))
            });
            Ok(Case {
                full: numbers(&row.full)?,
                quick: numbers(&row.quick)?,
                metrics: metrics.collect::<Result<_, String>>()?,
                name: row.name.clone(),
                family: row.family,
                group: row.group,
                slow: row.slow,
            })
        });
        let cases = cases.collect::<Result<_, String>>()?;
        Ok(Self { about: file.about, group: file.group, cases, program: file.program })
    }
}

/// What the file of a workload says, which is part of this program.
pub fn listed(file: &'static str) -> &'static Listed {
    static READ: LazyLock<Mutex<HashMap<&'static str, &'static Listed>>> =
        LazyLock::new(Mutex::default);
    let mut read = READ.lock().expect("nothing panics with the lock held but a file that is wrong");
    read.entry(file).or_insert_with(|| {
        Box::leak(Box::new(Listed::parse(file).expect("a workload's file does not parse")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_and_what_is_wrong_is_named() {
        let text = "about = \"x\"\ngroup = \"own\"\n[[case]]\nname = \"a\"\nfull = \"ops=2k\"\nmetrics = [\"ns\"]\n";
        let read = Listed::parse(text).unwrap();
        assert_eq!((read.cases[0].full.get("ops", 0), read.cases[0].metrics[0].key), (2000, "ns"));
        for (from, to, named) in [
            ("ops=2k", "ops", "`ops`"),
            ("ns", "noise", "noise"),
            ("about", "abuot", "abuot"),
            ("own", "other", "other"),
        ] {
            let error = Listed::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_pace_is_the_first_metric_that_is_about_speed() {
        let pace = |name: &str| {
            let job = crate::fixtures::job(name);
            job.case.pace().map(|metric| metric.key)
        };
        assert_eq!(pace("larson-2"), Some("mops"));
        assert_eq!(pace("churn"), Some("ns"));
        assert_eq!(pace("micro-lifo-64"), Some("ns"));
        assert_eq!(pace("rss"), None);
    }
}
