//! The simulation of caches tells apart allocators whose counts are known.

mod common;

use common::{Ran, bench, command, compiled, samples};

/// A `malloc` that stores the requested size in a word of the process, or in one of each thread.
fn storing_library(name: &str, storage: &str) {
    let source = format!(
        "#include <stddef.h>\n\
         extern void *__libc_malloc(size_t);\n\
         static {storage} _Alignas(64) volatile size_t last[8];\n\
         void *malloc(size_t size) {{ last[0] = size; return __libc_malloc(size); }}\n"
    );
    compiled(name, &source, &["-O2", "-shared", "-fPIC", "-ftls-model=initial-exec"]);
}

const RUN: &str = "--quick --runs 2 --set threads=3";

/// Each thread allocates in turn, so a word of the process is in another thread's cache each time.
#[test]
fn a_word_of_all_threads_moves_with_each_call_and_one_of_each_thread_never() {
    storing_library("libof_all.so", "");
    storing_library("libof_each.so", "__thread");
    let table = bench(&format!(
        "{RUN} --workload lines-own --peers glibc,all=libof_all.so,each=libof_each.so \
         --output words.json --set show=1"
    ))
    .page();
    assert!(table.contains("lines moved/call") && table.contains("accesses/call"), "{table}");
    let figure = |peer: &str, key: &str| {
        let figures = samples("words.json", peer, key);
        assert!(figures.len() == 2 && figures[0] == figures[1], "{figures:?}");
        figures[0]
    };
    let moves = |peer: &str| figure(peer, "lines_per_call");
    let more = moves("all") - moves("glibc");
    assert!((0.99..1.01).contains(&more), "{more} more\n{table}");
    assert!((moves("each") - moves("glibc")).abs() < 0.01, "{table}");
    assert!(figure("each", "accesses_per_call") > figure("glibc", "accesses_per_call"), "{table}");
    // The instruction that moves most is named, as it was asked for.
    let named = |line: &&str| line.starts_with("lines-own on all: 1.0") && line.contains("by ");
    let line = table.lines().find(named).unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains("of 1 lines, by libof_all.so+0x"), "{line}");
}

/// A draw from a shared heap moves each line that it writes to once, and not for a read before
/// (decision 0055). It was 6.6 when each moved twice.
#[test]
fn a_draw_from_a_shared_heap_moves_few_lines() {
    let Ok(library) = std::env::var("LIBTOFT_PATH") else {
        return println!("left out: LIBTOFT_PATH names no library");
    };
    let line = "--quick --runs 1 --workload lines-draw --output draws.json --peers";
    let peers = format!("toft={library}");
    let words: Vec<&str> = line.split(' ').chain([peers.as_str()]).collect();
    let table = common::bench_words(&words).page();
    let moved = samples("draws.json", "toft", "lines_per_call")[0];
    assert!((2.0..4.0).contains(&moved), "{moved}\n{table}");
}

#[test]
fn without_valgrind_lines_fail_and_say_what_to_install() {
    let words = format!("{RUN} --workload lines-own --peers glibc");
    let mut command = command(&words.split(' ').collect::<Vec<_>>());
    let table = Ran::from(command.env("PATH", "/nowhere").output().unwrap()).page();
    let why = "its lines are not counted: valgrind is not there: apt-get install valgrind";
    assert!(table.contains(&format!("failed: lines-own on glibc: {why}")), "{table}");
}
