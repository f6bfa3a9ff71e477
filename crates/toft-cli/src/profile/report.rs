//! `toft report`: a saved profile, in any form.

use std::path::{Path, PathBuf};

use clap::Args;
use toft_profile::Profile;

use super::output::Output;
use crate::verb::{self, End};

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
#[command(name = "report", after_help = HELP)]
pub struct View {
    #[command(flatten)]
    output: Output,
    /// The profile, or - for standard input
    file: PathBuf,
}

pub fn report(args: &View) -> End {
    let format = args.output.format()?;
    let mut profile = read(&args.file)?;
    if format.wants_names() {
        args.output.symbols.names().give(&mut profile);
    }
    let next = format!("toft report {} -o heap.html to drill down", args.file.display());
    args.output.write(&profile, format, &next)?;
    Ok(0)
}

/// Reads a saved profile; an error names the file.
pub fn read(path: &Path) -> Result<Profile, String> {
    let bytes = verb::read(path, verb::FILE_MOST)?;
    Profile::from_json(&bytes).map_err(|error| format!("{}: {error}", verb::input_name(path)))
}
