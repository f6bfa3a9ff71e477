//! `toft report`: a saved profile, in any form.

use std::path::{Path, PathBuf};

use clap::Args;
use toft_profile::Profile;
use toft_profile::format::Format;

use super::names::Names;
use super::output::Output;
use crate::run::{REFUSED, say};
use crate::words;

const HELP: &str = "\
Examples:
  toft report heap.toft                            the table
  toft report heap.toft -o heap.html               a page to search and drill down in
  toft report heap.toft --symbols ./from-server    of a profile from another machine: its programs lie there

A profile keeps the build-id of every file, so that names are only ever taken from the file that ran.

Exit status: 0, or 125 if the file is no profile; then one line says why.";

/// Show a saved profile, in any form.
///
/// `toft heap -o FILE.toft`, `toft run --profile FILE` and TOFT_PROFILE write them. Call sites are named here, by the
/// files that ran, which may have come from another machine since.
#[derive(Args, Debug)]
#[command(name = "report", after_help = HELP, after_long_help = HELP)]
pub struct View {
    #[command(flatten)]
    output: Output,
    /// The profile, or - for standard input
    file: PathBuf,
}

/// The verb.
pub fn report(args: &View) -> i32 {
    let format = match args.output.format() {
        Ok(format) => format,
        Err(why) => {
            say(&why);
            return words::USAGE;
        }
    };
    match show(args, format) {
        Ok(()) => 0,
        Err(why) => {
            say(&why);
            REFUSED
        }
    }
}

fn show(args: &View, format: Format) -> Result<(), String> {
    let mut profile = read(&args.file)?;
    if format.wants_names() {
        Names::new(args.output.folders(std::iter::empty())).give(&mut profile);
    }
    let next = format!("toft report {} -o heap.html, to drill down", args.file.display());
    args.output.write(&profile, format, &next)
}

/// Reads a saved profile; the reason names the file.
pub fn read(path: &Path) -> Result<Profile, String> {
    let bytes = words::read(path, words::FILE_MOST)?;
    Profile::from_json(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}
