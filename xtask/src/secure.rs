//! The hardened build: `libtoft-secure.so` and `libtoft-secure.a`.
//!
//! It is the package `toft-preload` with the feature `hardened`. Cargo names what it builds after
//! the package, so it is built in a separate folder and copied to where the others are, under its
//! name.

use crate::place;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// Builds the library, and says where it is.
pub fn build() -> Result<PathBuf, String> {
    // Suites that run at the same time build it, and each copies it to the same names.
    static LOCK: Mutex<()> = Mutex::new(());
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place::target_dir().join("hardened");
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--package", "toft-preload", "--features", "hardened"]);
    cargo.arg("--target-dir").arg(&folder);
    let status = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("the hardened library does not build".into());
    }
    let release = place::target_dir().join("release");
    std::fs::create_dir_all(&release).map_err(|e| format!("{}: {e}", release.display()))?;
    for ending in ["a", "so"] {
        let from = folder.join("release/libtoft").with_extension(ending);
        let next = release.join(format!("libtoft-secure.{ending}-next"));
        let to = release.join(format!("libtoft-secure.{ending}"));
        // A program may be running on the old one: a new file takes its name.
        std::fs::copy(&from, &next).map_err(|e| format!("{}: {e}", from.display()))?;
        std::fs::rename(&next, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(release.join("libtoft-secure.so"))
}

/// `cargo xtask secure`.
pub fn main() -> Result<ExitCode, String> {
    println!("{}", build()?.display());
    Ok(ExitCode::SUCCESS)
}
