//! `cargo xtask experiment parallel`: builds the variants of the core's experiment about
//! parallelism, measures them beside the product and glibc, and writes tables and plots.
//!
//! | file | what |
//! |---|---|
//! | `builds.rs` | the builds that are compared |
//! | `plan.rs` | what is run: driver, threads, arenas, build |
//! | `measure.rs` | running it, in rounds |
//! | `programs.rs` | real programs on the builds, and the sizes that they ask for |
//! | `tables.rs` | the tables |
//! | `bars.rs` | what requirement E4 asks for, and what was measured |
//! | `plots.rs` | the plots |
//! | `page.rs` | which page, and what it must have |

mod bars;
mod builds;
mod measure;
mod page;
mod plan;
mod plots;
mod programs;
mod tables;

use super::markdown;
use std::process::ExitCode;
use std::time::Instant;
use toft_bench::machine::Machine;

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Fewer arenas, rounds and operations: two minutes, and no claims
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let begin = Instant::now();
    let quick = arguments.quick;
    let runs = arguments.runs.unwrap_or(if quick { 3 } else { 5 }).max(1);
    let libraries = builds::make()?;
    let results = measure::all(&plan::groups(quick), &libraries, runs, quick)?;
    let programs = programs::run(&libraries, if quick { 1 } else { runs })?;
    let sizes = programs::sizes()?;
    let machine = Machine::here();
    let head = markdown::head(&machine, runs, quick);
    let sections = [
        vec![("machine", head)],
        bars::section(&results, machine.cpus),
        tables::sections(&results),
        vec![("programs", programs), ("sizes", sizes)],
    ]
    .concat();
    plots::write(&results)?;
    markdown::fill(page::PAGE, &sections)?;
    println!("{} in {} s", page::PAGE, begin.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}
