//! Any program, measured from outside on each peer: `bench -- PROGRAM ARGS`.

use crate::cases::Case;
use crate::child::{self, Limits};
use crate::measured::Measured;
use crate::metrics::{CPU, FAULTS, PEAK, SECONDS};
use crate::outcome::{Outcome, megabytes};
use crate::params::Params;
use crate::peers::Peer;
use crate::preloadable::{self, Found};
use crate::runner::{Job, Of};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program with its arguments.
#[derive(Debug)]
pub struct Program {
    file: PathBuf,
    arguments: Vec<OsString>,
    /// Why no library can be preloaded into it, if so.
    closed: Option<String>,
}

impl Program {
    /// Looks for a program as a shell does, and at it.
    pub fn new(words: &[OsString]) -> Result<Self, String> {
        let (name, arguments) = words.split_first().ok_or("which program?")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let file = match preloadable::find(Path::new(name), &path) {
            Found::Program(file) => file,
            Found::NotExecutable(file) => {
                return Err(format!("{} cannot be executed", file.display()));
            }
            Found::Nothing => return Err(format!("program not found: {}", name.display())),
        };
        let closed = preloadable::closed(&file);
        Ok(Self { file, arguments: arguments.to_vec(), closed })
    }

    /// What it is as a row of the table. Programs are few and live as long as this one.
    pub fn job(self, words: &[OsString]) -> Job {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let case = Case {
            name: words.join(" "),
            family: Some(words.join(" ")),
            group: None,
            full: Params::default(),
            quick: Params::default(),
            metrics: vec![SECONDS, CPU, PEAK, FAULTS],
            slow: false,
        };
        Job { case: Box::leak(Box::new(case)), of: Of::Program(Box::leak(Box::new(self))) }
    }

    /// Runs it once on a peer.
    pub fn run(&self, peer: &Peer, limits: Limits) -> Result<Outcome, String> {
        if let (Some(why), Some(_)) = (&self.closed, &peer.library) {
            return Err(why.clone());
        }
        let mut command = child::on_peer(peer, &self.file);
        command.args(&self.arguments);
        let ended = child::run(command, limits)?;
        let mut outcome = Outcome::timed(1, ended.seconds)
            .with(CPU.key, ended.cpu_seconds)
            .with(FAULTS.key, ended.minor_faults as f64);
        let least = child::least_peak_kib().map_err(|error| error.to_string())?;
        if let Some(peak) = peak(ended.peak_kib, least) {
            outcome.set(PEAK.key, megabytes(peak));
        }
        Ok(outcome)
    }
}

/// The peak of a program, unless it may as well be that of the image that it was started from.
fn peak(seen: u64, least: u64) -> Option<u64> {
    const FEW_PAGES: u64 = 64;
    (seen > least + FEW_PAGES).then_some(seen)
}

/// A line for each program whose peak is missing, with the reason.
pub fn without_peak(measured: &[Measured]) -> Vec<String> {
    let lacks = |result: &&Measured| {
        let outcomes = result.series.iter().flatten().flatten();
        matches!(result.job.of, Of::Program(_))
            && outcomes.into_iter().any(|outcome| !outcome.metrics.contains_key(PEAK.key))
    };
    let line = |result: &Measured| {
        format!(
            "{}: its peak of memory is below that of the process that starts it, and cannot be told",
            result.job.case.name
        )
    };
    measured.iter().filter(lacks).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::LIMITS;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn glibc() -> Peer {
        Peer::without_library("glibc", "")
    }

    #[test]
    fn a_peak_below_our_own_is_left_out_and_said() {
        assert_eq!((peak(1400, 1380), peak(1500, 1380)), (None, Some(1500)));
        let line = words(&["true"]);
        let job = Program::new(&line).unwrap().job(&line);
        let outcome = Outcome::timed(1, 1.0);
        let measured =
            |outcome: &Outcome| [Measured { job, series: vec![Ok(vec![outcome.clone()])] }];
        assert!(without_peak(&measured(&outcome))[0].contains("true: its peak"));
        assert!(without_peak(&measured(&outcome.with("peak_mb", 3.0))).is_empty());
    }

    #[test]
    fn a_closed_program_runs_on_its_own_malloc_only() {
        let mut program = Program::new(&words(&["true"])).unwrap();
        program.closed = Some("it is closed".into());
        let library = Some("/nowhere/lib.so".into());
        let peer = Peer { name: "peer".into(), library, version: String::new() };
        assert_eq!(program.run(&peer, LIMITS).unwrap_err(), "it is closed");
        assert!(program.run(&glibc(), LIMITS).is_ok());
    }
}
