//! `toft heap`: live memory of a running process or of a core file, by call site.

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use toft_profile::format::Format;
use toft_profile::{Breakdown, Core, Error, Kernel, Process, Profile, Rss, Source, find, take};

use super::output::Output;
use super::threads;
use crate::verb::{End, pid};
use crate::watch::Watched;

const HELP: &str = "\
Examples:
  toft heap 1234                       the call sites with most live memory
  toft heap 1234 -o heap.html          a page to search and drill down in
  toft heap 1234 -o heap.pb.gz         for go tool pprof
  toft heap 1234 --threads             live and free memory by owner thread
  toft heap 1234 --over 10             add the lifetimes of blocks, from two scans ten seconds apart
  toft heap core.1234                  the call sites of a core file
  toft heap 1234 -o before.toft; sleep 60; toft heap 1234 -o after.toft; toft diff before.toft after.toft

No code runs in the process, and it is not stopped. You need the permission that a debugger needs.

Exit status: 0, or 125 with a message if there is no profile.";

/// Show the live memory of a running process or of a core file, by call site.
///
/// Counts every live byte from the allocator's own tables. Nothing is sampled, and no option is
/// needed at the start of the process. Bytes are whole slots, as `malloc_usable_size` returns.
#[derive(Args, Debug)]
#[command(name = "heap", after_help = HELP)]
pub struct Heap {
    #[command(flatten)]
    output: Output,
    /// Scan twice, SECONDS apart, and show how long the blocks of each call site live
    #[arg(long, value_name = "SECONDS", value_parser = crate::verb::seconds, conflicts_with = "threads")]
    over: Option<f64>,
    /// Show memory by owner thread instead of by call site; can be combined with --json
    #[arg(long, conflicts_with_all = ["output", "format", "top", "symbols"])]
    threads: bool,
    /// The process, or a core file (./1234 if its name is a number)
    #[arg(value_name = "PID|CORE", value_parser = target, allow_negative_numbers = true)]
    target: Target,
}

#[derive(Clone, Debug)]
pub enum Target {
    Process(i32),
    Core(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Process(pid) => write!(f, "{pid}"),
            Target::Core(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What a word of the command line stands for. What is made of digits is a number, whatever files
/// there are.
fn target(word: &str) -> Result<Target, String> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return pid(word).map(Target::Process);
    }
    let path = Path::new(word);
    if !path.exists() {
        return Err(
            "not the number of a process, which `pgrep -x NAME` prints, and there is no core file of that name".into()
        );
    }
    Ok(Target::Core(path.into()))
}

pub fn heap(args: &Heap) -> End {
    let format = args.output.format()?;
    if args.threads {
        threads::show(args.output.is_json(), &args.target)?;
        return Ok(0);
    }
    let mut profile = match &args.target {
        Target::Process(pid) => scan(*pid, args.over)?,
        Target::Core(_) if args.over.is_some() => {
            return Err("--over needs a running process: a core file is of one moment"
                .to_owned()
                .into());
        }
        Target::Core(path) => of_core(path)?,
    };
    if let (Target::Process(pid), Format::Html) = (&args.target, format) {
        let watched = Watched::of(*pid);
        let rss = Process::open(*pid).and_then(|process| Rss::of(&process));
        let rss = rss.map_err(|error| watched.explain(&error))?;
        profile.breakdown = Some(Breakdown::of(&rss));
    }
    let mut names = match &args.target {
        Target::Process(pid) => args.output.symbols.names_of(*pid),
        Target::Core(_) => args.output.symbols.names(),
    };
    if format.wants_names() {
        names.give(&mut profile);
    } else {
        names.give_program(&mut profile);
    }
    let next = match profile.source {
        Source::Core => format!("toft heap {} -o heap.html to drill down", args.target),
        _ => format!(
            "toft heap {0} -o heap.html to drill down; toft top {0} to watch it; \
             toft rss {0} for the rest of the memory",
            args.target
        ),
    };
    args.output.write(&profile, format, &next)?;
    Ok(0)
}

/// Scans a running process, twice if there is a time between the scans.
fn scan(pid: i32, over: Option<f64>) -> Result<Profile, String> {
    let watched = Watched::of(pid);
    let once = || of_process(pid).map_err(|error| watched.explain(&error));
    let mut profile = once()?;
    if let Some(seconds) = over {
        let first = Instant::now();
        sleep(Duration::from_secs_f64(seconds));
        let before = std::mem::replace(&mut profile, once()?);
        let passed = u64::try_from(first.elapsed().as_millis()).unwrap_or(u64::MAX);
        profile.since(&before, passed);
    }
    Ok(profile)
}

pub fn of_process(pid: i32) -> Result<Profile, Error> {
    let process = Process::open(pid)?;
    let mut profile = take(&process)?;
    (profile.name, profile.resident) = Kernel::name_and_resident(pid)?;
    Ok(profile)
}

pub fn of_core(path: &Path) -> Result<Profile, Error> {
    let core = Core::open(path)?;
    let found = find(&core).map_err(|error| core.explain(error))?;
    let mut profile = take(&core)?;
    profile.source = Source::Core;
    profile.name = core.program().to_owned();
    profile.time = core.written();
    if let Some(what) = core.lacks(&found) {
        profile.notes.push(format!("this profile is incomplete: the core file lacks {what}"));
    }
    Ok(profile)
}
