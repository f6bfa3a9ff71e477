//! The test suites, in the order in which they run.

use crate::tally::{Suite, Tally};
use crate::{packages, place, step};
use std::process::Command;
use std::time::{Duration, Instant};

/// A suite: its name on the command line, how long it may take, and its command. The minutes are for a machine
/// with a lot else to do; what all steps together may take is in `step.rs`.
struct Plan {
    name: &'static str,
    minutes: u64,
    command: fn() -> Result<Command, String>,
}

const PLANS: &[Plan] = &[
    Plan { name: "workspace", minutes: 60, command: workspace },
    Plan { name: "whole", minutes: 60, command: whole },
    Plan { name: "hardened", minutes: 45, command: hardened },
    Plan { name: "real", minutes: 60, command: real },
    Plan { name: "hardened-core", minutes: 45, command: hardened_core },
    Plan { name: "loom", minutes: 45, command: loom },
];

/// Tests of the core that hold on the hardened build.
const HARDENED_CORE: &[&str] = &[
    "hardened",
    "reserved",
    "walls",
    "wishes",
    "model",
    "fuzz_smoke",
    "failures",
    "laws",
    "limit",
    "group",
    "cold",
    "idle",
    "slots",
    "pool",
    "zones",
    "sweep",
];

/// Unit, property and documentation tests of every crate.
fn workspace() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--workspace", "--exclude", "toft-tests", "--no-fail-fast"]);
    cargo.args(["--features", "toft/fake-os,toft-arena/all"]);
    Ok(cargo)
}

/// C and C++ on the built library.
fn whole() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-tests", "--no-fail-fast"]);
    Ok(cargo)
}

/// The programs in C and C++ on the hardened library.
fn hardened() -> Result<Command, String> {
    let library = crate::secure::build()?;
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-tests", "--no-fail-fast"]);
    for test in ["abi", "misuse", "storms"] {
        cargo.args(["--test", test]);
    }
    cargo.env("TOFT_TEST_LIBRARY", library);
    Ok(cargo)
}

/// Real programs on libc and on both builds, a quick run.
fn real() -> Result<Command, String> {
    crate::real::command(true, None)
}

/// The core's unit and property tests, with the hardened build's policy.
fn hardened_core() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft", "--no-fail-fast", "--features", "fake-os,hardened"]);
    // The others are about what is not there, shared pages, or about slabs without walls.
    cargo.arg("--lib");
    for test in HARDENED_CORE {
        cargo.args(["--test", test]);
    }
    Ok(cargo)
}

/// The models of what threads do to each other. Everything is compiled otherwise, so apart.
fn loom() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft", "--features", "loom", "--release"]);
    cargo.args(["--test", "loom", "--test", "loom_hold"]);
    cargo
        .env("RUSTFLAGS", "--cfg loom -Dwarnings")
        .env("CARGO_TARGET_DIR", place::target_dir().join("loom"));
    Ok(cargo)
}

/// Runs the suites of these names, or all.
pub fn run(names: &[String], install: bool) -> Result<Tally, String> {
    let known = |name: &String| PLANS.iter().any(|plan| plan.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = PLANS.iter().map(|plan| plan.name).collect();
        return Err(format!("no suite is called {unknown}; there are {}", all.join(", ")));
    }
    let chosen = |plan: &&Plan| names.is_empty() || names.iter().any(|name| name == plan.name);
    let complete = packages::prepare(packages::TESTS, install)?;
    let mut tally = Tally::default();
    let mut times = Vec::new();
    for plan in PLANS.iter().filter(chosen) {
        let began = Instant::now();
        let mut command = match (plan.command)() {
            Ok(command) => command,
            Err(why) => {
                tally.push(Suite::broken(plan.name, why));
                continue;
            }
        };
        if matches!(plan.name, "whole" | "hardened" | "real") && complete {
            // A test that finds something missing has failed. Only these tests clear their
            // environment, and the library complains about a name that it does not know.
            command.env("TOFT_TEST_REQUIRE", "1");
        }
        let suites = step::run(plan.name, &mut command, Duration::from_secs(60 * plan.minutes));
        for suite in named(plan.name, suites) {
            tally.push(suite);
        }
        times.push((plan.name, began.elapsed()));
    }
    println!("\n==> wall time: {}", slowest_first(times));
    Ok(tally)
}

/// Names and seconds of suites.
fn slowest_first(mut times: Vec<(&str, Duration)>) -> String {
    times.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
    let each = times.iter().map(|(name, time)| format!("{name} {} s", time.as_secs()));
    each.collect::<Vec<_>>().join(", ")
}

/// A suite without a single test has not been found.
fn named(name: &str, mut suites: Vec<Suite>) -> Vec<Suite> {
    let tests = |suite: &Suite| suite.passed + suite.failed + suite.ignored;
    if suites.iter().map(tests).sum::<usize>() == 0 {
        suites.push(Suite::broken(name, "no test has run".into()));
    }
    suites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_without_tests_is_a_failure() {
        assert_eq!(named("t", Vec::new())[0].failed, 1);
        let one = Suite { passed: 1, ..Suite::default() };
        assert_eq!(named("t", vec![one.clone()]), [one]);
    }

    #[test]
    fn the_slowest_suite_comes_first() {
        let times =
            [("a", 3), ("b", 700), ("c", 20)].map(|(name, s)| (name, Duration::from_secs(s)));
        assert_eq!(slowest_first(times.into()), "b 700 s, c 20 s, a 3 s");
    }

    #[test]
    fn names_that_do_not_exist_are_told() {
        let told = run(&["loom".into(), "lomo".into()], false);
        assert!(told.unwrap_err().contains("lomo"));
    }
}
