//! The list of peers and their building, as a person asks for them.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program with a cache in which nothing was ever built.
fn bench(words: &[&str]) -> Output {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("no peers");
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.args(words).env_remove("LD_PRELOAD").env("TOFT_BENCH_CACHE", cache).output().unwrap()
}

#[test]
fn the_peers_are_listed_as_a_table_and_as_json() {
    let output = bench(&["peers", "--json"]);
    assert!(output.status.success());
    let peers: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peer = |name: &str| peers.as_array().unwrap().iter().find(|peer| peer["name"] == name);
    assert_eq!(peer("glibc").unwrap()["installed"], true);
    assert_eq!(peer("tbbmalloc").unwrap()["kind"], "package");
    let rpmalloc = peer("rpmalloc").unwrap();
    assert_eq!(rpmalloc["installed"], false, "its cache is empty");
    assert_eq!(rpmalloc["how"], "toft bench build-peers rpmalloc");

    let output = bench(&["peers"]);
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
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
        let output = bench(&["build-peers", name]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(reason), "{said}");
    }
}
