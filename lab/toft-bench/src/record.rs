//! What is kept of a run: the JSON file, written and read back. `docs/bench.md` describes it.

use crate::family::Group;
use crate::json;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::peers::Peer;
use crate::releases::released;
use crate::standing::Standing;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The version of the format.
const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub toft_bench: u32,
    #[serde(default)]
    pub date: String,
    pub machine: Value,
    #[serde(default)]
    pub runs: usize,
    /// Whether the numbers were the smaller ones.
    #[serde(default)]
    pub quick: bool,
    #[serde(default)]
    pub took_seconds: f64,
    pub peers: Vec<PeerRecord>,
    pub cases: Vec<CaseRecord>,
    /// How the peers stand over the headline, or over what there is of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Standing>,
    /// How they stand over the groups that it is made of, and over our own shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Standing>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerRecord {
    pub name: String,
    pub version: String,
    /// When that was released: a day, `this revision` or `unknown`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub released: String,
}

/// A case on every peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseRecord {
    pub case: String,
    pub workload: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub family: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    #[serde(default)]
    pub numbers: Vec<String>,
    /// What is compared.
    #[serde(default)]
    pub metrics: Vec<String>,
    pub peers: BTreeMap<String, SeriesRecord>,
    /// The ratios of the compared peer to the others.
    #[serde(default)]
    pub ratios: Vec<RatioRecord>,
}

/// The samples of a case on a peer, round by round, or how it failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SeriesRecord {
    Samples(Vec<Outcome>),
    Failed { failed: String },
}

/// A ratio taken round by round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RatioRecord {
    pub metric: String,
    /// The peer above the line.
    pub of: String,
    /// The peer below the line.
    pub to: String,
    /// The median of the rounds.
    pub median: f64,
    /// The geometric mean, which the interval is around.
    pub mean: Option<f64>,
    /// The lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Whether the interval contains 1, or there is none.
    pub open: bool,
    /// Whether it is too wide, or the machine changed under the measurement.
    pub noisy: bool,
}

impl PeerRecord {
    /// Without the day of the release, for files that do not keep it.
    pub fn undated(name: &str, version: &str) -> Self {
        Self { name: name.to_owned(), version: version.to_owned(), released: String::new() }
    }
}

impl Record {
    /// The record of what was measured. `numbers` are those of each case, `ours` is the peer whose
    /// ratios are kept.
    pub fn of(
        machine: &Machine,
        (runs, quick, took): (usize, bool, Duration),
        peers: &[Peer],
        measured: &[Measured],
        numbers: impl Fn(&Measured) -> Params,
        ours: Option<usize>,
    ) -> Self {
        let peer = |peer: &Peer| PeerRecord {
            name: peer.name.clone(),
            version: peer.version.clone(),
            released: released(peer).to_owned(),
        };
        let case = |result: &Measured| CaseRecord {
            case: result.job.case.name.clone(),
            workload: result.job.workload().to_owned(),
            family: result.job.family().to_owned(),
            group: Some(result.job.group()),
            numbers: numbers(result).words(),
            metrics: result.job.case.metrics.iter().map(|metric| metric.key.to_owned()).collect(),
            peers: peers.iter().map(|peer| peer.name.clone()).zip(series(result)).collect(),
            ratios: ours.map_or_else(Vec::new, |ours| ratios(result, peers, ours)),
        };
        Self {
            toft_bench: FORMAT,
            date: crate::report::now(),
            machine: serde_json::to_value(machine).unwrap_or(Value::Null),
            runs,
            quick,
            took_seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            peers: peers.iter().map(peer).collect(),
            cases: measured.iter().map(case).collect(),
            summary: Some(Standing::first(measured, peers)),
            groups: Standing::all(measured, peers).into_iter().skip(1).collect(),
        }
    }

    pub fn read(path: &Path) -> Result<Self, String> {
        json::read(path, "toft_bench", FORMAT)
    }

    pub fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    }

    /// The text of the file with a line for each case.
    pub fn lines(&self) -> Result<String, String> {
        json::lines(self, "cases")
    }
}

fn series(result: &Measured) -> impl Iterator<Item = SeriesRecord> {
    result.series.iter().map(|series| match series {
        Ok(outcomes) => SeriesRecord::Samples(outcomes.clone()),
        Err(error) => SeriesRecord::Failed { failed: error.clone() },
    })
}

fn ratios(result: &Measured, peers: &[Peer], ours: usize) -> Vec<RatioRecord> {
    let moved = result.moved();
    let mut ratios = Vec::new();
    for metric in &result.job.case.metrics {
        for theirs in (0..peers.len()).filter(|&peer| peer != ours) {
            let Some(ratio) = result.ratio(ours, theirs, metric) else { continue };
            let interval = result.interval(ours, theirs, metric);
            ratios.push(RatioRecord {
                metric: metric.key.to_owned(),
                of: peers[ours].name.clone(),
                to: peers[theirs].name.clone(),
                median: ratio.median,
                mean: interval.map(|interval| interval.ratio),
                low: interval.map(|interval| interval.low),
                high: interval.map(|interval| interval.high),
                open: interval.is_none_or(|interval| interval.open()),
                noisy: moved || interval.is_some_and(|interval| interval.too_wide()),
            });
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{job, peers};
    use crate::host::Stage;

    #[test]
    fn a_record_is_read_back_as_it_was() {
        let peers = peers(&["toft", "glibc", "broken"]);
        let series = |values: [f64; 3]| {
            Ok(values.map(|v| Outcome::default().with("ns", v).with("peak_mb", v)).to_vec())
        };
        let measured = [Measured {
            job: job("pair-64"),
            series: vec![series([12.0, 12.1, 12.2]), series([10.0; 3]), Err("crashed".into())],
        }];
        let numbers = |result: &Measured| result.job.case.quick.clone();
        let machine = Machine::here();
        let record = Record::of(
            &machine,
            (3, true, Duration::from_millis(1250)),
            &peers,
            &measured,
            numbers,
            Some(0),
        );
        let lines = record.lines().unwrap();
        assert_eq!(lines.lines().count(), 2 + record.cases.len());
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&lines), value(&record.text().unwrap()));
        let stage = Stage::new().unwrap();
        let path = stage.path("toft-record.json");
        std::fs::write(&path, record.text().unwrap()).unwrap();
        let back = Record::read(&path).unwrap();
        assert_eq!(serde_json::to_value(&back).unwrap(), serde_json::to_value(&record).unwrap());
        assert!(back.quick && back.runs == 3 && back.took_seconds == 1.25);
        let case = &back.cases[0];
        assert_eq!(case.numbers, measured[0].job.case.quick.words());
        assert!(
            matches!(&case.peers["broken"], SeriesRecord::Failed { failed } if failed == "crashed")
        );
        std::fs::write(&path, "{\"toft_bench\": 9}").unwrap();
        assert!(Record::read(&path).unwrap_err().contains(&path.display().to_string()));
        std::fs::remove_file(&path).unwrap();
        assert!(Record::read(&path).unwrap_err().contains("toft-record"));
    }
}
