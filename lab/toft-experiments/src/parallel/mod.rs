//! How many arenas, which locks, and whether thread caches pay.
//!
//! | file | what |
//! |---|---|
//! | `subjects.rs` | the allocators that are compared, and their libraries |
//! | `plan.rs` | what is run: driver, threads, arenas, allocator |
//! | `measure.rs` | runs it, in rounds, and checks what each run says |
//! | `article.rs`, `tables.rs`, `bars.rs`, `plots.rs` | what is made of it |

mod article;
mod bars;
mod measure;
mod plan;
mod plots;
mod subjects;
mod tables;

use crate::Arguments;
use crate::page::{Findings, Page, Section, timed};
use measure::Results;
use std::process::ExitCode;
use subjects::Subjects;
use toft_bench::machine::Machine;

pub const PAGE: Page = Page {
    name: "parallel",
    marks: &["place", "article", "plots", "speedup", "caches", "finer", "bars"],
};

/// How much is measured, and beside which other allocators.
#[derive(clap::Args, Clone, Debug)]
pub struct Asked {
    #[command(flatten)]
    pub arguments: Arguments,
    /// Other allocators, as `toft-bench` names them; prints and leaves the page as it is
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
}

pub fn run(asked: &Asked) -> Result<ExitCode, String> {
    let Asked { arguments, peers } = asked;
    let (quick, runs) = (arguments.quick, arguments.rounds(3, 3));
    // The page is of the subjects that are always compared.
    PAGE.run(!quick && peers.is_empty(), || {
        let subjects = Subjects::make(peers, quick)?;
        let groups = plan::groups(quick, subjects.peers.len());
        let results = timed(|| measure::all(&groups, &subjects, runs, quick))?;
        Ok(findings(&results, &subjects, runs, quick))
    })
}

fn findings(results: &Results, subjects: &Subjects, runs: usize, quick: bool) -> Findings {
    let (bars, met) = bars::section(results, subjects, Machine::here().cpus);
    let mut sections = vec![Section::place(runs, quick), article::section(results, subjects)];
    sections.extend(tables::sections(results, subjects));
    sections.push(bars);
    // A quick run judges nothing.
    Findings { sections, plots: plots::all(results, subjects), good: met || quick }
}

/// The number of runs of a quick round.
#[cfg(test)]
pub fn quick_runs() -> usize {
    plan::groups(true, 0).concat().len()
}

/// Findings with a figure in each cell.
#[cfg(test)]
pub fn made() -> Findings {
    findings(&measure::tests::made(|_| 10.0), &Subjects::default(), 3, false)
}
