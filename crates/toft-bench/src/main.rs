//! `toft-bench`: compares allocators, interleaved, on the same work.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // A process that is measured goes straight to its work: parsing options allocates.
    let result = match words.split_first() {
        Some((first, rest)) if first == "work" => cli::work(rest),
        _ => cli::main(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("toft-bench: {error}");
        ExitCode::from(2)
    })
}
