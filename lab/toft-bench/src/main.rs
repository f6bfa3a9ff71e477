//! `toft-bench`: compares allocators, interleaved, on the same work.

use clap::Parser;
use std::process::ExitCode;
use toft_bench::cli::{self, Bench};
use toft_bench::mount::Mount;

/// Compares memory allocators on the same work: interleaved rounds, medians with their spread,
/// ratios taken round by round, resident memory from the kernel.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(flatten)]
    bench: Bench,
}

fn main() -> ExitCode {
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    // A process that is measured goes straight to its work: parsing options allocates.
    let result = match words.split_first() {
        Some((first, rest)) if first == "work" => cli::work_of(rest),
        _ => cli::bench(&Program::parse().bench, Mount::default()),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("toft-bench: {error}");
            ExitCode::from(2)
        }
    }
}
