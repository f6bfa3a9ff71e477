//! Debian packages, by debhelper: `packaging/debian` says which file is in which.

use super::build::Built;
use super::{Dist, copy, emptied, name, run, template, write};
use crate::install::{Place, install};
use crate::{files, place};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where libraries lie on Debian.
const LIBDIR: &str = "lib/x86_64-linux-gnu";

/// The packages.
pub fn make(dist: &Dist, built: &Built) -> Result<Vec<PathBuf>, String> {
    // dpkg-buildpackage puts the packages beside the folder that it works in.
    let work = dist.work.join("debian");
    let source = work.join("toft");
    emptied(&work)?;
    install(&built.folder, &Place::packed("/usr", &source.join("staged"), LIBDIR))?;
    let templates = place::root().join("packaging/debian");
    for file in files::in_folder(&templates)?.iter().map(|path| name(path)) {
        write(&source.join("debian").join(&file), template(&format!("debian/{file}"))?)?;
    }
    run(Command::new("dpkg-buildpackage")
        .args(["--build=binary", "--no-sign", "--no-pre-clean", "--no-check-builddeps"])
        .env("SOURCE_DATE_EPOCH", &dist.epoch)
        .current_dir(&source))?;
    let made = packages(&work, &dist.out)?;
    run(Command::new("lintian").args(["--allow-root", "--fail-on=error,warning"]).args(&made))?;
    Ok(made)
}

fn packages(from: &Path, to: &Path) -> Result<Vec<PathBuf>, String> {
    let mut made = Vec::new();
    for file in files::in_folder(from)? {
        if file.extension().is_some_and(|ending| ending == "deb") {
            let path = to.join(name(&file));
            copy(&file, &path)?;
            made.push(path);
        }
    }
    if made.len() == 3 { Ok(made) } else { Err(format!("three packages, not {}", made.len())) }
}
