//! Questions that take many builds of Toft to answer, one command each.

mod arena;
mod look;
mod markdown;
mod musl;
mod past;
mod sites;

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
    /// How many call sites each rung of the ladder tells apart in real programs, and what it costs
    Sites(sites::Arguments),
    // Their help is in their table.
    #[command(flatten)]
    Past(past::Asked),
}

/// Answers it.
pub fn run(experiment: &Experiment) -> Result<ExitCode, String> {
    match experiment {
        Experiment::Arena(arguments) => arena::run(arguments),
        Experiment::Look(arguments) => look::run(arguments),
        Experiment::Musl(arguments) => musl::run(arguments),
        Experiment::Sites(arguments) => sites::run(arguments),
        Experiment::Past(asked) => past::run(asked),
    }
}
