//! `cargo xtask experiment musl`: static Rust programs with musl on its own malloc, on Toft and on
//! the allocators that are used instead of it, on 1 to 8 threads.

use super::markdown;
use crate::{place, step};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use toft_bench::machine::Machine;
use toft_bench::stats::{Summary, paired};

/// The page: prose by hand, and between marks what was measured.
const PAGE: &str = "docs/experiments/musl.md";
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Feature of the program, and the crate that it brings; musl's own malloc needs none.
const ALLOCATORS: [(&str, &str); 4] =
    [("musl", ""), ("toft", ""), ("mimalloc", "0.1"), ("jemalloc", "0.7")];
const WORKLOADS: [&str; 3] = ["replace", "hand-on", "maps"];
const THREADS: [usize; 4] = [1, 2, 4, 8];

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
}

/// One run of the program.
#[derive(Clone, Copy)]
struct Sample {
    milliseconds: f64,
    peak_kib: f64,
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let folder = place::target_dir().join("experiment-musl");
    let programs = ALLOCATORS.map(|(name, _)| build(&folder, name));
    let programs = programs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        for threads in THREADS {
            let mut samples: [Vec<Sample>; ALLOCATORS.len()] = Default::default();
            for _ in 0..arguments.runs.max(1) {
                for (program, samples) in programs.iter().zip(&mut samples) {
                    samples.push(measure(program, workload, threads)?);
                }
            }
            rows.push(row(workload, threads, &samples));
            println!("{}", rows[rows.len() - 1].join("  "));
        }
    }
    let versions = versions(&folder)?;
    let head = markdown::head(&Machine::here(), arguments.runs, false);
    let titles: Vec<_> = [("workload", ""), ("threads", "")]
        .iter()
        .chain(&ALLOCATORS)
        .map(|(name, _)| (*name).to_owned())
        .chain(ALLOCATORS.iter().map(|(name, _)| format!("{name}, MiB")))
        .collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let sections =
        [("machine", format!("{head}\n{versions}")), ("table", markdown::table(&titles, &rows))];
    markdown::fill(PAGE, &sections)?;
    Ok(ExitCode::SUCCESS)
}

/// A row: milliseconds on musl's malloc, the others relative to it, and peaks.
fn row(workload: &str, threads: usize, samples: &[Vec<Sample>]) -> Vec<String> {
    let of = |samples: &[Sample], what: fn(&Sample) -> f64| -> Vec<f64> {
        samples.iter().map(what).collect()
    };
    let times: Vec<_> = samples.iter().map(|s| of(s, |one| one.milliseconds)).collect();
    let mut row = vec![workload.to_owned(), threads.to_string()];
    row.push(format!("{} ms", markdown::figure(Summary::of(&times[0]))));
    row.extend(
        times[1..].iter().map(|one| format!("{} ×", markdown::ratio(paired(one, &times[0])))),
    );
    row.extend(samples.iter().map(|samples| {
        let peak = Summary::of(&of(samples, |one| one.peak_kib / 1024.0));
        peak.map_or_else(String::new, |peak| markdown::short(peak.median))
    }));
    row
}

/// Writes the program's crate and builds it on an allocator.
fn build(folder: &Path, allocator: &str) -> Result<PathBuf, String> {
    let said = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(said)?;
    std::fs::write(folder.join("main.rs"), include_str!("musl/program.rs")).map_err(said)?;
    std::fs::write(folder.join("Cargo.toml"), manifest()).map_err(said)?;
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--target", TARGET, "--manifest-path"]);
    cargo.arg(folder.join("Cargo.toml")).arg("--target-dir").arg(folder.join(allocator));
    if allocator != "musl" {
        cargo.args(["--features", allocator]);
    }
    step::succeed(cargo.env("CC_x86_64_unknown_linux_musl", "musl-gcc"))?;
    Ok(folder.join(allocator).join(TARGET).join("release/musl"))
}

fn manifest() -> String {
    let toft = place::root().join("crates/toft");
    let [.., (_, mimalloc), (_, jemalloc)] = ALLOCATORS;
    format!(
        "[package]\nname = \"musl\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [[bin]]\nname = \"musl\"\npath = \"main.rs\"\n\
         [dependencies]\n\
         toft = {{ path = {toft:?}, optional = true }}\n\
         mimalloc = {{ version = \"{mimalloc}\", optional = true }}\n\
         tikv-jemallocator = {{ version = \"{jemalloc}\", optional = true }}\n\
         [features]\njemalloc = [\"dep:tikv-jemallocator\"]\n\
         [profile.release]\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\n\
         [workspace]\n"
    )
}

/// What the lock file has chosen.
fn versions(folder: &Path) -> Result<String, String> {
    let lock = std::fs::read_to_string(folder.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let version = |name: &str| {
        let after = lock.split(&format!("name = \"{name}\"\nversion = \"")).nth(1)?;
        Some(format!("{name} {}", after.split('"').next()?))
    };
    let names = ["mimalloc", "libmimalloc-sys", "tikv-jemallocator", "tikv-jemalloc-sys"];
    let found: Option<Vec<_>> = names.iter().map(|name| version(name)).collect();
    Ok(format!("Crates: {}.", found.ok_or("a crate is not in the lock file")?.join(", ")))
}

fn measure(program: &Path, workload: &str, threads: usize) -> Result<Sample, String> {
    let said = |why: String| format!("{} {workload} {threads}: {why}", program.display());
    let output = Command::new(program).args([workload, &threads.to_string()]).env_clear().output();
    let output = output.map_err(|e| said(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    match numbers.as_deref() {
        Ok(&[milliseconds, peak_kib]) => Ok(Sample { milliseconds, peak_kib }),
        _ => Err(said(format!("{}: {text}", output.status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toft_bench::marks;

    #[test]
    fn the_page_has_every_section_and_no_other() {
        let text = std::fs::read_to_string(place::root().join(PAGE)).unwrap();
        for name in ["machine", "table"] {
            assert_eq!(text.matches(&marks::begin(name)).count(), 1, "{name}");
        }
        assert_eq!(marks::count(&text), 2);
    }

    #[test]
    fn a_row_is_relative_to_musl() {
        let one = |milliseconds, peak_kib| vec![Sample { milliseconds, peak_kib }];
        let samples =
            [one(100.0, 1024.0), one(50.0, 2048.0), one(200.0, 512.0), one(100.0, 1024.0)];
        let row = row("maps", 2, &samples);
        assert_eq!(row[..6], ["maps", "2", "100 ±0.00 ms", "0.50 ×", "2.00 ×", "1.00 ×"]);
        assert_eq!(row[6..], ["1.00", "2.00", "0.500", "1.00"]);
    }
}
