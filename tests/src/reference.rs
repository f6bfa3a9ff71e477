//! The sources that test jemalloc's interface, on jemalloc itself: they ask for no more than it
//! does.

use crate::directives::Source;
use crate::suite::{run_on, sources};
use crate::trials::{trial, without};
use libtest_mimic::Trial;
use std::path::PathBuf;

const FILE: &str = "libjemalloc.so.2";
const PACKAGE: &str = "libjemalloc2";
/// How the names of the sources begin, and those of them that ask Toft for something.
const BEGIN: &str = "jemalloc_";
const OF_TOFT: [&str; 1] = ["jemalloc_sites"];

/// Returns the library of the distribution.
fn jemalloc() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut files = folders.chain([PathBuf::from("/usr/lib")]).map(|folder| folder.join(FILE));
    files.find(|file| file.is_file())
}

fn of_jemalloc(source: &Source) -> bool {
    source.name.starts_with(BEGIN) && !OF_TOFT.contains(&source.name.as_str())
}

/// Returns a trial for each of the sources.
pub fn trials() -> Vec<Trial> {
    let all = sources("abi").into_iter().flatten().filter(of_jemalloc);
    all.map(|mut source| {
        let name = format!("{}_on_jemalloc", source.name);
        let Some(library) = jemalloc() else { return without(&name, PACKAGE) };
        // The other trial builds its program at the same time.
        source.name.clone_from(&name);
        trial(name, move || run_on("abi", &source, &Some(library.into())))
    })
    .collect()
}
