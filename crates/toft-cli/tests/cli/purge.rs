//! `toft purge`: returns memory that the process would have kept, and names a process that cannot
//! be asked.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::*;
use serde_json::Value;

/// Fills 48 MiB with blocks that it writes to, and lets sweeps that its growth has asked for pass.
/// Then it frees all but each fiftieth, prints its process number, and sleeps. When a byte wakes
/// it, it verifies what is left, and allocates as much again.
const TARGET: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define N 12288
#ifndef SIZE
#define SIZE 4000
#define USED 4000
#endif
static unsigned char *block[N];
int main(void) {
    char c;
    for (int i = 0; i < N; i++) memset(block[i] = malloc(SIZE), i, USED);
    usleep(200000);
    for (int i = 0; i < N; i++) if (i % 50) { free(block[i]); block[i] = NULL; }
    printf("%d\n", getpid());
    if (fflush(stdout) || read(0, &c, 1) != 1) return 2;
    for (int i = 0; i < N; i++) {
        if (block[i]) { for (int k = 0; k < USED; k++) if (block[i][k] != (unsigned char)i) return 3; }
        else memset(block[i] = malloc(SIZE), i, USED);
    }
    for (int i = 0; i < N; i++) { if (block[i][USED - 1] != (unsigned char)i) return 4; free(block[i]); }
    return 0;
}
"#;

/// The command that runs the program, and the program's number.
struct Target {
    child: Child,
    pid: String,
}

impl Target {
    fn start(program: &Path, environment: &[(&str, &str)]) -> Target {
        let mut child = toft()
            // It would give back by itself, only later than this test takes.
            .env("TOFT_DECAY", "3600000")
            .envs(environment.iter().copied())
            .args(["run", "--"])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Target { child, pid: line.trim().to_owned() }
    }

    fn ends_well(mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn purge(words: &[&str]) -> Output {
    toft().arg("purge").args(words).output().unwrap()
}

/// Starts and purges programs until the figures satisfy `holds`. The reclaimer may run just when
/// the blocks are freed, and discard a part before the purge does.
fn purged_first(program: &Path, holds: impl Fn(&dyn Fn(&str) -> u64) -> bool) -> (Target, Value) {
    (0..20)
        .map(|_| {
            let target = Target::start(program, &[]);
            let answer = purge(&["--json", &target.pid]);
            assert!(answer.status.success(), "{answer:?}");
            (target, serde_json::from_slice::<Value>(&answer.stdout).unwrap())
        })
        .find(|(_, object)| holds(&|name| object[name].as_u64().unwrap()))
        .expect("the reclaimer was first at each of many purges")
}

#[test]
fn what_a_process_keeps_goes_back_when_it_is_asked() {
    let directory = directory();
    let program = compile(directory.path(), "target", TARGET, &["-fno-builtin"]);
    // Resident memory fell by what was discarded, except for what Toft itself maps meanwhile.
    let (target, object) = purged_first(&program, |number| {
        assert!(number("rss_after") < 8 << 20);
        number("rss_before") > 48 << 20
            && number("discarded_bytes") + (4 << 20) > number("rss_before") - number("rss_after")
    });
    let pid = target.pid.clone();
    let number = |name: &str| object[name].as_u64().unwrap();
    let gone = number("rss_before") - number("rss_after");
    // What it says is what the kernel sees.
    assert_eq!(number("given_bytes"), gone, "{object}");
    // Twice is once: there is nothing left.
    let again: Value = serde_json::from_slice(&purge(&["--json", &pid]).stdout).unwrap();
    assert!(again["given_bytes"].as_u64().unwrap() < 1 << 20, "{again}");
    let text = purge(&[&pid]);
    assert!(
        String::from_utf8_lossy(&text.stdout)
            .starts_with(&format!("resident memory of process {pid} fell by "))
    );
    target.ends_well();
}

/// Blocks of which only the first page was ever touched: all their pages are discarded, and few of
/// them were there.
#[test]
fn no_more_is_reported_than_was_resident() {
    let directory = directory();
    let program =
        compile(directory.path(), "touched", TARGET, &["-fno-builtin", "-DSIZE=60000", "-DUSED=1"]);
    let (target, object) =
        purged_first(&program, |number| number("discarded_bytes") > 4 * number("rss_before"));
    let number = |name: &str| object[name].as_u64().unwrap();
    assert_eq!(number("given_bytes"), number("rss_before") - number("rss_after"), "{object}");
    assert!(number("given_bytes") < number("rss_before"), "{object}");
    target.ends_well();

    let target = Target::start(&program, &[]);
    let text = stdout(&purge(&[&target.pid]));
    assert!(text.contains("of address space; the rest of that was not resident"), "{text}");
    target.ends_well();
}

/// In a container the reclaimer's thread has another number than outside. It takes root to make
/// one; without that the test is left out.
#[test]
fn a_process_in_a_container_is_purged_from_outside() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--"]);
        command
    };
    if !unshare().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("left out: no namespace of processes can be made here");
        return;
    }
    let directory = directory();
    let program = compile(directory.path(), "target", TARGET, &["-fno-builtin"]);
    let preload = format!("LD_PRELOAD={}", library().display());
    let mut child = unshare()
        .args(["env", &preload, "TOFT_DECAY=3600000"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "1\n", "its number there");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let pid = std::fs::read_to_string(children).unwrap();
    let answer = purge(&["--json", pid.trim()]);
    assert!(answer.status.success(), "{answer:?}");
    let object: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert!(object["rss_after"].as_u64().unwrap() < 8 << 20, "{object}");
    let target = Target { child, pid: pid.trim().to_owned() };
    target.ends_well();
}

#[test]
fn a_process_that_cannot_be_asked_is_named() {
    let directory = directory();
    let program = compile(directory.path(), "target", TARGET, &["-fno-builtin"]);
    let target = Target::start(&program, &[("TOFT_RECLAIM", "calls")]);
    let refused = purge(&[&target.pid]);
    assert_eq!(refused.status.code(), Some(125));
    let words = stderr(&refused);
    assert!(words.contains("has no reclaimer") && words.contains("malloc_trim(0)"), "{words}");
    target.ends_well();

    let mut other = Command::new("sleep").arg("100").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let refused = purge(&[&other.id().to_string()]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("does not run on Toft"));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(purge(&["0"]).status.code(), Some(2));
    assert_eq!(purge(&["2147483647"]).status.code(), Some(125));
}
