//! The allocators that are compared, and the libraries of those that are built here.

use crate::libraries::{Library, build_folder, root};
use std::path::PathBuf;
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
/// [`ARENA`] with caches.
pub const ARENA_CACHE: Subject = Variant("arena", true);
/// Each class of each arena has a lock.
pub const CLASS: Subject = Variant("class", false);
/// [`CLASS`] with caches.
pub const CLASS_CACHE: Subject = Variant("class", true);
/// Each thread has its own heap.
pub const OWN_HEAP: Subject = Variant("none", false);
/// [`OWN_HEAP`] with caches.
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
    pub fn make(peers: &[String], quick: bool) -> Result<Subjects, String> {
        let peers = if peers.is_empty() { Vec::new() } else { peers::choose(peers)? };
        let ar_malloc = Library {
            name: "ar-malloc",
            words: "build --package toft-ar-malloc --features preload",
            link: &[],
            file: "libtoft_ar_malloc.so",
            // All its own code is one crate.
            lto: "off",
            variables: &[],
        };
        let build = |library: &Library| {
            library.build(root(), &build_folder("parallel").join(library.name), quick)
        };
        Ok(Subjects { toft: build(&Library::TOFT)?, ar_malloc: build(&ar_malloc)?, peers })
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
