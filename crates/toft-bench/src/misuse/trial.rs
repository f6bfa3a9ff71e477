//! Running the programs of the corpus on an allocator.

use super::class::{Case, Class};
use super::expect::{Build, is_no_worse};
use super::programs::Programs;
use super::verdict::{Ending, of_fault, of_twin};
use crate::child::{End, Limits, end, on_peer};
use crate::peers::Peer;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a case came to on a peer.
#[derive(Debug)]
pub struct Tried {
    /// Every run with the fault.
    pub runs: Vec<(Ending, End)>,
    /// The run without.
    pub twin: Result<(), String>,
}

/// A case to try.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The class.
    pub class: &'a Class,
    /// One of its cases.
    pub case: &'a Case,
    /// The allocator.
    pub peer: &'a Peer,
}

impl Job<'_> {
    /// Runs the program with its fault as often as the class says, and once without.
    #[must_use]
    pub fn run(&self, programs: &Programs, timeout: Duration) -> Tried {
        let start = |what: &str| {
            let mut command = self.command(programs);
            command.arg(what).args(self.case.arguments());
            end(command, Limits { timeout, pin: None })
        };
        let runs = (0..self.class.repeat)
            .filter_map(|_| start("fault").ok())
            .map(|end| (of_fault(&end), end))
            .collect();
        let ours = Build::of_peer(&self.peer.name).is_some();
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

    /// What Toft has to do otherwise, if this peer is a build of it.
    #[must_use]
    pub fn deviations(&self, tried: &Tried) -> Vec<String> {
        let Some(build) = Build::of_peer(&self.peer.name) else { return Vec::new() };
        let expectation = |build| self.class.expectation(build, self.case);
        let mut wrong = Vec::new();
        if tried.runs.len() < self.class.repeat {
            wrong.push("a program could not be started".to_owned());
        } else if let Some(expectation) = expectation(build) {
            wrong.extend(expectation.deviation(&tried.runs));
        } else {
            wrong.extend(is_no_worse(expectation(Build::Default), &tried.runs));
        }
        wrong.extend(tried.twin.clone().err().map(|how| format!("false alarm: {how}")));
        let place = format!("{}, class {} ({})", self.peer.name, self.class.number, self.case);
        wrong.into_iter().map(|what| format!("{place}: {what}")).collect()
    }
}

/// Tries all, on as many processors as there are; `done` is told how many are.
#[must_use]
pub fn run_all(
    jobs: &[Job],
    programs: &Programs,
    timeout: Duration,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Tried> {
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tried: Vec<Mutex<Option<Tried>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(place) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&n| n < jobs.len())
        {
            let outcome = jobs[place].run(programs, timeout);
            *tried[place].lock().expect("no thread panics with the lock") = Some(outcome);
            done(count.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let taken = |place: Mutex<Option<Tried>>| place.into_inner().ok().flatten();
    tried.into_iter().map(|place| taken(place).expect("every place was filled")).collect()
}
