//! `toft trace`: what a trace amounts to, on one screen.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toft_trace::{Summary, Trace};

use crate::style::{self, Style};
use crate::verb::{End, input_name, message, print, read};

/// The longest trace that is read: what it amounts to is kept in memory.
const TRACE_MOST: u64 = 2 << 30;

const HELP: &str = "\
Examples:
  toft record -o sort.trace -- sort words    record a trace
  toft trace sort.trace                      summarize it on one screen
  toft bench --trace sort.trace              replay it on every available allocator

Exit status: 0, or 125 with a message if the file is not a readable trace.";

/// Summarize a recorded trace
///
/// Lifetimes are counted in events, because a trace does not hold the time.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Show {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// How many call sites to show
    #[arg(long, value_name = "N", default_value_t = 8)]
    sites: usize,
    /// The trace, or - for standard input
    file: PathBuf,
}

pub fn show(show: &Show) -> End {
    let file = input_name(&show.file);
    let bytes = read(&show.file, TRACE_MOST)?;
    let trace = Trace::read(&bytes).map_err(|error| format!("{file}: {error}"))?;
    let summary = Summary::of(&trace);
    let text = if show.json {
        format!("{}\n", as_json(&trace, &summary, show.sites))
    } else {
        for warning in &trace.warnings {
            message(&format!("{file}: {warning}"));
        }
        as_text(&trace, &summary, show.sites)
    };
    print(text)?;
    Ok(0)
}

fn as_json(trace: &Trace, all: &Summary, most: usize) -> Value {
    let classes = |classes: &std::collections::BTreeMap<u64, u64>, key: &str| -> Vec<Value> {
        classes.iter().map(|(class, count)| json!({key: class, "blocks": count})).collect()
    };
    let sites: Vec<Value> = all
        .sites
        .iter()
        .take(most)
        .map(|site| {
            json!({
                "site": site.name,
                "address": site.address,
                "allocations": site.allocations,
                "bytes": site.bytes,
            })
        })
        .collect();
    json!({
        "pid": trace.pid,
        "events": all.events,
        "allocations": all.allocations,
        "zeroed": all.zeroed,
        "aligned": all.aligned,
        "frees": all.frees,
        "frees_by_other_threads": all.frees_by_others,
        "resizes": all.resizes,
        "threads": all.threads,
        "bytes": all.bytes,
        "peak_live_bytes": all.peak_bytes,
        "peak_live_blocks": all.peak_blocks,
        "left_bytes": all.left_bytes,
        "left_blocks": all.left_blocks,
        "call_sites": all.sites.len(),
        "sizes": classes(&all.sizes, "up_to"),
        "lifetimes": classes(&all.lifetimes, "below_events"),
        "top_sites": sites,
        "stray_events": all.strays,
        "calls_without_site": all.siteless,
        "unrecorded_calls": trace.unrecorded,
        "unknown_frees": trace.unknown_frees,
        "warnings": trace.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn as_text(trace: &Trace, all: &Summary, most: usize) -> String {
    use style::{bytes, count};
    let style = Style::of_stdout();
    let mut text = String::new();
    let mut row = |name: &str, what: String| {
        let _ = writeln!(text, "{} {what}", style.strong(&format!("{name:<12}")));
    };
    row(
        "events",
        format!("{} in {} threads of process {}", count(all.events), count(all.threads), trace.pid),
    );
    row(
        "allocations",
        format!(
            "{} from {} call sites, {}; {} zeroed, {} aligned",
            count(all.allocations),
            count(all.sites.len() as u64),
            bytes(all.bytes),
            count(all.zeroed),
            count(all.aligned)
        ),
    );
    row("resizes", count(all.resizes));
    row("frees", format!("{}, {} by another thread", count(all.frees), count(all.frees_by_others)));
    row(
        "peak live",
        format!("{} in up to {} blocks", bytes(all.peak_bytes), count(all.peak_blocks)),
    );
    row("left", format!("{} in {} blocks", bytes(all.left_bytes), count(all.left_blocks)));
    if trace.unrecorded + trace.unknown_frees + all.strays > 0 {
        row(
            "not known",
            format!(
                "{} calls not recorded, {} frees of unknown blocks, {} events of lost objects",
                count(trace.unrecorded),
                count(trace.unknown_frees),
                count(all.strays)
            ),
        );
    }
    if all.siteless > 0 {
        row(
            "no call site",
            format!("{} calls of sites beyond the limit of recorded sites", count(all.siteless)),
        );
    }
    let sizes = all.sizes.iter().map(|(size, blocks)| (format!("<= {}", bytes(*size)), *blocks));
    histogram(&mut text, "sizes", sizes.collect(), style);
    let mut lives: Vec<_> = all
        .lifetimes
        .iter()
        .map(|(events, blocks)| (format!("< {}", count(*events)), *blocks))
        .collect();
    if all.left_blocks > 0 {
        lives.push(("to the end".into(), all.left_blocks));
    }
    histogram(&mut text, "lifetimes in events", lives, style);
    if most > 0 && !all.sites.is_empty() {
        let _ = writeln!(text, "{}", style.strong("call sites"));
        for site in all.sites.iter().take(most) {
            let _ = writeln!(
                text,
                "  {:>12}  {:>10}  {}",
                count(site.allocations),
                bytes(site.bytes),
                style::fit(&site.name, style.width.saturating_sub(28))
            );
        }
    }
    text
}

fn histogram(text: &mut String, title: &str, rows: Vec<(String, u64)>, style: Style) {
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let _ = writeln!(text, "{}", style.strong(title));
    for (class, blocks) in rows {
        // In floating point: the product may be beyond 64 bits.
        let length = (blocks as f64 / most as f64 * 40.0).ceil() as usize;
        let bar = style.faint(&"#".repeat(length));
        let _ = writeln!(text, "  {class:>14}  {:>12}  {bar}", style::count(blocks));
    }
}
