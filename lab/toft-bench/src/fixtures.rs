//! What the tests of several modules begin with.

use crate::child::{End, Limits, end};
use crate::measured::{Measured, Series};
use crate::misuse::verdict::{Ending, of_fault};
use crate::outcome::Outcome;
use crate::peers::Peer;
use crate::runner::{Job, choose};
use std::process::Command;
use std::time::Duration;

/// Limits that only what hangs meets.
pub(crate) const LIMITS: Limits = Limits { timeout: Duration::from_secs(60), pin: None };

/// Peers of these names, without libraries.
pub(crate) fn peers(names: &[&str]) -> Vec<Peer> {
    names.iter().map(|name| Peer::without_library(name, "")).collect()
}

pub(crate) fn job(case: &str) -> Job {
    choose(&[case.to_owned()]).unwrap()[0]
}

/// A figure round by round.
pub(crate) fn series(key: &str, rounds: &[f64]) -> Series {
    Ok(rounds.iter().map(|figure| Outcome::default().with(key, *figure)).collect())
}

/// A case on peers that have one figure each in all of three rounds.
pub(crate) fn measured(case: &str, key: &str, figures: &[f64]) -> Measured {
    let series = figures.iter().map(|figure| series(key, &[*figure; 3])).collect();
    Measured { job: job(case), series }
}

pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// How a script ends.
pub(crate) fn ended(script: &str) -> End {
    end(shell(script), LIMITS).unwrap()
}

/// How a script ends as a program of the corpus of misuse.
pub(crate) fn judged(script: &str) -> (Ending, End) {
    let end = ended(script);
    (of_fault(&end), end)
}

/// Asserts that two figures differ by rounding alone.
pub(crate) fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}
