//! What is kept of a run of the corpus: the JSON file, written and read back.

use super::class::Class;
use super::trial::{Job, Outcome};
use super::verdict::{Ending, Verdict};
use crate::json;
use crate::machine::Machine;
use crate::peers::Peer;
use crate::record::PeerRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the format.
const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub toft_misuse: u32,
    pub date: String,
    pub machine: Machine,
    /// The allocators, in the order of the table.
    pub peers: Vec<PeerRecord>,
    /// The classes, by number.
    pub classes: Vec<ClassRecord>,
}

/// A class on every allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassRecord {
    pub number: u32,
    pub title: String,
    /// How many runs came to what.
    pub peers: BTreeMap<String, Counts>,
    /// Every run; left out of what is committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<CaseRecord>,
}

/// A case on every allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseRecord {
    /// Language, thread, size, variant.
    pub case: String,
    /// Verdicts and how each process ended.
    pub peers: BTreeMap<String, Vec<String>>,
}

/// How many runs came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    #[serde(skip_serializing_if = "is_zero")]
    pub caught: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub late: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub prevented: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub missed: usize,
    /// Runs that did not come as far as their fault, or died where the correct program dies, too.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: usize,
    /// Programs without a fault that did not end well.
    #[serde(skip_serializing_if = "is_zero")]
    pub false_alarms: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Counts {
    pub fn of(&self, verdict: Verdict) -> usize {
        match verdict {
            Verdict::Caught => self.caught,
            Verdict::Late => self.late,
            Verdict::Prevented => self.prevented,
            Verdict::Missed => self.missed,
        }
    }

    fn add(&mut self, outcome: &Outcome) {
        for ending in &outcome.runs {
            let count = match ending {
                // Where the correct program dies, too, nothing was caught.
                Ending::Judged(Verdict::Caught | Verdict::Late, _) if outcome.twin.is_err() => {
                    &mut self.failed
                }
                Ending::Judged(Verdict::Caught, _) => &mut self.caught,
                Ending::Judged(Verdict::Late, _) => &mut self.late,
                Ending::Judged(Verdict::Prevented, _) => &mut self.prevented,
                Ending::Judged(Verdict::Missed, _) => &mut self.missed,
                Ending::Failed(_) => &mut self.failed,
                Ending::NoSuchCall => continue,
            };
            *count += 1;
        }
        self.false_alarms += usize::from(outcome.twin.is_err());
    }
}

fn texts(outcome: &Outcome) -> Vec<String> {
    let mut texts: Vec<String> = outcome
        .runs
        .iter()
        .map(|ending| match ending {
            Ending::Judged(verdict, how) => format!("{} {how}", verdict.word()).trim().to_owned(),
            Ending::NoSuchCall => "no such call".to_owned(),
            Ending::Failed(how) => format!("failed: {how}"),
        })
        .collect();
    texts.extend(outcome.twin.as_ref().err().map(|how| format!("false alarm: {how}")));
    texts
}

impl Record {
    /// The record of what was tried; `jobs` are in the order of the classes.
    pub fn of(peers: &[Peer], classes: &[Class], jobs: &[Job], outcomes: &[Outcome]) -> Self {
        let peer = |peer: &Peer| PeerRecord::undated(&peer.name, &peer.version);
        let class = |class: &Class| {
            let mut record = ClassRecord {
                number: class.number,
                title: class.title.clone(),
                peers: BTreeMap::new(),
                cases: Vec::new(),
            };
            let ours =
                jobs.iter().zip(outcomes).filter(|(job, _)| job.class.number == class.number);
            for (job, outcome) in ours {
                record.peers.entry(job.peer.name.clone()).or_default().add(outcome);
                let name = job.case.to_string();
                if record.cases.last().is_none_or(|last| last.case != name) {
                    record.cases.push(CaseRecord { case: name, peers: BTreeMap::new() });
                }
                if let Some(last) = record.cases.last_mut() {
                    last.peers.insert(job.peer.name.clone(), texts(outcome));
                }
            }
            record
        };
        Self {
            toft_misuse: FORMAT,
            date: crate::report::now(),
            machine: Machine::here(),
            peers: peers.iter().map(peer).collect(),
            classes: classes.iter().map(class).collect(),
        }
    }

    pub fn read(path: &Path) -> Result<Self, String> {
        json::read(path, "toft_misuse", FORMAT)
    }

    /// A copy with the counts alone.
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        kept.classes.iter_mut().for_each(|class| class.cases.clear());
        kept
    }

    /// The text of the file, with a line for each class.
    pub fn text(&self) -> String {
        json::lines(self, "classes").expect("strings and numbers alone")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::judged;
    use crate::host::Stage;

    pub(crate) fn example() -> Record {
        let counts = |text: &str| serde_json::from_str::<Counts>(text).unwrap();
        let class = |number, title: &str, cells: &[(&str, &str)]| ClassRecord {
            number,
            title: title.to_owned(),
            peers: cells.iter().map(|(name, text)| ((*name).to_owned(), counts(text))).collect(),
            cases: vec![CaseRecord {
                case: "c same 24".to_owned(),
                peers: [("toft".to_owned(), vec!["caught SIGABRT: x".to_owned()])].into(),
            }],
        };
        let peer = PeerRecord::undated;
        Record {
            toft_misuse: FORMAT,
            date: "2026-01-31 12:00 UTC".to_owned(),
            machine: Machine {
                cpu: "A CPU".into(),
                cpus: 2,
                kernel: "6.1".into(),
                thp: "never".into(),
                libc: "2.36".into(),
                revision: "abc".into(),
            },
            peers: vec![peer("toft", "0.1"), peer("glibc", "2.36")],
            classes: vec![
                class(
                    1,
                    "Do this",
                    &[("toft", r#"{"caught":4}"#), ("glibc", r#"{"late":1,"missed":3}"#)],
                ),
                class(2, "Do | that", &[("toft", r#"{"missed":2}"#), ("glibc", r#"{}"#)]),
            ],
        }
    }

    #[test]
    fn a_death_counts_where_the_correct_program_lives() {
        let run = |script: &str| judged(script).0;
        let runs = || {
            let late = run("echo begin; echo end; kill -ABRT $$");
            let missed = run("echo begin; echo end; exit 81");
            vec![run("echo begin; kill -ABRT $$"), late, missed, run("exit 82")]
        };
        let counts = |twin: Result<(), String>| {
            let mut counts = Counts::default();
            counts.add(&Outcome { runs: runs(), twin, deviations: Vec::new() });
            counts
        };
        let good = Counts { caught: 1, late: 1, missed: 1, ..Counts::default() };
        assert_eq!(counts(Ok(())), good);
        let bad = Counts { failed: 2, missed: 1, false_alarms: 1, ..Counts::default() };
        assert_eq!(counts(Err("died".to_owned())), bad);
    }

    #[test]
    fn a_record_is_read_back_as_it_was() {
        let record = example();
        let stage = Stage::new().unwrap();
        let path = stage.path("toft-misuse.json");
        for record in [record.clone(), record.kept()] {
            std::fs::write(&path, record.text()).unwrap();
            let back = Record::read(&path).unwrap();
            assert_eq!(back.text(), record.text());
            assert_eq!(back.classes[0].cases.len(), record.classes[0].cases.len());
            assert_eq!(back.classes[0].peers["glibc"].missed, 3);
        }
        assert!(record.kept().classes[0].cases.is_empty());
        std::fs::write(&path, "{\"toft_misuse\":9}").unwrap();
        assert!(Record::read(&path).unwrap_err().contains("toft-misuse"));
        std::fs::write(&path, record.text().replacen(":1,", ":9,", 1)).unwrap();
        assert!(Record::read(&path).unwrap_err().contains("format 9"));
    }
}
