//! What a person shows to a colleague: one page with every plot and the whole table, and one plot
//! for a README. Both are made of what the JSON file holds, right after a run or later.

mod claim;
mod page;
pub(crate) mod place;
mod ratios;
mod readme;
pub(crate) mod scale;
mod scatter;

use crate::cases::Case;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::peers::Peer;
use crate::record::{PeerRecord, Record, SeriesRecord};
use crate::runner;
use crate::standing::Standing;
pub(crate) use claim::{CLAIM, claim};
pub(crate) use readme::{HEADLINE, PAGE, SHAPES, headline, kept, section, shapes};

/// Everything that is said of a run.
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// What was compared.
    pub peers: Vec<Peer>,
    /// The cases, in the order of the table.
    pub measured: Vec<Measured>,
    /// When, as in `2026-01-31 12:00 UTC`; empty when that is not known.
    pub date: String,
    /// Whether the numbers were those of `--quick`.
    pub quick: bool,
    /// Cases of the file that this program does not have, and so cannot say the units of.
    pub unknown: Vec<String>,
    /// Cases that ran with other numbers than they have in this program: they measured other work.
    pub changed: Vec<String>,
}

impl Report {
    /// Reads the text of a file that `--output` wrote.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(&serde_json::from_str(text).map_err(|error| error.to_string())?)
    }

    pub fn of(record: &Record) -> Result<Self, String> {
        let machine = serde_json::from_value(record.machine.clone());
        let peer = |one: &PeerRecord| Peer::without_library(&one.name, &one.version);
        let mut report = Self {
            machine: machine.map_err(|error| format!("machine: {error}"))?,
            peers: record.peers.iter().map(peer).collect(),
            measured: Vec::new(),
            date: record.date.clone(),
            quick: record.quick,
            unknown: Vec::new(),
            changed: Vec::new(),
        };
        let jobs = runner::jobs();
        for row in &record.cases {
            let Some(job) = jobs.iter().find(|job| job.case.name == row.case) else {
                report.unknown.push(row.case.clone());
                continue;
            };
            if !has_numbers(job.case, &row.numbers) {
                report.changed.push(row.case.clone());
            }
            let series = |peer: &Peer| match row.peers.get(&peer.name) {
                Some(SeriesRecord::Samples(outcomes)) => Ok(outcomes.clone()),
                Some(SeriesRecord::Failed { failed }) => Err(failed.clone()),
                None => Err("it is not in the file".to_owned()),
            };
            let series = report.peers.iter().map(series).collect();
            report.measured.push(Measured { job: *job, series });
        }
        Ok(report)
    }

    /// Without the cases that measured other work than they do now.
    pub fn of_today(mut self) -> Self {
        let changed = &self.changed;
        self.measured.retain(|result| !changed.contains(&result.job.case.name));
        self
    }

    pub fn html(&self) -> String {
        page::draw(self)
    }

    /// The plot for a README: time and peak memory of every peer over the headline, if there are
    /// two peers that can be drawn.
    pub fn svg(&self) -> Option<String> {
        scatter::picture(self, &Standing::first(&self.measured, &self.peers))
    }

    /// The long plot: each case's ratio to the best peer, for Toft and the fast peers.
    pub fn cases_svg(&self) -> String {
        ratios::draw(self)
    }

    /// The rounds that the longest series has.
    pub fn rounds(&self) -> usize {
        let series = self.measured.iter().flat_map(|result| &result.series);
        series.filter_map(|series| Some(series.as_ref().ok()?.len())).max().unwrap_or(0)
    }

    /// The peer that all of this is about, if it was run.
    pub fn ours(&self) -> Option<usize> {
        self.peers.iter().position(|peer| peer.name == "toft")
    }

    /// Whether a peer is a build of Toft, and so stands out in the plots.
    fn is_ours(&self, peer: usize) -> bool {
        crate::standing::is_ours(&self.peers[peer].name)
    }

    /// The class of a peer's colour in the style sheet, the same in every plot.
    fn colour(&self, peer: usize) -> String {
        let before = (0..peer).filter(|&other| !self.is_ours(other)).count();
        if self.is_ours(peer) { "ours".into() } else { format!("c{}", before % 9) }
    }
}

/// True if a case has these numbers in this program, at full length or in a quick run. A file that
/// does not say its numbers cannot be told apart.
fn has_numbers(case: &Case, numbers: &[String]) -> bool {
    let quick = case.full.clone().with(&case.quick);
    numbers.is_empty() || numbers == case.full.words() || numbers == quick.words()
}

/// The date and the time now, to the minute.
pub fn now() -> String {
    date(std::time::SystemTime::now())
}

fn date(time: std::time::SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    format!("{} UTC", text[..16].replace('T', " "))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    pub(crate) const TEXT: &str = r#"{"toft_bench": 1, "date": "2026-01-31 12:00 UTC", "quick": true,
        "machine": {"cpu": "A CPU", "cpus": 2, "kernel": "6.1", "thp": "never", "libc": "2.36",
            "revision": "abc"},
        "peers": [{"name": "toft", "version": "0.1"}, {"name": "glibc", "version": "2.36"},
            {"name": "<x>&\"", "version": ""}],
        "cases": [{"case": "pair-64", "workload": "pair", "peers": {
            "toft": [{"ops": 1, "metrics": {"ns": 6.0}}, {"ops": 1, "metrics": {"ns": 8.0}}],
            "glibc": [{"ops": 1, "metrics": {"ns": 12.0}}, {"ops": 1, "metrics": {"ns": 12.0}}],
            "<x>&\"": {"failed": "signal: 11 <&>"}}},
            {"case": "no-such-case", "workload": "none", "peers": {}}]}"#;

    #[test]
    fn a_file_is_read_with_its_failures_and_what_is_unknown() {
        let report = Report::parse(TEXT).unwrap();
        assert_eq!((report.peers.len(), report.rounds(), report.ours()), (3, 2, Some(0)));
        assert_eq!((report.date.as_str(), report.quick), ("2026-01-31 12:00 UTC", true));
        let result = &report.measured[0];
        assert_eq!(result.summary(0, &crate::metrics::NS).unwrap().median, 7.0);
        assert_eq!(result.series[2].as_ref().unwrap_err(), "signal: 11 <&>");
        assert_eq!(report.unknown, ["no-such-case"]);
    }

    #[test]
    fn a_file_without_a_date_is_read_and_a_wrong_one_is_refused() {
        let old = TEXT.replace(r#""date": "2026-01-31 12:00 UTC", "quick": true,"#, "");
        let report = Report::parse(&old).unwrap();
        assert_eq!((report.date.as_str(), report.quick), ("", false));
        assert!(Report::parse(&TEXT.replace(r#""cpus": 2,"#, "")).err().unwrap().contains("cpus"));
        assert!(Report::parse(&TEXT.replace(r#"{"failed": "signal: 11 <&>"}"#, "3")).is_err());
    }

    #[test]
    fn dates_are_to_the_minute() {
        assert_eq!(date(UNIX_EPOCH + Duration::from_secs(86_399)), "1970-01-01 23:59 UTC");
    }
}
