//! The builds that are compared.

use crate::place;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toft_bench::peers::{Peer, libc_version};

/// An allocator of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// Toft as it is shipped.
    Toft,
    /// Toft's design, counted.
    Own,
    /// A cache in front of it.
    OwnCache,
    /// Shared arenas, each with a lock.
    Arena,
    /// A cache in front of them.
    ArenaCache,
    /// Shared arenas, each with a lock for each class.
    Class,
    /// A cache in front of them.
    ClassCache,
    /// The system's malloc.
    Glibc,
}

use Build::{Arena, ArenaCache, Class, ClassCache, Glibc, Own, OwnCache, Toft};

impl Build {
    /// All, in the order of the tables.
    pub const ALL: [Build; 8] = [Glibc, Arena, Class, ArenaCache, ClassCache, Own, OwnCache, Toft];

    /// What the tables and plots call it.
    pub fn name(self) -> &'static str {
        match self {
            Toft => "toft",
            Own => "own heap",
            OwnCache => "own heap, cache",
            Arena => "lock per arena",
            ArenaCache => "per arena, cache",
            Class => "lock per class",
            ClassCache => "per class, cache",
            Glibc => "glibc",
        }
    }

    /// The features of the core that make it; `None` for what is not built here.
    pub fn features(self) -> Option<&'static str> {
        Some(match self {
            Toft => "",
            Own => "experiment-parallel",
            OwnCache => "experiment-cache",
            Arena => "experiment-lock-arena",
            ArenaCache => "experiment-lock-arena,experiment-cache",
            Class => "experiment-lock-class",
            ClassCache => "experiment-lock-class,experiment-cache",
            Glibc => return None,
        })
    }

    /// Whether its number of arenas can be set.
    pub fn has_arenas(self) -> bool {
        !matches!(self, Toft | Own | OwnCache)
    }

    /// Whether it counts what it does.
    pub fn counts(self) -> bool {
        !matches!(self, Toft | Glibc)
    }

    /// The variable that sets its number of arenas.
    pub fn arenas_variable(self) -> &'static str {
        if self == Glibc { "MALLOC_ARENA_MAX" } else { "TOFT_EXPERIMENT_ARENAS" }
    }

    /// The class of its colour in plots.
    pub fn colour(self) -> &'static str {
        match self {
            Toft => "ours",
            Glibc => "c0",
            Arena => "c1",
            Class => "c2",
            ArenaCache => "c3",
            ClassCache => "c4",
            Own => "c5",
            OwnCache => "c6",
        }
    }

    /// Its file name, and its name on the command line of the laboratory.
    fn word(self) -> String {
        self.name().replace(", ", "-").replace(' ', "-")
    }
}

/// Where the libraries are.
pub struct Libraries(BTreeMap<Build, PathBuf>);

impl Libraries {
    /// The build as the laboratory knows allocators.
    pub fn peer(&self, build: Build) -> Peer {
        Peer {
            name: build.word(),
            library: self.0.get(&build).cloned(),
            version: if build == Glibc { libc_version() } else { String::new() },
        }
    }
}

/// Where the libraries and the raw figures go.
pub fn folder() -> PathBuf {
    place::target_dir().join("experiments/parallel")
}

/// Builds all of them, in a separate target directory: one library replaces another there.
pub fn make() -> Result<Libraries, String> {
    let target = place::target_dir().join("experiments");
    let mut libraries = BTreeMap::new();
    for build in Build::ALL {
        let Some(features) = build.features() else { continue };
        eprintln!("building: {}", build.name());
        let mut cargo = place::cargo();
        cargo.args(["build", "--quiet", "--release", "--package", "toft-preload"]);
        cargo.args(["--features", features]).env("CARGO_TARGET_DIR", &target);
        run(cargo)?;
        let folder = folder().join(build.word());
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let library = folder.join("libtoft.so");
        std::fs::copy(target.join("release/libtoft.so"), &library)
            .map_err(|e| format!("{}: {e}", library.display()))?;
        libraries.insert(build, library);
    }
    eprintln!("building: the drivers and the recorder");
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--release"]);
    cargo.args(["--package", "toft-bench", "--package", "toft-cli"]);
    run(cargo)?;
    Ok(Libraries(libraries))
}

/// Runs a command that only has to succeed.
fn run(mut command: std::process::Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// A program of this workspace, as `make` has built it.
pub fn program(name: &str) -> PathBuf {
    place::target_dir().join("release").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_one_of_the_preload_library_and_no_two_builds_are_the_same() {
        let manifest = place::root().join("crates/toft-preload/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let mut seen = Vec::new();
        for build in Build::ALL {
            let features = build.features();
            assert!(!seen.contains(&features), "{build:?}");
            seen.push(features);
            for feature in features.unwrap_or("").split(',').filter(|word| !word.is_empty()) {
                assert!(manifest.contains(&format!("\n{feature} = ")), "{feature}");
            }
            assert_eq!(build.counts(), features.is_some_and(|features| !features.is_empty()));
        }
    }
}
