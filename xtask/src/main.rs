//! What is done to this repository: `cargo xtask --help` lists it.
//!
//! | file | what |
//! |---|---|
//! | `suites.rs` | the test suites, in the order in which they run |
//! | `gates.rs` | format, lints, documentation: what `ci` adds |
//! | `secure.rs` | building the hardened library |
//! | `install.rs` | putting the command, the libraries and the header where a system has such things |
//! | `arena.rs` | the arena on other compilers and for other machines |
//! | `packages.rs` | the Debian packages that tests need |
//! | `place.rs` | where things are |
//! | `step.rs` | running one command: streamed, counted, limited in time |
//! | `tally.rs` | reading `test result:` lines; the closing line |
//! | `licences.rs` | which licences dependencies may have |
//! | `experiment/` | what takes many builds of Toft to answer |
//! | `golden/` | the machine code of the two fast paths, against what was recorded |
//! | `pages/` | documentation that is generated, and tests of the rest |

mod arena;
mod experiment;
mod gates;
mod golden;
mod install;
mod licences;
mod packages;
mod pages;
mod place;
mod secure;
mod step;
mod suites;
mod tally;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tally::Tally;

/// What is done to this repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all tests; ends with a line `N passed, N failed`
    Test {
        /// Suites to run: workspace, whole, hardened, hardened-core, loom; all when none is named
        suites: Vec<String>,
        /// Do not install Debian packages: tests that need missing ones are left out
        #[arg(long)]
        no_install: bool,
    },
    /// Run all tests, and check format, lints, documentation and licences
    Ci,
    /// Build the hardened library: libtoft-secure.so and libtoft-secure.a
    Secure,
    /// Build all and install it: the command, both libraries, the header, pkg-config files, the manual page, completions
    Install(install::Place),
    /// Check the arena on other compilers and for other machines: wasm32, thumbv7em, its oldest compiler, nightly's
    /// `Allocator`, the address sanitizer, Miri
    Arena,
    /// Check the licences of all dependencies
    Licences,
    /// Compare the machine code of the fast paths with what was recorded
    Golden {
        /// Record it instead
        #[arg(long)]
        bless: bool,
    },
    /// Write the pages that are generated from the sources
    Docs,
    /// Build the allocators that Toft is compared with
    Peers,
    /// Write the figures and the plots of the README, from a run that `toft bench --json` wrote
    Readme {
        /// The file that --json wrote
        run: PathBuf,
    },
    /// Run the corpus of misuse on every allocator that is there: which stops which class. An hour at most; a run that is
    /// stopped goes on where it was
    Misuse {
        /// Build both libraries, and write the table into the README
        #[arg(long)]
        readme: bool,
        /// Passed on to toft-bench: `-- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build Toft in several ways, compare them, and write the figures into docs/experiments
    #[command(subcommand)]
    Experiment(experiment::Experiment),
    /// Measure what the bars ask for, and say which are met
    Bars {
        /// Passed on to toft-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test { suites, no_install } => {
            suites::run(&suites, !no_install).map(|tally| close(&tally))
        }
        Task::Ci => ci().map(|tally| close(&tally)),
        Task::Secure => secure::main(),
        Task::Install(to) => install::main(&to),
        Task::Arena => Ok(close(&arena::run(true))),
        Task::Licences => licences::check().map(|count| {
            println!("{count} packages, all under licences that are allowed");
            ExitCode::SUCCESS
        }),
        Task::Golden { bless } => golden::main(bless),
        Task::Docs => pages::write().map(|()| ExitCode::SUCCESS),
        Task::Peers => step::passed_on(bench().arg("build-peers")),
        Task::Readme { run } => readme(&run),
        Task::Misuse { readme, arguments } => misuse(readme, &arguments),
        Task::Experiment(experiment) => experiment::run(&experiment),
        Task::Bars { arguments } => step::passed_on(bench().arg("--bars").args(arguments)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

fn readme(run: &Path) -> Result<ExitCode, String> {
    // Cargo runs at the root, and the file is named from here.
    let run = std::path::absolute(run).map_err(|error| format!("{}: {error}", run.display()))?;
    let readme = place::root().join("README.md");
    step::passed_on(bench().arg("report").arg(run).arg("--readme").arg(readme))
}

fn misuse(readme: bool, arguments: &[String]) -> Result<ExitCode, String> {
    let mut command = bench();
    command.arg("misuse").args(arguments);
    if readme {
        // The table of a README is of what lies in the tree, and of both builds.
        command.arg("--hardened").arg(secure::build()?);
        let mut library = place::cargo();
        library.args(["build", "--release", "--package", "toft-preload"]);
        if !library.status().is_ok_and(|status| status.success()) {
            return Err("the library does not build".into());
        }
        command.arg("--readme").arg(place::root().join("README.md"));
    }
    step::passed_on(&mut command)
}

fn bench() -> std::process::Command {
    let mut cargo = place::cargo();
    cargo.args(["run", "--quiet", "--release", "--package", "toft-bench", "--"]);
    cargo
}

fn ci() -> Result<Tally, String> {
    let mut tally = gates::run();
    tally.add(arena::run(false));
    tally.add(suites::run(&[], true)?);
    Ok(tally)
}

/// Prints what failed and, last and alone on its line, how many.
fn close(tally: &Tally) -> ExitCode {
    print!("{}", tally.summary());
    println!("{}", tally.closing_line());
    if tally.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
