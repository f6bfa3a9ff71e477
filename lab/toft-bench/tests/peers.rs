//! The list of peers and their building, as a person asks for them.

mod common;

use common::{Ran, command, scratch};
use serde_json::Value;

/// Runs the program with a cache in which nothing was ever built.
fn bench(line: &str) -> Ran {
    let mut command = command(&line.split(' ').collect::<Vec<_>>());
    command.env("TOFT_BENCH_CACHE", scratch("no peers")).output().unwrap().into()
}

#[test]
fn the_peers_are_listed_as_a_table_and_as_json() {
    let peers: Value = serde_json::from_str(&bench("peers --json").page()).unwrap();
    let peer = |name: &str| peers.as_array().unwrap().iter().find(|peer| peer["name"] == name);
    assert_eq!(peer("glibc").unwrap()["installed"], true);
    assert_eq!(peer("tbbmalloc").unwrap()["kind"], "package");
    let rpmalloc = peer("rpmalloc").unwrap();
    assert_eq!(rpmalloc["installed"], false, "its cache is empty");
    assert_eq!(rpmalloc["how"], "toft bench build-peers rpmalloc");
    let table = bench("peers").page();
    for part in ["| peer ", " licence ", "| hardened_malloc ", "apt-get install libtbbmalloc2"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
}

#[test]
fn what_is_not_built_here_cannot_be_built_and_says_so() {
    for (name, reason) in [
        ("nomalloc", "no peer is called nomalloc"),
        ("tcmalloc", "apt-get"),
        ("jemalloc-bg", "toft bench build-peers jemalloc53"),
    ] {
        let ran = bench(&format!("build-peers {name}"));
        assert!(ran.status == Some(2) && ran.err.contains(reason), "{ran:?}");
    }
}
