//! What every verb reads and writes in the same way: `-`, pipes, devices, files that are too long,
//! forms that contradict each other, and lines that nothing cuts where no terminal is.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::*;
use serde_json::Value;

/// A function with a long name has all that is live; a line on standard input ends the program.
const PROGRAM: &str = include_str!("programs/files.c");

fn name() -> String {
    format!("a_function_{}_of_a_long_name", "x".repeat(150))
}

fn program(place: &Path) -> PathBuf {
    let name = format!("-DNAME={}", name());
    compile(place, "named", PROGRAM, &["-fno-builtin", &name])
}

/// The command in a folder, with something on its standard input.
#[track_caller]
fn fed(status: i32, place: &Path, words: &[&str], input: &[u8]) -> Output {
    let mut command = toft();
    command.current_dir(place).args(words).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may refuse before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
    output
}

/// A profile and a trace of the program.
fn recorded(place: &Path, program: &Path) -> (Vec<u8>, Vec<u8>) {
    let (profile, trace) = (place.join("own.toft"), place.join("own.trace"));
    for words in [["run", "--profile", text(&profile)], ["record", "-o", text(&trace)]] {
        let mut made = toft();
        made.args(words).arg("--").arg(program).stdin(Stdio::null());
        assert!(made.output().unwrap().status.success());
    }
    (fs::read(profile).unwrap(), fs::read(trace).unwrap())
}

const READING: [&[&str]; 6] =
    [&["report"], &["hints"], &["trace"], &["explain"], &["heap"], &["diff", "own.toft"]];

#[test]
fn only_regular_files_are_read_and_within_bounds() {
    let place = directory();
    recorded(place.path(), &program(place.path()));
    let fifo = place.path().join("fifo");
    tool(Command::new("mkfifo").arg(&fifo));
    let hole = place.path().join("hole");
    File::create(&hole).unwrap().set_len(1 << 42).unwrap();
    for words in READING {
        for (path, why) in [
            (text(&fifo), "not a regular file"),
            ("/dev/zero", "not a regular file"),
            (text(place.path()), "not a regular file"),
            (text(&hole), "longer than"),
        ] {
            let output = fed(125, place.path(), &[words, &[path]].concat(), b"");
            // A core file is read in its parts, however long it is.
            let why =
                if words == ["heap"] && path == text(&hole) { "not a core file" } else { why };
            assert!(message(&output).contains(why), "{words:?} {path}: {}", stderr(&output));
        }
    }
    // What is written over is looked at first.
    for words in [&["record", "-o", "fifo", "--", "true"][..], &["run", "--hints", "fifo", "true"]]
    {
        let output = fed(125, place.path(), words, b"");
        assert!(message(&output).contains("regular file"), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_dash_is_standard_input() {
    let place = directory();
    let (profile, trace) = recorded(place.path(), &program(place.path()));
    let verbs: [(&[&str], &[u8]); 4] = [
        (&["report", "-"], &profile),
        (&["diff", "own.toft", "-"], &profile),
        (&["hints", "--own-from", "1k", "-"], &profile),
        (&["trace", "-"], &trace),
    ];
    for (words, input) in verbs {
        let output = fed(0, place.path(), words, input);
        let of_file: Vec<&str> = words
            .iter()
            .map(|&word| match (word, words[0]) {
                ("-", "trace") => "own.trace",
                ("-", _) => "own.toft",
                _ => word,
            })
            .collect();
        let named = fed(0, place.path(), &of_file, b"");
        assert_eq!(stdout(&output), stdout(&named), "{words:?}");
        assert!(!stdout(&output).is_empty(), "{words:?}");
        fed(125, place.path(), words, b"something else");
    }
}

#[test]
fn a_dash_is_standard_output() {
    let place = directory();
    let program = program(place.path());
    recorded(place.path(), &program);
    let target = Target::start(&program);
    let pid = &*target.pid;
    let verbs: [&[&str]; 7] = [
        &["heap", pid],
        &["heap", pid, "--json"],
        &["heap", pid, "--format", "folded"],
        &["metrics", pid],
        &["report", "own.toft"],
        &["report", "own.toft", "--json"],
        &["hints", "--own-from", "1k", "own.toft"],
    ];
    for words in verbs {
        let output = fed(0, place.path(), &[words, &["-o", "-"]].concat(), b"");
        let printed = fed(0, place.path(), words, b"");
        // Times differ.
        let length = stdout(&printed).lines().count();
        assert_eq!(stdout(&output).lines().count(), length, "{words:?}: {}", stdout(&output));
        assert!(!stdout(&output).is_empty(), "{words:?}");
    }
    let stats = fed(0, place.path(), &["run", "--stats", "--json", "--output", "-", "true"], b"");
    assert_clean(&stats);
    assert_eq!(serde_json::from_slice::<Value>(&stats.stdout).unwrap()["exit_status"], 0);
    let record = fed(125, place.path(), &["record", "-o", "-", "--", "true"], b"");
    assert!(message(&record).contains("standard output is PROGRAM's"), "{}", stderr(&record));
    let bench = ["bench", "--quick", "--runs", "1", "--workload", "pair-64", "--set", "ops=10k"];
    for more in [["--json"].as_slice(), &["-o", "-"]] {
        let output = fed(0, place.path(), &[&bench, more, &["--peers", "glibc"]].concat(), b"");
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["cases"][0]["peers"]["glibc"][0]["ops"], 10_000, "{record}");
    }
    assert!(!place.path().join("-").exists());
}

#[test]
fn a_form_and_the_name_of_another_are_refused() {
    let place = directory();
    let program = program(place.path());
    recorded(place.path(), &program);
    let target = Target::start(&program);
    let pid = &*target.pid;
    let refused: [(&[&str], i32); 7] = [
        (&["heap", pid, "--json", "-o", "x.html"], 2),
        (&["heap", pid, "--format", "pprof", "-o", "x.html"], 2),
        (&["report", "own.toft", "--json", "-o", "x.html"], 2),
        (&["report", "own.toft", "-o", "x.unknown"], 2),
        (&["metrics", pid, "--json", "-o", "x.html"], 2),
        (&["bench", "--quick", "-o", "x.html"], 2),
        (&["run", "--stats", "--json", "--output", "x.html", "touch", "started"], 125),
    ];
    for (words, status) in refused {
        let output = fed(status, place.path(), words, b"");
        assert!(stdout(&output).is_empty() && !stderr(&output).is_empty(), "{words:?}");
    }
    assert!(!place.path().join("x.html").exists() && !place.path().join("started").exists());
    for words in [
        &["heap", pid, "--json", "-o", "x.json"][..],
        &["heap", pid, "--json", "-o", "x.any"],
        &["heap", pid, "--format", "pprof", "-o", "x.pb.gz"],
        &["report", "own.toft", "-o", "x.html"],
        &["run", "--stats", "--json", "--output", "x.stats", "true"],
    ] {
        fed(0, place.path(), words, b"");
    }
}

#[test]
fn names_are_cut_on_terminals_only() {
    let place = directory();
    let program = program(place.path());
    recorded(place.path(), &program);
    let target = Target::start(&program);
    let pid = &*target.pid;
    let verbs: [&[&str]; 2] = [&["heap", pid], &["report", "own.toft"]];
    for words in verbs {
        for columns in ["80", "40", ""] {
            let mut command = toft();
            command.current_dir(place.path()).args(words).env("COLUMNS", columns);
            let page = stdout(&command.output().unwrap());
            assert!(page.contains(&name()), "{words:?} {columns}: {page}");
        }
        let shown = in_terminal(place.path(), words, 90);
        assert!(shown.contains("a_function_x") && !shown.contains(&name()), "{words:?}: {shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 90), "{words:?}: {shown}");
    }
    fed(0, place.path(), &["heap", pid, "-o", "x.txt"], b"");
    assert!(fs::read_to_string(place.path().join("x.txt")).unwrap().contains(&name()));
    let words = ["run", "--stats", "--output", "stats.txt", "--", text(&program)];
    fed(0, place.path(), &words, b"");
    let stats = fs::read_to_string(place.path().join("stats.txt")).unwrap();
    assert!(stats.contains(&name()) && !stats.contains('\x1b'), "{stats}");
}
