//! `toft bench`: starts the separate program `toft-bench` with the libraries that the command
//! carries.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::library::{HASH, LIGHT_HASH, Library, SECURE_HASH};
use crate::verb::{End, Failure, USAGE};

const HELP: &str = "\
Examples:
  toft bench --quick                                a quick overview in three minutes
  toft bench --workload larson --peers toft,glibc   one workload, two allocators
  toft bench --help                                 every option, and the other commands

Exit status: 0; 1 if a figure became worse, a bar is missed or a program failed; 2 if the benchmark cannot run.";

/// The program. It is beside this command, or in a folder of PATH.
const PROGRAM: &str = "toft-bench";
/// Its option for a library that this command carries.
const CARRIES: &str = "--carries";

/// Compare this Toft with other allocators, on workloads or on any program
///
/// Starts the program `toft-bench`, which runs interleaved rounds in fresh processes. It prints
/// medians with their spread, ratios by round with their 95 % confidence intervals, and resident
/// memory as the kernel counts it.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = HELP)]
pub struct Bench {
    /// Arguments of `toft-bench`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// What follows the verb, if it is the first word. It is taken unread: a parser would leave out the
/// `--` before a program.
pub fn arguments() -> Option<Vec<OsString>> {
    let mut words = env::args_os().skip(1);
    (words.next()? == "bench").then(|| words.collect())
}

pub fn bench(arguments: &[OsString]) -> End {
    let mut command = Command::new(program());
    for (name, hash, library) in [
        ("toft", HASH, Library::find(None)),
        ("toft-secure", SECURE_HASH, Library::secure()),
        ("toft-secure-light", LIGHT_HASH, Library::secure_light()),
    ] {
        let library = library.map_err(|why| Failure::new(USAGE, why))?;
        let version = format!("{} (content {hash}, carried inside)", env!("CARGO_PKG_VERSION"));
        command.args([CARRIES, name]).arg(&library.path).arg(version);
        library.keep_for_next_program();
    }
    let error = command.args(arguments).exec();
    Err(Failure::new(
        USAGE,
        match error.kind() {
            ErrorKind::NotFound => {
                format!(
                    "`toft bench` needs the program {PROGRAM}, beside this one or in PATH: it is in \
                     every package, and `cargo install --path lab/{PROGRAM}` makes it"
                )
            }
            _ => format!("cannot start {PROGRAM}: {error}"),
        },
    ))
}

/// The program beside this command, or its name, which is then looked for in PATH.
fn program() -> PathBuf {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}
