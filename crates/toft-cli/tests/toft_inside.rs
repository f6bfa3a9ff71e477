//! A Rust program that has Toft as its global allocator gets no all-clear of a preloaded one: these
//! tests are it.

#[path = "cli/common/mod.rs"]
#[allow(dead_code, reason = "the tests in `cli` use the rest")]
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

#[test]
fn a_rust_program_with_toft_inside_gets_no_all_clear() {
    let program = std::env::current_exe().unwrap();
    assert_no_all_clear(&program, "Toft");
    // Without symbols it is known by a constant.
    let folder = directory();
    assert_no_all_clear(&stripped(&program, folder.path()), "Toft");
}

/// A copy of the program without symbols.
fn stripped(program: &Path, folder: &Path) -> PathBuf {
    let bare = folder.join("bare");
    let strip = Command::new("objcopy").arg("--strip-all").args([program, &bare]).status();
    assert!(strip.expect("the tests need binutils").success());
    bare
}

#[track_caller]
fn assert_no_all_clear(program: &Path, whose: &str) {
    for options in [&["--leaks"][..], &["--leaks", "--strict"], &["--strict"]] {
        let output = run(options, &[text(program), "--list"]);
        let page = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{page}");
        assert!(page.contains(&format!("brings its own malloc ({whose})")), "{page}");
        assert!(page.contains("blocks of that malloc were not checked"), "{page}");
        assert!(!page.contains("no leaks"), "{page}");
    }
}

/// The command has the library's crate, and allocates from libc.
#[test]
fn a_program_that_uses_the_crate_for_something_else_is_not_taken_for_one() {
    let folder = directory();
    let program = Path::new(env!("CARGO_BIN_EXE_toft"));
    for program in [program, &stripped(program, folder.path())] {
        assert_clean(&run(&["--strict"], &[text(program), "--version"]));
    }
}

#[inline(never)]
fn read_names() -> Vec<String> {
    (0..1000).map(|number| format!("{number:300}")).collect()
}

#[inline(never)]
fn read_lines() -> Vec<Vec<u8>> {
    (0..1000).map(|number| vec![number as u8; 300]).collect()
}

#[test]
#[ignore = "the test below runs it as a program"]
fn keeps_names_and_lines() {
    std::mem::forget((read_names(), read_lines()));
}

#[test]
fn a_rust_program_with_toft_inside_shows_its_own_functions() {
    let program = std::env::current_exe().unwrap();
    let [own, shared] = tables(&program, &["--ignored", "--exact", "keeps_names_and_lines"]);
    let functions = ["toft_inside::read_names", "toft_inside::read_lines"];
    assert!(functions.iter().all(|function| own.contains(function)), "{own}");
    assert!(functions.iter().all(|function| !shared.contains(function)), "{shared}");
}

/// The optimized program has lines, because the profile `release` of this workspace has
/// `debug = "line-tables-only"`. The allocator is inlined into it, under names without a namespace.
#[test]
fn an_optimized_rust_program_with_toft_inside_shows_its_own_lines() {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--package", "toft", "--example", "reports"]);
    tool(&mut cargo);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let [own, shared] = tables(&target.join("release/examples/reports"), &["keep"]);
    let source = include_str!("../../toft/examples/reports.rs");
    let place = |code: &str| {
        let line = source.lines().position(|line| line.contains(code)).unwrap() + 1;
        format!("{{closure#0}} at reports.rs:{line}")
    };
    let [names, lines] = ["format!(\"{number:300}\")", "vec![number as u8; 300]"].map(place);
    assert!(own.contains(&names) && own.contains(&lines), "{names}{lines}{own}");
    assert!(!own.contains("global.rs") && !shared.contains(&names), "{own}{shared}");
}

/// Returns the profiles of a program: by default, and with a choice of partitions, which does not
/// look through libraries.
#[track_caller]
fn tables(program: &Path, words: &[&str]) -> [String; 2] {
    let folder = directory();
    let profile = folder.path().join("profile.toft");
    [None, Some("exact")].map(|partitions| {
        let mut program = Command::new(program);
        program.args(words).env("TOFT_PROFILE", &profile).env_remove("TOFT_PARTITIONS");
        program.envs(partitions.map(|partitions| ("TOFT_PARTITIONS", partitions)));
        assert!(program.output().unwrap().status.success());
        stdout(&succeeds(&["report", text(&profile)]))
    })
}
