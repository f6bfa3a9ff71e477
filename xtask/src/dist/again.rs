//! `cargo xtask dist --check-reproducible`: makes the same artifacts from a clone in another
//! folder, and compares.

use super::{Dist, Kind, emptied, run, text};
use crate::{files, place};
use std::collections::BTreeMap;
use std::process::Command;

/// Fails if an artifact of the clone has other bytes.
pub fn check(dist: &Dist, kinds: &[Kind]) -> Result<(), String> {
    let mut git = Command::new("git");
    let changes = text(git.args(["status", "--porcelain", "-uno"]).current_dir(place::root()))?;
    if !changes.is_empty() {
        return Err("a clone does not have what is not committed: commit it first".into());
    }
    // Elsewhere than any other build, at a path of another length.
    let clone = dist.work.join("again").join(format!("toft-{}", std::process::id()));
    emptied(&dist.work.join("again"))?;
    println!("==> building again in {}", clone.display());
    run(Command::new("git").args(["clone", "--quiet"]).arg(place::root()).arg(&clone))?;
    // There may be later commits by now.
    let mut git = Command::new("git");
    run(git.args(["checkout", "--quiet", "--detach", &dist.commit]).current_dir(&clone))?;
    let names: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    run(place::cargo()
        .args(["xtask", "dist", "--only", &names.join(",")])
        .env_remove("CARGO_TARGET_DIR")
        // The tools are built once for both.
        .env("PATH", path_with_tools()?)
        .current_dir(&clone))?;
    let [one, other] = [&dist.out, &clone.join("target/dist")].map(|f| f.join("SHA256SUMS"));
    let differing = differing(&files::read(&one)?, &files::read(&other)?);
    if !differing.is_empty() {
        return Err(format!("other bytes in {}: {}", clone.display(), differing.join(", ")));
    }
    println!("==> the same bytes");
    emptied(&dist.work.join("again"))
}

fn path_with_tools() -> Result<std::ffi::OsString, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = place::target_dir().join("tools/bin");
    std::env::join_paths(std::env::split_paths(&path).chain([tools]))
        .map_err(|error| error.to_string())
}

/// The files whose lines of checksums differ, or that are in one list only.
fn differing(one: &str, other: &str) -> Vec<String> {
    let read = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        lines.map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect()
    };
    let (one, other) = (read(one), read(other));
    let mut files: Vec<String> = one.keys().chain(other.keys()).cloned().collect();
    files.sort();
    files.dedup();
    files.retain(|file| one.get(file) != other.get(file));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_and_missing_files_are_found() {
        assert_eq!(differing("1  a\n2  b\n", "2  b\n1  a\n"), [""; 0]);
        assert_eq!(differing("1  a\n2  b\n", "1  a\n3  b\n4  c\n"), ["b", "c"]);
    }
}
