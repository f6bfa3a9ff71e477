//! The rungs of the ladder: what is set, and which library is preloaded.

use super::programs::Program;
use crate::place;
use std::path::{Path, PathBuf};
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
}

impl Rung {
    /// All, in the order of the tables.
    pub const ALL: [Rung; 5] = [Rung::Hashed, Rung::Exact, Rung::Named, Rung::Found, Rung::Both];

    /// What the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Rung::Hashed => "hashed",
            Rung::Exact => "exact",
            Rung::Named => "named",
            Rung::Found => "auto",
            Rung::Both => "auto and named",
        }
    }

    /// Sets up a command for it.
    pub fn set(self, command: &mut Command, library: &Path, program: &Program) {
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
            Rung::Found => command.env("TOFT_WRAPPERS", "auto"),
            Rung::Both => command.env("TOFT_WRAPPERS", format!("auto,{}", program.wrappers)),
        };
    }
}

/// Builds the library; returns where it is.
pub fn build() -> Result<PathBuf, String> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--release", "--package", "toft-preload"]);
    match cargo.status() {
        Ok(status) if status.success() => Ok(place::target_dir().join("release/libtoft.so")),
        other => Err(format!("cargo build: {other:?}")),
    }
}
