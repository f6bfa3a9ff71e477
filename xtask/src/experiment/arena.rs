//! `cargo xtask experiment arena`: the arena against other allocators for memory that the program
//! hands over. The benchmark measures and makes the tables. This puts them on the page, and
//! measures code.

use crate::{files, place, step};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use toft_bench::machine::Machine;
use toft_bench::marks;

/// The page: prose by hand, and between marks what was measured.
const PAGE: &str = "docs/experiments/arena.md";

/// Workloads of the benchmark with a table on the page.
const TABLES: [&str; 9] = [
    "random",
    "threads-1",
    "threads-2",
    "threads-4",
    "exhaustion",
    "efficiency",
    "octiles",
    "aligned",
    "bursts",
];

/// What adds code to a WebAssembly module, as features of the crate that is built for it.
const MODULES: [&str; 12] = [
    // It is there for its size, and built for it.
    "small,tight",
    "packed",
    "standard",
    "fast",
    "bare",
    "checked",
    "talc",
    "rlsf",
    "dlmalloc",
    "good_memory_allocator",
    "buddy_system_allocator",
    "linked_list_allocator",
];

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// One round; for a quick look, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Measure nothing but the size of the code, which needs no idle machine
    #[arg(long)]
    sizes: bool,
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut sections = Vec::new();
    if !arguments.sizes {
        let begin = Instant::now();
        let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 5 }).max(1);
        let tables = place::target_dir().join("arena-tables");
        files::emptied(&tables)?;
        let mut cargo = place::cargo();
        cargo.args(["bench", "--package", "toft-arena", "--features", "all", "--bench", "versus"]);
        cargo.arg("--").arg(format!("rounds={runs}")).arg(format!("tables={}", tables.display()));
        if arguments.quick {
            cargo.arg("actions=200");
        }
        step::succeed(&mut cargo)?;
        let quick = if arguments.quick { "; a quick run, **too short for claims**" } else { "" };
        let head = format!(
            "{}; {runs} interleaved rounds, the best of them (of shares the mean){quick}. {} s in all.",
            marks::machine(&Machine::here()),
            begin.elapsed().as_secs()
        );
        sections.push(("machine", head));
        for name in TABLES {
            sections.push((name, files::read(&tables.join(name).with_extension("md"))?));
        }
    }
    sections.push(("size", sizes()?));
    let path = place::root().join(PAGE);
    let text = sections.iter().try_fold(files::read(&path)?, |text, (name, section)| {
        marks::replaced(&text, PAGE, name, &format!("\n{}\n\n", section.trim()))
    })?;
    files::write(&path, text)?;
    println!("{PAGE}");
    Ok(ExitCode::SUCCESS)
}

/// A table of what each allocator adds to a WebAssembly module, in bytes.
fn sizes() -> Result<String, String> {
    let folder = place::target_dir().join("size");
    let nothing = module(&folder, "")?.unwrap_or_default();
    let mut table = String::from("|  | bytes of wasm |\n|---|---|\n");
    for features in MODULES {
        if let Some(bytes) = module(&folder, features)? {
            let name = features.trim_end_matches(",tight");
            table += &format!("| {name} | {} |\n", bytes.saturating_sub(nothing));
        }
    }
    Ok(table)
}

/// The bytes of a module with these features; none where the target is not there, or an allocator
/// does not compile for it.
fn module(folder: &Path, features: &str) -> Result<Option<u64>, String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let module = folder.join(TARGET).join("release/toft_arena_size.wasm");
    // What has been built before is not taken for this one.
    let _ = std::fs::remove_file(&module);
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--release", "--target", TARGET, "--features", features]);
    cargo.args(["--manifest-path", "crates/toft-arena/size/Cargo.toml"]);
    step::passed_on(cargo.env("CARGO_TARGET_DIR", folder))?;
    Ok(std::fs::metadata(&module).ok().map(|file| file.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_section_and_no_other() {
        let text = files::kept(PAGE);
        for name in TABLES.iter().chain(&["machine", "size"]) {
            assert_eq!(text.matches(&marks::begin(name)).count(), 1, "{name}");
        }
        assert_eq!(marks::count(&text), TABLES.len() + 2);
    }
}
