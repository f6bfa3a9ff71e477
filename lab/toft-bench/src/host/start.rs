//! What an allocator costs programs that end soon: each is started again and again.
//!
//! Processor time and page faults are those of the children, which the kernel counts. They include
//! what the loader needs for the library. System calls are counted in a start that is not timed.

use super::programs::{interpreter, with_tool};
use super::{HostWorkload, Stage};
use crate::child::{self, Limits};
use crate::outcome::Outcome;
use crate::params::Params;
use crate::peers::Peer;
use crate::syscalls;
use std::process::{Command, Stdio};
use std::time::Instant;

pub const WORKLOAD: HostWorkload = HostWorkload {
    name: "start",
    file: include_str!("../../workloads/start.toml"),
    prepare: |params| {
        let short = Short::of(params)?;
        with_tool(short.tool, short.package, &["--version"])?;
        Stage::new()
    },
    run,
};

/// A program that ends soon.
struct Short {
    tool: &'static str,
    /// The package to install if it is not there.
    package: &'static str,
    arguments: &'static [&'static str],
}

/// The programs, in the order of the numbers `program`.
const PROGRAMS: [Short; 7] = [
    Short { tool: "true", package: "coreutils", arguments: &[] },
    Short { tool: "bash", package: "bash", arguments: &["-c", "true"] },
    Short { tool: "bash", package: "bash", arguments: &["-c", SUBSHELLS] },
    Short { tool: "git", package: "git", arguments: &["--version"] },
    Short { tool: "python3", package: "python3", arguments: &["-c", "pass"] },
    Short { tool: "perl", package: "perl", arguments: &["-e", "1"] },
    Short { tool: "gcc", package: "gcc", arguments: &GCC },
];

const SUBSHELLS: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do x=$(echo $i); done";

/// Compiles an empty file and keeps nothing.
const GCC: [&str; 7] = ["-O1", "-c", "-x", "c", "/dev/null", "-o", "/dev/null"];

impl Short {
    fn of(params: &Params) -> Result<&'static Self, String> {
        let number = params.size("program", 0);
        PROGRAMS.get(number).ok_or_else(|| format!("there is no program {number}"))
    }

    fn on(&self, peer: &Peer) -> Result<Command, String> {
        let mut command = match self.tool {
            "python3" => child::on_peer(peer, interpreter()?),
            tool => child::on_peer(peer, tool),
        };
        command.args(self.arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

fn run(peer: &Peer, params: &Params, _: &Stage, limits: Limits) -> Result<Outcome, String> {
    let short = Short::of(params)?;
    // First, since a library that cannot be loaded is seen here.
    child::run(short.on(peer)?, limits)?;
    let count = params.get("count", 12).max(1);
    let mut command = short.on(peer)?;
    let before = child::spent_by_children();
    let begin = Instant::now();
    for _ in 0..count {
        let status = command.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{} ended with {status}", short.tool));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let after = child::spent_by_children();
    let (cpu, faults) = (after.0 - before.0, (after.1 - before.1) as f64);
    let each = |sum: f64| sum / count as f64;
    Ok(Outcome::timed(count, seconds)
        .with("cpu_seconds", cpu)
        .with("minor_faults", faults)
        .with("cpu_us", each(cpu) * 1e6)
        .with("faults_per_start", each(faults))
        .with("syscalls_added", added(short, peer, limits)?))
}

/// The number of system calls that a start makes more than one on the system's malloc.
fn added(short: &Short, peer: &Peer, limits: Limits) -> Result<f64, String> {
    let calls = |peer: &Peer| {
        syscalls::of_all(short.on(peer)?, limits.timeout)
            .map(|calls| calls as f64)
            .map_err(|why| format!("its system calls are not counted: it {why}"))
    };
    Ok(calls(peer)? - calls(&Peer::without_library("glibc", ""))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::LIMITS;

    fn glibc() -> Peer {
        Peer::without_library("glibc", "")
    }

    /// What is not installed must say so.
    #[test]
    fn every_program_is_started_and_counted() {
        let cases = &WORKLOAD.listed().cases;
        assert_eq!(cases.len(), PROGRAMS.len());
        for (number, case) in cases.iter().enumerate() {
            assert_eq!(case.full.size("program", 99), number, "{}", case.name);
            let params = case.full.clone().with(&Params::of("count=2"));
            match (WORKLOAD.prepare)(&params) {
                Ok(stage) => {
                    let outcome = run(&glibc(), &params, &stage, LIMITS).unwrap();
                    assert_eq!(outcome.ops, 2);
                    assert!(outcome.metrics["faults_per_start"] > 10.0, "{outcome:?}");
                    assert!(case.metrics.iter().all(|one| outcome.metrics.contains_key(one.key)));
                }
                Err(error) => assert!(error.contains("is not there: apt-get install"), "{error}"),
            }
        }
        let Err(error) = Short::of(&Params::of("program=7")) else { panic!("an eighth") };
        assert_eq!(error, "there is no program 7");
    }

    #[test]
    fn a_library_that_adds_calls_is_seen_and_libc_itself_adds_none() {
        let short = &PROGRAMS[0];
        assert_eq!(added(short, &glibc(), LIMITS), Ok(0.0));
        // A library that `true` is not linked with.
        let peer = Peer { name: "other".into(), library: Some("libm.so.6".into()), ..glibc() };
        assert!(added(short, &peer, LIMITS).unwrap() >= 4.0);
    }

    #[test]
    fn a_program_that_fails_and_a_library_that_is_missing_are_errors() {
        let short = Short { tool: "false", package: "coreutils", arguments: &[] };
        let failed = child::run(short.on(&glibc()).unwrap(), LIMITS).unwrap_err();
        assert!(failed.contains("exit status: 1"), "{failed}");
        let peer = Peer { library: Some("/nowhere/libabsent.so".into()), ..glibc() };
        let stage = Stage::new().unwrap();
        let missing = run(&peer, &Params::of("program=0 count=1"), &stage, LIMITS).unwrap_err();
        assert!(missing.contains("cannot be preloaded"), "{missing}");
    }
}
