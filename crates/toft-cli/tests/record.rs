//! `toft record` and `toft trace`, and that what was recorded can be replayed.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use common::*;
use serde_json::Value;
use toft_bench::heap::Probe;
use toft_bench::params::Params;
use toft_bench::workloads::{On, trace};

const PLAIN: &str = r#"
#include <stdlib.h>
int main(void) {
    void *kept[100];
    for (int i = 0; i < 100; i++) kept[i] = i % 2 ? malloc(1000 + i) : calloc(1, 2000);
    for (int i = 0; i < 50; i++) kept[i] = realloc(kept[i], 5000);
    for (int i = 0; i < 90; i++) free(kept[i]);
    free(0);
    void *aligned;
    return posix_memalign(&aligned, 4096, 3) || malloc(-1ul >> 1);
}"#;

const HANDS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { COUNT = 20000, SLOTS = 64 };
static _Atomic(char *) ring[SLOTS];
static void *make(void *unused) {
    for (int i = 0; i < COUNT; i++) {
        char *block = malloc(1 + i % 700), *none = 0;
        while (!atomic_compare_exchange_weak(&ring[i % SLOTS], &none, block)) { none = 0; sched_yield(); }
    }
    return unused;
}
static void *take(void *unused) {
    for (int i = 0; i < COUNT; i++) {
        char *block;
        while (!(block = atomic_exchange(&ring[i % SLOTS], 0))) sched_yield();
        free(i % 3 ? block : realloc(block, 900));
    }
    return unused;
}
int main(void) {
    for (int round = 0; round < 2; round++) {
        pthread_t a, b;
        pthread_create(&a, 0, make, 0);
        pthread_create(&b, 0, take, 0);
        pthread_join(a, 0);
        pthread_join(b, 0);
    }
    return 0;
}"#;

const FORKS: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    void *inherited = malloc(3000);
    int child = fork();
    if (child == 0) { free(inherited); for (int i = 0; i < 7; i++) malloc(4321); _exit(0); }
    waitpid(child, 0, 0);
    free(inherited);
    return 0;
}"#;

fn summary(file: &Path) -> Value {
    let output = toft().args(["trace", "--json", text(file)]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn record(file: &Path, program: &Path) -> Value {
    let output = toft().args(["record", "-o", text(file), "--", text(program)]).output().unwrap();
    assert_clean(&output);
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
    let output = toft().args(["trace", "--sites", "1", text(&file)]).output().unwrap();
    let page = stdout(&output);
    assert!(page.lines().count() < 40 && page.contains("101 from"), "{page}");
    assert_eq!(page.lines().filter(|line| line.contains("plain+0x")).count(), 1, "{page}");

    fs::write(&file, &fs::read(&file).unwrap()[..300]).unwrap();
    let output = toft().args(["trace", text(&file)]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).contains("cut off"));

    fs::write(&file, "a letter").unwrap();
    let output = toft().args(["trace", text(&file)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("not a trace"));
    let output = toft().args(["record", "-o", text(&file), "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("not replaced"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a letter");
}

#[test]
fn children_are_recorded_when_that_is_asked_for() {
    let directory = directory();
    for (options, more) in [(&[][..], false), (&["--children"][..], true)] {
        let file = directory.path().join(format!("{more}.trace"));
        let mut command = toft();
        command.arg("record").args(options).args(["-o", text(&file), "--"]);
        let output = command.args(["bash", "-c", "perl -e 1; exit 3"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let files = fs::read_dir(directory.path()).unwrap();
        let mine = |path: &Path| text(path).contains(&format!("{more}.trace."));
        assert_eq!(files.filter(|entry| mine(&entry.as_ref().unwrap().path())).count() > 0, more);
    }
    let output = toft().args(["record", "--", "/nowhere/at-all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
}
