//! The secure builds: `libtoft-secure.so` and `libtoft-secure-light.so`, and an archive of each.
//!
//! They are the package `toft-preload` with the feature `secure` or `secure-light`. Cargo names
//! what it builds after the package, so each is built in a separate folder and copied to where the
//! others are, under its name.

use crate::step::succeed;
use crate::{files, place};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// A secure build, by its feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    Full,
    Light,
}

impl Strength {
    pub const ALL: [Strength; 2] = [Strength::Full, Strength::Light];

    /// The feature, and the name of the folder in which it is built.
    pub fn feature(self) -> &'static str {
        match self {
            Strength::Full => "secure",
            Strength::Light => "secure-light",
        }
    }
}

/// Builds a library, and says where it is.
pub fn build(strength: Strength) -> Result<PathBuf, String> {
    // What runs at the same time builds it, and each copies it to the same names.
    static LOCKS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
    let _lock = LOCKS[strength as usize].lock().unwrap_or_else(PoisonError::into_inner);
    let feature = strength.feature();
    let folder = place::target_dir().join(feature);
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--package", "toft-preload", "--features", feature]);
    succeed(cargo.arg("--target-dir").arg(&folder))?;
    let release = place::target_dir().join("release");
    files::make_folder(&release)?;
    for ending in ["a", "so"] {
        let from = folder.join("release/libtoft").with_extension(ending);
        let next = release.join(format!("libtoft-{feature}.{ending}-next"));
        let to = release.join(format!("libtoft-{feature}.{ending}"));
        // A program may be running on the old one: a new file takes its name.
        files::copy(&from, &next)?;
        std::fs::rename(&next, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(release.join(format!("libtoft-{feature}.so")))
}

/// Builds all of them.
pub fn build_all() -> Result<Vec<PathBuf>, String> {
    std::thread::scope(|scope| {
        let [full, light] = Strength::ALL.map(|strength| scope.spawn(move || build(strength)));
        [full, light].map(|build| build.join().expect("no build panics")).into_iter().collect()
    })
}

/// `cargo xtask secure`.
pub fn main() -> Result<ExitCode, String> {
    for library in build_all()? {
        println!("{}", library.display());
    }
    Ok(ExitCode::SUCCESS)
}
