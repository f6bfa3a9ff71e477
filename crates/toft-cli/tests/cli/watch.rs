//! A process that ends while it is looked at: every verb says so in the same words. The end of what
//! is watched is the end of the watch, status 0; a single look that it cuts short has no answer,
//! status 125.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::common::*;

const PROGRAM: &str = include_str!("programs/watch.c");

fn start(place: &Path) -> Target {
    let program = place.join("target");
    if !program.exists() {
        compile(place, "target", PROGRAM, &["-fno-builtin"]);
    }
    Target::start(&program)
}

/// Kills a process; without `reaped` it stays as a zombie.
fn kill(target: &mut Target, reaped: bool) {
    target.child.kill().unwrap();
    if reaped {
        target.child.wait().unwrap();
    }
}

/// Starts a verb, waits until it has shown something, ends the process, and waits for the verb.
fn watched(words: &[&str], shows: &str, reaped: bool) -> (Option<i32>, String) {
    let place = directory();
    let mut target = start(place.path());
    let pid = target.pid.clone();
    let mut command = toft();
    command.current_dir(place.path()).args(words).arg(&pid);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let first = |stream: &mut dyn Read| {
        let (mut byte, mut line) = ([0], Vec::new());
        while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    };
    let shown = if shows == "stdout" { first(&mut out) } else { first(&mut err) };
    assert!(!shown.is_empty(), "{words:?}");
    kill(&mut target, reaped);
    let (mut rest, mut more) = (String::new(), String::new());
    out.read_to_string(&mut rest).unwrap();
    err.read_to_string(&mut more).unwrap();
    let status = child.wait().unwrap().code();
    let printed = more.replace(&format!("process {pid} has ended"), "process PID has ended");
    (status, printed)
}

#[test]
fn the_end_of_a_process_is_the_end_of_the_watch() {
    for reaped in [true, false] {
        for (words, shows) in [
            (&["top", "--json", "--interval", "0.05"][..], "stdout"),
            (&["metrics", "--every", "0.05", "-o", "-"], "stdout"),
            (&["metrics", "--every", "0.05", "-o", "a.prom"], "stderr"),
            (&["metrics", "--listen", "./a.sock"], "stderr"),
        ] {
            let (status, printed) = watched(words, shows, reaped);
            assert_eq!(status, Some(0), "{words:?}: {printed}");
            let lines: Vec<&str> = printed.lines().filter(|line| line.contains("ended")).collect();
            assert_eq!(lines.len(), 1, "{words:?}: {printed}");
            assert!(lines[0].starts_with("toft: process PID has ended"), "{words:?}: {printed}");
        }
    }
}

/// Two looks make one answer: without the second there is none.
#[test]
fn an_end_between_two_readings_of_one_answer_is_reported() {
    let place = directory();
    let mut target = start(place.path());
    let pid = target.pid.clone();
    let mut command = toft();
    command.args(["heap", "--over", "3", &pid]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its first look is over when it sleeps, and it may be over before: then it says the same or
    // that there is none.
    let asleep = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/wchan", child.id()));
        stat.is_ok_and(|text| text.contains("nanosleep"))
    };
    while !asleep() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill(&mut target, true);
    let output = ends_with(125, child.wait_with_output().unwrap());
    assert_eq!(message(&output), format!("toft: process {pid} has ended"));
}

/// A single look, begun at any moment of the end: an answer, or one line that says why there is
/// none.
#[test]
fn a_single_look_may_be_cut_short() {
    let place = directory();
    for verb in ["rss", "heap", "metrics", "purge"] {
        for pause in [0, 1, 5, 20] {
            let mut target = start(place.path());
            let pid = target.pid.clone();
            let mut command = toft();
            command.args([verb, &pid]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(pause));
            kill(&mut target, pause % 2 == 0);
            let output = child.wait_with_output().unwrap();
            let told = stderr(&output);
            match output.status.code() {
                Some(0) => assert_eq!(told, "", "{verb}"),
                Some(125) => {
                    let why = ["has ended", "there is no process"];
                    assert!(why.iter().any(|why| message(&output).contains(why)), "{verb}: {told}");
                }
                status => panic!("{verb}: {status:?} {told}"),
            }
        }
    }
}
