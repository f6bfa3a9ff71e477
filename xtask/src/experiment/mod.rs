//! Questions that take many builds of Toft to answer, one command each.

mod parallel;

use clap::Subcommand;
use std::process::ExitCode;

/// What is asked.
#[derive(Subcommand)]
pub enum Experiment {
    /// Arenas against threads, kinds of locks, thread caches
    Parallel(parallel::Arguments),
}

/// Answers it.
pub fn run(experiment: &Experiment) -> Result<ExitCode, String> {
    match experiment {
        Experiment::Parallel(arguments) => parallel::run(arguments),
    }
}
