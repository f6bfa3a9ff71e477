//! `cargo xtask experiment arena`: the arena against other allocators for memory that the program
//! hands over, and the tables of the page from what was measured, which is kept beside it.

use crate::{files, place, step};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;
use toft_bench::machine::Machine;
use toft_bench::marks;

/// The page: prose by hand, and between marks what was measured.
const PAGE: &str = "docs/experiments/arena.md";
/// What was measured, for `--again`.
const KEPT: &str = "docs/experiments/arena.json";

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// One round; for a quick look, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Measure nothing: write the tables from what is kept
    #[arg(long)]
    again: bool,
    /// Measure nothing but the size of the code, which needs no idle machine
    #[arg(long, conflicts_with = "again")]
    sizes: bool,
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let kept = place::root().join(KEPT);
    if arguments.sizes {
        let mut all = read(&kept)?;
        all["figures"]["size"] = sizes()?;
        keep(&kept, &all)?;
    } else if !arguments.again {
        let begin = Instant::now();
        let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 5 }).max(1);
        let raw = place::target_dir().join("arena.json");
        let mut cargo = place::cargo();
        cargo.args(["bench", "--package", "toft-arena", "--features", "all", "--bench", "versus"]);
        cargo.arg("--").arg(format!("rounds={runs}")).arg(format!("json={}", raw.display()));
        if arguments.quick {
            cargo.arg("actions=200");
        }
        let code = step::passed_on(&mut cargo)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
        let head = head(runs, arguments.quick);
        let mut figures = read(&raw)?;
        figures["size"] = sizes()?;
        let seconds = begin.elapsed().as_secs();
        let all = json!({ "head": head, "seconds": seconds, "figures": figures });
        keep(&kept, &all)?;
    }
    fill(&sections(&read(&kept)?))?;
    println!("{PAGE}");
    Ok(ExitCode::SUCCESS)
}

fn keep(path: &std::path::Path, all: &Value) -> Result<(), String> {
    files::write(path, format!("{all}\n"))
}

/// Where and how it was measured.
fn head(runs: usize, quick: bool) -> String {
    format!(
        "{}; {runs} interleaved rounds, the best of them (of shares the mean){}.",
        marks::machine(&Machine::here()),
        if quick { "; a quick run, **too short for claims**" } else { "" }
    )
}

/// Writes each section between its marks on the page.
fn fill(sections: &[(&str, String)]) -> Result<(), String> {
    let path = place::root().join(PAGE);
    let text = sections.iter().try_fold(files::read(&path)?, |text, (name, section)| {
        marks::replaced(&text, PAGE, name, &format!("\n{}\n\n", section.trim()))
    })?;
    files::write(&path, text)
}

/// What each allocator adds to a WebAssembly module, in bytes.
fn sizes() -> Result<Value, String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let target_dir = place::target_dir().join("size");
    let module = target_dir.join(TARGET).join("release/toft_arena_size.wasm");
    let mut sizes = serde_json::Map::new();
    let mut nothing = 0;
    for name in [""].iter().chain(ORDER).filter(|name| !LEFT_OUT.contains(name)) {
        let mut cargo = place::cargo();
        // A shape that is there for its size is built for it.
        let tight = if *name == "small" { "small,tight" } else { name };
        cargo.args(["build", "--quiet", "--release", "--target", TARGET, "--features", tight]);
        cargo.args(["--manifest-path", "crates/toft-arena/size/Cargo.toml"]);
        // What has been built before is not taken for this one.
        let _ = std::fs::remove_file(&module);
        step::passed_on(cargo.env("CARGO_TARGET_DIR", &target_dir))?;
        // Where the target is not there, or an allocator does not compile for it.
        let Ok(file) = std::fs::metadata(&module) else { continue };
        if name.is_empty() {
            nothing = file.len();
        } else {
            let own = json!({ "bytes of wasm": { "best": file.len().saturating_sub(nothing) } });
            sizes.insert((*name).to_owned(), own);
        }
    }
    Ok(sizes.into())
}

fn read(path: &std::path::Path) -> Result<Value, String> {
    serde_json::from_str(&files::read(path)?).map_err(|e| format!("{}: {e}", path.display()))
}

/// The tables: the mark on the page, the workload, and the peer that each allocator's figures are
/// also divided by.
const TABLES: &[(&str, &str, Option<&str>)] = &[
    ("random", "random", Some("talc")),
    ("threads-1", "threads-1", Some("talc")),
    ("threads-2", "threads-2", Some("talc")),
    ("threads-4", "threads-4", Some("talc")),
    ("exhaustion", "exhaustion", None),
    ("efficiency", "efficiency", None),
    ("octiles", "octiles", None),
    ("aligned", "aligned", None),
    ("bursts", "bursts", None),
    ("size", "size", None),
];

/// What is not measured by its code.
const LEFT_OUT: &[&str] = &["striped fast", "narrow", "unchecked"];

/// Allocators in this order, and then all others; the first are ours.
const ORDER: &[&str] = &[
    "small",
    "packed",
    "standard",
    "fast",
    "striped fast",
    "bare",
    "narrow",
    "checked",
    "unchecked",
    "talc",
    "rlsf",
    "dlmalloc",
    "good_memory_allocator",
    "buddy_system_allocator",
    "linked_list_allocator",
];

fn sections(kept: &Value) -> Vec<(&'static str, String)> {
    let head = kept["head"].as_str().unwrap_or_default();
    let head = format!("{head} {} s in all.", kept["seconds"]);
    let one = |&(mark, workload, base): &(&'static str, &str, Option<&str>)| {
        (mark, rows(&kept["figures"][workload], base))
    };
    [("machine", head)].into_iter().chain(TABLES.iter().map(one)).collect()
}

/// A row for each allocator, a column for each figure.
fn rows(workload: &Value, base: Option<&str>) -> String {
    let best = |name: &str, figure: &str| workload[name][figure]["best"].as_f64();
    let mut columns: Vec<&String> = Vec::new();
    let known = ORDER.iter().filter(|name| workload[**name].is_object());
    let names: Vec<&str> = known.copied().collect();
    for name in &names {
        let own = workload[*name].as_object().into_iter().flat_map(|row| row.keys());
        own.for_each(|figure| {
            if !columns.contains(&figure) {
                columns.push(figure);
            }
        });
    }
    // Numbers stand for sizes; JSON has ordered them as words.
    columns
        .sort_by_key(|figure| (figure.parse::<usize>().unwrap_or(usize::MAX), (*figure).clone()));
    let row = |name: &&str| {
        let cells = columns.iter().map(|figure| {
            let Some(own) = best(name, figure) else { return "fails".to_owned() };
            let ratio = base.filter(|base| base != name).and_then(|base| best(base, figure));
            match ratio {
                Some(base) => format!("{} ({:.2})", short(own), own / base),
                None => short(own),
            }
        });
        [(*name).to_owned()].into_iter().chain(cells).collect()
    };
    let head: Vec<&str> =
        [""].into_iter().chain(columns.iter().map(|name| name.as_str())).collect();
    table(&head, &names.iter().map(row).collect::<Vec<Vec<String>>>())
}

/// A table with a row for each of `rows`.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rule = "---|".repeat(head.len());
    let rows = rows.iter().map(|row| format!("| {} |\n", row.join(" | ")));
    format!("| {} |\n|{rule}\n{}", head.join(" | "), rows.collect::<String>())
}

/// Three figures that say something.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_section_and_no_other() {
        let text = files::kept(PAGE);
        let mut names = vec!["machine"];
        names.extend(TABLES.iter().map(|table| table.0));
        for name in &names {
            assert_eq!(text.matches(&marks::begin(name)).count(), 1, "{name}");
        }
        assert_eq!(marks::count(&text), names.len());
    }

    #[test]
    fn a_row_has_figures_and_ratios_and_says_what_fails() {
        let figures = json!({
            "talc": { "200": { "best": 50.0 }, "1000": { "best": 10.0 } },
            "fast": { "200": { "best": 60.0 } },
        });
        let text = rows(&figures, Some("talc"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "|  | 200 | 1000 |");
        assert_eq!(lines[2], "| fast | 60.0 (1.20) | fails |");
        assert_eq!(lines[3], "| talc | 50.0 | 10.0 |");
    }
}
