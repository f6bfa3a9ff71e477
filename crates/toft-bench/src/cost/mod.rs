//! The experiment "what each idea costs": builds Toft once for each idea, without it, compares all
//! with Toft as it is, and writes the figures of `docs/experiments/cost.md`.
//!
//! | file | what |
//! |---|---|
//! | `variants.rs` | what is compared, from `experiments/cost.toml`, and how it is built |
//! | `figures.rs` | ratios to Toft as it is, as tables |
//! | `page.rs` | the page's tables and plots |

mod figures;
mod page;
mod variants;

pub(crate) use figures::Ratio;
pub use variants::{Experiment, Group, Variant, experiment};

use crate::report::Report;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How often instructions are counted: each process draws again which call sites share a
/// partition, and now and then that decides how full slabs are.
const COUNTS: usize = 3;

/// What is run and where it is written.
#[derive(Args, Debug)]
pub struct Options {
    /// Rounds; with --quick 3, else 9, when not given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Fewer operations, for a quick look, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Measure nothing: write the page of the last run again
    #[arg(long)]
    again: bool,
    /// The folder with the page cost.md, whose figures are replaced, and the plots
    #[arg(long, value_name = "FOLDER", default_value_os_t = root().join("docs/experiments"))]
    into: PathBuf,
}

/// The root of the repository: the libraries are built from its sources.
pub(crate) fn root() -> &'static Path {
    let crates = Path::new(crate::FOLDER).parent();
    crates.and_then(Path::parent).unwrap_or(Path::new("/"))
}

/// Where the libraries and the samples are kept.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("experiments/cost")
}

/// Builds, measures, and writes the page.
///
/// # Errors
/// What kept it from being done.
pub fn run(options: &Options) -> Result<(), String> {
    let folder = folder();
    let timed = folder.join("timed.json");
    let counted = (0..COUNTS).map(|n| folder.join(format!("counted-{n}.json")));
    let counted: Vec<PathBuf> = counted.collect();
    // A mark that the page does not have should be told before an hour of measuring.
    page::Page::read(&options.into)?;
    if !options.again {
        let peers = build(&folder)?;
        let runs = options.runs.unwrap_or(if options.quick { 3 } else { 9 }).to_string();
        let experiment = experiment();
        crate::outln!(
            "times {} cases on {} peers, {runs} rounds",
            experiment.cases.len(),
            peers.len()
        );
        bench(&peers, &experiment.cases, &timed, options.quick, &["--runs", &runs])?;
        crate::outln!("counts the instructions of {} cases", experiment.counted.len());
        for json in &counted {
            let count = ["--runs", "1", "--callgrind"];
            bench(&peers, &experiment.counted, json, options.quick, &count)?;
        }
    }
    let timed = Report::read(&timed)?;
    let counted: Vec<Report> =
        counted.iter().map(|path| Report::read(path)).collect::<Result<_, _>>()?;
    // Read again, because the page may have been edited meanwhile.
    let page = page::Page::read(&options.into)?;
    for table in page.write(experiment(), &timed, &counted)? {
        crate::outln!("\n{table}");
    }
    crate::outln!("\nwritten into {}", options.into.display());
    Ok(())
}

/// Builds every library; gives the peers, Toft as it is first, as the bench wants them named.
fn build(folder: &Path) -> Result<Vec<String>, String> {
    let mut peers = Vec::new();
    for variant in [&Variant::default_build()].into_iter().chain(&experiment().variants) {
        eprintln!("builds {}", variant.peer());
        let library = variant.build(folder)?;
        peers.push(format!("{}={}", variant.peer(), library.display()));
    }
    Ok(peers)
}

/// Runs this program on cases and peers; what it finds is in `json`.
fn bench(
    peers: &[String],
    cases: &[String],
    json: &Path,
    quick: bool,
    more: &[&str],
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--workloads", &cases.join(","), "--peers", &peers.join(",")]);
    command.arg("--output").arg(json).args(more).args(quick.then_some("--quick"));
    // Its table has a column for each of many peers; the page has better ones.
    let status = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the bench ended with {status}")) }
}
