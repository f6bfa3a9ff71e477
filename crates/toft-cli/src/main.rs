//! `toft`: run any program on the allocator, and see what it would do. This file reads the command
//! line, no more.
//!
//! One file per verb: `run` (with `vet`, `library`, `launch`, `report`, `stats`, `leaks` and
//! `symbols`), `rss` (with `resident`), `purge`, `profile/` (`heap`, `report`, `diff` and `top`),
//! `hints`, `metrics/`, `options`, `doctor`, `bench`, `explain`, `man`.

mod bench;
mod command_line;
mod debug_files;
mod doctor;
mod explain;
mod filtered;
mod hints;
mod launch;
mod leaks;
mod library;
mod man;
mod metrics;
mod options;
mod profile;
mod purge;
mod record;
mod report;
mod resident;
mod rss;
mod run;
mod runtime;
mod stats;
mod style;
mod symbols;
mod sys;
mod trace;
mod verb;
mod vet;
mod watch;

use std::env;
use std::process::exit;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use verb::{End, REFUSED, USAGE, message, print};

const HELP: &str = "\
Examples:
  toft run -- python3 app.py         run a program on Toft, unchanged
  toft run --stats -- make           print a summary of its memory at exit, with the top call sites
  toft heap 1234                     show the live memory of a running process, by call site
  toft top 1234                      the same, updated every second
  toft rss 1234                      explain its resident memory
  toft run --leaks -- ./tests        report leaks by call site
  toft bench --quick                 compare Toft with other allocators
  toft doctor                        show what this machine supports

`toft VERB --help` has examples of each verb, and its exit status.";

/// Toft, a memory allocator that groups blocks by call site.
///
/// `toft run -- PROGRAM ARGS` runs any program on it, unchanged.
#[derive(Parser, Debug)]
#[command(name = "toft", version, long_version = VERSION, max_term_width = 100, after_help = HELP)]
struct Toft {
    #[command(subcommand)]
    verb: Verb,
}

const COMPLETIONS: &str = "\
Examples:
  toft completions bash > ~/.local/share/bash-completion/completions/toft
  toft completions zsh > ~/.zfunc/_toft
  toft completions fish > ~/.config/fish/completions/toft.fish

Exit status: 0.";

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nlibrary ",
    env!("CARGO_PKG_VERSION"),
    " (content ",
    include_str!(concat!(env!("OUT_DIR"), "/libtoft.hash")),
    ", carried inside)"
);

#[derive(Subcommand, Debug)]
enum Verb {
    Run(run::Run),
    Rss(rss::Explain),
    Heap(profile::Heap),
    Top(profile::Top),
    Report(profile::View),
    Diff(profile::Difference),
    Metrics(metrics::Metrics),
    Hints(hints::Make),
    Purge(purge::Purge),
    Explain(explain::Explain),
    Options(options::Options),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    Record(record::Record),
    Trace(trace::Show),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    Man(man::Pages),
}

fn main() {
    if let Some(arguments) = bench::arguments() {
        exit(status(bench::bench(&arguments)));
    }
    match Toft::try_parse() {
        Ok(toft) => exit(status(execute(toft.verb))),
        // The help and the version are no errors; without a verb the help is the message.
        Err(help)
            if !help.use_stderr()
                || help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            // Nothing can be done about a closed terminal.
            let _ = help.print();
            exit(help.exit_code())
        }
        Err(error) => {
            let word = env::args().nth(1).unwrap_or_default();
            let verb = Toft::command().find_subcommand(&word).map(|_| word.as_str());
            message(&command_line::one_line(&error, verb));
            // A program that `toft run` runs may itself end with 2.
            exit(if matches!(verb, Some("run" | "record")) { REFUSED } else { USAGE })
        }
    }
}

/// Prints the message of a failure.
fn status(end: End) -> i32 {
    end.unwrap_or_else(|failure| {
        message(&failure.message);
        failure.status
    })
}

fn execute(verb: Verb) -> End {
    match verb {
        Verb::Run(args) => run::run(&args),
        Verb::Rss(args) => rss::rss(&args),
        Verb::Heap(args) => profile::heap(&args),
        Verb::Top(args) => profile::top(&args),
        Verb::Report(args) => profile::report(&args),
        Verb::Diff(args) => profile::diff(&args),
        Verb::Metrics(args) => metrics::metrics(&args),
        Verb::Hints(args) => hints::hints(&args),
        Verb::Purge(args) => purge::purge(&args),
        Verb::Explain(args) => explain::explain(&args),
        Verb::Options(args) => options::options(&args),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Bench(args) => bench::bench(&args.arguments),
        Verb::Record(args) => record::record(&args),
        Verb::Trace(args) => trace::show(&args),
        Verb::Completions { shell } => completions(shell),
        Verb::Man(args) => man::man(&args, Toft::command()),
    }
}

fn completions(shell: clap_complete::Shell) -> End {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Toft::command(), "toft", &mut text);
    print(text)?;
    Ok(0)
}
