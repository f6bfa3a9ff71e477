//! `toft run`: vet the target, start it on Toft, prove that it is, and end as it ended.
//!
//! The parts: `vet` checks the target, `library` puts the library in place, `launch` starts and
//! stays beside, `stats` prints, `before` says what there is to say first. This file joins them and
//! owns every message and exit status.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use nix::unistd::geteuid;
use toft_core::options::parse_report;
use toft_profile::format::Format;

use crate::hints;
use crate::launch::{self, Outcome};
use crate::leaks::Leaks;
use crate::library::{self, Library};
use crate::options::{Fault, fault};
use crate::profile::AtExit;
use crate::report::Report;
use crate::runtime::Runtime;
use crate::stats::{Ended, Stats};
use crate::style::{self, Style};
use crate::sys;
use crate::verb::{
    End, FILE_MOST, Failure, LEAKED, REFUSED, UNPROVEN, check_extension, check_writable,
    is_standard, message, write,
};
use crate::vet::{self, Vetted};
use before::{Scope, crossing, dry_run, print_findings, scope, target_missing};

mod before;

const HELP: &str = "\
Examples:
  toft run -- python3 app.py                      run a program on Toft
  toft run --stats -- make                        print a summary of memory and call sites at exit
  toft run --profile heap.html -- ./server        write the live memory at exit, by call site
  toft run --sample 512k --profile heap.html -- ./server   add sampled call stacks
  toft run --python --profile heap.html -- python3 app.py  every object of CPython
  toft run --leaks -- ./tests                     report leaks by call site; status 123 for CI
  toft run --env TOFT_LIMIT=512m -- ./worker      set an option; toft options lists all of them
  toft run --secure -- ./server                   run on the secure build
  toft run --secure=light -- ./server             on its light build: less time, fewer checks
  toft run --dry-run -- ./program                 only check whether Toft would work

Exit status:
  that of PROGRAM; if a signal killed it, the same signal kills toft
  123   --leaks was given, PROGRAM ended with 0, and it leaked
  124   --strict was given and the library did not load
        --leaks or --profile was given, and PROGRAM ended with 0 without a report
        one of the three was given, and PROGRAM brings its own malloc (--strict with another: or may)
  125   PROGRAM was refused, or toft itself failed
  126   PROGRAM cannot be executed
  127   PROGRAM was not found

For a program with functions of C, C++ or Rust that allocate for others, TOFT_WRAPPERS gets c, c++ or rust, beside names of yours.

Signals sent to toft (INT, TERM, HUP, QUIT, USR1, USR2, WINCH, TSTP, CONT) are passed on to PROGRAM.";

/// How much the secure build does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Strength {
    /// All checks
    Full,
    /// Without clearing and comparing freed blocks, and with a small quarantine
    Light,
}

/// Run a program on Toft.
///
/// The program file is not changed: LD_PRELOAD puts the library before its malloc. The program is
/// examined first, and is not started if the library cannot work in it. A message on stderr says
/// why. If the library does not load, a message on stderr says so.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Run {
    /// Print a summary of time, memory and the top call sites at exit, on stderr
    #[arg(long)]
    stats: bool,
    /// Report leaks at exit, by call site, and end with status 123 if there are any. A leak is a
    /// block that was not freed and that no pointer reaches (TOFT_LEAKS=all: every block that was
    /// not freed)
    #[arg(long)]
    leaks: bool,
    /// Write the live memory at exit, by call site, to a file. Its extension selects the format
    /// (.toft, .html, .svg, .pb.gz, .folded, .json, .txt). `toft report` shows it
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Keep the whole call stack of one allocation in about BYTES allocated bytes (512k if not
    /// given; 64k, 1m, ...), by frame pointers, for --profile and `toft heap`
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = sample,
        num_args = 0..=1,
        default_missing_value = "512k"
    )]
    sample: Option<OsString>,
    /// Set PYTHONMALLOC=malloc: every object of CPython is then a block of Toft. Without it CPython
    /// keeps small objects in its own pools, which Toft does not see
    #[arg(long)]
    python: bool,
    /// Apply hints that `toft hints` made from profiles of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "leaks"])]
    hints: Option<PathBuf>,
    /// Print the summary, or the leaks, as one JSON object (with --dry-run: the findings)
    #[arg(long)]
    json: bool,
    /// Write the summary, or the leaks, to a file instead of stderr; - is stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run the programs that PROGRAM starts on Toft too (the default if PROGRAM is a shell script)
    #[arg(long)]
    children: bool,
    /// Set a variable in the program's environment, TOFT_ options included; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    env: Vec<(String, OsString)>,
    /// Run on the secure build, which ends the program at heap corruption and verifies the heap
    /// at exit. It takes more time and memory. `--secure=light` makes no pass over freed blocks: it
    /// takes less time, and does not detect writes after free to blocks of up to 128 KiB
    #[arg(
        long,
        value_name = "STRENGTH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full",
        conflicts_with_all = ["library", "sample", "hints"]
    )]
    secure: Option<Strength>,
    /// Use this library instead of the one that toft carries
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Only print the findings and what would be done
    #[arg(long)]
    dry_run: bool,
    /// Start the program even if the library cannot work in it
    #[arg(long)]
    force: bool,
    /// End with status 124 if the library did not load, or the program brings its own malloc
    #[arg(long)]
    strict: bool,
    /// The program, searched for in PATH as by a shell
    #[arg(value_name = "PROGRAM")]
    program: OsString,
    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn assignment(text: &str) -> Result<(String, OsString), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => match fault(key, value.as_ref()) {
            Some(fault) => Err(fault.to_string()),
            None => Ok((key.to_owned(), value.into())),
        },
        _ => Err("not of the form KEY=VALUE".into()),
    }
}

fn sample(text: &str) -> Result<OsString, String> {
    // As the library reads it.
    match fault("TOFT_SAMPLE", text.as_ref()) {
        Some(_) => Err("not a size such as 64k, 512k or 1m".into()),
        None => Ok(text.into()),
    }
}

/// Returns an error if the program would get an option with a bad value from the environment, of
/// which the library would only warn, or if `--output` or the file of TOFT_REPORT cannot be
/// written.
fn check_arguments(run: &Run) -> Result<(), String> {
    let inherited =
        env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    for (name, value) in inherited.filter(|(name, _)| run.env.iter().all(|(set, _)| set != name)) {
        match fault(&name, &value) {
            // It may be meant for something else.
            None | Some(Fault::Unknown(..)) => {}
            Some(bad) => {
                return Err(format!("{bad}; not started (toft options lists the options)"));
            }
        }
    }
    let report = run.env.iter().rev().find(|(name, _)| name == "TOFT_REPORT");
    let report = report.map(|(_, value)| value.clone()).or_else(|| env::var_os("TOFT_REPORT"));
    if let Some((_, Some(file))) = report.and_then(|value| parse_report(value.as_bytes())) {
        let path = Path::new(OsStr::from_bytes(file.as_c_str().to_bytes()));
        check_writable(path)
            .map_err(|why| format!("TOFT_REPORT: cannot write to {}: {why}", path.display()))?;
    }
    let Some(path) = run.output.as_deref().filter(|path| !is_standard(path)) else {
        return Ok(());
    };
    if run.json {
        check_extension(path, Format::Json)?;
    }
    check_writable(path).map_err(|why| format!("cannot write to {}: {why}", path.display()))
}

/// Returns the exit status, unless the target died by a signal.
pub fn run(run: &Run) -> End {
    check_arguments(run)?;
    let set: HashMap<&str, &OsStr> =
        run.env.iter().map(|(key, value)| (key.as_str(), value.as_os_str())).collect();
    let variable =
        |name: &str| set.get(name).map(|value| (*value).to_owned()).or_else(|| env::var_os(name));

    let path = variable("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let vetted = match vet::vet(&run.program, &run.arguments, &path) {
        Ok(vetted) => vetted,
        Err(missing) => return target_missing(run, missing),
    };
    let scope = scope(run, variable("TOFT_SCOPE"), &vetted);
    let refused = vetted.refusal().is_some() && !run.force;
    if run.dry_run {
        return dry_run(run, &vetted, scope, refused);
    }
    print_findings(&vetted, scope, run.force);
    if refused {
        return Ok(REFUSED);
    }
    let library = match run.secure {
        Some(Strength::Full) => Library::secure(),
        Some(Strength::Light) => Library::secure_light(),
        None => Library::find(run.library.as_deref()),
    }?;

    if scope != Scope::Program && !library.reached && geteuid().is_root() {
        message(
            "programs of other users will not run on Toft: no folder for the library is readable for them",
        );
    }

    // An inherited TOFT_STATS makes the library write into our pipe, so it has to mean the same as
    // --stats.
    let stats = run.stats || variable("TOFT_STATS").is_some_and(|value| value == "1");
    let mut environment: Vec<(OsString, OsString)> =
        run.env.iter().map(|(key, value)| (key.into(), value.clone())).collect();
    let preload = library::preload_value(&library.path, variable("LD_PRELOAD").as_deref());
    environment.push(("LD_PRELOAD".into(), preload));
    environment.push(("TOFT_SCOPE".into(), scope.word().into()));
    // The statistics have the anonymous memory at exit.
    if stats || run.strict || run.profile.is_some() {
        environment.push(("TOFT_STATS".into(), "1".into()));
    }
    if run.secure.is_some() && variable("TOFT_VERIFY").is_none() {
        environment.push(("TOFT_VERIFY".into(), "exit".into()));
    }
    let stated = variable("TOFT_LEAKS");
    let leaks = run.leaks || stated.as_ref().is_some_and(|value| value == "1" || value == "all");
    if leaks && stated.is_none_or(|value| value != "all") {
        environment.push(("TOFT_LEAKS".into(), "1".into()));
    }
    if (run.json || run.output.is_some()) && !stats && !leaks {
        message("--json and --output print nothing without --stats or --leaks");
    }
    if let Some(bytes) = &run.sample {
        environment.push(("TOFT_SAMPLE".into(), bytes.clone()));
    }
    // Programs in Rust and C++ allocate by functions of their libraries, and many in C by one of
    // their own. Without this, all callers of such a function are one call site.
    let chosen = ["TOFT_PARTITIONS", "TOFT_HINTS"];
    let mut languages = vetted.languages.clone();
    if run.python && !languages.contains(&"c") {
        // CPython's functions may be in its shared library.
        languages.push("c");
    }
    if !languages.is_empty()
        && scope == Scope::Program
        && run.secure.is_none()
        && run.hints.is_none()
        && chosen.iter().all(|name| variable(name).is_none())
    {
        environment.push(("TOFT_WRAPPERS".into(), wrappers(variable("TOFT_WRAPPERS"), &languages)));
    }
    let asks_for_sites = stats || leaks || run.sample.is_some() || run.profile.is_some();
    if run.python {
        environment.push(("PYTHONMALLOC".into(), "malloc".into()));
    } else if asks_for_sites || io::stderr().is_terminal() {
        let (program, words) = runtime_of(run, &vetted);
        if let Some(runtime) = Runtime::of(program, &words) {
            message(&format!("{}, which Toft does not see: {}", runtime.keeps, runtime.remedy));
        } else if run.sample.is_some()
            && let Some(advice) = Runtime::could_name_more(program, &words)
        {
            message(advice);
        }
    }
    let many = scope != Scope::Program;
    let profile = run.profile.as_deref().map(|path| AtExit::new(path, many)).transpose()?;
    if let Some(profile) = &profile {
        environment.push(("TOFT_PROFILE".into(), profile.variable()));
    }
    if let Some(hints) = &run.hints {
        environment.push(("TOFT_HINTS".into(), hints::variable(hints)?));
    }
    let launch = vetted.target.launch(environment);
    let shown = vetted.target.named.display().to_string();
    let mut is_reported = false;
    let outcome = launch::run(&launch, || {
        is_reported = true;
        message(&not_loaded(&shown, &library, &vetted, "it did not report within 2 seconds"));
    });
    let outcome = outcome.map_err(|error| Failure::of_start(&shown, &error))?;
    if outcome.report.ready.is_none() && !is_reported {
        let why = "the program ended before the library reported";
        message(&not_loaded(&shown, &library, &vetted, why));
    }
    let profiled = profile.map(|profile| profile.finish(outcome.report.pid(), &vetted.target));
    Ok(finish(run, &vetted, outcome, Wanted { stats, leaks, profiled }))
}

/// Returns the wrappers that the user has named, if any, and those of the languages.
fn wrappers(named: Option<OsString>, languages: &[&str]) -> OsString {
    let Some(named) = named else { return languages.join(",").into() };
    let mut all = named.clone();
    let has = |language: &str| {
        named.as_bytes().split(|&byte| byte == b',').any(|name| name == language.as_bytes())
    };
    for language in languages.iter().filter(|language| !has(language)) {
        all.push(",");
        all.push(language);
    }
    if fault("TOFT_WRAPPERS", &all).is_some() {
        message("TOFT_WRAPPERS has no room for the names of the program's languages");
        return named;
    }
    all
}

/// Returns the file by which the target may be known as a language runtime, and its arguments and
/// environment as one text. A version manager puts a script of the runtime's name in its place.
fn runtime_of<'a>(run: &Run, vetted: &'a Vetted) -> (&'a Path, OsString) {
    let target = &vetted.target;
    let mut words = target.arguments.join(OsStr::new("\0"));
    let own = run.env.iter().map(|(name, value)| (name.into(), value.clone()));
    for (name, value) in env::vars_os().chain(own) {
        words.extend([OsStr::new("\0"), &name, OsStr::new("="), &value]);
    }
    (if vetted.starter.is_some() && target.script { &target.named } else { &target.binary }, words)
}

#[derive(Clone, Copy)]
struct Wanted {
    stats: bool,
    leaks: bool,
    /// Whether the requested profile was written.
    profiled: Option<bool>,
}

/// Prints the results, and returns the exit status.
fn finish(run: &Run, vetted: &Vetted, outcome: Outcome, wanted: Wanted) -> i32 {
    let loaded = outcome.report.ready.is_some();
    let ended = Ended::of(outcome.status);
    let has_report = wanted.leaks || wanted.profiled.is_some();
    // What such a program has from its own malloc was not scanned: no answer would be about it.
    let library = other_malloc_in(&outcome.report);
    let blind = vetted.own_malloc().or(library.as_deref());
    let other = outcome.report.other_anonymous().filter(|_| has_report || run.strict);
    // A virtual machine's heap looks the same: only a report that has to be complete fails.
    let incomplete = other.is_some() && has_report && run.strict;
    let leaks = wanted.leaks.then(|| Leaks::new(&outcome.report, &vetted.target));
    let style = match &run.output {
        Some(path) if is_standard(path) => Style::of_stdout(),
        Some(_) => Style::of_file(),
        None => Style::of_stderr(),
    };
    let mut text = String::new();
    if wanted.stats {
        let arguments =
            run.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let own_malloc = blind.map(|file| file.display().to_string());
        let stats = Stats::new(&vetted.target, arguments, own_malloc, outcome);
        text += &if run.json { format!("{}\n", stats.json()) } else { stats.text(style) };
    }
    match &leaks {
        Some(Some(leaks)) if run.json => text += &format!("{}\n", leaks.json(blind)),
        Some(Some(leaks)) if leaks.any() || (blind.is_none() && !incomplete) => {
            text += &leaks.text(style);
        }
        Some(None) => {
            message("no report of leaks: the program was killed, or called _exit or exec")
        }
        Some(Some(_)) | None => {}
    }
    if let Some(file) = blind.filter(|_| has_report || run.strict) {
        let file = file.display();
        message(&format!("{file} brings its own malloc: blocks of that malloc were not checked"));
    } else if let Some(bytes) = other.map(style::bytes) {
        message(&format!(
            "{bytes} of anonymous memory are not Toft's and were not checked: mappings, stacks or \
             static data of the program, or an unknown malloc"
        ));
    }
    let printed = if text.is_empty() { Ok(()) } else { print(run, &text) };
    if let Err(why) = &printed {
        message(why);
    }
    // libc reads the word before the block: it ends the process, or there is nothing to read.
    let by_free = [libc::SIGABRT, libc::SIGSEGV].map(Ended::Signal).contains(&ended);
    if let Some(why) = crossing(run, vetted).filter(|_| by_free && loaded) {
        message(&format!("{} {why}", vetted.target.binary.display()));
    }
    match ended {
        _ if run.strict && (!loaded || blind.is_some()) => UNPROVEN,
        Ended::Exit(0) if wanted.profiled == Some(false) || incomplete => UNPROVEN,
        Ended::Exit(0) if blind.is_some() && has_report => UNPROVEN,
        Ended::Exit(0) => match leaks {
            Some(None) => UNPROVEN,
            Some(Some(leaks)) if leaks.any() => LEAKED,
            _ if printed.is_err() => REFUSED,
            _ => 0,
        },
        Ended::Exit(status) => status,
        Ended::Signal(number) => sys::die_by(number),
    }
}

/// Returns the library that calls another malloc under a name that Toft does not replace, of those
/// that the program had loaded at its end.
fn other_malloc_in(report: &Report) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> =
        report.mappings().into_iter().map(|mapping| mapping.path.into()).collect();
    files.dedup();
    files.into_iter().find(|file| vet::elf::calls_other_malloc(file).is_some())
}

fn print(run: &Run, text: &str) -> Result<(), String> {
    match &run.output {
        Some(path) => write(path, text.as_bytes()),
        None => {
            // A closed stderr is the user's choice.
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}

/// Returns the message for a target in which the library did not report, with the likeliest reason.
fn not_loaded(program: &str, library: &Library, vetted: &Vetted, seen: &str) -> String {
    let reason = match vetted.refusal() {
        Some(finding) => format!("it {}", finding.what),
        None if !is_toft(&library.path) => {
            format!("{} is not Toft's library", library.path.display())
        }
        None => seen.to_owned(),
    };
    format!("the library did not load into {program} ({reason})")
}

/// Returns true if a file is a shared library that exports what only Toft's does.
fn is_toft(path: &Path) -> bool {
    use object::read::{Object, ObjectSymbol};
    let Ok(bytes) = toft_profile::read_file(path, FILE_MOST) else {
        return false;
    };
    let Ok(elf) = object::File::parse(&*bytes) else {
        return false;
    };
    elf.dynamic_symbols()
        .any(|symbol| symbol.is_definition() && symbol.name_bytes() == Ok(b"toft_version"))
}
