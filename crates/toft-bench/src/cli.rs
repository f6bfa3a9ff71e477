//! The command line.

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use toft_bench::machine::Machine;
use toft_bench::measured::Measured;
use toft_bench::outcome::{megabytes, status_kib};
use toft_bench::params::Params;
use toft_bench::peers::{self, Peer};
use toft_bench::runner::{self, Plan};
use toft_bench::{bars, child, peer_build, table, workloads};

/// Compares memory allocators on the same work: interleaved rounds, medians with their spread,
/// ratios taken round by round, resident memory from the kernel.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Sub {
    /// List the workloads and their cases
    List,
    /// List the peers, and how to get those that are not there
    Peers,
    /// Build the peers that come as crates into a cache outside of this workspace
    BuildPeers {
        /// Which; all when none is named
        names: Vec<String>,
        /// Build also what is in the cache
        #[arg(long)]
        again: bool,
    },
    /// Run one workload in this process: work NAME [number=N ...]
    Work {
        /// The workload and its numbers
        words: Vec<String>,
    },
}

#[derive(Args)]
struct Run {
    /// Workloads or cases to run, by name; all when not given
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Peers to run them on: names, or name=/path/of/a/library.so
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Smaller numbers: a look, not a claim
    #[arg(long)]
    quick: bool,
    /// Keep single-threaded workloads on one processor
    #[arg(long)]
    pin: bool,
    /// Replace a number of every case, for example --set ops=1m
    #[arg(long = "set", value_name = "NAME=N")]
    numbers: Vec<String>,
    /// Seconds after which a run is killed
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Write every sample to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure what the bars ask for and say which are met; exit status 1 when one is missed
    #[arg(long)]
    bars: bool,
}

/// Runs what the command line says.
pub fn main() -> Result<ExitCode, String> {
    let cli = Cli::parse();
    match cli.command {
        None => compare(&cli.run),
        Some(Sub::List) => list(),
        Some(Sub::Peers) => list_peers(),
        Some(Sub::BuildPeers { names, again }) => {
            peer_build::build(&names, again)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Sub::Work { words }) => work(&words),
    }
}

/// `work NAME [number=N ...]`: runs one workload and prints its outcome as a line of JSON.
pub fn work(words: &[String]) -> Result<ExitCode, String> {
    let (name, numbers) = words.split_first().ok_or("work: which workload?")?;
    let workload = workloads::find(name).ok_or_else(|| format!("no workload is called {name}"))?;
    let params = Params::parse(numbers.iter().map(String::as_str))?;
    // The loader only warns when it cannot load one, and the wrong malloc would be measured.
    let preloads = std::env::var("LD_PRELOAD").unwrap_or_default();
    for library in preloads.split([':', ' ']).filter(|library| !library.is_empty()) {
        if !child::is_loaded("self", library.as_ref()) {
            return Err(format!("{library} is not loaded"));
        }
    }
    let mut outcome = workloads::run(workload, &params);
    outcome.set("peak_mb", megabytes(status_kib("self", "VmHWM")));
    println!("{}", serde_json::to_string(&outcome).map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}

fn compare(run: &Run) -> Result<ExitCode, String> {
    let names =
        if run.bars && run.workloads.is_empty() { bars::cases() } else { run.workloads.clone() };
    let jobs = runner::choose(&names)?;
    let peers = peers::choose(&run.peers)?;
    let plan = Plan {
        runs: usize::from(run.runs),
        quick: run.quick,
        pin: run.pin,
        timeout: Duration::from_secs(run.timeout),
        numbers: Params::parse(run.numbers.iter().map(String::as_str))?,
        progress: std::io::stderr().is_terminal(),
    };
    let machine = Machine::here();
    println!("{}", machine.header(&peers, plan.runs, plan.quick));
    let measured = runner::run(&jobs, &peers, &plan);
    let ours = peers.iter().position(|peer| peer.name == "toft");
    println!("{}", table::draw(&measured, &peers, ours));
    for line in table::failures(&measured, &peers) {
        println!("failed: {line}");
    }
    if let Some(path) = &run.json {
        write_json(path, &machine, &peers, &measured)?;
    }
    if run.bars {
        let verdicts = bars::judge(&measured, &peers);
        println!("{}", bars::draw(&verdicts));
        return Ok(ExitCode::from(u8::from(verdicts.iter().any(|verdict| !verdict.met))));
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode, String> {
    let about = |job: &runner::Job| match job.of {
        runner::Of::Inside(workload) => &workload.listed().about,
        runner::Of::Host(workload) => &workload.listed().about,
    };
    let mut last = "";
    for job in runner::jobs() {
        if job.workload() != last {
            last = job.workload();
            println!("{last}: {}", about(&job));
        }
        println!("    {:<22}{}", job.case.name, job.case.full.words().join(" "));
    }
    Ok(ExitCode::SUCCESS)
}

fn list_peers() -> Result<ExitCode, String> {
    for recipe in peers::recipes() {
        match recipe.find() {
            Ok(peer) => {
                let library =
                    peer.library.map_or("no library".into(), |path| path.display().to_string());
                println!("{:<18}{} ({library})", peer.name, peer.version);
            }
            Err(how) => println!("{:<18}not there: {how}", recipe.name),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json(
    path: &std::path::Path,
    machine: &Machine,
    peers: &[Peer],
    measured: &[Measured],
) -> Result<(), String> {
    let peers_json: Vec<_> =
        peers.iter().map(|peer| json!({"name": peer.name, "version": peer.version})).collect();
    let cases: Vec<_> = measured
        .iter()
        .map(|result| {
            let runs: serde_json::Map<_, _> = peers
                .iter()
                .zip(&result.series)
                .map(|(peer, series)| {
                    let value = match series {
                        Ok(outcomes) => json!(outcomes),
                        Err(error) => json!({"failed": error}),
                    };
                    (peer.name.clone(), value)
                })
                .collect();
            json!({"case": result.job.case.name, "workload": result.job.workload(), "peers": runs})
        })
        .collect();
    let whole = json!({"toft_bench": 1, "machine": machine, "peers": peers_json, "cases": cases});
    std::fs::write(path, format!("{whole:#}\n"))
        .map_err(|error| format!("{}: {error}", path.display()))
}
