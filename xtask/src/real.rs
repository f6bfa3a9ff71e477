//! `cargo xtask test real`: real programs under load, on libc, on both builds of Toft and on its
//! peers. The tests' own runner does the work; here is which allocators, how often, and the page.
//! `cargo xtask labels`: the functions that profiles of programs name.

use crate::place;
use crate::tally::Suite;
use crate::{packages, step, suites};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use toft_bench::peers;

/// The page that a whole run writes.
const PAGE: &str = "docs/real.md";

/// Beside libc and both builds of Toft in a whole run, as far as they are installed.
const PEERS: &[&str] =
    &["jemalloc", "tcmalloc", "mimalloc2", "jemalloc53", "mimalloc3", "snmalloc"];

/// Runs on each allocator, and requests by which a whole run exceeds a quick one.
const ROUNDS: u32 = 3;
const TIMES: u32 = 2;

/// The test binary: a quick run on both builds, or a whole one beside the peers that writes the
/// page.
pub fn command(quick: bool, page: Option<PathBuf>) -> Result<Command, String> {
    crate::secure::build(crate::secure::Strength::Full)?;
    place::build(&["toft-preload"])?;
    let mut names = vec!["toft".to_owned(), "toft-secure".to_owned()];
    let mut cargo = suites::of_workspace("test");
    cargo.args(["--test", "real", "--no-fail-fast"]);
    if quick {
        // As `toft run --secure` has it: no false alarm when these programs end.
        names[1] += "@TOFT_VERIFY:exit";
        // Most of them wait for their programs. A whole run takes figures, one program at a time.
        cargo.args(["--", "--test-threads=4"]);
    } else {
        names.extend(installed(PEERS));
        cargo.env("TOFT_REAL_ROUNDS", ROUNDS.to_string());
        cargo.env("TOFT_REAL_TIMES", TIMES.to_string());
    }
    if let Some(page) = page {
        cargo.env("TOFT_REAL_PAGE", page);
    }
    cargo.env("TOFT_REAL_PEERS", names.join(","));
    Ok(cargo)
}

/// Those of the peers that this machine has; the others are named.
fn installed(names: &[&str]) -> Vec<String> {
    let mut there = Vec::new();
    for name in names {
        match peers::choose(&[(*name).to_owned()]) {
            Ok(_) => there.push((*name).to_owned()),
            Err(why) => println!("left out: {why}"),
        }
    }
    there
}

/// A whole run: installs the packages that CI does without, too, and writes the page.
pub fn run(install: bool) -> Result<Vec<Suite>, String> {
    packages::prepare(packages::TESTS, install)?;
    packages::prepare(packages::REAL, install)?;
    let mut command = command(false, Some(place::root().join(PAGE)))?;
    let mut tally = Vec::new();
    tally.extend(step::run("real", &mut command, Duration::from_secs(6 * 3600)));
    println!("{PAGE}");
    Ok(tally)
}

/// Runs the programs whose labels are counted, and writes that section of the page. If some are
/// named, they are run alone, and only shown.
pub fn labels(programs: &[String]) -> Result<ExitCode, String> {
    packages::prepare(packages::TESTS, true)?;
    let mut cargo = suites::of_workspace("test");
    cargo.args(["--quiet", "--test", "labels", "--"]);
    if programs.is_empty() {
        cargo.env("TOFT_REAL_PAGE", place::root().join(PAGE));
    }
    step::passed_on(cargo.args(programs))
}
