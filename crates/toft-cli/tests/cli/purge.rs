//! `toft purge`: returns memory that the process would have kept, and names a process that cannot
//! be asked.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;
use serde_json::Value;

/// Fills 48 MiB with blocks that it writes to, and lets sweeps that its growth has asked for pass.
/// Then it frees all but each fiftieth, prints its process number, and sleeps. When a byte wakes
/// it, it verifies what is left, and allocates as much again.
const PROGRAM: &str = include_str!("programs/purge.c");

fn start(program: &Path, variables: &[(&str, &str)]) -> Target {
    // It would return memory by itself, only later than this test takes.
    Target::with(program, &[&[("TOFT_DECAY", "3600000")], variables].concat())
}

/// Lets the program verify its blocks and end.
fn ends_well(mut target: Target) {
    target.send("x");
    assert_eq!(target.child.wait().unwrap().code(), Some(0));
}

/// Starts and purges programs until the figures satisfy `holds`. The reclaimer may run just when
/// the blocks are freed, and discard a part before the purge does.
fn purged_first(program: &Path, holds: impl Fn(&dyn Fn(&str) -> u64) -> bool) -> (Target, Value) {
    (0..20)
        .map(|_| {
            let target = start(program, &[]);
            let object = object(&["purge", "--json", &target.pid]);
            (target, object)
        })
        .find(|(_, object)| holds(&|name| object[name].as_u64().unwrap()))
        .expect("the reclaimer was first at each of many purges")
}

#[test]
fn idle_memory_is_returned_on_request() {
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
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
    assert_eq!(number("returned_bytes"), gone, "{object}");
    // Twice is once: there is nothing left.
    let again = crate::common::object(&["purge", "--json", &pid]);
    assert!(again["returned_bytes"].as_u64().unwrap() < 1 << 20, "{again}");
    let page = stdout(&succeeds(&["purge", &pid]));
    assert!(page.starts_with(&format!("process {pid} has no free memory to return: ")), "{page}");
    ends_well(target);
}

/// Blocks of which only the first page was ever touched: all their pages are discarded, and few of
/// them were there.
#[test]
fn no_more_is_reported_than_was_resident() {
    let program = compiled("touched", PROGRAM, &["-fno-builtin", "-DSIZE=60000", "-DUSED=1"]);
    let (target, object) =
        purged_first(&program, |number| number("discarded_bytes") > 4 * number("rss_before"));
    let number = |name: &str| object[name].as_u64().unwrap();
    assert_eq!(number("returned_bytes"), number("rss_before") - number("rss_after"), "{object}");
    assert!(number("returned_bytes") < number("rss_before"), "{object}");
    ends_well(target);

    let target = start(&program, &[]);
    let text = stdout(&succeeds(&["purge", &target.pid]));
    assert!(text.contains("of address space; the rest of that was not resident"), "{text}");
    ends_well(target);
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
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
    let mut unshare = unshare();
    let command = unshare.args(["env", "TOFT_DECAY=3600000"]).arg(&program);
    let mut target = Target::of(command);
    assert_eq!(target.line, "1", "its number there");
    let children = format!("/proc/{0}/task/{0}/children", target.pid);
    target.pid = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let object = object(&["purge", "--json", &target.pid]);
    assert!(number(&object["rss_after"]) < 8 << 20, "{object}");
    ends_well(target);
}

/// The reclaimer has returned what was idle, and has ended: there is nothing to ask for.
#[test]
fn a_process_whose_reclaimer_has_ended_has_nothing_to_return() {
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
    let target = start(&program, &[("TOFT_DECAY", "100")]);
    let threads =
        || std::fs::read_dir(format!("/proc/{}/task", target.pid)).map_or(0, Iterator::count);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while threads() != 1 {
        assert!(std::time::Instant::now() < deadline, "the reclaimer has not ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let page = stdout(&succeeds(&["purge", &target.pid]));
    let nothing = format!("process {} has no free memory to return: ", target.pid);
    assert!(page.starts_with(&nothing), "{page}");
    ends_well(target);
}

#[test]
fn a_process_that_cannot_be_asked_is_named() {
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
    let target = start(&program, &[("TOFT_RECLAIM", "calls")]);
    let why = refused(&["purge", &target.pid]);
    assert_contains(&why, &["has no reclaimer", "malloc_trim(0)"]);
    ends_well(target);
}
