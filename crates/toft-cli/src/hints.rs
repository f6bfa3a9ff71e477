//! `toft hints`: profiles made into hints for the next run; and `toft run --hints`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use toft_profile::format::Format;
use toft_profile::{HINTS_VERSION, Hints};

use crate::profile::{Names, read};
use crate::run::{REFUSED, say};
use crate::style;
use crate::words::{FILE_MOST, USAGE, agrees, is_standard, print};

/// The longest name that the library takes.
const NAME_MOST: usize = 255;

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
#[command(name = "hints", after_help = HELP, after_long_help = HELP)]
pub struct Make {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write to a file instead of stdout (-); existing hints are kept as FILE~
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Give each call site that held at least BYTES its own partition
    #[arg(long, value_name = "BYTES", default_value = "4m", value_parser = size)]
    own_from: u64,
    /// Search this folder for programs, libraries and debug files of the call sites; may be
    /// repeated
    #[arg(long, value_name = "FOLDER")]
    symbols: Vec<PathBuf>,
    /// Profiles of one program
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
}

fn size(text: &str) -> Result<u64, String> {
    // As the library reads its options.
    let bytes = toft_core::options::parse_size(text.as_bytes());
    bytes
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or("not a size such as 64k, 1m or 1g".into())
}

/// The verb.
pub fn hints(args: &Make) -> i32 {
    let named = args.output.as_deref().filter(|_| args.json);
    if let Some(Err(why)) = named.map(|path| agrees(path, Format::Json)) {
        say(&why);
        return USAGE;
    }
    match make(args) {
        Ok(()) => 0,
        Err(why) => {
            say(&why);
            REFUSED
        }
    }
}

fn make(args: &Make) -> Result<(), String> {
    let mut profiles = Vec::new();
    let mut names = Names::new(args.symbols.clone());
    for path in &args.profiles {
        let mut profile = read(path)?;
        names.give(&mut profile);
        profiles.push(profile);
    }
    if profiles.iter().all(|profile| profile.rows.is_empty()) {
        return Err(
            "nothing was live: take a profile while the program runs (TOFT_PROFILE_AT=growth:SIZE, or toft heap)".into()
        );
    }
    let hints = Hints::of(&profiles, args.own_from);
    if !hints.exact {
        say(
            "call sites of the profile share partitions: their figures are not certain (toft run --profile makes exact ones)",
        );
    }
    if hints.nameless > 0 {
        say(&format!("{} large call sites are in no file: hints cannot name them", hints.nameless));
    }
    let text = if args.json { format!("{}\n", object(&hints)) } else { hints.text() };
    match &args.output {
        Some(path) if is_standard(path) => print(text.as_bytes()),
        Some(path) => {
            let kept = replace(path, &text)?;
            let kept = kept.map_or_else(String::new, |kept| {
                format!(" (the earlier hints are in {})", kept.display())
            });
            let (own, bytes) = hints.own_sites();
            say(&format!(
                "wrote {}{kept}: {own} call sites with their own partition and {}, {} in a shared one with {}; next: toft run --hints {} -- PROGRAM",
                path.display(),
                style::bytes(bytes),
                hints.together.0,
                style::bytes(hints.together.1),
                path.display()
            ));
            Ok(())
        }
        None => print(text.as_bytes()),
    }
}

/// Writes hints to a file; says under which name those are kept that it had, if they were others. A
/// file that has something else is not written over: a profile, or a program, is easily named in
/// their place.
fn replace(path: &Path, text: &str) -> Result<Option<PathBuf>, String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let mut kept = None;
    // What is no file, as a pipe or a device, is written to as it is.
    if fs::metadata(path).is_ok_and(|there| there.is_file()) {
        // What is longer than any hints is none.
        let old = toft_profile::read_file(path, FILE_MOST);
        let is_long = |error: &io::Error| error.kind() == io::ErrorKind::FileTooLarge;
        let other = old.as_ref().map_or_else(is_long, |old| !old.is_empty() && !is_hints(old));
        if other {
            return Err(format!(
                "{} exists and does not contain hints: not overwritten; give -o another name",
                path.display()
            ));
        }
        let old = old.map_err(failed)?;
        if !old.is_empty() && old != text.as_bytes() {
            let mut name = path.as_os_str().to_owned();
            name.push("~");
            let there = toft_profile::read_file(Path::new(&name), FILE_MOST);
            let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            if !there
                .map_or_else(|error| missing(&error), |there| there.is_empty() || is_hints(&there))
            {
                return Err(format!(
                    "{} exists and does not contain hints: nothing is written; give -o another name",
                    name.display()
                ));
            }
            fs::copy(path, &name).map_err(|error| {
                format!("cannot keep {} as {}: {error}", path.display(), name.display())
            })?;
            kept = Some(PathBuf::from(name));
        }
    }
    fs::write(path, text).map_err(failed)?;
    Ok(kept)
}

/// Whether this verb may have written it, in either form.
fn is_hints(bytes: &[u8]) -> bool {
    bytes.starts_with(b"toft-hints ")
        || serde_json::from_slice::<Value>(bytes)
            .is_ok_and(|object| object.get("toft_hints").is_some())
}

fn object(hints: &Hints) -> Value {
    let module = |(module, sites): (&toft_profile::HintModule, &Vec<toft_profile::OwnSite>)| {
        let sites: Vec<Value> = sites
            .iter()
            .map(|site| json!({"offset": format!("{:#x}", site.offset), "bytes": site.bytes, "place": site.place}))
            .collect();
        json!({"module": module.path, "build_id": module.build_id, "own": sites})
    };
    json!({
        "toft_hints": HINTS_VERSION,
        "program": hints.program,
        "exact": hints.exact,
        "others": "together",
        "together": {"sites": hints.together.0, "bytes": hints.together.1},
        "modules": hints.own.iter().map(module).collect::<Vec<_>>(),
    })
}

/// The value that notifies the library of a file of hints; the reason, where it would not take it.
pub fn variable(path: &Path) -> Result<OsString, String> {
    let told = |why: &str| format!("cannot read hints from {}: {why}", path.display());
    let whole = std::path::absolute(path).map_err(|error| told(&error.to_string()))?;
    if whole.as_os_str().len() > NAME_MOST {
        return Err(told("its name is too long"));
    }
    let status = fs::metadata(&whole).map_err(|error| told(&error.to_string()))?;
    if !status.is_file() {
        return Err(told("it is not a regular file"));
    }
    let mut first = [0; 11];
    let got = fs::File::open(&whole).and_then(|mut file| file.read_exact(&mut first));
    if got.is_err() || !first.starts_with(b"toft-hints ") {
        return Err(told("its first line is not `toft-hints 1` (toft hints makes such files)"));
    }
    Ok(whole.into())
}
