//! A case of the corpus on an allocator: how often it is run, and what that came to.

use super::class::{Case, Class};
use super::expect::{Build, is_no_worse};
use super::programs::Programs;
use super::verdict::{Ending, Verdict, of_fault, of_twin};
use crate::child::{End, on_peer};
use crate::patience::end;
use crate::peers::Peer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::mem::discriminant;
use std::process::Command;
use std::time::Duration;

/// This number of runs of a case that had the same verdict stand for those that are left of it.
/// What comes in one run of four is missed by ten in one case of eighteen. The builds of Toft are
/// held to numbers of runs, and get them all.
pub const ALIKE: usize = 10;

/// What a case came to on a peer.
#[derive(Debug)]
pub struct Tried {
    /// Every run with the fault.
    pub runs: Vec<(Ending, End)>,
    /// The run without.
    pub twin: Result<(), String>,
}

/// The result of a case on a peer, without what the programs wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Every run with the fault.
    pub runs: Vec<Ending>,
    /// The run without.
    pub twin: Result<(), String>,
    /// What of it Toft has to do otherwise.
    pub deviations: Vec<String>,
}

/// A case to try.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub class: &'a Class,
    pub case: &'a Case,
    pub peer: &'a Peer,
}

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}, class {} ({})", self.peer.name, self.class.number, self.case)
    }
}

/// Whether the runs of a case so far tell what those that are left of it would.
fn tells(runs: &[(Ending, End)], ours: bool) -> bool {
    let Some((last, end)) = runs.last() else { return false };
    // One that hangs has missed it; every other would take as long.
    let hangs = end.status.is_none();
    let kind = |ending: &Ending| match ending {
        Ending::Judged(verdict, _) => Ok::<Verdict, _>(*verdict),
        other => Err(discriminant(other)),
    };
    let alike = runs.iter().all(|(ending, _)| kind(ending) == kind(last));
    hangs || (!ours && alike && runs.len() >= ALIKE)
}

impl Job<'_> {
    /// Runs the program with its fault as often as the class says, or until [`ALIKE`] of them say
    /// what the rest would, or one does not end; and once without the fault.
    pub fn run(&self, programs: &Programs, patience: Duration) -> Tried {
        let start = |what: &str| {
            let mut command = self.command(programs);
            command.arg(what).args(self.case.arguments());
            end(command, patience)
        };
        let ours = Build::of_peer(&self.peer.name).is_some();
        let mut runs = Vec::new();
        for _ in 0..self.class.repeat {
            runs.extend(start("fault").ok().map(|end| (of_fault(&end), end)));
            if tells(&runs, ours) {
                break;
            }
        }
        let twin = match start("correct") {
            Ok(end) => of_twin(&end, ours),
            Err(error) => Err(error.to_string()),
        };
        Tried { runs, twin }
    }

    fn command(&self, programs: &Programs) -> Command {
        let mut command = on_peer(self.peer, programs.of(self.class, &self.case.language));
        // What the user has set for Toft is not what is judged; what the peer's name asks for is.
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("TOFT_") {
                command.env_remove(key);
            }
        }
        command.envs(self.peer.settings());
        command
    }

    /// What is kept of it.
    pub fn outcome(&self, tried: Tried) -> Outcome {
        let deviations = self.deviations(&tried);
        let runs = tried.runs.into_iter().map(|(ending, _)| ending).collect();
        Outcome { runs, twin: tried.twin, deviations }
    }

    /// What Toft has to do otherwise, if this peer is a build of it.
    pub fn deviations(&self, tried: &Tried) -> Vec<String> {
        let Some(build) = Build::of_peer(&self.peer.name) else { return Vec::new() };
        let expectation = |build| self.class.expectation(build, self.case);
        let mut wrong = Vec::new();
        if tried.runs.iter().any(|(_, end)| end.status.is_none()) {
            wrong.push("it did not end".to_owned());
        } else if tried.runs.len() < self.class.repeat {
            wrong.push("a program could not be started".to_owned());
        } else if let Some(expectation) = expectation(build) {
            wrong.extend(expectation.deviation(&tried.runs));
        } else {
            wrong.extend(is_no_worse(expectation(Build::Default), &tried.runs));
        }
        wrong.extend(tried.twin.clone().err().map(|how| format!("false alarm: {how}")));
        wrong.into_iter().map(|what| format!("{self}: {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::judged as run;

    #[test]
    fn runs_that_are_alike_stand_for_the_rest_but_not_for_those_of_toft() {
        let missed = |share| run(&format!("echo share={share}; echo begin; echo end; exit 81"));
        // How it ended may differ, the verdict may not.
        let mut runs: Vec<_> = (1..ALIKE).map(missed).collect();
        assert!(!tells(&runs, false), "too few");
        runs.push(missed(100));
        assert!(tells(&runs, false) && !tells(&runs, true));
        runs[3] = run("echo begin; echo end; exit 80");
        assert!(!tells(&runs, false), "one was prevented");
        let failed: Vec<_> = (0..ALIKE).map(|n| run(&format!("exit {}", n + 1))).collect();
        assert!(tells(&failed, false));
        assert!(!tells(&[], false));
    }

    #[test]
    fn what_hangs_is_not_run_again() {
        let mut runs = vec![run("echo begin; echo end; exit 80"), run("echo begin")];
        assert!(!tells(&runs, true));
        runs[1].1.status = None;
        assert!(tells(&runs, true) && tells(&runs, false));
    }
}
