//! `toft bench`: what `toft-bench` does, on the libraries that the command carries.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::*;
use serde_json::Value;

fn bench(words: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_toft")).with_file_name("toft-bench");
    assert!(program.is_file(), "cargo build --package toft-bench makes it");
    toft().arg("bench").args(words).output().unwrap()
}

const SHORT: [&str; 7] = ["--quick", "--runs", "2", "--workload", "pair-64", "--set", "ops=10k"];

#[test]
fn the_library_inside_is_measured_beside_others() {
    let place = directory();
    let json = place.path().join("result.json");
    let more = ["--peers", "toft,glibc", "--output", text(&json)];
    let output = bench(&[&SHORT[..], &more].concat());
    assert_clean(&output);
    let page = stdout(&output);
    assert_contains(&page, &["carried inside", "toft / glibc"]);
    assert!(!page.contains("failed"), "{page}");
    let record: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    for peer in ["toft", "glibc"] {
        let outcome = &record["cases"][0]["peers"][peer][1];
        assert_eq!(outcome["ops"], 10_000, "{record}");
        assert!(outcome["metrics"]["minor_faults"].as_f64().unwrap() > 10.0, "{record}");
    }
}

/// Whether the peer is really the carried library: `work` itself refuses to run when what is
/// preloaded is not loaded, and a program says what it has mapped.
#[test]
fn any_program_runs_on_the_library_inside() {
    let script = "grep -q libtoft- /proc/self/maps || { echo not on Toft >&2; exit 9; }";
    let words = ["--runs", "1", "--peers", "toft", "--", "sh", "-c", script];
    let output = bench(&words);
    assert_clean(&output);
    let output =
        ends_with(1, bench(&["--runs", "1", "--peers", "glibc,toft", "--", "sh", "-c", script]));
    let page = stdout(&output);
    assert!(page.contains("on glibc: exit status: 9: not on Toft"), "{page}");
    assert!(!page.contains("on toft:") && !page.contains("glibc, toft:"), "{page}");
}

#[test]
fn the_secure_builds_inside_are_measured_by_their_names() {
    let (usual, secure) = ("libtoft-[0-9a-f]*.so", "libtoft-secure-[0-9a-f]*.so");
    let light = "libtoft-secure-light-[0-9a-f]*.so";
    let on = |peer: &str, file: &str| {
        let script = format!("grep -q {file} /proc/self/maps || exit 9");
        bench(&["--runs", "1", "--peers", peer, "--", "sh", "-c", &script])
    };
    for (peer, file, other) in [
        ("toft", usual, secure),
        ("toft-secure", secure, light),
        ("toft-secure-light", light, secure),
    ] {
        let output = on(peer, file);
        assert_clean(&output);
        let page = stdout(&output);
        assert_contains(&page, &[&format!("{peer} 0."), "carried inside"]);
        assert_eq!(on(peer, other).status.code(), Some(1), "{peer} is not {other}");
    }
}

#[test]
fn the_other_commands_are_there() {
    assert!(stdout(&bench(&["list"])).contains("replace-100k"));
    let peers = stdout(&bench(&["peers"]));
    for own in ["| toft ", "| toft-secure ", "| toft-secure-light "] {
        let line = peers.lines().find(|line| line.starts_with(own)).expect(own);
        assert!(line.contains("carried inside"), "{peers}");
    }
    let peers = stdout(&bench(&["peers", "--json"]));
    let peers: Value = serde_json::from_str(&peers).unwrap();
    let own = peers.as_array().unwrap().iter().find(|peer| peer["name"] == "toft").unwrap();
    assert!(own["library"].as_str().unwrap().contains("libtoft-"), "{own}");
    let help = stdout(&bench(&["--help"]));
    assert_contains(&help, &["build-peers", "--baseline"]);
    assert!(!help.lines().any(|line| line.trim_start().starts_with("work ")), "{help}");
}

#[test]
fn a_trace_alone_selects_its_workload() {
    let directory = directory();
    let trace = directory.path().join("sort.trace");
    succeeds(&["record", "-o", text(&trace), "--", "sort", "/dev/null"]);
    let result = directory.path().join("result.json");
    let words = ["--runs", "1", "--peers", "glibc", "-o", text(&result), "--trace", text(&trace)];
    ends_with(0, bench(&words));
    let result: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
    let cases = result["cases"].as_array().unwrap();
    assert!(cases.iter().all(|case| case["workload"] == "trace") && !cases.is_empty(), "{result}");
}

#[test]
fn what_is_wrong_is_one_line_and_status_2() {
    for (words, part) in [
        (&["--workloads", "nothing"][..], "nothing"),
        (&["--peers", "nomalloc", "--workloads", "pair"], "nomalloc"),
        (&["--trace", "/no/such.trace"], "/no/such.trace: No such file"),
        (&["--", "no-such-program"], "program not found: no-such-program"),
    ] {
        let output = bench(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let text = stderr(&output);
        let mut lines = text.lines().filter(|line| line.starts_with("toft-bench: "));
        assert!(lines.next().unwrap().contains(part) && lines.next().is_none(), "{text}");
    }
}

/// A command that was copied alone says what is missing, and finds the program in PATH.
#[test]
fn the_program_may_be_elsewhere_or_missing() {
    let place = directory();
    let own = Path::new(env!("CARGO_BIN_EXE_toft"));
    let alone = place.path().join("toft");
    fs::copy(own, &alone).unwrap();
    let on = |path: &Path| {
        let mut command = Command::new(&alone);
        command.args(["bench", "list"]).env("PATH", path);
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).output().unwrap()
    };
    let output = ends_with(2, on(place.path()));
    assert!(
        message(&output).contains("cargo install --path lab/toft-bench"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&on(own.parent().unwrap())).contains("replace-100k"));
}
