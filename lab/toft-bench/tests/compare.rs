//! The comparison as a person runs it: the table, the JSON, and a planted slowdown that it sees.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn bench(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.args(words).env_remove("LD_PRELOAD").output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compares the system's malloc with itself; returns the samples of a case.
fn samples(case: &str, metric: &str, more: &[&str], file: &str) -> Vec<f64> {
    let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
    let mut words = vec!["--quick", "--runs", "3", "--peers", "glibc", "--workloads", case];
    words.extend(["--output", json.to_str().unwrap()]);
    words.extend(more);
    text(&bench(&words));
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let runs = whole["cases"][0]["peers"]["glibc"].as_array().unwrap().clone();
    runs.iter().map(|run| run["metrics"][metric].as_f64().unwrap()).collect()
}

/// A delay of a microsecond in each allocation is some twenty times the operation itself, which no
/// noise of a busy machine hides.
#[test]
fn a_planted_slowdown_is_seen() {
    let plain = samples("pair-64", "ns", &["--set", "ops=100k"], "plain.json");
    let slow =
        samples("pair-64", "ns", &["--set", "ops=100k", "--set", "delay_ns=1000"], "slow.json");
    assert_eq!((plain.len(), slow.len()), (3, 3));
    let ratio = toft_bench::stats::paired(&slow, &plain).unwrap();
    assert!(ratio.median > 3.0, "{plain:?} {slow:?}");
    assert!(slow.iter().all(|ns| *ns >= 1000.0), "{slow:?}");
}

#[test]
fn the_table_names_the_machine_the_peers_and_the_failures() {
    let output = bench(&[
        "--quick",
        "--runs",
        "1",
        "--peers",
        "glibc",
        "--workloads",
        "pair-64,spawn-true",
        "--set",
        "ops=10k",
        "--set",
        "count=3",
    ]);
    let table = text(&output);
    for part in [
        "Linux",
        "THP",
        "glibc 2.",
        "pair-64",
        "ns/op",
        "spawn-true",
        "ms/process",
        "1 interleaved round",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
}

#[test]
fn a_library_that_is_no_library_fails_its_cases_and_no_others() {
    let broken = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("broken.so");
    std::fs::write(&broken, "not a library").unwrap();
    let peer = format!("broken={}", broken.display());
    let words = [
        "--runs",
        "1",
        "--peers",
        &format!("glibc,{peer}"),
        "--workloads",
        "pair-64,spawn-true",
        "--set",
        "ops=10k",
        "--set",
        "count=3",
    ];
    let output = bench(&words);
    let table = text(&output);
    assert!(table.contains("failed: pair-64 on broken"), "{table}");
    assert!(table.contains("failed: spawn-true on broken: the library was not loaded"), "{table}");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(!complaints.contains("ld.so"), "{complaints}");
    assert!(!table.contains("on glibc:"), "{table}");
}

/// Two cases on two peers that are the same: what is said of all cases together, and how long it
/// took. Of a single case there is nothing more to say. Both run in one thread: of threads, a
/// machine whose processors move apart between two runs leaves the case out, and says so.
#[test]
fn a_run_ends_with_how_the_peers_stand_over_all_cases() {
    let library = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand.so");
    let source = library.with_extension("c");
    std::fs::write(&source, "int nothing_at_all;\n").unwrap();
    let mut gcc = Command::new("gcc");
    let made = gcc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(made.expect("the tests need gcc").success());
    let peers = format!("glibc,mine={}", library.display());
    let json = library.with_extension("json");
    let run = |cases: &str| {
        let words = ["--quick", "--peers", &peers, "--workloads", cases, "--set", "ops=10k"];
        text(&bench(&[&words[..], &["--output", json.to_str().unwrap()]].concat()))
    };
    let table = run("pair-64,replace-1k");
    assert!(table.contains("3 interleaved rounds, quick"), "{table}");
    let row = table.lines().find(|line| line.starts_with("| mine ")).unwrap();
    assert!(row.matches("2) |").count() == 3 && row.ends_with("0 |"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("took ") && line.ends_with('s')), "{table}");
    let record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(record["summary"]["base"], "glibc");
    assert_eq!(record["summary"]["peers"][1]["memory"]["cases"], 2);
    assert!(record["took_seconds"].as_f64().unwrap() > 0.0);
    assert!(!run("pair-64").contains("over all cases"));
}

#[test]
fn missed_bars_end_with_status_1() {
    let output = bench(&[
        "--bars",
        "--quick",
        "--runs",
        "1",
        "--peers",
        "glibc",
        "--workloads",
        "pair-64",
        "--set",
        "ops=10k",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("toft was not run") && said.contains("MISSED"), "{said}");
}

/// A reader who goes is no error, and a full disk is one line and status 2.
#[test]
fn what_cannot_be_printed_is_told() {
    let list = |out: std::process::Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
        command.arg("list").stdout(out).stderr(std::process::Stdio::piped()).output().unwrap()
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gone = list(writer.into());
    assert!(gone.status.success() && gone.stderr.is_empty(), "{gone:?}");
    let full = list(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    let said = String::from_utf8_lossy(&full.stderr);
    assert_eq!((full.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("cannot write"), "{said}");
}

#[test]
fn lists_name_everything_and_unknown_names_are_refused() {
    let cases = text(&bench(&["list"]));
    for name in ["pair-64", "replace-100k", "handover-8", "redis", "churn", "spawn-true"] {
        assert!(cases.contains(name), "{name}");
    }
    let peers = text(&bench(&["peers"]));
    for name in ["glibc", "toft", "snmalloc", "mimalloc3"] {
        assert!(peers.contains(name), "{name}");
    }
    let output = bench(&["--workloads", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing"));
}

/// `--trace FILE` replays that file, and says what is wrong with another one.
#[test]
fn a_trace_of_ones_own_is_replayed() {
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/built-in.trace");
    let words = |file| ["--runs", "1", "--peers", "glibc", "--workloads", "trace", "--trace", file];
    let table = text(&bench(&words(built_in)));
    assert!(table.contains("| trace"), "{table}");
    let none = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("none.trace");
    std::fs::write(&none, "this is no trace\n").unwrap();
    let output = bench(&words(none.to_str().unwrap()));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("not a trace"), "{said}");
}
