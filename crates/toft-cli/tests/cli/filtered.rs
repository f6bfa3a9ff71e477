//! What `toft rss` and `toft doctor` say under a filter of system calls (seccomp), as in a
//! container.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;
use serde_json::Value;

/// Installs a filter that kills (`k`), refuses (`e`) or allows (`a`) one call. Then executes itself
/// as a program with 32 MiB and a second thread, which says when the library has its own; or else
/// executes the rest of its arguments.
const UNDER: &str = include_str!("programs/filtered-under.c");

/// What is said if the filter forbids `process_vm_readv`.
const REPORTS: &str = "full reports (one line, without stacks of files; TOFT_REPORT)";

struct Target {
    child: Child,
    pid: i32,
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: a system call; the process is the target's own, which `toft run` waits for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// The program, under the filter or without.
fn target(filter: Option<(&str, i64)>) -> Target {
    let dir = directory();
    let under = compile(dir.path(), "under", UNDER, &["-pthread"]);
    let mut command = toft();
    command.args(["run", "--children", "--"]).arg(under);
    if let Some((how, call)) = filter {
        command.args([how, &call.to_string(), "itself"]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Target { child, pid: line.trim().parse().expect("the program says its number") }
}

/// What `toft rss` says of filters, once the process has probed them.
fn seccomp(target: &Target) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let line = object(&["rss", "--json", &target.pid.to_string()])["seccomp"].clone();
        let probed = line.as_str().is_none_or(|text| !text.contains("not probed yet"));
        if probed || Instant::now() > end {
            return line;
        }
    }
}

fn status(field: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned()))
}

#[test]
fn without_a_filter_nothing_is_printed() {
    if status("Seccomp:").as_deref() == Some("0") {
        assert_eq!(seccomp(&target(None)), Value::Null);
    }
}

#[test]
fn what_is_off_is_named_with_its_cost_and_its_variable() {
    for how in ["k", "e"] {
        let target = target(Some((how, libc::SYS_process_vm_readv)));
        let line = seccomp(&target);
        let text = line.as_str().unwrap();
        assert!(text.starts_with("inherited filter; off: "), "{text}");
        assert_contains(text, &[REPORTS]);
        assert!(!text.contains("reclaimer thread") && !text.contains("not probed"), "{text}");
        let page = stdout(&succeeds(&["rss", &target.pid.to_string()]));
        let lines: Vec<&str> =
            page.lines().filter(|line| line.contains("inherited filter")).collect();
        assert!(lines.len() == 1 && lines[0].contains(text), "{page}");
    }
    let line = seccomp(&target(Some(("k", libc::SYS_clone))));
    assert_contains(line.as_str().unwrap(), &["reclaimer thread (idle memory stays resident"]);
    let line = seccomp(&target(Some(("a", 0))));
    assert!(!line.as_str().unwrap().contains("reclaimer thread"), "{line}");
}

/// The rows of `toft doctor` under a filter.
fn doctor(how: &str, call: i64) -> Vec<Value> {
    let dir = directory();
    let under = compile(dir.path(), "under", UNDER, &["-pthread"]);
    let mut command = std::process::Command::new(&under);
    command.args([how, &call.to_string(), env!("CARGO_BIN_EXE_toft"), "doctor", "--json"]);
    let output = ends_with(0, command.output().unwrap());
    let all: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rows = all["rows"].as_array().unwrap();
    for row in rows {
        assert_ne!(row["meaning"], "not used by this version");
    }
    rows.clone()
}

fn row<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn the_doctor_tries_what_the_filter_allows() {
    let seccomp = |how: &str, call: i64| row(&doctor(how, call), "seccomp").clone();
    let refused = seccomp("e", libc::SYS_process_vm_readv);
    assert_contains(refused["meaning"].as_str().unwrap(), &["off: ", REPORTS]);
    let killed = seccomp("k", libc::SYS_process_vm_readv);
    assert_eq!(killed, refused, "the doctor lives, and says the same");
    let allowed = seccomp("a", 0);
    assert!(!allowed["meaning"].as_str().unwrap().contains(REPORTS), "{allowed}");
}

/// Where a call works, the row says what for, and else what has no effect. A refusal can be made
/// anywhere; that a call works depends on the kernel.
#[test]
fn the_doctor_names_what_each_optional_call_is_for() {
    let calls = [
        (
            "MADV_PAGEOUT",
            libc::SYS_madvise,
            "cold data goes to swap if asked for (TOFT_COLD)",
            "TOFT_COLD has no effect",
        ),
        (
            "mapping names",
            libc::SYS_prctl,
            "shown in /proc/PID/maps if asked for (TOFT_MAPPINGS, zones)",
            "TOFT_MAPPINGS=names has no effect, and zones have no names there",
        ),
        (
            "protection keys",
            libc::SYS_pkey_alloc,
            "the secure build's tables are written under a key if asked for (TOFT_PKEY)",
            "TOFT_PKEY has no effect",
        ),
        (
            "userfaultfd",
            libc::SYS_userfaultfd,
            "for TOFT_GUARDED=uninit, TOFT_COLD and TOFT_COMPACT",
            "TOFT_GUARDED=uninit and TOFT_COLD have no effect, TOFT_COMPACT in threaded programs",
        ),
    ];
    let all = doctor("a", 0);
    for (name, call, works, fails) in calls {
        let here = row(&all, name);
        let found = here["found"].as_str().unwrap();
        assert_eq!(here["meaning"], if found == "works" { works } else { fails }, "{name}");
        assert!(found == "works" || found.starts_with("no ("), "{here}");
        let refused = &doctor("e", call);
        let refused = row(refused, name);
        assert_eq!(refused["found"], "no (EPERM: Operation not permitted)", "{name}");
        assert_eq!(refused["meaning"], fails, "{name}");
    }
}
