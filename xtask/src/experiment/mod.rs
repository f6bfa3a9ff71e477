//! Questions that take many builds of Toft to answer, one command each.

mod arena;
mod look;
mod markdown;
mod musl;
mod parallel;
mod sites;

use crate::{bench, step};
use clap::Subcommand;
use std::process::ExitCode;

/// What is asked.
#[derive(Subcommand)]
pub enum Experiment {
    /// The arena against other allocators for memory that the program hands over
    Arena(arena::Arguments),
    /// What a process notices of `toft heap`, and how long that takes on a large heap
    Look(look::Arguments),
    /// Static Rust programs with musl, on its own malloc, Toft, mimalloc and jemalloc
    Musl(musl::Arguments),
    /// Arenas against threads, kinds of locks, thread caches
    Parallel(parallel::Arguments),
    /// How many call sites each rung of the ladder tells apart in real programs, and what it costs
    Sites(sites::Arguments),
    /// What each idea costs
    Cost {
        /// For example --quick, --runs N, --again
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What it is worth to send freed small chunks straight to their bins
    Smallbin {
        /// For example --quick, --runs N, --again
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Answers it.
pub fn run(experiment: &Experiment) -> Result<ExitCode, String> {
    match experiment {
        Experiment::Arena(arguments) => arena::run(arguments),
        Experiment::Look(arguments) => look::run(arguments),
        Experiment::Musl(arguments) => musl::run(arguments),
        Experiment::Parallel(arguments) => parallel::run(arguments),
        Experiment::Sites(arguments) => sites::run(arguments),
        Experiment::Cost { arguments } => step::passed_on(bench().arg("cost").args(arguments)),
        Experiment::Smallbin { arguments } => {
            step::passed_on(bench().arg("smallbin").args(arguments))
        }
    }
}
