//! Runs each experiment with `--quick` in an exported tree, in a folder without history. Each must
//! succeed, print a table with figures, and leave the pages as they are.
//!
//! `cargo xtask test experiments` runs this. The builds share one target directory, below that of
//! this tree. They follow the settings of the profile that are here, so that they are quick.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// Settings of the profile `release`.
const SETTINGS: [(&str, &str); 4] =
    [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "1"), ("DEBUG", "0")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in `lab`")
}

fn target_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("experiments-export")
}

/// Returns the exported tree, which is made once. It stays until the next run, as a record.
fn tree() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        let tree = std::env::temp_dir().join("toft-experiments-export");
        if tree.exists() {
            std::fs::remove_dir_all(&tree).unwrap();
        }
        std::fs::create_dir_all(&tree).unwrap();
        if root().join(".git").exists() {
            archive(&tree);
        } else {
            copy(root(), &tree);
        }
        assert!(!tree.join(".git").exists());
        tree
    })
}

/// Exports the last commit.
fn archive(tree: &Path) {
    let mut git = Command::new("git")
        .args(["archive", "HEAD"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is installed");
    let mut tar = Command::new("tar");
    // With the current time, so that cargo does not take a file for one of an earlier export.
    tar.args(["-xm", "-C"]).arg(tree).stdin(git.stdout.take().expect("a pipe"));
    assert!(tar.status().expect("tar is installed").success(), "tar");
    assert!(git.wait().unwrap().success(), "git archive");
}

/// Copies a tree without what was built in it.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to).unwrap();
        } else if entry.file_type().unwrap().is_dir() && entry.file_name() != "target" {
            std::fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        }
    }
}

/// Returns the pages and plots of the exported tree.
fn pages() -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(tree().join("docs/experiments")).unwrap().flatten();
    entries.map(|entry| (entry.path(), std::fs::read(entry.path()).unwrap())).collect()
}

fn check(experiment: &str) {
    let before = pages();
    let began = Instant::now();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&variable);
        }
    }
    cargo.args(["experiment", experiment, "--quick", "--runs", "1"]).current_dir(tree());
    cargo.env("CARGO_TARGET_DIR", target_dir());
    for (setting, value) in SETTINGS {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    let output = cargo.output().expect("cargo runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    print!("{printed}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    println!("{experiment}: {} s, with compilation", began.elapsed().as_secs());
    assert!(output.status.success(), "{experiment}: {}", output.status);
    assert!(has_figures(&printed), "{experiment} has printed no table with figures");
    assert!(pages() == before, "{experiment} --quick has written a page");
}

/// Returns true if a text has a table in Markdown, with a number in a row below its head.
fn has_figures(text: &str) -> bool {
    let mut below = false;
    text.lines().any(|line| {
        let rule = line.starts_with("|---");
        let row = below && line.starts_with('|');
        below = rule || row;
        // The first cell is a name, which may have a digit.
        row && line.split('|').skip(2).any(|cell| cell.contains(|it: char| it.is_ascii_digit()))
    })
}

#[test]
fn a_table_without_figures_is_none() {
    assert!(has_figures("time\n\n| case | Toft |\n|---|---|\n| a | 4.5 ns |\n"));
    assert!(!has_figures("| case-1 | 64 |\n|---|---|\n"));
    assert!(!has_figures("| case | Toft |\n|---|---|\n| a-64 | failed |\n"));
    assert!(!has_figures("| a | 1 |\n") && !has_figures(""));
}

#[test]
#[ignore = "builds and measures: cargo xtask test experiments"]
fn parallel() {
    check("parallel");
}

#[test]
#[ignore = "builds and measures: cargo xtask test experiments"]
fn small_bins() {
    check("small-bins");
}

#[test]
#[ignore = "builds and measures: cargo xtask test experiments"]
fn release() {
    check("release");
}

#[test]
#[ignore = "builds and measures: cargo xtask test experiments"]
fn cost() {
    check("cost");
}
