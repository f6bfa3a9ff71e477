//! `toft-bench`: compares allocators, interleaved, on the same work. `toft bench` starts it, with
//! the libraries that the command carries.

use clap::Parser;
use std::process::ExitCode;
use toft_bench::cli::{self, Bench};
use toft_bench::mount::{Mount, take_carried};

const EXAMPLES: &str = "\
Examples:
  toft bench --quick                                a quick overview in three minutes
  toft bench --workload larson --peers toft,glibc   one workload, two allocators
  toft bench --html page.html -- python3 app.py     a program on every available allocator, as an HTML page
  toft bench list; toft bench peers                 list the workloads and the allocators

Exit status: 0; 1 if a figure became worse, a bar is missed or a program failed; 2 if the benchmark cannot run.";

/// Compares memory allocators on the same work: interleaved rounds, medians with their spread,
/// ratios taken round by round, resident memory from the kernel.
#[derive(Parser)]
#[command(version, max_term_width = 100, args_conflicts_with_subcommands = true)]
#[command(after_help = EXAMPLES)]
struct Program {
    #[command(flatten)]
    bench: Bench,
}

fn main() -> ExitCode {
    let mut words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // A process that is measured goes straight to its work: parsing options allocates.
    let result = match &words[..] {
        [_, first, rest @ ..] if first == "work" => cli::work_of(rest),
        _ => {
            let program = words.remove(0);
            let carried = take_carried(&mut words);
            words.insert(0, program);
            cli::bench(&Program::parse_from(&words).bench, Mount::of(&carried))
        }
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("toft-bench: {error}");
            ExitCode::from(2)
        }
    }
}
