//! Experiments about the ideas that Toft unites. Each runs in a folder without history, and writes
//! the tables and plots of its page in `docs/experiments`.
//!
//! | folder | question |
//! |---|---|
//! | `parallel` | how many arenas, which locks, and do thread caches pay? |
//! | `small_bins` | does it pay to file freed small chunks directly? |
//! | `release` | which system call returns memory at the lowest price? |
//! | `cost` | what does each idea cost in time and memory? |

mod cost;
mod parallel;
mod release;
mod small_bins;

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
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
    Parallel(Arguments),
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
    /// Fewer cases, rounds and operations, in at most 3 minutes; prints and leaves the page as it is
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // A process that is measured goes straight to its work: parsing options allocates.
    if let Some((_, rest)) = words.split_first().filter(|(first, _)| *first == "work") {
        return toft_bench::cli::work_of(rest).map_or_else(failed, ExitCode::from);
    }
    let done = match Cli::parse().experiment {
        Experiment::Parallel(arguments) => parallel::run(&arguments),
        Experiment::SmallBins(arguments) => small_bins::run(&arguments),
        Experiment::Release(arguments) => release::run(&arguments),
        Experiment::Cost(arguments) => cost::run(&arguments),
    };
    done.unwrap_or_else(failed)
}

fn failed(why: String) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}
