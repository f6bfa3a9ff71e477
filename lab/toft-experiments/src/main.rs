//! Experiments about the ideas that Toft unites. Each runs in a folder without history, and writes
//! the tables and plots of its page in `docs/experiments`.
//!
//! | folder | question |
//! |---|---|
//! | `parallel` | how many arenas, which locks, and do thread caches pay? |
//! | `small_bins` | does it pay to file freed small chunks directly? |
//! | `release` | which system call returns memory at the lowest price? |
//! | `cost` | what does each idea cost in time and memory? |
//!
//! They share `libraries.rs` (what they build and load), `table.rs`, `plot.rs` and `page.rs`.

mod cost;
mod libraries;
mod page;
mod parallel;
mod plot;
mod release;
mod small_bins;
mod table;
#[cfg(test)]
mod tests;

use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;

/// Repeat an experiment, and write the tables and plots of its page
#[derive(Debug, Parser)]
#[command(name = "cargo experiment")]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Arenas against threads, kinds of locks, thread caches
    Parallel(parallel::Asked),
    /// What it is worth to send freed small chunks straight to their bins
    SmallBins(Arguments),
    /// Returning memory to the OS: madvise, process_madvise, io_uring
    Release(Arguments),
    /// What each idea of the allocator costs in time and memory
    Cost(Arguments),
}

/// How much is measured.
#[derive(Args, Clone, Debug)]
struct Arguments {
    /// Measure less, in at most 3 minutes: prints, and leaves the page as it is
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = rounds)]
    runs: Option<usize>,
}

impl Arguments {
    /// Returns the number of rounds: that of the command line, or these of a full and a quick run.
    fn rounds(&self, full: usize, quick: usize) -> usize {
        self.runs.unwrap_or(if self.quick { quick } else { full })
    }
}

/// Reads a number of rounds, which is at least one.
fn rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("not a number from 1 on".into()),
        Ok(rounds) => Ok(rounds),
    }
}

fn main() -> ExitCode {
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    // An experiment starts this program again for each run of a workload. Such a process goes
    // straight to its work, because parsing options allocates.
    if let Some((first, rest)) = words.split_first()
        && first == "work"
    {
        return status(toft_bench::cli::work_of(rest).map(ExitCode::from));
    }
    status(match Cli::parse().experiment {
        Experiment::Parallel(arguments) => parallel::run(&arguments),
        Experiment::SmallBins(arguments) => small_bins::run(&arguments),
        Experiment::Release(arguments) => release::run(&arguments),
        Experiment::Cost(arguments) => cost::run(&arguments),
    })
}

fn status(done: Result<ExitCode, String>) -> ExitCode {
    done.unwrap_or_else(|why| {
        eprintln!("error: {why}");
        ExitCode::FAILURE
    })
}
