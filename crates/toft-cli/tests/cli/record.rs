//! `toft record` and `toft trace`, and that what was recorded can be replayed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::common::*;
use serde_json::Value;
use toft_bench::heap::Probe;
use toft_bench::params::Params;
use toft_bench::workloads::{On, trace};

const PLAIN: &str = include_str!("programs/record-plain.c");

const HANDS: &str = include_str!("programs/record-hands.c");

const FORKS: &str = include_str!("programs/record-forks.c");

fn summary(file: &Path) -> Value {
    object(&["trace", "--json", text(file)])
}

#[track_caller]
fn record(file: &Path, program: &Path) -> Value {
    prints(&["record", "-o", text(file), "--", text(program)]);
    summary(file)
}

/// The counts of the probe belong to the process.
fn replayed(file: &Path) -> (u64, u64) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let before = Probe::seen();
    let params = Params::parse(["repeat=1"]).unwrap();
    trace::run_file(On::Probe(Probe::new(0)), file, &params).unwrap();
    let after = Probe::seen();
    (after.allocations - before.allocations, after.frees - before.frees)
}

#[test]
fn every_call_is_recorded_and_a_replay_makes_the_same() {
    let directory = directory();
    let program = compile(directory.path(), "plain", PLAIN, &["-fno-builtin"]);
    let file = directory.path().join("plain.trace");
    let all = record(&file, &program);
    assert_eq!((&all["allocations"], &all["frees"]), (&101.into(), &90.into()), "{all}");
    assert_eq!((&all["resizes"], &all["zeroed"]), (&50.into(), &50.into()), "{all}");
    assert_eq!((&all["aligned"], &all["left_blocks"]), (&1.into(), &11.into()), "{all}");
    assert_eq!(all["threads"], 1);
    assert_eq!(all["top_sites"][0]["allocations"], 50);
    assert!(all["top_sites"][0]["site"].as_str().unwrap().starts_with("plain+0x"), "{all}");
    assert_eq!(replayed(&file), (101, 101));
}

/// The recorder has a separate list of names, and it misses calls of a name that the list lacks in
/// silence.
#[test]
fn the_recorder_stands_before_each_name_that_the_library_has() {
    let of_libc = |name: &&str| !name.starts_with("toft_") && !name.starts_with("__");
    // What only asks or sets; glibc's second names are not recorded.
    let others = ["malloc_usable_size", "malloc_trim", "mallopt", "mallinfo", "mallinfo2"];
    let others = [&others[..], &["malloc_stats", "malloc_info", "prctl", "syscall"]].concat();
    let others = [&others[..], &["dlopen", "dlmopen", "pthread_key_create"]].concat();
    let users = ["setuid", "setgid", "seteuid", "setegid", "setreuid", "setregid", "setresuid"];
    let others = [&others[..], &users, &["setresgid", "setgroups"]].concat();
    let others = [&others[..], &["capset", "unshare", "setns"]].concat();
    // Traces have no resize in place, so jemalloc's interface is not recorded.
    let jemalloc = ["mallctl", "mallctlbymib", "mallctlnametomib", "malloc_stats_print"];
    let others = [&others[..], &jemalloc, &["mallocx", "rallocx", "xallocx", "sallocx"]].concat();
    let others = [&others[..], &["dallocx", "sdallocx", "nallocx"]].concat();
    let names = include_str!("../../../../tests/abi/symbols.txt").lines();
    let names = names.filter(|line| !line.is_empty() && !line.starts_with('#')).filter(of_libc);
    let wanted: BTreeSet<&str> = names.filter(|name| !others.contains(name)).collect();
    assert!(wanted.contains("malloc") && wanted.contains("_Znwm") && wanted.len() > 30);

    let directory = directory();
    let file = directory.path().join("names.trace");
    let words = ["record", "-o", text(&file), "--", "cat", "/proc/self/maps"];
    let maps = stdout(&toft().args(words).output().unwrap());
    let mapped = |line: &&str| line.contains("/libtoft_record");
    let library = maps.lines().find(mapped).and_then(|line| line.split_whitespace().last());
    let library = library.unwrap_or_else(|| panic!("the recorder is not there: {maps}"));
    let table = Command::new("nm").args(["-D", "--defined-only", library]).output().unwrap();
    let table = stdout(&table);
    let found: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        // The program's end, and what it becomes.
        .filter(|name| !name.starts_with("exec") && !["_exit", "_Exit", "fexecve"].contains(name))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn blocks_that_are_handed_between_threads_survive() {
    let directory = directory();
    let program = compile(directory.path(), "hands", HANDS, &["-fno-builtin", "-pthread"]);
    let file = directory.path().join("hands.trace");
    let all = record(&file, &program);
    assert!(all["frees"].as_u64().unwrap() >= 40_000, "{all}");
    assert!(all["frees_by_other_threads"].as_u64().unwrap() >= 40_000, "{all}");
    assert_eq!((&all["stray_events"], &all["unrecorded_calls"]), (&0.into(), &0.into()));
    assert_eq!(all["threads"], 5);
    let allocations = all["allocations"].as_u64().unwrap();
    assert_eq!(replayed(&file), (allocations, allocations));
}

#[test]
fn the_child_of_a_fork_writes_a_file_of_its_own() {
    let directory = directory();
    let program = compile(directory.path(), "forks", FORKS, &["-fno-builtin"]);
    let file = directory.path().join("forks.trace");
    let parent = record(&file, &program);
    assert_eq!((&parent["allocations"], &parent["frees"]), (&1.into(), &1.into()), "{parent}");
    let child = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| text(path).contains("forks.trace."))
        .expect("the child's file");
    let child = summary(&child);
    assert_eq!((&child["allocations"], &child["bytes"]), (&7.into(), &30_247.into()), "{child}");
    assert_eq!((&child["frees"], &child["unknown_frees"]), (&0.into(), &1.into()), "{child}");
}

#[test]
fn a_trace_is_shown_on_one_screen_and_replaces_only_a_trace() {
    let directory = directory();
    let program = compile(directory.path(), "plain", PLAIN, &["-fno-builtin"]);
    let file = directory.path().join("plain.trace");
    record(&file, &program);
    record(&file, &program);
    let page = stdout(&succeeds(&["trace", "--sites", "1", text(&file)]));
    assert!(page.lines().count() < 40 && page.contains("101 from"), "{page}");
    assert_eq!(page.lines().filter(|line| line.contains("plain+0x")).count(), 1, "{page}");

    fs::write(&file, &fs::read(&file).unwrap()[..300]).unwrap();
    let output = succeeds(&["trace", text(&file)]);
    assert!(message(&output).contains("cut off"));

    fs::write(&file, "a letter").unwrap();
    assert!(refused(&["trace", text(&file)]).contains("not a trace"));
    assert!(refused(&["record", "-o", text(&file), "--", "true"]).contains("not replaced"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a letter");
}

#[test]
fn children_are_recorded_when_that_is_asked_for() {
    let directory = directory();
    for (options, more) in [(&[][..], false), (&["--children"][..], true)] {
        let file = directory.path().join(format!("{more}.trace"));
        let mut command = toft();
        command.arg("record").args(options).args(["-o", text(&file), "--"]);
        ends_with(3, command.args(["bash", "-c", "perl -e 1; exit 3"]).output().unwrap());
        let files = fs::read_dir(directory.path()).unwrap();
        let mine = |path: &Path| text(path).contains(&format!("{more}.trace."));
        assert_eq!(files.filter(|entry| mine(&entry.as_ref().unwrap().path())).count() > 0, more);
    }
    toft_ends_with(127, &["record", "--", "/nowhere/at-all"]);
}

/// Ends after 10 allocations: by what is named, in a program that has written nothing yet.
const ENDS: &str = include_str!("programs/record-ends.c");

/// A list of arguments arrives whole, and what was gathered is in the file.
#[test]
fn what_is_gathered_is_written_at_every_end_and_before_every_exec() {
    let directory = directory();
    let program = compile(directory.path(), "ends", ENDS, &["-fno-builtin"]);
    let ends = ["exit", "_exit", "_Exit", "quick_exit"];
    let execs = ["execve", "execv", "execvp", "execvpe", "fexecve", "execveat"];
    for how in ends.iter().chain(&execs).chain(&["execl", "execlp", "execle"]) {
        let file = directory.path().join(format!("{how}.trace"));
        let output =
            toft().args(["record", "-o", text(&file), "--", text(&program), how]).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{how}");
        let all = summary(&file);
        let sizes = all["bytes"].as_u64().unwrap();
        let late = u64::from(*how == "quick_exit");
        assert_eq!((&all["allocations"], sizes), (&(10 + late).into(), 1045 + 77 * late), "{how}");
    }
}

const NAMES: &str = r#"
#include <cstdlib>
#include <new>
struct alignas(64) Wide { char bytes[64]; };
int main() {
    auto al = std::align_val_t(64);
    std::nothrow_t const &no = std::nothrow;
    ::operator delete(::operator new(101));
    ::operator delete[](::operator new[](102));
    ::operator delete(::operator new(103, no), no);
    ::operator delete[](::operator new[](104, no), no);
    ::operator delete(::operator new(105, al), al);
    ::operator delete[](::operator new[](106, al), al);
    ::operator delete(::operator new(107, al, no), al, no);
    ::operator delete[](::operator new[](108, al, no), al, no);
    ::operator delete(::operator new(109), 109);
    ::operator delete[](::operator new[](110), 110);
    ::operator delete(::operator new(111, al), 111, al);
    ::operator delete[](::operator new[](112, al), 112, al);
    delete new int;
    delete new Wide;
    ::operator new(1000);
    int caught = 0;
    try { ::operator new(static_cast<size_t>(-1) >> 1); } catch (std::bad_alloc const &) { caught = 1; }
    return caught == 1 && ::operator new(static_cast<size_t>(-1) >> 1, no) == nullptr ? 0 : 1;
}"#;

#[test]
fn every_name_of_cxx_is_recorded_and_throws_as_it_must() {
    let directory = directory();
    let source = file(directory.path(), "names.cc", NAMES.as_bytes(), 0o644);
    let program = build(&source, "names", &["g++", "-std=c++17", "-O0", "-g"]);
    let file = directory.path().join("names.trace");
    let all = record(&file, &program);
    // The C++ library has one block for the time when memory is out, and an exception is another.
    let (allocations, frees) = (&all["allocations"], &all["frees"]);
    let library = allocations.as_u64().unwrap() - 15;
    assert!(library <= 4 && frees.as_u64().unwrap() >= 14, "{all}");
    assert_eq!((&all["aligned"], &all["unknown_frees"]), (&7.into(), &0.into()), "{all}");
    assert_eq!(all["stray_events"], 0);
    // Each call site is the program's, and not one inside of the C++ library.
    let all = object(&["trace", "--json", "--sites", "40", text(&file)]);
    let own = all["top_sites"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|site| site["site"].as_str().unwrap().starts_with("names+0x"));
    assert_eq!(own.count(), 15, "{all}");
}

/// Calls `malloc` once from each of `places` places, which it writes itself.
#[cfg(target_arch = "x86_64")]
const PLACES: &str = include_str!("programs/record-places.c");

/// A hundred thousand call sites keep their numbers, and the rest are counted.
#[cfg(target_arch = "x86_64")]
#[test]
fn many_call_sites_are_distinguished_and_too_many_are_counted() {
    let directory = directory();
    let program = compile(directory.path(), "places", PLACES, &["-fno-builtin"]);
    for (places, without) in [(100_000u64, 0), (140_000, 140_000 - (1 << 17))] {
        let file = directory.path().join(format!("{places}.trace"));
        prints(&["record", "-o", text(&file), "--", text(&program), &places.to_string()]);
        let all = summary(&file);
        assert_eq!(all["allocations"], places);
        assert_eq!(all["calls_without_site"], without);
        let sites = places - without + u64::from(without > 0);
        assert_eq!(all["call_sites"], sites);
        let output = toft().args(["trace", text(&file)]).output().unwrap();
        assert_eq!(stdout(&output).contains("no call site"), without > 0, "{}", stdout(&output));
    }
}
