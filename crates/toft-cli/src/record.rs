//! `toft record`: runs a program with the recorder in front of its malloc, and leaves a trace of
//! every allocation.
//!
//! The program is vetted and started as by `toft run`. The recorder passes everything on to
//! whatever malloc the program has, so that the trace is of the program and not of an allocator.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use toft_trace::chunk::MAGIC;

use crate::launch::{self, Launch};
use crate::library::{self, Library};
use crate::stats::Ended;
use crate::sys;
use crate::verb::{End, Failure, UNPROVEN, check_writable, is_standard, message};
use crate::vet;

const HELP: &str = "\
Examples:
  toft record -- sort words                  record into toft.trace
  toft record -o make.trace --children -- make
  toft trace toft.trace                      summarize it
  toft bench --trace toft.trace              replay it on every available allocator

Exit status: that of PROGRAM; 124 if nothing was recorded; 125 to 127 as for `toft run`.";

/// Record every allocation of a program into a file
///
/// `toft trace FILE` summarizes the file, and `toft-bench --trace FILE` replays it on any
/// allocator. The file holds sizes, alignments, call sites, threads and the order of the calls. It
/// does not hold the contents of memory or the time between calls. A forked process writes its own
/// file, FILE.PID.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Record {
    /// The trace file; an existing trace is replaced
    #[arg(short, long, value_name = "FILE", default_value = "toft.trace")]
    output: PathBuf,
    /// Record the programs that PROGRAM starts too, each into FILE.PID
    #[arg(long)]
    children: bool,
    /// The program, searched for in PATH as by a shell
    #[arg(value_name = "PROGRAM")]
    program: OsString,
    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Returns the exit status, unless the target died by a signal.
pub fn record(record: &Record) -> End {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let vetted = vet::vet(&record.program, &record.arguments, &path)?;
    if let Some(finding) = vetted.refusal() {
        // What follows for Toft's library follows for the recorder: both are preloaded.
        let why = format!("{} {}: not started", vetted.target.binary.display(), finding.what);
        return Err(why.into());
    }
    let output = vacate(&record.output)?;
    let library = Library::recorder()?;
    let preload = library::preload_value(&library.path, env::var_os("LD_PRELOAD").as_deref());
    let mut environment: Vec<(OsString, OsString)> =
        vec![("LD_PRELOAD".into(), preload), ("LIBTOFT_RECORD_FILE".into(), output.clone().into())];
    if let Some(why) = vetted.starter.filter(|_| !record.children) {
        message(&format!(
            "{} {why}: what it starts is recorded too",
            vetted.target.named.display()
        ));
    }
    if record.children || vetted.starter.is_some() {
        environment.push(("LIBTOFT_RECORD_CHILDREN".into(), "1".into()));
    }
    start(&vetted.target.launch(environment), &output)
}

/// Removes an earlier trace, and nothing else. Returns the whole name of the file.
fn vacate(path: &Path) -> Result<PathBuf, String> {
    let failed = |error: io::Error| format!("cannot record into {}: {error}", path.display());
    if is_standard(path) {
        return Err(
            "standard output is PROGRAM's: name a file for the trace (./- if that is its name)"
                .into(),
        );
    }
    let whole = std::path::absolute(path).map_err(failed)?;
    match toft_profile::open_file(&whole) {
        Ok(file) => {
            let mut start = Vec::new();
            file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(failed)?;
            if !start.is_empty() && start != MAGIC {
                return Err(format!("{} exists and is not a trace: not replaced", path.display()));
            }
            fs::remove_file(&whole).map_err(failed)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    check_writable(&whole)
        .map_err(|why| format!("cannot record into {}: {why}", path.display()))?;
    Ok(whole)
}

fn start(launch: &Launch, output: &Path) -> End {
    let outcome = launch::run(launch, || {})
        .map_err(|error| Failure::of_start(&launch.program.display().to_string(), &error))?;
    let recorded = output.is_file();
    if !recorded {
        message(&format!("nothing was recorded into {}", output.display()));
    }
    match Ended::of(outcome.status) {
        Ended::Signal(number) => sys::die_by(number),
        Ended::Exit(0) if !recorded => Ok(UNPROVEN),
        Ended::Exit(status) => Ok(status),
    }
}
