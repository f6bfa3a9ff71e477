//! `toft diff`: what has grown between two profiles.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toft_profile::format::{Shown, diff_text};
use toft_profile::{Change, Diff, Profile, StackChange};

use super::output::painted;
use super::report::read;
use crate::style::{self, Style};
use crate::verb::{End, Failure, SymbolFolders, print, size};

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
#[command(name = "diff", after_help = HELP)]
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
    #[command(flatten)]
    symbols: SymbolFolders,
    /// The earlier profile
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The later one
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

pub fn diff(args: &Difference) -> End {
    let (mut before, mut after) = (read(&args.before)?, read(&args.after)?);
    let mut names = args.symbols.names();
    names.give(&mut before);
    names.give(&mut after);
    let diff = Diff::of(&before, &after);
    let grown = args.fail_above.filter(|&most| diff.bytes > i128::from(most));
    let style = Style::of_stdout();
    let text = if args.json {
        let mut object = object(&diff, grown.is_some());
        add_samples(&mut object, &diff, &before, &after);
        format!("{object}\n")
    } else {
        let shown = Shown { width: style.width, top: args.top, full: false };
        painted(&diff_text(&diff, &before, &after, &shown), style)
    };
    print(text)?;
    match grown {
        Some(most) => {
            let grown = style::bytes(u64::try_from(diff.bytes).unwrap_or(u64::MAX));
            let message =
                format!("live memory has grown by {grown}, more than {}", style::bytes(most));
            Err(Failure::new(GROWN, message))
        }
        None => Ok(0),
    }
}

/// Adds what is known from sampled stacks: the callers of library code, and the stacks that have
/// changed.
fn add_samples(object: &mut Value, diff: &Diff, before: &Profile, after: &Profile) {
    if before.sampled.is_none() && after.sampled.is_none() {
        return;
    }
    let sites = object["sites"].as_array_mut().into_iter().flatten();
    for (site, change) in sites.zip(&diff.changes) {
        let of = if change.after.0 > 0 { after } else { before };
        let caller = |(caller, bytes)| json!({ "function": caller, "bytes": bytes });
        let callers = of.callers(&change.row).into_iter().map(caller).collect::<Vec<_>>();
        site["callers"] = json!(callers);
    }
    let stack = |change: StackChange| {
        let growth = i64::try_from(change.bytes()).unwrap_or(i64::MAX);
        json!({
            "label": change.stack.label().map(|(_, frame)| frame.words()),
            "calls": change.stack.words(),
            "before_bytes": change.before.0,
            "bytes": change.after.0,
            "growth_bytes": growth,
        })
    };
    let stacks = StackChange::between(before, after).into_iter().map(stack);
    object["sampled_stacks"] = json!(stacks.collect::<Vec<_>>());
}

pub fn object(diff: &Diff, failed: bool) -> Value {
    // Growth may be negative and is far from what a double cannot hold, unless the files lie.
    let number = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
    let change = |change: &Change| {
        let location = &change.row.location;
        json!({
            "site": format!("{:#x}", location.site),
            "module": location.module,
            "offset": location.offset.map(|offset| format!("{offset:#x}")),
            "function": location.function(),
            "place": location.place(),
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
