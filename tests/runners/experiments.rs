//! The builds of the experiment about parallelism: each is built, goes through a storm of threads
//! and of forks, names double frees, and counts what happens.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use toft_tests::directives::Source;
use toft_tests::library::{Library, library, scratch_dir, target_dir, workspace};
use toft_tests::suite::run_source_on;
use toft_tests::trials::{main as run, trial};

/// A build: its name, its features, its locks, and whether it has caches.
const BUILDS: [(&str, &str, &str, &str); 6] = [
    ("own", "experiment-parallel", "none", "0"),
    ("own_cache", "experiment-cache", "none", "1"),
    ("arena", "experiment-lock-arena", "arena", "0"),
    ("arena_cache", "experiment-lock-arena,experiment-cache", "arena", "1"),
    ("class", "experiment-lock-class", "class", "0"),
    ("class_cache", "experiment-lock-class,experiment-cache", "class", "1"),
];

/// Double frees by one thread, by two, and of what another one has.
const MISUSE: [&str; 6] = [
    "double_free_small",
    "double_free_medium",
    "double_free_a_then_b",
    "double_free_b_then_a",
    "double_free_b_twice",
    "double_free_realloc_zero",
];

/// Builds one, in a separate target directory, so that the library under test stays.
fn build(name: &str, features: &str) -> Result<Library, String> {
    let target = target_dir().join("experiments");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--package", "toft-preload"])
        .args(["--features", features])
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(workspace())
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("{name} does not build"));
    }
    let to: PathBuf = scratch_dir("experiments").join(format!("libtoft-{name}.so"));
    std::fs::copy(target.join("release/libtoft.so"), &to)
        .map_err(|e| format!("{}: {e}", to.display()))?;
    Ok(Library::Toft(to))
}

/// A source, with what this suite adds to it.
fn source(folder: &str, name: &str, flags: &[&str]) -> Result<Source, String> {
    let path = workspace().join("tests").join(folder).join(format!("{name}.c"));
    let mut source = Source::read(&path)?;
    source.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
    source.timeout = source.timeout.max(Duration::from_secs(60));
    Ok(source)
}

/// Runs a source on one arena, which all threads share, and on several.
fn on_arenas(library: &Library, source: &Source, many: &str) -> Result<(), String> {
    for arenas in ["1", many] {
        let mut source = source.clone();
        source.env.push(("TOFT_EXPERIMENT_ARENAS".into(), arenas.into()));
        run_source_on(library, "experiments", &source)
            .map_err(|e| format!("{arenas} arenas: {e}"))?;
    }
    Ok(())
}

type Built = Result<Library, String>;

fn named(library: &Built, sources: &Result<Vec<Source>, String>) -> Result<(), String> {
    let library = library.as_ref().map_err(Clone::clone)?;
    let sources = sources.as_ref().map_err(Clone::clone)?;
    sources.iter().try_for_each(|source| run_source_on(library, "experiments", source))
}

fn stormed(library: &Built, source: &Result<Source, String>, many: &str) -> Result<(), String> {
    on_arenas(library.as_ref().map_err(Clone::clone)?, source.as_ref().map_err(Clone::clone)?, many)
}

fn main() {
    if library() == &Library::Libc {
        // They are built again whatever is under test.
        run(Vec::new());
    }
    let storm = source("storms", "stress_handover", &["-DSECONDS=1"]);
    let forks = source("storms", "fork_busy", &["-DSECONDS=1"]);
    let counts = source("experiments", "counts", &[]);
    let misuse: Result<Vec<Source>, String> = MISUSE
        .iter()
        .map(|name| source("misuse", name, &[]))
        .collect::<Result<Vec<_>, _>>()
        .map(|all| all.into_iter().flat_map(|s| [s.as_twin(), s]).collect());
    // Trials run side by side and share the programs: all are compiled before.
    let all = [&storm, &forks, &counts].into_iter().flatten().chain(misuse.iter().flatten());
    for source in all {
        if let Err(error) = toft_tests::compile::compile("experiments", source) {
            run(vec![trial(format!("compile {}", source.name), || Err(error))]);
        }
    }
    let mut trials = Vec::new();
    for (name, features, locks, caches) in BUILDS {
        let library = build(name, features);
        let (one, other, third) = (library.clone(), library.clone(), library.clone());
        let (storm, forks, misuse) = (storm.clone(), forks.clone(), misuse.clone());
        let counts = counts.clone().map(|mut counts| {
            counts.runs = vec![vec![locks.to_owned(), caches.to_owned()]];
            counts
        });
        trials.push(trial(format!("{name}_storm"), move || stormed(&library, &storm, "3")));
        trials.push(trial(format!("{name}_forks"), move || stormed(&one, &forks, "3")));
        trials.push(trial(format!("{name}_double_frees"), move || named(&other, &misuse)));
        trials.push(trial(format!("{name}_counts"), move || stormed(&third, &counts, "16")));
    }
    run(trials)
}
