//! `toft diff`: what has grown between two profiles.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toft_profile::format::{Shown, diff_text};
use toft_profile::{Change, Diff};

use super::names::Names;
use super::output::painted;
use super::report::read;
use crate::run::{REFUSED, say};
use crate::style::{self, Style};
use crate::words::print;

/// Exit status: it has grown by more than `--fail-above`.
const GROWN: i32 = 1;

const HELP: &str = "\
Examples:
  toft diff before.toft after.toft                     list the call sites that have grown
  toft diff --fail-above 10m before.toft after.toft    a gate for CI

Call sites are matched by function and line, so that the profiles may be of different processes. Without names, they are
matched by file and offset, which needs the same build.

Exit status: 0; 1 if --fail-above was given and live memory has grown by more; 125 if a file is not a profile.";

/// Show which call sites have grown between two profiles.
#[derive(Args, Debug)]
#[command(name = "diff", after_help = HELP, after_long_help = HELP)]
pub struct Difference {
    /// Print one JSON object, with every call site
    #[arg(long)]
    json: bool,
    /// How many call sites to show; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// End with status 1 if live memory has grown by more than BYTES (512k, 10m, 1g)
    #[arg(long, value_name = "BYTES", value_parser = size)]
    fail_above: Option<u64>,
    /// Search this folder for programs, libraries and debug files of the call sites; may be
    /// repeated
    #[arg(long, value_name = "FOLDER")]
    symbols: Vec<PathBuf>,
    /// The earlier profile
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The later one
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

fn size(text: &str) -> Result<u64, String> {
    // As the library reads its options.
    let bytes = toft_core::options::parse_size(text.as_bytes());
    bytes
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or("not a size such as 512k, 10m or 1g".into())
}

/// The verb.
pub fn diff(args: &Difference) -> i32 {
    let (mut before, mut after) = match (read(&args.before), read(&args.after)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => {
            say(&why);
            return REFUSED;
        }
    };
    let mut names = Names::new(args.symbols.clone());
    names.give(&mut before);
    names.give(&mut after);
    let diff = Diff::of(&before, &after);
    let grown = args.fail_above.filter(|&most| diff.bytes > i128::from(most));
    let style = Style::of_stdout();
    let text = if args.json {
        format!("{}\n", object(&diff, grown.is_some()))
    } else {
        let shown = Shown { width: style.width, top: args.top, full: false };
        painted(&diff_text(&diff, &shown), style)
    };
    if let Err(why) = print(text.as_bytes()) {
        say(&why);
        return REFUSED;
    }
    match grown {
        Some(most) => {
            let grown = u64::try_from(diff.bytes).unwrap_or(u64::MAX);
            say(&format!(
                "live memory has grown by {}, more than {}",
                style::bytes(grown),
                style::bytes(most)
            ));
            GROWN
        }
        None => 0,
    }
}

/// What has changed, as an object.
pub fn object(diff: &Diff, failed: bool) -> Value {
    // Growth may be negative and is far from what a double cannot hold, unless the files lie.
    let number = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
    let change = |change: &Change| {
        json!({
            "site": format!("{:#x}", change.row.site),
            "module": change.row.module,
            "offset": change.row.offset.map(|offset| format!("{offset:#x}")),
            "function": change.row.function(),
            "place": change.row.place(),
            "before_bytes": change.before.0,
            "before_objects": change.before.1,
            "bytes": change.after.0,
            "objects": change.after.1,
            "growth_bytes": number(change.bytes()),
            "growth_objects": number(change.objects()),
            "allocations": change.had.0,
            "allocated_bytes": change.had.1,
            "mean_lifetime_seconds": diff.seconds.and_then(|seconds| change.lifetime(seconds)),
        })
    };
    json!({
        "growth_bytes": number(diff.bytes),
        "growth_objects": number(diff.objects),
        "allocations": diff.had.0,
        "allocated_bytes": diff.had.1,
        "failed": failed,
        "sites": diff.changes.iter().map(change).collect::<Vec<_>>(),
    })
}
