//! The variants of the library: each is a copy of this tree, changed by one patch of `lab/cost`.
//!
//! A copy is made of the files that are there, so no history is needed. A file of an earlier copy
//! stays untouched if nothing changed in it, so cargo does not compile it again.

use crate::libraries::{Library, build_folder, root, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the library without a patch.
pub const BASE: &str = "toft";

/// The names of the patches.
pub const VARIANTS: [&str; 4] = ["no-partitions", "no-validation", "flat", "radix"];

/// What cargo needs of the tree: the manifests of all members of the workspace, and sources.
const PARTS: [&str; 6] = ["Cargo.toml", "Cargo.lock", "crates", "lab", "tests", "xtask"];

/// Returns the path of a patch.
pub fn patch(name: &str) -> PathBuf {
    root().join("lab/cost").join(name).with_extension("patch")
}

/// Builds the library of a variant, or the base. Returns the path of the library.
pub fn build(name: &str, quick: bool) -> Result<PathBuf, String> {
    let folder = build_folder("cost").join(if quick { "quick" } else { "full" });
    let tree = folder.join(name);
    copy(name, &PARTS, &tree)?;
    Library { name, ..Library::TOFT }.build(&tree, &folder.join("target").join(name), quick)
}

/// Makes `tree` a copy of parts of this tree, with the patch of a variant, or without for the base.
pub fn copy(name: &str, parts: &[&str], tree: &Path) -> Result<(), String> {
    let fresh = tree.with_extension("new");
    let failed = |error: std::io::Error| format!("{}: {error}", tree.display());
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(failed)?;
    }
    for part in parts {
        sync(&root().join(part), &fresh.join(part)).map_err(failed)?;
    }
    if name != BASE {
        apply(&patch(name), &fresh)?;
    }
    sync(&fresh, tree).map_err(failed)?;
    std::fs::remove_dir_all(&fresh).map_err(failed)
}

/// Applies a patch to a folder. Every part of it must fit exactly.
pub fn apply(patch: &Path, folder: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    // In a repository, git leaves out files that are not below its root.
    git.arg("apply").arg(patch).current_dir(folder).env("GIT_CEILING_DIRECTORIES", above(folder));
    succeed(&mut git, &format!("{} does not apply", patch.display()))
}

fn above(folder: &Path) -> &Path {
    folder.parent().unwrap_or(folder)
}

/// Makes `to` equal to `from`: a file, or a folder without what cargo has built in it. Writes only
/// what differs, and removes what `from` does not have.
fn sync(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_file() {
        let text = std::fs::read(from)?;
        if std::fs::read(to).is_ok_and(|there| there == text) {
            return Ok(());
        }
        std::fs::create_dir_all(above(to))?;
        return std::fs::write(to, text);
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        if name != "target" && name != ".git" {
            sync(&from.join(&name), &to.join(&name))?;
        }
    }
    for entry in std::fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() {
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}
