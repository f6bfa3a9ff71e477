//! The allocators that are compared, and the libraries of those that are built here.

use std::path::{Path, PathBuf};
use std::process::Command;
use toft_bench::peers::{self, Peer};

/// An allocator of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The system's malloc.
    Glibc,
    /// ar-malloc, with this value of `TOFT_AR_LOCK`, and with or without caches.
    Variant(&'static str, bool),
    /// Toft as it is shipped.
    Toft,
    /// One of the peers that the command line names.
    Peer(usize),
}

use Subject::{Glibc, Toft, Variant};

/// One lock for all arenas.
pub const ONE: Subject = Variant("one", false);
/// Each arena has a lock.
pub const ARENA: Subject = Variant("arena", false);
/// The same with caches.
pub const ARENA_CACHE: Subject = Variant("arena", true);
/// Each class of each arena has a lock.
pub const CLASS: Subject = Variant("class", false);
/// The same with caches.
pub const CLASS_CACHE: Subject = Variant("class", true);
/// Each thread has its own heap.
pub const OWN_HEAP: Subject = Variant("none", false);
/// The same with caches.
pub const OWN_HEAP_CACHE: Subject = Variant("none", true);
/// One lock, with caches.
pub const ONE_CACHE: Subject = Variant("one", true);

impl Subject {
    /// All that are always compared, in the order of the tables.
    pub const OWN: [Subject; 10] = [
        Glibc,
        ONE,
        ARENA,
        CLASS,
        ONE_CACHE,
        ARENA_CACHE,
        CLASS_CACHE,
        OWN_HEAP,
        OWN_HEAP_CACHE,
        Toft,
    ];

    /// Whether its number of arenas is varied. With one lock for all it makes no difference.
    pub fn has_arenas(self) -> bool {
        matches!(self, Glibc | Variant("arena" | "class", _))
    }

    /// The class of its colour in plots.
    pub fn colour(self) -> String {
        match self {
            Toft => "ours".into(),
            Subject::Peer(number) => format!("c{}", number % 9),
            own => {
                let place = Subject::OWN.iter().position(|subject| *subject == own);
                format!("c{}", place.unwrap_or(0))
            }
        }
    }

    /// The variables that choose what it does with a number of arenas.
    pub fn variables(self, arenas: usize) -> Vec<(&'static str, String)> {
        match self {
            Glibc => vec![("MALLOC_ARENA_MAX", arenas.to_string())],
            Variant(lock, cache) => {
                // Without a number as many as there can be.
                let arenas = if arenas == 0 { 16 } else { arenas };
                let cache = if cache { "on" } else { "off" };
                vec![
                    ("TOFT_AR_ARENAS", arenas.to_string()),
                    ("TOFT_AR_LOCK", lock.into()),
                    ("TOFT_AR_CACHE", cache.into()),
                    ("TOFT_AR_STATS", "on".into()),
                ]
            }
            Toft | Subject::Peer(_) => Vec::new(),
        }
    }
}

/// Where the libraries are. By default there are none, which is enough for tables.
#[derive(Default)]
pub struct Subjects {
    toft: PathBuf,
    ar_malloc: PathBuf,
    /// The peers that the command line names.
    pub peers: Vec<Peer>,
}

impl Subjects {
    /// Builds the two libraries, and finds the peers.
    pub fn make(peers: &[String]) -> Result<Subjects, String> {
        let peers = if peers.is_empty() { Vec::new() } else { peers::choose(peers)? };
        let toft = build("--package toft-preload", "release/libtoft.so")?;
        // Apart, because only this build has the names of C. All its code is one crate.
        let words =
            "--package toft-ar-malloc --features preload --config profile.release.lto=\"off\"";
        let ar_malloc = build(words, "parallel/release/libtoft_ar_malloc.so")?;
        Ok(Subjects { toft, ar_malloc, peers })
    }

    /// What the tables call a subject.
    pub fn name(&self, subject: Subject) -> String {
        match subject {
            Subject::Peer(number) => {
                self.peers.get(number).map_or_else(String::new, |peer| peer.name.clone())
            }
            own => name(own).into(),
        }
    }

    /// The subject as the laboratory knows allocators.
    pub fn peer(&self, subject: Subject) -> Peer {
        let library = match subject {
            Toft => Some(self.toft.clone()),
            Variant(..) => Some(self.ar_malloc.clone()),
            Glibc => None,
            Subject::Peer(number) => self.peers.get(number).and_then(|peer| peer.library.clone()),
        };
        let name = match subject {
            // Its name also says which variables it is run with.
            Subject::Peer(_) => self.name(subject),
            _ => "ours".into(),
        };
        Peer { name, library, version: String::new() }
    }

    /// All, in the order of the tables.
    pub fn all(&self) -> impl Iterator<Item = Subject> {
        Subject::OWN.into_iter().chain((0..self.peers.len()).map(Subject::Peer))
    }
}

/// What the tables call a subject that is always compared.
fn name(subject: Subject) -> &'static str {
    match subject {
        Glibc => "glibc",
        Toft => "toft",
        Variant("one", false) => "one lock",
        Variant("one", true) => "one lock, cache",
        Variant("arena", false) => "lock per arena",
        Variant("arena", true) => "per arena, cache",
        Variant("class", false) => "lock per class",
        Variant("class", true) => "per class, cache",
        Variant(_, false) => "own heap",
        Variant(_, true) => "own heap, cache",
        Subject::Peer(_) => "",
    }
}

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Builds a library with these words of cargo, and returns its path, which is below the folder of
/// all builds.
fn build(words: &str, path: &str) -> Result<PathBuf, String> {
    eprintln!("building {path}");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root().join(target);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release"]).args(words.split_whitespace());
    if let Some((folder, _)) = path.split_once("/release/") {
        cargo.arg("--target-dir").arg(target.join(folder));
    }
    cargo.env_remove("LD_PRELOAD").current_dir(root());
    let said = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(format!("{path} is not built: {}", why.trim()));
    }
    let built = target.join(path);
    built.canonicalize().map_err(|error| format!("{}: {error}", built.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_colours_and_variables_tell_the_subjects_apart() {
        let different = |of: &dyn Fn(Subject) -> String| {
            Subject::OWN.map(of).into_iter().collect::<BTreeSet<_>>().len()
        };
        assert_eq!(different(&|subject| name(subject).into()), Subject::OWN.len());
        assert_eq!(different(&Subject::colour), Subject::OWN.len());
        // Toft alone has none.
        assert_eq!(different(&|subject| format!("{:?}", subject.variables(2))), 10);
        assert!(ARENA.variables(0).contains(&("TOFT_AR_ARENAS", "16".into())));
    }
}
