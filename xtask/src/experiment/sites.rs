//! `cargo xtask experiment sites`: how many call sites each rung of the ladder tells apart in real
//! programs, what share of their bytes is a person's to recognise, and what that costs; writes the
//! tables of the page.
//!
//! | file | what |
//! |---|---|
//! | `programs.rs` | the programs, and what is asked of each |
//! | `rungs.rs` | the rungs: options, and two builds |
//! | `take.rs` | what a program has allocated by call site, read when it is about to end |
//! | `names.rs` | functions of files, and which of them are wrappers |
//! | `tables.rs` | the tables |

mod names;
mod programs;
mod rungs;
mod tables;
mod take;

use super::markdown;
use names::Names;
use programs::Program;
use rungs::Rung;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tables::{Cost, Results, Told};
use toft_bench::child::{self, Limits};
use toft_bench::machine::Machine;

/// The page: prose by hand, and between marks what was measured.
const PAGE: &str = "docs/experiments/sites.md";

/// A run may take so long.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(120), pin: None };

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds of the measurement of time and memory; 0 leaves the table of it as it is
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// Print every call site that has a share of at least a hundredth, with its verdict
    #[arg(long)]
    sites: bool,
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let begin = Instant::now();
    let library = rungs::build()?;
    let (programs, missing) = programs::all()?;
    let mut results = Results { missing, ..Results::default() };
    // First, while this process is small: what a child uses at its peak is no less than what it was
    // forked from.
    cost(&programs, &library, arguments.runs, &mut results);
    let mut names = Names::default();
    for program in &programs {
        for rung in Rung::ALL {
            match told(program, rung, &library, &mut names, arguments.sites) {
                Ok(told) => {
                    eprintln!("{}, {}: {} sites", program.name, rung.name(), told.sites);
                    results.told.insert((program.name, rung), told);
                }
                Err(error) => eprintln!("left out: {}, {}: {error}", program.name, rung.name()),
            }
        }
    }
    let head = markdown::head(&Machine::here(), arguments.runs, false);
    let mut sections = tables::sections(&results);
    if arguments.runs == 0 {
        sections.retain(|section| section.0 != "cost");
    } else {
        sections.insert(0, ("machine", head));
    }
    markdown::fill(PAGE, &sections)?;
    println!("{PAGE} in {} s", begin.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

/// What a rung tells of a program.
fn told(
    program: &Program,
    rung: Rung,
    library: &Path,
    names: &mut Names,
    print: bool,
) -> Result<Told, String> {
    let mut command = program.command();
    rung.set(&mut command, library, program);
    let taken = take::at_end(command, |pid| program.drive(pid))?;
    let mut told = Told { own: taken.own, merged: taken.merged, ..Told::default() };
    let mut by_site: BTreeMap<u64, u64> = BTreeMap::new();
    for (site, bytes) in taken.bytes {
        *by_site.entry(site).or_default() += bytes;
    }
    let all: u64 = by_site.values().sum();
    for (site, bytes) in by_site.iter().filter(|entry| *entry.1 > 0) {
        let verdict = names.verdict(&taken.files, *site);
        let share = *bytes as f64 / all as f64;
        told.sites += 1;
        told.squares += share * share;
        told.largest = told.largest.max(share);
        told.wrappers += if verdict.is_wrapper { share } else { 0.0 };
        told.nameless += if verdict.has_name { 0.0 } else { share };
        if print && share >= 0.01 {
            let mark = if verdict.is_wrapper { "wrapper" } else { "" };
            println!(
                "{}, {}: {:5.1} % {} {mark}",
                program.name,
                rung.name(),
                100.0 * share,
                verdict.name
            );
        }
    }
    told.partitions = taken.partitions;
    Ok(told)
}

/// Time and peak memory, the rungs in turn.
fn cost(programs: &[Program], library: &Path, runs: usize, results: &mut Results) {
    for program in programs.iter().filter(|program| program.ends_by_itself()) {
        for _ in 0..runs {
            for rung in Rung::ALL {
                let mut command = program.command();
                rung.set(&mut command, library, program);
                match child::run(command, LIMITS) {
                    Ok(ended) => {
                        let cost: &mut Cost = results.cost.entry((program.name, rung)).or_default();
                        cost.seconds.push(ended.cpu_seconds);
                        cost.kib.push(ended.peak_kib as f64);
                    }
                    Err(error) => eprintln!("{}, {}: {error}", program.name, rung.name()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toft_bench::marks;

    #[test]
    fn the_page_has_every_section_and_no_other() {
        let text = std::fs::read_to_string(crate::place::root().join(PAGE)).unwrap();
        let mut names = vec!["machine"];
        names.extend(tables::sections(&Results::default()).iter().map(|section| section.0));
        for name in &names {
            assert_eq!(text.matches(&marks::begin(name)).count(), 1, "{name}");
        }
        assert_eq!(marks::count(&text), names.len());
    }
}
