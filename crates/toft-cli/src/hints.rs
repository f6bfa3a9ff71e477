//! `toft hints`: profiles made into hints for the next run; and `toft run --hints`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use toft_profile::Hints;

use crate::profile::{NAME_MOST, read};
use crate::style;
use crate::verb::{End, FILE_MOST, SymbolFolders, is_standard, message, print, size};

/// The beginning of every file of hints.
const BEGIN: &[u8] = b"toft-hints ";

const HELP: &str = "\
Examples:
  toft run --profile heap.toft -- PROGRAM       a profile of one run ...
  toft hints heap.toft -o PROGRAM.hints         ... makes hints ...
  toft run --hints PROGRAM.hints -- PROGRAM     ... for the next

A program that frees everything before it exits has an empty profile at exit. Take profiles
while it runs, and pass all of them. The largest figure of each call site counts:
  toft run --profile heap.toft --env TOFT_PROFILE_AT=growth:8m -- PROGRAM
  toft hints heap.toft* -o PROGRAM.hints

Existing hints in the file of -o are kept as FILE~. A file that does not contain hints is not overwritten.

Exit status: 0, or 125 with a message if a file is not a profile, no memory was live, or the file of -o has no hints.";

/// Make hints for the next run of a program from its profiles.
///
/// A call site that held much memory gets its own partition. Those that held little share one, so
/// that slabs are fuller. Hints name sites by file, build-id and offset: a rebuilt program needs
/// new hints, and reports that.
#[derive(Args, Debug)]
#[command(name = "hints", after_help = HELP)]
pub struct Make {
    /// Write to a file instead of stdout (-); existing hints are kept as FILE~
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Give each call site that held at least BYTES its own partition
    #[arg(long, value_name = "BYTES", default_value = "4m", value_parser = size)]
    own_from: u64,
    #[command(flatten)]
    symbols: SymbolFolders,
    /// Profiles of one program
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
}

pub fn hints(args: &Make) -> End {
    let mut profiles = Vec::new();
    let mut names = args.symbols.names();
    for path in &args.profiles {
        let mut profile = read(path)?;
        names.give(&mut profile);
        profiles.push(profile);
    }
    if profiles.iter().all(|profile| profile.rows.is_empty()) {
        let why = "nothing was live: take a profile while the program runs \
                   (TOFT_PROFILE_AT=growth:SIZE, or toft heap)";
        return Err(why.to_owned().into());
    }
    let hints = Hints::of(&profiles, args.own_from);
    if !hints.exact {
        message(
            "call sites of the profile share partitions: their figures are not certain (toft run --profile makes exact ones)",
        );
    }
    if hints.nameless > 0 {
        message(&format!(
            "{} large call sites are in no file: hints cannot name them",
            hints.nameless
        ));
    }
    let Some(path) = args.output.as_deref().filter(|path| !is_standard(path)) else {
        print(hints.text())?;
        return Ok(0);
    };
    let kept = replace(path, &hints.text())?;
    let kept = kept
        .map_or_else(String::new, |kept| format!(" (the earlier hints are in {})", kept.display()));
    let (own, bytes) = hints.own_sites();
    message(&format!(
        "wrote {0}{kept}: {own} call sites with their own partition and {1}, {2} in a shared one with {3}; \
         next: toft run --hints {0} -- PROGRAM",
        path.display(),
        style::bytes(bytes),
        hints.together.0,
        style::bytes(hints.together.1),
    ));
    Ok(0)
}

/// Writes hints to a file, and returns the name under which it kept earlier hints, if they were
/// others. A file that has something else is not overwritten: a profile, or a program, is easily
/// named in their place.
fn replace(path: &Path, text: &str) -> Result<Option<PathBuf>, String> {
    let mut kept = None;
    // A pipe or a device is written to as it is.
    if fs::metadata(path).is_ok_and(|there| there.is_file()) {
        let old = existing_hints(path)?.unwrap_or_default();
        if !old.is_empty() && old != text.as_bytes() {
            let mut name = path.as_os_str().to_owned();
            name.push("~");
            let name = PathBuf::from(name);
            existing_hints(&name)?;
            fs::copy(path, &name).map_err(|error| {
                format!("cannot keep {} as {}: {error}", path.display(), name.display())
            })?;
            kept = Some(name);
        }
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(kept)
}

/// Reads a file of hints, which may be empty; `None` if there is no such file.
fn existing_hints(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match toft_profile::read_file(path, FILE_MOST) {
        Ok(bytes) if bytes.is_empty() || bytes.starts_with(BEGIN) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A longer file than any hints is none, too.
        Ok(_) | Err(_) => Err(format!(
            "{} exists and does not contain hints: not overwritten; give -o another name",
            path.display()
        )),
    }
}

/// Returns the value of TOFT_HINTS for a file of hints, or why the library would not take it.
pub fn variable(path: &Path) -> Result<OsString, String> {
    let failed = |why: &str| format!("cannot read hints from {}: {why}", path.display());
    let whole = std::path::absolute(path).map_err(|error| failed(&error.to_string()))?;
    if whole.as_os_str().len() > NAME_MOST {
        return Err(failed("its name is too long"));
    }
    let status = fs::metadata(&whole).map_err(|error| failed(&error.to_string()))?;
    if !status.is_file() {
        return Err(failed("it is not a regular file"));
    }
    let mut first = [0; 11];
    let got = fs::File::open(&whole).and_then(|mut file| file.read_exact(&mut first));
    if got.is_err() || !first.starts_with(BEGIN) {
        return Err(failed("its first line is not `toft-hints 1` (toft hints makes such files)"));
    }
    Ok(whole.into())
}
