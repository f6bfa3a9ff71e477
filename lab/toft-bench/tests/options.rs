//! What the options of the command do, each as a person would see it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.args(words).env_remove("LD_PRELOAD");
    command
}

fn bench(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn page(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A library that does nothing, for a second peer where none need be installed.
fn empty_library(name: &str) -> PathBuf {
    let (source, library) = (temporary(&format!("{name}.c")), temporary(&format!("{name}.so")));
    std::fs::write(&source, "int nothing_at_all;\n").unwrap();
    let mut gcc = Command::new("gcc");
    let output = gcc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
    assert!(output.expect("the tests need gcc").status.success());
    library
}

#[test]
fn metrics_become_rows_and_every_outcome_has_them() {
    let path = temporary("metrics.json");
    let words = [
        "--quick",
        "--runs",
        "1",
        "--peers",
        "glibc",
        "--workload",
        "pair-64,spawn-true",
        "--set",
        "ops=10k",
        "--set",
        "count=3",
        "--output",
        path.to_str().unwrap(),
    ];
    let without = page(&bench(&words));
    assert!(!without.contains("s of processor") && !without.contains("faults"), "{without}");
    let with = page(&bench(&[&words[..], &["--metrics", "cpu_seconds,minor_faults"]].concat()));
    for case in ["pair-64", "spawn-true"] {
        for unit in ["s of processor", "faults"] {
            let has = |line: &str| line.contains(case) && line.contains(unit);
            assert!(with.lines().any(has), "{case} {unit}\n{with}");
        }
    }
    for case in json(&path)["cases"].as_array().unwrap() {
        let metrics = &case["peers"]["glibc"][0]["metrics"];
        assert!(metrics["cpu_seconds"].as_f64().unwrap() >= 0.0, "{case}");
        assert!(metrics["minor_faults"].as_f64().unwrap() > 10.0, "{case}");
        assert!(case["metrics"].as_array().unwrap().contains(&"minor_faults".into()), "{case}");
    }
    let unknown = bench(&["--metrics", "beauty"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(complaint(&unknown).contains("minor_faults"), "{}", complaint(&unknown));
}

/// A workload that touches more memory has more faults: the figure is of the workload's own
/// process.
#[test]
fn faults_grow_with_the_memory_that_is_touched() {
    let faults = |slots: &str, name: &str| {
        let path = temporary(name);
        let words = [
            "--quick",
            "--runs",
            "1",
            "--peers",
            "glibc",
            "--workload",
            "replace-100k",
            "--set",
            "ops=100",
            "--set",
            slots,
            "--output",
            path.to_str().unwrap(),
        ];
        assert!(bench(&words).status.success());
        json(&path)["cases"][0]["peers"]["glibc"][0]["metrics"]["minor_faults"].as_f64().unwrap()
    };
    // 50 000 blocks of 16 bytes and more are 800 kB at least, which is 195 pages.
    assert!(faults("slots=50k", "many.json") > faults("slots=100", "few.json") + 195.0);
}

#[test]
fn the_table_and_the_json_have_the_interval() {
    let (path, library) = (temporary("interval.json"), empty_library("interval"));
    let peer = format!("mine={}", library.display());
    let output = bench(&[
        "--quick",
        "--runs",
        "4",
        "--peers",
        &format!("glibc,{peer}"),
        "--workload",
        "pair-64",
        "--set",
        "ops=10k",
        "--output",
        path.to_str().unwrap(),
    ]);
    let table = page(&output);
    assert!(table.contains("mine / glibc"), "{table}");
    let ratio = json(&path)["cases"][0]["ratios"][0].clone();
    let figure = |key: &str| ratio[key].as_f64().unwrap_or_else(|| panic!("{key} in {ratio}"));
    assert_eq!((&ratio["of"], &ratio["to"]), (&"mine".into(), &"glibc".into()));
    assert!(figure("low") <= figure("mean") && figure("mean") <= figure("high"), "{ratio}");
    let shown = format!("({:.2}-{:.2}) glibc", figure("low"), figure("high"));
    assert!(table.contains(&shown), "{shown} is not in\n{table}");
    let open = ratio["open"].as_bool().unwrap();
    assert_eq!(open, figure("low") <= 1.0 && figure("high") >= 1.0, "{ratio}");
    assert_eq!(table.contains(&format!("{:.2}? (", figure("median"))), open, "{table}");
}

#[test]
fn any_program_is_measured_on_each_peer() {
    let (path, library) = (temporary("program.json"), empty_library("program"));
    let peers = format!("glibc,mine={}", library.display());
    let counted = temporary("program.count");
    let _ = std::fs::remove_file(&counted);
    let script = format!("echo $LD_PRELOAD. >> {}; sleep 0.01", counted.display());
    let output = bench(&[
        "--runs",
        "3",
        "--peers",
        &peers,
        "--output",
        path.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    for unit in ["| s ", "s of processor", "faults"] {
        assert!(page(&output).contains(unit), "{unit} is not in\n{}", page(&output));
    }
    // Interleaved: glibc, mine, glibc, mine, glibc, mine.
    let order = std::fs::read_to_string(&counted).unwrap();
    let order: Vec<bool> = order.lines().map(|line| line.contains("program.so")).collect();
    assert_eq!(order, [false, true, false, true, false, true]);
    for peer in ["glibc", "mine"] {
        let outcome = json(&path)["cases"][0]["peers"][peer][2]["metrics"].clone();
        assert!(outcome["seconds"].as_f64().unwrap() >= 0.01, "{outcome}");
        for key in ["cpu_seconds", "minor_faults"] {
            assert!(outcome[key].is_number(), "{key} in {outcome}");
        }
    }
}

/// 40 MB in the program, and next to nothing in the process that starts it.
#[test]
fn the_peak_of_a_program_is_its_own() {
    let (path, source, large) = (temporary("peak.json"), temporary("large.c"), temporary("large"));
    let text = "#include <stdlib.h>\n#include <string.h>\n\
        int main(void) { char *p = malloc(40000000); memset(p, 1, 40000000); return p[7] - 1; }\n";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("gcc").arg("-o").arg(&large).arg(&source).output();
    assert!(built.expect("the tests need gcc").status.success());
    let json_path = path.to_str().unwrap();
    let program = large.to_str().unwrap();
    let output = bench(&["--runs", "1", "--peers", "glibc", "--output", json_path, "--", program]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let peak = json(&path)["cases"][0]["peers"]["glibc"][0]["metrics"]["peak_mb"].as_f64().unwrap();
    assert!((40.0..60.0).contains(&peak), "{peak}");
    assert!(page(&output).contains("MB peak"), "{}", page(&output));
}

#[test]
fn a_program_that_is_absent_static_or_fails_is_said_once() {
    let absent = bench(&["--", "no-such-program", "x"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(complaint(&absent).contains("program not found: no-such-program"));

    let library = empty_library("failing");
    let peers = format!("glibc,mine={}", library.display());
    let failing = bench(&[
        "--runs",
        "3",
        "--peers",
        &peers,
        "--",
        "sh",
        "-c",
        "echo a; echo why >&2; exit 5",
    ]);
    assert_eq!(failing.status.code(), Some(1));
    let text = page(&failing);
    assert_eq!(text.matches("exit status: 5: why").count(), 1, "{text}");
    assert!(text.contains("on glibc, mine: exit status: 5: why"), "{text}");

    let (source, fixed) = (temporary("fixed.c"), temporary("fixed"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("gcc").arg("-static").arg("-o").arg(&fixed).arg(&source).output();
    assert!(built.expect("the tests need gcc").status.success());
    let output = bench(&["--runs", "1", "--peers", &peers, "--", fixed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = page(&output);
    assert!(text.contains("fixed on mine:") && text.contains("is statically linked"), "{text}");
    assert!(!text.contains("on glibc"), "its own malloc is glibc's\n{text}");
}

#[test]
fn options_of_workloads_are_refused_beside_a_program() {
    for words in [&["--quick"][..], &["--workload", "pair"], &["--callgrind"], &["--set", "ops=1"]]
    {
        let output = bench(&[words, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(complaint(&output).contains("cannot be used with"), "{}", complaint(&output));
    }
}

/// The probe's counting is a few instructions more in each operation, and counts are the same
/// twice.
#[test]
fn callgrind_counts_the_instructions_of_an_operation() {
    let count = |more: &[&str], name: &str| {
        let path = temporary(name);
        let words = [
            "--callgrind",
            "--runs",
            "2",
            "--peers",
            "glibc",
            "--workload",
            "pair-64,spawn-true",
            "--set",
            "ops=2000",
            "--output",
            path.to_str().unwrap(),
        ];
        let output = bench(&[&words[..], more].concat());
        assert!(output.status.success(), "{}", complaint(&output));
        let text = page(&output);
        // A column more: the times are there as without it.
        assert!(text.contains("instructions/op") && text.contains("| ns/op"), "{text}");
        assert!(text.contains("spawn-true is not counted: it runs other programs"), "{text}");
        let cases = json(&path)["cases"].clone();
        assert_eq!(cases.as_array().unwrap().len(), 2, "{cases}");
        assert_eq!(cases[1]["metrics"].as_array().unwrap().len(), 2, "{cases}");
        let rounds = cases[0]["peers"]["glibc"].as_array().unwrap();
        let counts: Vec<f64> =
            rounds.iter().map(|one| one["metrics"]["instructions"].as_f64().unwrap()).collect();
        assert!(counts.len() == 2 && counts[0] == counts[1], "{counts:?}");
        assert!(rounds.iter().all(|one| one["metrics"]["ns"].as_f64().unwrap() > 0.0));
        counts[0]
    };
    let (first, second) = (count(&[], "first.json"), count(&[], "second.json"));
    assert!((10.0..2000.0).contains(&first), "{first}");
    assert!((first / second - 1.0).abs() < 0.02, "{first} {second}");
    let probed = count(&["--set", "probe=1"], "probed.json");
    assert!(probed > first + 3.0, "{probed} {first}");
}

#[test]
fn without_valgrind_callgrind_says_what_to_install() {
    let mut command = command(&["--callgrind", "--peers", "glibc", "--workload", "pair-64"]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("apt-get install valgrind"), "{}", complaint(&output));
}

/// A traced run of the same work says what an operation asks of the kernel. If so configured, glibc
/// maps 512 blocks of 200 KB one by one, and unmaps them. In a heap that grows it is a call now and
/// then.
#[test]
fn system_calls_of_a_round_are_counted_from_outside() {
    let calls = |peer: &str, name: &str| {
        let path = temporary(name);
        let words = ["--runs", "1", "--workload", "thrash", "--peers", peer, "--output"];
        let numbers = ["objects=512", "rounds=4", "low=200000", "high=200001"];
        let set = numbers.iter().flat_map(|number| ["--set", number]);
        let words: Vec<&str> =
            words.into_iter().chain([path.to_str().unwrap()]).chain(set).collect();
        let output = bench(&words);
        assert!(output.status.success(), "{}", complaint(&output));
        assert!(page(&output).contains("system calls/round"), "{}", page(&output));
        json(&path)["cases"][0]["peers"][peer][0]["metrics"]["syscalls_per_round"].as_f64().unwrap()
    };
    let mapped =
        calls("glibc@MALLOC_MMAP_THRESHOLD_:100000@MALLOC_MMAP_MAX_:100000", "mapped.json");
    assert!((1024.0..1040.0).contains(&mapped), "{mapped}");
    let never =
        "glibc@MALLOC_MMAP_MAX_:0@MALLOC_TRIM_THRESHOLD_:4000000000@MALLOC_TOP_PAD_:300000000";
    let kept = calls(never, "kept.json");
    assert!(kept < 8.0, "{kept}");
}

/// Cases that take seconds whatever their numbers are left out of a quick run of everything, by
/// name, and run when they are asked for.
#[test]
fn a_quick_run_leaves_the_slow_out_unless_they_are_named() {
    let names = |output: &Output, case: &str| {
        page(output).lines().any(|line| line.starts_with(&format!("| {case} ")))
    };
    // A peer that fails at once, so that it takes no time.
    let nothing = ["--quick", "--runs", "1", "--peers", "none=/bin/sh"];
    let all = bench(&nothing);
    let said = page(&all);
    let left = said.lines().find(|line| line.starts_with("left out, since they are slow")).unwrap();
    for slow in ["burst-idle", "burst-idle-cross", "latency-64-reclaim"] {
        assert!(left.contains(slow) && !names(&all, slow), "{slow}\n{said}");
    }
    assert!(names(&all, "thrash") && names(&all, "rss-idle"), "{said}");
    let named = bench(&[&nothing[..], &["--workload", "burst-idle"]].concat());
    assert!(names(&named, "burst-idle-cross") && !page(&named).contains("left out"));
}
