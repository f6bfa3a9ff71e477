//! Rust programs with `toft::Toft` as their allocator: what they say at exit and of misuse, linked
//! dynamically and statically. Their build is the one under test: `secure` and `secure-light` are
//! features of the crate.

use crate::directives::{Ending, PATIENCE};
use crate::library::{Build, build_under_test, library, target_dir, workspace};
use crate::process::{Finished, command, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How a Rust program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// To the shared glibc.
    Dynamic,
    /// To the archive of glibc.
    Static,
    /// To musl, statically.
    Musl,
}

const MUSL: &str = "x86_64-unknown-linux-musl";

/// Builds `crates/toft/examples/reports.rs` among what is built already, with these features, and
/// copies it to a folder of this kind of linking. One at a time: they have the same name.
fn build(link: Link, features: &str) -> Result<PathBuf, String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--quiet", "--package", "toft", "--example", "reports"]);
    cargo.args(["--features", features]);
    cargo.current_dir(workspace()).env_remove("TOFT_TEST_LIBRARY");
    let built = match link {
        Link::Dynamic | Link::Static => target_dir(),
        Link::Musl => target_dir().join(MUSL),
    };
    match link {
        Link::Dynamic => {}
        // Of this program only: in RUSTFLAGS it would compile all crates again.
        Link::Static => _ = cargo.args(["--", "-Ctarget-feature=+crt-static"]),
        Link::Musl => _ = cargo.args(["--target", MUSL]),
    }
    let out = cargo.output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{cargo:?}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    let folder = format!("rust-{link:?}-{features}");
    let folder = target_dir().join("toft-tests").join(folder).join("examples");
    let (from, to) = (built.join("debug/examples/reports"), folder.join("reports"));
    // Another process writes it: a child that a test beside this one forks would hold our
    // descriptor for a moment, and a file that is open for writing cannot be executed.
    let copied = std::fs::create_dir_all(&folder)
        .and_then(|()| Command::new("cp").arg(&from).arg(&to).output())
        .map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))?;
    if !copied.status.success() {
        return Err(String::from_utf8_lossy(&copied.stderr).into_owned());
    }
    Ok(to)
}

fn start(program: &Path, word: &str, settings: &[(&str, &str)]) -> Finished {
    let mut command = command(program);
    command.arg(word).envs(settings.iter().copied());
    run(command, &[], PATIENCE * Duration::from_secs(60))
}

fn check(
    finished: &Finished,
    ending: Ending,
    right: &dyn Fn(&str) -> bool,
    what: &str,
) -> Result<(), String> {
    if finished.ending == ending && right(&finished.stderr) {
        return Ok(());
    }
    Err(finished.describe(&format!("not: {what}, and the end {ending:?}")))
}

/// Each misuse, the weakest build that names it, and the message but for the address. Weaker builds
/// say nothing of it.
const MISUSES: [(&str, Build, [&str; 2]); 4] = [
    ("twice", Build::Default, ["double free: free(0x", ""]),
    (
        "overflow",
        Build::Light,
        ["heap overflow: free(0x", ": byte 0 behind this 100-byte block was overwritten"],
    ),
    (
        "size",
        Build::Light,
        ["size mismatch: free(0x", ": this 100-byte block is not one of 99 bytes"],
    ),
    (
        "stale",
        Build::Secure,
        ["write after free: ", ": byte 50 of this free 100-byte block was overwritten"],
    ),
];

fn names_its_misuses(program: &Path, build: Build) -> Result<(), String> {
    for (word, weakest, [begin, end]) in MISUSES {
        let said = start(program, word, &[]);
        if build < weakest {
            check(&said, Ending::Exit(0), &str::is_empty, "silence of this build")?;
            continue;
        }
        let named = |text: &str| {
            let first = text.lines().next().and_then(|line| line.strip_prefix("toft: "));
            first.is_some_and(|line| line.starts_with(begin) && line.contains(end))
        };
        check(&said, Ending::Signal(libc::SIGABRT), &named, &format!("{begin}..{end}"))?;
    }
    check(&start(program, "once", &[]), Ending::Exit(0), &str::is_empty, "silence")
}

/// A program that names nothing but the allocator links, also if each crate is many object files
/// and the linker reads each archive once (`toft_core::hook!`).
pub fn links_incrementally() -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--quiet", "--package", "toft", "--example", "smallest"]);
    cargo.args(["--config", "profile.dev.package.toft-core.opt-level=0"]);
    let folder = target_dir().join("toft-tests/rust-incremental");
    cargo.arg("--target-dir").arg(&folder).args(["--", "-Clink-arg=-fuse-ld=bfd"]);
    cargo.current_dir(workspace()).env("CARGO_INCREMENTAL", "1").env_remove("TOFT_TEST_LIBRARY");
    let out = cargo.output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{cargo:?}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    let program = folder.join("debug/examples/smallest");
    let finished = run(command(&program), &[], PATIENCE * Duration::from_secs(60));
    check(&finished, Ending::Exit(0), &str::is_empty, "a program that runs in silence")
}

/// With both features a program has the build of `secure`.
pub fn both_features() -> Result<(), String> {
    names_its_misuses(&build(Link::Dynamic, "secure,secure-light")?, Build::Secure)
}

/// What must hold of such a program.
pub fn reports(link: Link) -> Result<(), String> {
    let (features, lost) = match build_under_test() {
        Build::Default => ("", 4096),
        // Every slot is larger than its block.
        Build::Light => ("secure-light", 4160),
        Build::Secure => ("secure", 4160),
    };
    let program = build(link, features)?;
    let (well, aborted) = (Ending::Exit(0), Ending::Signal(libc::SIGABRT));
    let silent: &dyn Fn(&str) -> bool = &|text| text.is_empty();
    names_its_misuses(&program, build_under_test())?;

    let asked = [("TOFT_STATS", "1"), ("TOFT_LEAKS", "1")];
    let stats =
        |text: &str| text.matches("{\"toft\":").count() == 1 && text.contains("\ntoft-end\n");
    for (word, ending) in [("nothing", well), ("exit", Ending::Exit(3))] {
        check(&start(&program, word, &[]), ending, silent, "silence where nothing is asked for")?;
        let said = start(&program, word, &asked[..1]);
        check(&said, ending, &stats, "statistics, once")?;
    }
    check(&start(&program, "abort", &asked), aborted, silent, "nothing at an abort")?;

    let leaks = |text: &str| {
        text.contains(&format!("toft: leaks: {lost} bytes in 4 blocks, of 1 call sites"))
            && text.contains(&format!("toft:   {lost} bytes in 4 blocks, from "))
            && text.contains("/examples/reports")
    };
    check(&start(&program, "leak", &asked[1..]), well, &leaks, "four blocks that are lost")?;
    let none = |text: &str| text.starts_with("toft: no leaks in ") && text.lines().count() == 1;
    check(&start(&program, "nothing", &asked[1..]), well, &none, "no leaks in the correct one")?;

    // Call sites behind wrappers that are new under a filter, which was not announced.
    check(&start(&program, "filter", &[]), well, silent, "no call that a filter may forbid")?;

    // The library's thread, which stays for an hour unless it is stopped.
    let stays = [("TOFT_DECAY", "3600000")];
    check(&start(&program, "thread", &stays), well, silent, "users and namespaces changed alone")?;

    let file = program.with_extension("profile");
    let _ = std::fs::remove_file(&file);
    let path = file.display().to_string();
    check(&start(&program, "leak", &[("TOFT_PROFILE", &path)]), well, silent, "a profile")?;
    let profile = std::fs::read(&file).map_err(|e| format!("no profile {path}: {e}"))?;
    if profile.is_empty() {
        return Err(format!("an empty profile: {path}"));
    }

    let twice = start(&program, "twice", &[]);
    let found = crate::linked::functions(&program, &twice.stderr, "called from")?;
    let place = |name: &str| found.iter().position(|function| function.contains(name));
    // Names of Rust's are mangled; between the calls lie none of the allocator's own.
    let right = |text: &str| {
        text.starts_with("toft: double free: free(0x")
            && matches!(
                (place("inner"), place("outer"), place("main")),
                (Some(0), Some(1), Some(2))
            )
    };
    check(&twice, aborted, &right, &format!("inner, outer, main: {found:?}"))?;

    // Two copies in one process: the preloaded one has what C code allocates. Each prints its own
    // statistics.
    let (Some(library), Link::Dynamic) = (library().path(), link) else { return Ok(()) };
    let preload = ("LD_PRELOAD", library.to_str().ok_or("the library's path is no text")?);
    check(&start(&program, "once", &[preload]), well, silent, "silence of two copies")?;
    let both = |text: &str| text.matches("{\"toft\":").count() == 2;
    check(&start(&program, "nothing", &[preload, asked[0]]), well, &both, "both statistics")?;
    check(&start(&program, "leak", &[preload, asked[1]]), well, &leaks, "leaks of the program's")?;
    check(&start(&program, "twice", &[preload]), aborted, &|text| text.contains("called from"), "")
}
