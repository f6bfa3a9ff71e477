//! The command line.

use crate::baseline::Comparison;
use crate::family::Scope;
use crate::files;
use crate::machine::Machine;
use crate::marks::Marks;
use crate::measured::Measured;
use crate::metrics::{METRICS, Metric, metric};
use crate::mount::{Mount, choose_peers, list_peers};
use crate::outcome::{megabytes, status_kib};
use crate::params::Params;
use crate::peers::Peer;
use crate::program::{Program, without_peak};
use crate::record::Record;
use crate::report::{self, Report};
use crate::runner::{self, Job, Plan};
use crate::standing::Standing;
use crate::{bars, callgrind, child, lines, misuse, peer_build, published, table, workloads};
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Exit status: a bar is missed, a figure became worse, or a program failed.
const MISSED: u8 = 1;

/// Rounds when nothing is said, and of a quick run.
const ROUNDS: u16 = 5;
const QUICK_ROUNDS: u16 = 3;

/// The options, or one of the other commands.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand, Debug)]
enum Sub {
    /// List the workloads and their cases
    List,
    /// List the peers, and how to get the missing ones
    Peers {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Build the peers that are crates, into a cache outside of this workspace
    BuildPeers {
        /// Peers to build [default: all]
        names: Vec<String>,
        /// Rebuild peers that are already in the cache
        #[arg(long)]
        again: bool,
    },
    /// Draw pages and plots from a result file
    Report {
        /// The result file, written by --output
        file: PathBuf,
        /// Write an HTML page with all plots and the whole table to this file
        #[arg(
            long,
            value_name = "OUT",
            required_unless_present_any = ["svg", "cases_svg", "readme"]
        )]
        html: Option<PathBuf>,
        /// Write an SVG plot to this file: time and peak memory of every peer, over all cases
        #[arg(long, value_name = "OUT")]
        svg: Option<PathBuf>,
        /// Write a long SVG plot to this file: ratio to the best peer for each case
        #[arg(long, value_name = "OUT")]
        cases_svg: Option<PathBuf>,
        /// Write the headline and its table into this README, and all tables into docs/speed.md
        /// beside it, between their marks; write the plots and kept figures into docs/figures. What
        /// the file has no cases for stays as it is
        #[arg(long, value_name = "FILE")]
        readme: Option<PathBuf>,
    },
    /// Compare two result files; exit status 1 if a figure became worse
    Compare {
        /// The result file of the earlier run
        old: PathBuf,
        /// The result file of the later run
        new: PathBuf,
        /// Ignore regressions up to this percentage
        #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
        threshold: f64,
    },
    /// Run the misuse corpus: which allocator stops which class of misuse
    Misuse(misuse::Options),
}

#[derive(Args, Debug)]
struct Run {
    /// Workloads or cases to run, by name, or a group of them: headline (which is programs and
    /// classic), programs, classic (published benchmarks) or own (our shapes) [default: all]
    #[arg(long, visible_alias = "workload", value_delimiter = ',', value_name = "NAME")]
    workloads: Vec<String>,
    /// Allocators to compare: names, or name=/path/of/a/library.so
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peers: Vec<String>,
    /// Number of rounds [default: 5, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Fewer operations: for a quick look, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Pin single-threaded workloads to one processor
    #[arg(long)]
    pin: bool,
    /// Set a parameter of every case, for example --set ops=1m
    #[arg(long = "set", value_name = "NAME=N")]
    numbers: Vec<String>,
    /// Trace file for the workload `trace`, written by `toft record`; without --workloads, only
    /// that one is run
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Kill a run after this many seconds
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Additional metrics to show, for example cpu_seconds,minor_faults
    #[arg(long, value_delimiter = ',', value_name = "METRIC", value_parser = known_metric)]
    metrics: Vec<Metric>,
    #[command(flatten)]
    samples: Samples,
    /// Compare with the result file of an earlier run; exit status 1 if a figure became worse
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Ignore regressions up to this percentage
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    threshold: f64,
    /// Also count instructions per operation with valgrind, once per case and peer
    #[arg(long)]
    callgrind: bool,
    /// Write an HTML page with all plots and the whole table to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Check the project's performance goals; exit status 1 if one is missed
    #[arg(long)]
    bars: bool,
    /// Measure the cases of published benchmarks, and print the published figures beside them
    #[arg(long, conflicts_with = "bars")]
    published: bool,
    /// Measure this program instead of the workloads
    #[arg(
        last = true,
        value_name = "PROGRAM",
        conflicts_with_all = ["workloads", "numbers", "quick", "callgrind", "bars", "published"]
    )]
    program: Vec<OsString>,
}

/// Where what was measured goes, besides the tables.
#[derive(Args, Debug)]
pub(crate) struct Samples {
    /// Print all samples as one JSON object instead of the tables
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Write all samples to this JSON file and print the tables; - is the same as --json
    #[arg(short, long, value_name = "FILE", value_parser = json_file)]
    output: Option<PathBuf>,
}

impl Samples {
    /// Keeps the tables from stdout, if the object goes there. To be called before anything is
    /// printed.
    pub(crate) fn begin(&self) {
        if self.are_printed() {
            crate::out::keep_for_one();
        }
    }

    fn are_printed(&self) -> bool {
        self.json || self.output.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }

    /// Returns true if anything is to be written.
    pub(crate) fn wanted(&self) -> bool {
        self.json || self.output.is_some()
    }

    /// Writes the object.
    pub(crate) fn write(&self, text: &str) -> Result<(), String> {
        match &self.output {
            Some(path) if !self.are_printed() => files::write(path, text),
            _ => {
                crate::out::one(text.trim_end());
                Ok(())
            }
        }
    }
}

fn json_file(text: &str) -> Result<PathBuf, String> {
    match [".html", ".htm", ".svg", ".txt"].iter().find(|ending| text.ends_with(**ending)) {
        Some(ending) => Err(format!("samples are JSON, and not {ending} (--html writes a page)")),
        None => Ok(text.into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.trim_end_matches('%').parse().map_err(|_| "not a number of percent".to_owned())?;
    if number >= 0.0 { Ok(number) } else { Err("less than 0 percent".to_owned()) }
}

fn known_metric(text: &str) -> Result<Metric, String> {
    metric(text).ok_or_else(|| {
        let keys: Vec<&str> = METRICS.iter().map(|metric| metric.key).collect();
        format!("there are {}", keys.join(", "))
    })
}

/// Runs what the command line says; returns the exit status.
///
/// # Errors
/// What kept it from measuring anything.
pub fn bench(bench: &Bench, mount: Mount) -> Result<u8, String> {
    match &bench.command {
        None => measure(&bench.run, mount),
        Some(Sub::List) => Ok(list()),
        Some(Sub::Peers { json }) => {
            list_peers(mount, *json);
            Ok(0)
        }
        Some(Sub::BuildPeers { names, again }) => {
            peer_build::build(names, *again)?;
            Ok(0)
        }
        Some(Sub::Compare { old, new, threshold }) => {
            compare(&Record::read(new)?, &Record::read(old)?, *threshold)
        }
        Some(Sub::Report { file, html, svg, cases_svg, readme }) => {
            let record = Record::read(file)?;
            let report = Report::of(&record).map_err(files::at(file))?;
            let page = |path: &PathBuf| files::write(path, &report.html());
            html.as_ref().map_or(Ok(()), page)?;
            let plot = |path: &PathBuf| files::write(path, &picture(&report)?);
            svg.as_ref().map_or(Ok(()), plot)?;
            let cases = |path: &PathBuf| files::write(path, &report.cases_svg());
            cases_svg.as_ref().map_or(Ok(()), cases)?;
            let figures = |path: &PathBuf| write_readme(path, &record, &report);
            readme.as_ref().map_or(Ok(()), figures)?;
            Ok(0)
        }
        Some(Sub::Misuse(options)) => misuse::run(options, mount),
    }
}

/// `work NAME [number=N ...] [file=TRACE]`: runs one workload and prints its outcome as a line of
/// JSON. A program calls it before it parses options.
///
/// # Errors
/// When there is no such workload, a number is none, or the process runs on another malloc than it
/// was told to.
pub fn work_of(words: &[OsString]) -> Result<u8, String> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (name, numbers) = words.split_first().ok_or("work: which workload?")?;
    let workload = workloads::find(name).ok_or_else(|| format!("no workload is called {name}"))?;
    let (files, numbers): (Vec<_>, Vec<_>) =
        numbers.iter().map(String::as_str).partition(|word| word.starts_with("file="));
    if let Some(file) = files.last() {
        // SAFETY: there is one thread yet.
        unsafe { std::env::set_var(workloads::trace::VARIABLE, &file["file=".len()..]) };
    }
    let params = Params::parse(numbers)?;
    // The loader only warns when it cannot load one, and the wrong malloc would be measured.
    let preloads = std::env::var("LD_PRELOAD").unwrap_or_default();
    for library in preloads.split([':', ' ']).filter(|library| !library.is_empty()) {
        if !child::is_loaded("self", library.as_ref()) {
            return Err(format!("{library} is not loaded"));
        }
    }
    let mut outcome = workloads::run(workload, &params);
    // A script that is played is in memory from start to end, and not from the allocator.
    let script = outcome.metrics.get("script_mb").copied().unwrap_or(0.0);
    outcome.set("peak_mb", megabytes(status_kib("self", "VmHWM")) - script);
    crate::out::outln!("{}", serde_json::to_string(&outcome).map_err(|error| error.to_string())?);
    Ok(0)
}

fn measure(run: &Run, mount: Mount) -> Result<u8, String> {
    run.samples.begin();
    // What is wrong with a file should be said before hours of measuring.
    let baseline = run.baseline.as_deref().map(Record::read).transpose()?;
    if let Some(file) = &run.trace {
        workloads::trace::load(Some(file))?;
        // SAFETY: there is one thread yet.
        unsafe { std::env::set_var(workloads::trace::VARIABLE, file) };
    }
    if run.callgrind {
        callgrind::is_there()?;
    }
    let named =
        if run.published && run.peers.is_empty() { &published::peers() } else { &run.peers };
    let mut peers = choose_peers(named, run.quick, mount)?;
    if run.bars && run.peers.is_empty() {
        let more: Vec<String> = bars::peers().iter().map(ToString::to_string).collect();
        // One that is not there is missed by its bars, which say so.
        peers.extend(choose_peers(&more, run.quick, mount).unwrap_or_default());
    }
    let start = Instant::now();
    let plan = Plan {
        runs: usize::from(run.runs.unwrap_or(if run.quick { QUICK_ROUNDS } else { ROUNDS })),
        quick: run.quick,
        pin: run.pin,
        timeout: Duration::from_secs(run.timeout),
        numbers: Params::parse(run.numbers.iter().map(String::as_str))?,
    };
    let jobs = jobs(run, &plan)?;
    let machine = Machine::here();
    crate::out::outln!("{}", machine.header(&peers, plan.runs, plan.quick));
    let mut measured = runner::run(&jobs, &peers, &plan);
    for line in lines::add(&mut measured, &peers, &plan) {
        crate::out::outln!("{line}");
    }
    if run.callgrind {
        for line in callgrind::add(&mut measured, &peers, &plan) {
            crate::out::outln!("{line}");
        }
    }
    let took = start.elapsed();
    show(&measured, &peers);
    crate::out::outln!(
        "took {}",
        humantime::format_duration(Duration::from_secs(took.as_secs().max(1)))
    );
    let numbers = |result: &Measured| runner::numbers(result.job.case, &plan);
    let rounds = (plan.runs, plan.quick, took);
    let record = Record::of(&machine, rounds, &peers, &measured, numbers, table::ours(&peers));
    if run.samples.wanted() {
        run.samples.write(&record.text()?)?;
    }
    if let Some(path) = &run.html {
        let (machine, peers, measured) = (machine.clone(), peers.clone(), measured.clone());
        let (date, quick) = (record.date.clone(), run.quick);
        let (unknown, changed) = (Vec::new(), Vec::new());
        let report = Report { machine, peers, measured, date, quick, unknown, changed };
        files::write(path, &report.html())?;
    }
    let failed = |result: &Measured| result.series.iter().any(Result::is_err);
    let program_failed = !run.program.is_empty() && measured.iter().any(failed);
    let mut status = u8::from(program_failed) * MISSED;
    if run.bars {
        let verdicts = bars::judge(&measured, &peers);
        crate::out::outln!("{}", bars::draw(&verdicts));
        status = status.max(u8::from(verdicts.iter().any(|verdict| !verdict.met)));
    }
    if run.published {
        crate::out::outln!("{}", published::draw(&measured, &peers));
    }
    if let Some(baseline) = baseline {
        status = status.max(compare(&record, &baseline, run.threshold)?);
    }
    Ok(status)
}

fn jobs(run: &Run, plan: &Plan) -> Result<Vec<Job>, String> {
    if !run.program.is_empty() {
        let job = Program::new(&run.program)?.job(&run.program);
        return Ok(vec![job.showing(&run.metrics)]);
    }
    let names = if run.bars && run.workloads.is_empty() {
        bars::cases()
    } else if run.published && run.workloads.is_empty() {
        published::cases()
    } else if run.trace.is_some() && run.workloads.is_empty() {
        vec!["trace".to_owned()]
    } else {
        run.workloads.clone()
    };
    let mut jobs = runner::choose(&names)?;
    if run.quick && names.is_empty() {
        leave_out_slow(&mut jobs);
    }
    let jobs = jobs.into_iter().map(|job| job.showing(&run.metrics));
    Ok(if run.callgrind {
        jobs.map(|job| callgrind::job(job, plan)).collect()
    } else {
        jobs.collect()
    })
}

/// As with the peers: a case that is named is run.
fn leave_out_slow(jobs: &mut Vec<Job>) {
    let slow: Vec<&str> =
        jobs.iter().filter(|job| job.case.slow).map(|job| job.case.name.as_str()).collect();
    if !slow.is_empty() {
        crate::out::outln!(
            "left out, since they are slow (--workloads names them): {}",
            slow.join(", ")
        );
    }
    jobs.retain(|job| !job.case.slow);
}

fn show(measured: &[Measured], peers: &[Peer]) {
    let drawn = table::draw(measured, peers, table::ours(peers)).to_string();
    crate::out::outln!("{drawn}");
    for line in table::legend(&drawn).into_iter().chain(without_peak(measured)) {
        crate::out::outln!("{line}");
    }
    for line in table::failures(measured, peers) {
        crate::out::outln!("failed: {line}");
    }
    // Of a single case the table says it all.
    if measured.len() > 1 && peers.len() > 1 {
        let standings = Standing::all(measured, peers);
        for standing in &standings {
            crate::out::outln!("{}\n{}", standing.title(), standing.means(None));
        }
        for standing in standings.iter().filter(|one| one.over.is_whole()) {
            let families = standing.by_family(|row| &row.time, None);
            crate::out::outln!("time x {}, {}\n{families}", standing.base, standing.over.title());
        }
    }
}

fn compare(new: &Record, old: &Record, threshold: f64) -> Result<u8, String> {
    let share = threshold / 100.0;
    let comparison = Comparison::of(new, old, share);
    crate::out::outln!("{}", comparison.text(share).trim_end_matches('\n'));
    if comparison.changes.is_empty() && comparison.broken.is_empty() {
        return Err("there is nothing that both runs have measured".to_owned());
    }
    Ok(u8::from(comparison.regressed()) * MISSED)
}

fn picture(report: &Report) -> Result<String, String> {
    report.svg().ok_or_else(|| "there are no two peers that ended most of the cases".to_owned())
}

/// `report FILE --readme README`: everything is drawn of what is kept, so that it can be drawn
/// again. Our own shapes are kept apart, because to measure them takes twice as long as all the
/// rest. A run that has only one of the two leaves the other as it is.
fn write_readme(readme: &Path, record: &Record, report: &Report) -> Result<(), String> {
    let root = readme.parent().unwrap_or(Path::new(""));
    let page = root.join("docs/speed.md");
    let part = |scope: Scope| -> Result<(String, Report), String> {
        let kept = report::kept(record, report, scope).lines()?;
        let report = Report::parse(&kept)?.of_today();
        Ok((kept, report))
    };
    let ((kept, report), (kept_shapes, shapes)) = (part(Scope::Headline)?, part(Scope::Own)?);
    let placed = |path: &Path, parts: &[(Marks, String)]| -> Result<String, String> {
        let place = |text: String, (marks, part): &(Marks, String)| marks.placed(&text, part);
        parts.iter().try_fold(files::read(path)?, place).map_err(files::at(path))
    };
    // Every place is found before anything is written.
    let folder = root.join("docs/figures");
    let (mut made, mut tables) = (Vec::new(), Vec::new());
    if !report.measured.is_empty() {
        let front = placed(
            readme,
            &[
                (report::CLAIM, report::claim(&report)),
                (report::HEADLINE, report::headline(&report)),
            ],
        )?;
        tables.push((report::PAGE, report::section(&report, "figures")));
        made.push((folder.join("run.json"), kept));
        made.push((folder.join("peers.svg"), picture(&report)?));
        made.push((folder.join("cases.svg"), report.cases_svg()));
        made.push((readme.to_owned(), front));
    }
    if !shapes.measured.is_empty() {
        tables.push((report::SHAPES, report::shapes(&shapes)));
        made.push((folder.join("shapes.json"), kept_shapes));
    }
    if tables.is_empty() {
        return Err("the file has no case that this program measures as it does".into());
    }
    made.push((page.clone(), placed(&page, &tables)?));
    files::make_folder(&folder)?;
    made.iter().try_for_each(|(path, text)| files::write(path, text))
}

fn list() -> u8 {
    let mut last = "";
    for job in runner::jobs() {
        if job.workload() != last {
            last = job.workload();
            crate::out::outln!("{last}: {}", job.of.listed().map_or("", |listed| &listed.about));
        }
        crate::out::outln!("    {:<22}{}", job.case.name, job.case.full.words().join(" "));
    }
    0
}
