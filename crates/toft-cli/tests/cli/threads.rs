//! `toft heap --threads`: which thread owns what, in a program of which it is known.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::*;
use serde_json::Value;

/// A thread `keeper` has 500 blocks of 1000 bytes, of which the first thread frees 100; one `gone`
/// has 300 of 2000 bytes and ends; and the first has one large block.
const TARGET: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *kept[500], *left[300], *volatile large;
static long keeper_number;
static pthread_barrier_t ready;
static void *keep(void *arg) {
    pthread_setname_np(pthread_self(), "keeper");
    keeper_number = syscall(SYS_gettid);
    for (int i = 0; i < 500; i++) kept[i] = malloc(1000);
    pthread_barrier_wait(&ready);
    pause();
    return arg;
}
static void *leave(void *arg) {
    for (int i = 0; i < 300; i++) left[i] = malloc(2000);
    return arg;
}
int main(void) {
    pthread_t keeper, leaver;
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&keeper, NULL, keep, NULL);
    pthread_barrier_wait(&ready);
    pthread_create(&leaver, NULL, leave, NULL);
    pthread_join(leaver, NULL);
    for (int i = 0; i < 100; i++) free(kept[i]);
    large = malloc(3 << 20);
    printf("%ld\n", keeper_number);
    fflush(stdout);
    char c;
    // Not by stdio, which would allocate between two looks.
    if (read(0, &c, 1) == 1) _exit(0);
}
"#;

#[test]
fn whose_the_memory_is_is_told_by_thread() {
    let place = directory();
    let program = compile(place.path(), "target", TARGET, &["-pthread", "-fno-builtin"]);
    let shown = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    let mut command = Command::new(program);
    let command = command.env("LD_PRELOAD", stdout(&shown).trim());
    let mut target = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(target.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let keeper: i64 = line.trim().parse().unwrap();
    let pid = target.0.id().to_string();

    let output = toft().args(["heap", "--threads", "--json", &pid]).output().unwrap();
    assert_clean(&output);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let owners = object["threads"].as_array().unwrap();
    let of = |what: &dyn Fn(&Value) -> bool| {
        let found: Vec<&Value> = owners.iter().filter(|owner| what(owner)).collect();
        assert_eq!(found.len(), 1, "{object}");
        found[0]
    };
    let kept = of(&|owner| owner["thread"] == keeper);
    assert_eq!((&kept["name"], &kept["state"]), (&"keeper".into(), &"S".into()), "{kept}");
    let number = |owner: &Value, name: &str| owner[name].as_u64().unwrap();
    // What others have freed is not collected while the owner sleeps; a slot of 1000 bytes has 1008
    // or 1024.
    let slot = number(kept, "uncollected_bytes") / 100;
    assert!((1000..=1024).contains(&slot), "{kept}");
    assert!((400..420).contains(&number(kept, "live_blocks")), "{kept}");
    let live = number(kept, "live_bytes");
    assert!((400 * slot..400 * slot + 8192).contains(&live), "{kept}");
    assert!(number(kept, "claimed_bytes") <= number(kept, "free_bytes"), "{kept}");
    assert!(number(kept, "free_resident_bytes") <= number(kept, "resident_bytes"), "{kept}");
    let gone = of(&|owner| owner["running"] == false && number(owner, "live_blocks") >= 300);
    assert!(gone["thread"].is_null() && number(gone, "live_bytes") >= 300 * 2000, "{gone}");
    // All that is live has an owner, but for what is large.
    let sum: u64 = owners.iter().map(|owner| number(owner, "live_bytes")).sum();
    assert_eq!(sum + number(&object, "large_bytes"), number(&object, "bytes"));
    assert!(number(&object, "large_bytes") >= 3 << 20);

    let page = in_terminal(place.path(), &["heap", "--threads", &pid], 80);
    assert!(page.contains(&format!("{keeper} (keeper), sleeps")), "{page}");
    assert!(page.contains("of an ended thread") && page.contains("free (RSS)"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let both = toft().args(["heap", "--threads", "--top", "3", &pid]).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

/// 240 MB of blocks that are freed and were never touched.
const UNTOUCHED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *block[4000];
int main(void) {
    for (int i = 0; i < 4000; i++) block[i] = malloc(60000);
    for (int i = 0; i < 4000; i++) if (i % 10) free(block[i]);
    puts("ready");
    fflush(stdout);
    char c;
    return read(0, &c, 1) != 1;
}
"#;

#[test]
fn what_is_free_is_shown_as_far_as_it_is_resident() {
    let place = directory();
    let program = compile(place.path(), "untouched", UNTOUCHED, &["-fno-builtin"]);
    let shown = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    let mut command = Command::new(program);
    let command = command.env("LD_PRELOAD", stdout(&shown).trim()).env("TOFT_RECLAIM", "off");
    let mut target = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    BufReader::new(target.0.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let pid = target.0.id().to_string();

    let output = toft().args(["heap", "--threads", "--json", &pid]).output().unwrap();
    assert_clean(&output);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &object["threads"][0];
    let number = |name: &str| first[name].as_u64().unwrap();
    assert!(number("free_bytes") > 150_000_000, "{first}");
    let (free, resident) = (number("free_resident_bytes"), number("resident_bytes"));
    assert!(free <= resident && resident < 16 << 20, "{first}");
    let page = stdout(&toft().args(["heap", "--threads", &pid]).output().unwrap());
    let line = page.lines().find(|line| line.contains("(untouched), ")).unwrap();
    // Live bytes are those of slots, free ones are resident.
    let line: Vec<&str> = line.split_whitespace().collect();
    assert!(line[1] == "MiB" && line[3] != "MiB", "{page}");
}

/// Eight threads that each allocate once, one after the other: a thread that finds a shared heap
/// in use goes another way.
const SHARERS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_barrier_t ready;
static void *volatile block[8];
static void *sleeper(void *arg) {
    block[(long)arg] = malloc(700);
    pthread_barrier_wait(&ready);
    pause();
    return arg;
}
int main(void) {
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, 2);
    for (long i = 0; i < 8; i++) {
        pthread_create(&thread, NULL, sleeper, (void *)i);
        pthread_barrier_wait(&ready);
    }
    puts("ready");
    fflush(stdout);
    char c;
    return read(0, &c, 1) != 1;
}
"#;

#[test]
fn a_shared_heap_is_told_from_that_of_an_ended_thread() {
    let place = directory();
    let program = compile(place.path(), "sharers", SHARERS, &["-pthread", "-fno-builtin"]);
    let shown = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    let mut command = Command::new(program);
    let command = command.env("LD_PRELOAD", stdout(&shown).trim());
    let mut target = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(target.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = target.0.id().to_string();
    let output = toft().args(["heap", "--threads", "--json", &pid]).output().unwrap();
    assert_clean(&output);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let owners = object["threads"].as_array().unwrap();
    let shared = owners.iter().filter(|owner| owner["shared"] == true);
    let blocks: u64 = shared.map(|owner| owner["live_blocks"].as_u64().unwrap()).sum();
    assert!(blocks >= 5, "{object}");
    for verb in [&["heap", "--threads"][..], &["rss"]] {
        let output = toft().args(verb).arg(&pid).output().unwrap();
        assert_clean(&output);
        let page = stdout(&output);
        assert!(page.contains("shared by threads"), "{page}");
        assert!(!page.contains("ended thread") && !page.contains("has exited"), "{page}");
    }
    let output = toft().args(["metrics", &pid]).output().unwrap();
    assert_clean(&output);
    let page = stdout(&output);
    let ended = page.lines().find(|line| !line.starts_with('#') && line.contains("ended"));
    assert!(ended.is_some_and(|line| line.ends_with(" 0")), "{page}");
}
