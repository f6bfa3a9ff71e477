//! Questions that take many builds of Toft to answer, one command each.

mod arena;
mod past;

use clap::Subcommand;
use std::process::ExitCode;

/// What is asked.
#[derive(Subcommand)]
pub enum Experiment {
    /// The arena against other allocators for memory that the program hands over
    Arena(arena::Arguments),
    #[command(flatten)]
    Past(past::Past),
}

/// Answers it.
pub fn run(experiment: &Experiment) -> Result<ExitCode, String> {
    match experiment {
        Experiment::Arena(arguments) => arena::run(arguments),
        Experiment::Past(past) => past::run(past),
    }
}
