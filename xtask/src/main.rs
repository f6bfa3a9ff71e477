//! What is done to this repository: `cargo xtask --help` lists it.
//!
//! | file | what |
//! |---|---|
//! | `suites.rs` | the test suites, in the order in which they run |
//! | `gates.rs` | format, lints, documentation: what `ci` adds |
//! | `real.rs` | real programs under load, beside the peers |
//! | `secure.rs` | building the secure libraries |
//! | `install.rs` | putting the command, the libraries and the header where a system has such
//! things |
//! | `linking.rs` | programs that CMake, Meson and pkg-config link to an installed library |
//! | `containers.rs` | linters for the examples of containers |
//! | `crates/` | the crates as a registry has them |
//! | `dist/` | packages that users install |
//! | `nightly.rs` | what takes too long for each change |
//! | `arena.rs` | the arena on other compilers and for other machines |
//! | `targets.rs` | systems that Toft does not run on: one clear error |
//! | `packages.rs` | the Debian packages that tests need |
//! | `place.rs` | where things are |
//! | `files.rs` | reading and writing files |
//! | `step.rs` | running one command: streamed, counted, limited in time |
//! | `tools.rs` | programs of crates.io that are built once |
//! | `figures.rs` | how old the README's figures are |
//! | `tally.rs` | reading `test result:` lines; the closing line |
//! | `licences.rs` | which licences dependencies may have |
//! | `golden/` | the machine code of the two fast paths, against what was recorded |
//! | `prose/` | the wording of comments and pages |
//! | `pages/` | documentation that is generated, and tests of the rest |

mod arena;
mod carried;
mod containers;
mod crates;
mod dist;
mod figures;
mod files;
mod gates;
mod golden;
mod install;
mod licences;
mod linking;
mod nightly;
mod packages;
mod pages;
mod place;
mod prose;
mod real;
mod secure;
mod step;
mod suites;
mod tally;
mod targets;
mod tools;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tally::Suite;

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
        /// Suites to run: workspace, whole, secure, secure-light, real, secure-core, loom, musl;
        /// all of these if none is named. `musl-all`, `musl-secure`, `secure-light-all`,
        /// `secure-light-core`, `experiments` and `cost` run more of it; `aarch64` needs
        /// Debian's cross compilers and qemu-user. `real` by name runs every program beside the
        /// peers for hours, and writes docs/real.md
        suites: Vec<String>,
        /// Run `real` as CI does: on libc and both builds of Toft, once, with little load
        #[arg(long)]
        quick: bool,
        /// Do not install Debian packages: tests that need missing ones are left out
        #[arg(long)]
        no_install: bool,
    },
    /// Run all tests, and check format, lints, documentation and licences
    Ci,
    /// Build the secure libraries: libtoft-secure and libtoft-secure-light, .so and .a
    Secure,
    /// Build all and install it: the command, both libraries, the header, pkg-config files, the
    /// manual page, completions
    Install(install::Place),
    /// Link programs in C and C++ to an installed library by CMake, Meson and pkg-config, shared
    /// and static, and run them
    Linking,
    /// Make what users install, in target/dist: archives, Debian packages, an RPM, a wheel, a
    /// package for npm, checksums
    Dist(dist::What),
    /// Make the wheel and the Debian packages of what the tests have built, and try them, as `ci`
    /// does
    Packages,
    /// Run what takes too long for each change: the other suites, the arena, the crates, the
    /// containers, all packages
    Nightly,
    /// Check the arena on other compilers and for other machines: wasm32, thumbv7em, thumbv6m, its
    /// oldest compiler, nightly's `Allocator`, the address sanitizer, Miri
    Arena,
    /// Check the examples of containers with linters, which pip installs into target/linters
    Containers,
    /// Check that the crates can be published, and that the command can be installed from them;
    /// takes some minutes
    Crates,
    /// Check the licences of all dependencies
    Licences,
    /// Check the wording of comments and pages: phrases, lengths of sentences, lines and table
    /// cells
    Prose {
        /// Files and folders; the whole repository if none is named
        paths: Vec<PathBuf>,
    },
    /// Compare the machine code of the fast paths with what was recorded
    Golden {
        /// Record it instead
        #[arg(long)]
        bless: bool,
    },
    /// Write the section of docs/real.md about labels: which share of a program's bytes has the
    /// name of one of its functions. Builds two programs in Rust and sqlite from crates
    Labels {
        /// Programs to run, without writing the page; all of them if none is named
        programs: Vec<String>,
    },
    /// Write the pages that are generated from the sources
    Docs,
    /// Build the book of the pages, target/book/index.html, by mdBook, which is built first if it
    /// is not there
    Book,
    /// Make the pictures of the README again, from a program that runs; needs cc, script and
    /// chromium
    Pictures,
    /// Build the allocators that Toft is compared with
    Peers,
    /// Write the figures of the README and of docs/speed.md, from a run that `toft bench --output`
    /// wrote; without a file, build the library and the peers and measure first, which takes half
    /// an hour
    Readme {
        /// The file that --output wrote
        run: Option<PathBuf>,
        /// Measure our own shapes, for an hour, in place of programs and published benchmarks
        #[arg(long, conflicts_with = "run")]
        shapes: bool,
    },
    /// Build the library and the peers, measure the cases that have a published program, and print
    /// the figures of that beside them
    Published {
        /// Passed on to toft-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the corpus of misuse on every allocator that is there: which stops which class. An hour
    /// at most; a run that is stopped goes on where it was
    Misuse {
        /// Build all libraries, and write the table into docs/misuse.md
        #[arg(long)]
        page: bool,
        /// Passed on to toft-bench: `-- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure what the bars ask for, and say which are met
    Bars {
        /// Passed on to toft-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test { suites, quick, no_install } => {
            test(suites, quick, !no_install).map(|suites| tally::close(&suites))
        }
        Task::Ci => ci().map(|suites| tally::close(&suites)),
        Task::Secure => secure::main(),
        Task::Install(to) => install::main(&to),
        Task::Linking => Ok(tally::close(&linking::run())),
        Task::Dist(what) => dist::main(&what),
        Task::Packages => Ok(tally::close(&dist::of_tests())),
        Task::Nightly => nightly::run().map(|suites| tally::close(&suites)),
        Task::Arena => {
            let mut tally = arena::run(true);
            tally.extend(targets::run());
            Ok(tally::close(&tally))
        }
        Task::Containers => containers::main(),
        Task::Crates => crates::main(),
        Task::Licences => licences::check().map(|count| {
            println!("{count} packages, all under licences that are allowed");
            ExitCode::SUCCESS
        }),
        Task::Prose { paths } => prose::main(&paths),
        Task::Golden { bless } => golden::main(bless),
        Task::Labels { programs } => real::labels(&programs),
        Task::Docs => pages::write().map(|()| ExitCode::SUCCESS),
        Task::Book => pages::book::main(),
        Task::Pictures => pages::pictures::main(),
        Task::Peers => step::passed_on(bench().arg("build-peers")),
        Task::Readme { run, shapes } => readme(run.as_deref(), shapes),
        Task::Published { arguments } => published(&arguments),
        Task::Misuse { page, arguments } => misuse(page, &arguments),
        Task::Bars { arguments } => step::passed_on(bench().arg("--bars").args(arguments)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

/// The allocators of the README: Toft, glibc, and the fast ones in the latest version that there
/// is.
const PEERS: &str = "toft,glibc,snmalloc,mimalloc3,tcmalloc,jemalloc53,rpmalloc";

fn readme(run: Option<&Path>, shapes: bool) -> Result<ExitCode, String> {
    let Some(run) = run else { return readme(Some(&measured(shapes)?), shapes) };
    // Cargo runs at the root, and the file is named from here.
    let run = std::path::absolute(run).map_err(|error| format!("{}: {error}", run.display()))?;
    let readme = place::root().join("README.md");
    step::passed_on(bench().arg("report").arg(run).arg("--readme").arg(readme))
}

/// Measures at full length what the README's figures are of, or our own shapes. Returns the file of
/// the run.
fn measured(shapes: bool) -> Result<PathBuf, String> {
    built()?;
    let run = place::root().join("target/readme-run.json");
    let workloads = if shapes { "own" } else { "headline" };
    let mut bench = bench();
    bench.args(["--workloads", workloads, "--peers", PEERS, "--output"]).arg(&run);
    step::succeed(&mut bench)?;
    Ok(run)
}

fn published(arguments: &[String]) -> Result<ExitCode, String> {
    built()?;
    step::passed_on(bench().arg("--published").args(arguments))
}

/// Builds the library and the peers of the README that come as crates, and installs those of
/// Debian.
fn built() -> Result<(), String> {
    packages::prepare(packages::TESTS, true)?;
    place::build(&["toft-preload"])?;
    let crates = PEERS.split(',').filter(|peer| !["toft", "glibc", "tcmalloc"].contains(peer));
    step::succeed(bench().arg("build-peers").args(crates))
}

fn misuse(page: bool, arguments: &[String]) -> Result<ExitCode, String> {
    let mut command = bench();
    command.arg("misuse").args(arguments);
    if page {
        // The table of the page is of what is in the tree, and of all builds.
        secure::build_all()?;
        place::build(&["toft-preload"])?;
        command.arg("--page").arg(place::root().join("docs/misuse.md"));
    }
    step::passed_on(&mut command)
}

fn bench() -> std::process::Command {
    let mut cargo = place::cargo();
    cargo.args(["run", "--quiet", "--release", "--package", "toft-bench", "--"]);
    cargo
}

fn test(mut suites: Vec<String>, quick: bool, install: bool) -> Result<Vec<Suite>, String> {
    let mut tally = Vec::new();
    let named = suites.len();
    if !quick {
        suites.retain(|suite| suite != "real");
    }
    if suites.len() < named {
        tally.extend(real::run(install)?);
    }
    if named == 0 || !suites.is_empty() {
        tally.extend(suites::run(&suites, install)?);
    }
    step::print_times();
    Ok(tally)
}

fn ci() -> Result<Vec<Suite>, String> {
    let mut tally = gates::run()?;
    tally.extend(arena::run(false));
    tally.extend(targets::run());
    tally.extend(suites::run(&[], true)?);
    tally.extend(step::timed("linking", linking::run));
    tally.extend(step::timed("packages", dist::of_tests));
    step::print_times();
    println!("==> {}", figures::line());
    Ok(tally)
}
