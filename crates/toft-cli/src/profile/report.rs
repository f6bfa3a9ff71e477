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
  toft report heap.toft                            print the table
  toft report heap.toft -o heap.html               a page to search and drill down in
  toft report heap.toft --symbols ./from-server    for a profile from another machine, with its programs in that folder

A profile has the build-id of every file, so that names are only taken from the file that ran.

Exit status: 0, or 125 with a message if the file is not a profile.";

/// Show a saved profile, in any format.
///
/// `toft heap -o FILE.toft`, `toft run --profile FILE` and TOFT_PROFILE write such files. `toft
/// report` names the call sites from the files that ran. They may be copied from another machine.
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
    let next = format!("toft report {} -o heap.html to drill down", args.file.display());
    args.output.write(&profile, format, &next)
}

/// Reads a saved profile; the reason names the file.
pub fn read(path: &Path) -> Result<Profile, String> {
    let bytes = words::read(path, words::FILE_MOST)?;
    Profile::from_json(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}
