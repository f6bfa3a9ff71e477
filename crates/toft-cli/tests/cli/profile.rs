//! Profiles that the library writes itself: `toft run --profile`, TOFT_PROFILE with its signal and
//! its growth, and the proof that a profile has every byte: five real programs, counted by a
//! library between them and Toft.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::*;
use serde_json::Value;

/// Keeps 1000 blocks, raises a signal, gives half of them back, and ends with status 7.
const HOLDER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *kept[1000], *volatile other;
__attribute__((noinline)) void fill(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(100000); }
__attribute__((noinline)) void childs(void) { other = malloc(77777); }
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    fill();
    if (strstr(how, "signal")) raise(SIGUSR2);
    for (int i = 0; i < 500; i++) free(kept[i]);
    if (strstr(how, "fork") && !fork()) { childs(); exit(0); }
    while (wait(NULL) > 0) {}
    if (strstr(how, "leave")) _exit(0);
    return strstr(how, "well") ? 0 : 7;
}
"#;

fn holder(directory: &Path) -> PathBuf {
    compile(directory, "holder", HOLDER, &["-fno-builtin"])
}

fn profile(path: &Path) -> Value {
    let output = toft().args(["report", "--json"]).arg(path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Objects of a function's rows.
fn objects_of(profile: &Value, function: &str) -> u64 {
    let rows = profile["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["frames"][0]["function"] == function);
    rows.map(|row| row["objects"].as_u64().unwrap()).sum()
}

fn profiled(options: &[&str], file: &Path, words: &[&str]) -> Output {
    let mut toft = toft();
    toft.args(["run", "--profile"]).arg(file).args(options).arg("--").args(words);
    toft.output().unwrap()
}

#[test]
fn at_exit_the_profile_is_written_in_the_form_of_its_name() {
    let directory = directory();
    let program = holder(directory.path());
    let file = directory.path().join("heap.toft");
    fs::write(&file, "an old one").unwrap();
    let output = profiled(&[], &file, &[text(&program)]);
    assert_eq!(output.status.code(), Some(7), "the program's own status");
    assert!(said(&output).contains("next: toft report"), "{}", stderr(&output));
    let at_exit = profile(&file);
    assert_eq!((objects_of(&at_exit, "fill"), at_exit["source"].as_str()), (500, Some("exit")));
    assert_eq!(
        (at_exit["name"].as_str(), at_exit["partitions"].as_u64()),
        (Some("holder"), Some(2048))
    );

    let page = directory.path().join("heap.html");
    profiled(&[], &page, &[text(&program)]);
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE html>"));
    let folded = directory.path().join("heap.folded");
    profiled(&[], &folded, &[text(&program)]);
    assert!(fs::read_to_string(&folded).unwrap().contains("holder;fill at holder.c:"));
}

#[test]
fn what_cannot_be_written_is_told_before_or_after() {
    let directory = directory();
    let program = holder(directory.path());
    for (name, why) in [
        ("heap.xyz", "its extension is not one of .toft"),
        ("no/folder/heap.toft", "no such folder"),
    ] {
        let output = profiled(&[], &directory.path().join(name), &[text(&program)]);
        assert_eq!(output.status.code(), Some(125), "{name}");
        assert!(said(&output).contains(why), "{}", stderr(&output));
    }
    let file = directory.path().join("heap.toft");
    let output = profiled(&[], &file, &[text(&program), "leave"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(said(&output).contains("no profile: the program was killed, or called _exit"));
    // Without the option nothing is written, and nothing is said.
    assert_clean(&run(&[], &[text(&program), "well"]));
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_signal_and_growth_write_numbered_ones() {
    let directory = directory();
    let program = holder(directory.path());
    let file = directory.path().join("heap.toft");
    let output =
        profiled(&["--env", "TOFT_PROFILE_AT=signal:12"], &file, &[text(&program), "signal"]);
    assert_eq!(output.status.code(), Some(7), "the handler goes on: {}", stderr(&output));
    let at_signal = profile(&directory.path().join("heap.toft.1"));
    assert_eq!(
        (objects_of(&at_signal, "fill"), at_signal["source"].as_str()),
        (1000, Some("signal"))
    );
    assert_eq!(objects_of(&profile(&file), "fill"), 500);
    assert!(!directory.path().join("heap.toft.2").exists());

    // 100 MB are five times 20 MiB, less what fits in no more.
    let grown = directory.path().join("grown.toft");
    let output = profiled(&["--env", "TOFT_PROFILE_AT=growth:20m"], &grown, &[text(&program)]);
    assert_eq!(output.status.code(), Some(7));
    let count = |number| {
        let path = directory.path().join(format!("grown.toft.{number}"));
        path.exists()
            .then(|| (objects_of(&profile(&path), "fill"), profile(&path)["source"].clone()))
    };
    let counts: Vec<(u64, Value)> = (1..20).map_while(count).collect();
    assert!((3..=6).contains(&counts.len()), "{counts:?}");
    assert!(counts.is_sorted_by_key(|(objects, _)| *objects), "{counts:?}");
    assert!(counts.iter().all(|(_, source)| source == "growth") && counts[0].0 < 250, "{counts:?}");
    // And a signal for which no profile is requested does what it always does.
    let killed = profiled(&[], &file, &[text(&program), "signal"]);
    assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
    // A signal that no process can handle is reported.
    let told = profiled(&["--env", "TOFT_PROFILE_AT=signal:9"], &file, &[text(&program)]);
    assert!(
        stderr(&told).contains("TOFT_PROFILE_AT: the kernel does not allow"),
        "{}",
        stderr(&told)
    );
}

#[test]
fn children_write_files_of_their_own() {
    let directory = directory();
    let program = holder(directory.path());
    let file = directory.path().join("heap.toft");
    profiled(&[], &file, &[text(&program), "fork"]);
    assert_eq!(objects_of(&profile(&file), "childs"), 0);
    let others = |from: &str| -> Vec<PathBuf> {
        let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| text(path).contains(&format!("{from}."))).collect()
    };
    let child = others("heap.toft");
    assert_eq!(child.len(), 1, "{child:?}");
    assert_eq!(objects_of(&profile(&child[0]), "childs"), 1);

    // A starter that is replaced by the program, and programs that another starts.
    let exec = directory.path().join("exec.toft");
    profiled(&["--children"], &exec, &["env", text(&program)]);
    assert_eq!(objects_of(&profile(&exec), "fill"), 500);
    let many = directory.path().join("many.toft");
    let words = format!("{0}; {0}; true", text(&program));
    profiled(&["--children"], &many, &["sh", "-c", &words]);
    assert_eq!(others("many.toft").len(), 2);

    // Where the name has a place for the number it is there and nowhere else, and what is said to
    // be written is there.
    for options in [&[][..], &["--children"]] {
        let output = profiled(options, &directory.path().join("of-%p.toft"), &[text(&program)]);
        let said = said(&output);
        let name =
            said.split_once("toft: wrote ").and_then(|(_, rest)| rest.split_once("; next: "));
        let written = name.unwrap_or_else(|| panic!("{}", stderr(&output))).0;
        assert_eq!(objects_of(&profile(Path::new(written)), "fill"), 500);
        let number = written.rsplit_once("/of-").unwrap().1.trim_end_matches(".toft");
        assert!(number.parse::<u32>().is_ok(), "{written}");
    }
}

/// Counts, between a program and whatever malloc it has, which blocks are live, and says at exit
/// what `malloc_usable_size` says of them; and how many there ever were, and their bytes. A block
/// that `realloc` has moved is another one; one that has grown in place is the same, with more
/// bytes.
const TALLY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define PLACES (1u << 24)
static uintptr_t *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char early[1 << 16];
static size_t early_used;
static void *(*next_malloc)(size_t), *(*next_realloc)(void *, size_t), *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);
static size_t (*next_usable)(void *);
static int starting;
static size_t ever_blocks, ever_bytes;
static int is_early(void *p) { return (char *)p >= early && (char *)p < early + sizeof early; }
static int start(void) {
    if (next_free) return 1;
    if (starting) return 0;
    starting = 1;
    table = mmap(0, PLACES * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    next_malloc = dlsym(RTLD_NEXT, "malloc"); next_realloc = dlsym(RTLD_NEXT, "realloc");
    next_memalign = dlsym(RTLD_NEXT, "memalign"); next_usable = dlsym(RTLD_NEXT, "malloc_usable_size");
    next_free = dlsym(RTLD_NEXT, "free");
    return 1;
}
static unsigned place(uintptr_t p) { return (p * 0x9e3779b97f4a7c15u) >> 40; }
static void *had(void *p, size_t before) {
    if (!p) return p;
    size_t bytes = next_usable(p);
    pthread_mutex_lock(&lock);
    if (before == 0) ever_blocks++;
    if (bytes > before) ever_bytes += bytes - before;
    unsigned i = place((uintptr_t)p);
    while (table[i] > 1) i = (i + 1) % PLACES;
    table[i] = (uintptr_t)p;
    pthread_mutex_unlock(&lock);
    return p;
}
static void gone(void *p) {
    pthread_mutex_lock(&lock);
    for (unsigned i = place((uintptr_t)p); table[i]; i = (i + 1) % PLACES)
        if (table[i] == (uintptr_t)p) { table[i] = 1; break; }
    pthread_mutex_unlock(&lock);
}
void *malloc(size_t n) {
    if (start()) return had(next_malloc(n), 0);
    void *p = early + early_used;
    early_used += (n + 31) / 16 * 16;
    return p;
}
void *calloc(size_t a, size_t b) {
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) { errno = ENOMEM; return NULL; }
    void *p = malloc(n);
    return p ? memset(p, 0, n) : p;
}
void free(void *p) {
    if (!p || is_early(p) || !start()) return;
    gone(p);
    int e = errno;
    next_free(p);
    errno = e;
}
void *realloc(void *p, size_t n) {
    if (!p) return malloc(n);
    if (is_early(p)) return memcpy(malloc(n), p, n);
    start();
    size_t before = next_usable(p);
    gone(p);
    void *q = next_realloc(p, n);
    if (!q && n) had(p, before);
    return had(q, q == p ? before : 0);
}
void *reallocarray(void *p, size_t a, size_t b) {
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) { errno = ENOMEM; return NULL; }
    return realloc(p, n);
}
void *memalign(size_t a, size_t n) { start(); return had(next_memalign(a, n), 0); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
void *valloc(size_t n) { return memalign(4096, n); }
int posix_memalign(void **out, size_t a, size_t n) {
    void *p = memalign(a, n);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}
void *_Znwm(size_t n) { return malloc(n ? n : 1); }
void *_Znam(size_t n) { return malloc(n ? n : 1); }
void _ZdlPv(void *p) { free(p); }
void _ZdaPv(void *p) { free(p); }
void _ZdlPvm(void *p, size_t n) { (void)n; free(p); }
void _ZdaPvm(void *p, size_t n) { (void)n; free(p); }
__attribute__((destructor)) static void ended(void) {
    if (!start()) return;
    size_t bytes = 0, blocks = 0;
    for (unsigned i = 0; i < PLACES; i++)
        if (table[i] > 1) { bytes += next_usable((void *)table[i]); blocks++; }
    char line[300];
    snprintf(line, sizeof line, "%s.%d", getenv("TALLY"), getpid());
    int file = open(line, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int n = snprintf(line, sizeof line, "%zu %zu %zu %zu", bytes, blocks, ever_bytes, ever_blocks);
    if (write(file, line, n) != n) _exit(99);
    close(file);
}
"#;

/// What a run of it left, by process: what was counted, and what the profile says: bytes and blocks
/// that live, and bytes and blocks that there ever were.
fn tallied(directory: &Path, program: &str, words: &[&str]) -> HashMap<String, [[u64; 4]; 2]> {
    let tally =
        compile(directory, "tally.so", TALLY, &["-shared", "-fPIC", "-O2", "-fno-builtin", "-ldl"]);
    let shown = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    let library = stdout(&shown).trim().to_owned();
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(directory)
        .env("PYTHONMALLOC", "malloc")
        .env("PYTHONHASHSEED", "0");
    command.env("LD_PRELOAD", format!("{}:{library}", text(&tally)));
    command.env("TALLY", directory.join("tally")).env("TOFT_PROFILE", directory.join("heap.%p"));
    let output =
        command.output().unwrap_or_else(|error| panic!("the tests need {program}: {error}"));
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    let mut runs = HashMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(pid) = name.strip_prefix("tally.").filter(|pid| pid.parse::<u32>().is_ok()) else {
            continue;
        };
        let counted = fs::read_to_string(&path).unwrap();
        let counted: Vec<u64> = counted.split(' ').map(|word| word.parse().unwrap()).collect();
        let profile = profile(&directory.join(format!("heap.{pid}")));
        let number = |name: &str| profile[name].as_u64().unwrap();
        let sum = |name: &str| -> u64 {
            profile["rows"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
        };
        runs.insert(
            pid.to_owned(),
            [
                counted.try_into().unwrap(),
                [number("bytes"), number("objects"), sum("allocated"), sum("allocations")],
            ],
        );
    }
    runs
}

#[test]
fn a_profile_has_every_byte_that_an_independent_count_has_in_five_programs() {
    // A reference more than there are, so that the interpreter does not give it all back at its
    // end.
    let make = "import ctypes, json; kept = [json.loads('{\"a\": [1, 2, {\"b\": %d}]}' % i) for i in range(20000)]; \
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))";
    let sql = "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
               insert into t select i, hex(randomblob(50)) from n; create index x on t(b); select count(*) from t;";
    let lua = "kept = {} for i = 1, 50000 do kept[i] = {name = 'n' .. i, next = kept[i - 1]} end os.exit(0, false)";
    let perl = "our %kept; $kept{$_} = [map { \"x$_\" } 1..9] for 1..9000; exit 0";
    let git = "for i in 1 2 3 4 5 6 7 8; do echo $i > f$i; done; git init -q . && git add f? && git -c user.name=a \
               -c user.email=a@b commit -qm one && exec git log --stat";
    for (program, words, least) in [
        ("/usr/bin/python3", vec!["-c", make], 1000),
        ("sqlite3", vec![":memory:", sql], 10),
        ("lua5.4", vec!["-e", lua], 50_000),
        ("perl", vec!["-e", perl], 1000),
        ("bash", vec!["-c", git], 10),
    ] {
        let directory = directory();
        let runs = tallied(directory.path(), program, &words);
        assert!(!runs.is_empty(), "{program}");
        for (pid, [counted, profiled]) in &runs {
            assert_eq!(counted, profiled, "{program}, process {pid}: counted, profiled");
        }
        let most = runs.values().map(|[counted, _]| counted[1]).max().unwrap();
        let ever = runs.values().map(|[counted, _]| counted[3]).max().unwrap();
        eprintln!("{program}: {} processes, the largest with {most} blocks of {ever}", runs.len());
        assert!(most >= least, "{program}: {most} blocks");
    }
}
