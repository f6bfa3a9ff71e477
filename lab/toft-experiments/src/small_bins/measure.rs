//! Runs each case on each allocator, in a fresh process each time, round by round.

use super::plan::{CASES, Case};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use toft_bench::child::{self, Limits};
use toft_bench::interval::{self, Interval};
use toft_bench::outcome::Outcome;
use toft_bench::peers::Peer;
use toft_bench::stats::Summary;

/// The figures of one run, by their keys.
type Figures = BTreeMap<String, f64>;

/// All runs: of each case, of each allocator, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub struct Measured(BTreeMap<(String, String), Vec<Figures>>);

impl Measured {
    pub fn add(&mut self, case: &str, peer: &str, figures: Figures) {
        self.0.entry((case.to_owned(), peer.to_owned())).or_default().push(figures);
    }

    /// A figure of all rounds.
    pub fn samples(&self, case: &str, peer: &str, key: &str) -> Option<Vec<f64>> {
        let runs = self.0.get(&(case.to_owned(), peer.to_owned()))?;
        runs.iter().map(|figures| figures.get(key).copied()).collect()
    }

    /// The median of a figure.
    pub fn median(&self, case: &str, peer: &str, key: &str) -> Option<f64> {
        Some(Summary::of(&self.samples(case, peer, key)?)?.median)
    }

    /// How many times as fast `of` is as `to`, round by round.
    pub fn speed(&self, case: &str, key: &str, of: &str, to: &str) -> Option<Interval> {
        let (ours, theirs) = (self.samples(case, of, key)?, self.samples(case, to, key)?);
        if let ([our], [their]) = (&*ours, &*theirs) {
            // Of one round there is a ratio, and nothing that tells how sure it is.
            return Some(Interval { ratio: their / our, low: 0.0, high: f64::INFINITY });
        }
        interval::paired(&theirs, &ours)
    }
}

/// Runs every case.
pub fn run(peers: &[Peer], rounds: usize, quick: bool) -> Result<Measured, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut measured = Measured::default();
    for case in CASES {
        eprintln!("small-bins: {}", case.name);
        for _ in 0..rounds {
            let wanted = |peer: &&Peer| case.on.is_empty() || case.on.contains(&&*peer.name);
            for peer in peers.iter().filter(wanted) {
                let figures = once(&program, case, peer, quick)
                    .map_err(|why| format!("{} on {}: {why}", case.name, peer.name))?;
                measured.add(case.name, &peer.name, figures);
            }
        }
    }
    Ok(measured)
}

/// One run of a case on an allocator.
fn once(program: &PathBuf, case: &Case, peer: &Peer, quick: bool) -> Result<Figures, String> {
    let mut command = child::on_peer(peer, program);
    command.args(["work", case.workload]).args(case.numbers.split_whitespace());
    command.arg(format!("ops={}", case.ops[usize::from(quick)]));
    let limits = Limits { timeout: Duration::from_secs(120), pin: None };
    let ended = child::run(command, limits)?;
    let outcome: Outcome = serde_json::from_str(&ended.output)
        .map_err(|error| format!("unreadable outcome {:?}: {error}", ended.output))?;
    Ok(outcome.metrics)
}

#[cfg(test)]
pub mod tests {
    use super::super::plan::{COUNTS, GRID, SCENARIOS, SIZES, row};
    use super::*;

    /// What a run with three rounds has measured, if `ns` is the time of an allocator in a case, by
    /// the figure's key.
    pub fn made(ns: impl Fn(&str, &str, &str) -> f64) -> Measured {
        let mut measured = Measured::default();
        for noise in [1.0, 1.01, 0.99] {
            for case in CASES {
                for peer in toft_small_bins::variant::NAMES.iter().chain(super::super::plan::SYSTEM)
                {
                    let mut figures = Figures::new();
                    figures.insert("ns".into(), ns(case.name, peer, "ns") * noise);
                    if case.name == GRID {
                        for (scenario, size) in
                            SCENARIOS.iter().flat_map(|one| SIZES.map(|size| (one, size)))
                        {
                            for key in COUNTS.map(|count| row(scenario, size, count)) {
                                let time = ns(case.name, peer, &key) * noise;
                                figures.insert(key, time);
                            }
                        }
                    }
                    measured.add(case.name, peer, figures);
                }
            }
        }
        measured
    }

    #[test]
    fn a_speed_is_taken_round_by_round_and_names_who_is_faster() {
        let measured = made(|_, peer, _| if peer == "original" { 30.0 } else { 20.0 });
        let speed = measured.speed("uns_filler", "ns", "mod", "original").unwrap();
        assert!((speed.ratio - 1.5).abs() < 1e-9 && speed.low > 1.49, "{speed:?}");
        assert!(measured.speed("uns_filler", "ns", "mod", "nobody").is_none());
        assert!(measured.speed("uns_filler", "mops", "mod", "original").is_none());
        assert_eq!(measured.median("uns_filler", "mod", "ns"), Some(20.0));
    }

    /// A failed run is an error that names the run.
    #[test]
    fn a_program_that_fails_is_named() {
        let peer = Peer::without_library("glibc", "");
        let failed = once(&"/bin/false".into(), &CASES[0], &peer, true).unwrap_err();
        assert!(failed.contains("exit status: 1"), "{failed}");
        let silent = once(&"/bin/true".into(), &CASES[0], &peer, true).unwrap_err();
        assert!(silent.contains("unreadable outcome"), "{silent}");
    }
}
