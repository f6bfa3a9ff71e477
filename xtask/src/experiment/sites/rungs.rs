//! The rungs of the ladder: what is set, and which library is preloaded.

use super::programs::Program;
use crate::place;
use std::path::PathBuf;
use std::process::Command;

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Return addresses, hashed into 64 partitions.
    Hashed,
    /// Return addresses, each its own.
    Exact,
    /// Wrappers by their names.
    Named,
    /// Wrappers that are found.
    Found,
    /// Both.
    Both,
    /// Wrappers that are found, and looked through by frame pointers only.
    Frames,
}

impl Rung {
    /// All, in the order of the tables.
    pub const ALL: [Rung; 6] =
        [Rung::Hashed, Rung::Exact, Rung::Named, Rung::Found, Rung::Both, Rung::Frames];

    /// What the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Rung::Hashed => "hashed",
            Rung::Exact => "exact",
            Rung::Named => "named",
            Rung::Found => "auto",
            Rung::Both => "auto and named",
            Rung::Frames => "frame pointers",
        }
    }

    /// Sets up a command for it.
    pub fn set(self, command: &mut Command, libraries: &Libraries, program: &Program) {
        let library = if self == Rung::Frames { &libraries.by_frame } else { &libraries.usual };
        command.env("LD_PRELOAD", library);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOFT_") {
                command.env_remove(name);
            }
        }
        match self {
            Rung::Hashed => command.env("TOFT_PARTITIONS", "64"),
            Rung::Exact => command.env("TOFT_PARTITIONS", "exact"),
            Rung::Named => command.env("TOFT_WRAPPERS", program.wrappers),
            Rung::Found | Rung::Frames => command.env("TOFT_WRAPPERS", "auto"),
            Rung::Both => command.env("TOFT_WRAPPERS", format!("auto,{}", program.wrappers)),
        };
    }
}

/// The builds.
pub struct Libraries {
    usual: PathBuf,
    by_frame: PathBuf,
}

/// Builds them.
pub fn build() -> Result<Libraries, String> {
    let folder = place::target_dir().join("experiment-sites");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let build = |name: &str, features: &[&str]| {
        let mut cargo = place::cargo();
        cargo.args(["build", "--quiet", "--release", "--package", "toft-preload"]);
        cargo.args(features);
        match cargo.status() {
            Ok(status) if status.success() => {}
            other => return Err(format!("cargo build: {other:?}")),
        }
        let to = folder.join(name);
        let from = place::target_dir().join("release/libtoft.so");
        std::fs::copy(&from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
        Ok(to)
    };
    let by_frame = build("by-frame.so", &["--features", "experiment-frame-pointers"])?;
    Ok(Libraries { by_frame, usual: build("usual.so", &[])? })
}
