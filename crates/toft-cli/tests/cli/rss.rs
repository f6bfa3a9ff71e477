//! `toft rss`: what it says of programs that know what they have, and what it says where it can say
//! nothing.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;
use serde_json::Value;

/// Two functions fill pages with blocks, each of other sizes. Of `pin`'s every sixteenth stays, one
/// on each page; of `give`'s none. A second thread has blocks that the first one frees. The program
/// itself prints what is left, to the byte, and so does the library in it.
const TARGET: &str = r#"#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define N 20000
int toft_stats_json(int) __attribute__((weak));
static char zeroed[1 << 20];
static void *pinning[N], *given[N], *held[1000], *big[3];
static int ready[2], never[2];
static int worker_number;
__attribute__((noinline)) void pin(void) {
    for (int i = 0; i < N; i++) memset(pinning[i] = malloc(250), 1, 250);
}
__attribute__((noinline)) void give(void) {
    for (int i = 0; i < N; i++) memset(given[i] = malloc(310), 1, 310);
}
__attribute__((noinline)) void large(void) {
    for (int i = 0; i < 3; i++) memset(big[i] = malloc(1 << 20), 1, 1 << 20);
}
__attribute__((noinline)) void hold(void) {
    for (int i = 0; i < 1000; i++) memset(held[i] = malloc(3000), 2, 3000);
}
static void *worker(void *arg) {
    char c = 0;
    worker_number = gettid();
    hold();
    if (write(ready[1], &c, 1) != 1 || read(never[0], &c, 1) != 1) return NULL;
    return NULL;
}
static size_t left(void **blocks, int n) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) if (blocks[i]) bytes += malloc_usable_size(blocks[i]);
    return bytes;
}
int main(int n, char **v) {
    pthread_t thread;
    char c, line[200];
    if (pipe(ready) || pipe(never)) return 1;
    pin(); give(); large(); memset(zeroed, 1, sizeof zeroed);
    for (int i = 0; i < N; i++) {
        if (i % 16) { free(pinning[i]); pinning[i] = NULL; }
        free(given[i]);
    }
    free(big[1]); big[1] = NULL;
    pthread_create(&thread, NULL, worker, NULL);
    if (read(ready[0], &c, 1) != 1) return 1;
    for (int i = 0; i < 1000; i += 10) { free(held[i]); held[i] = NULL; }
    int length = snprintf(line, sizeof line, "{\"pid\":%d,\"worker\":%d,\"pin\":%zu,\"hold\":%zu,\"large\":%zu}\n",
        getpid(), worker_number, left(pinning, N), left(held, 1000), left(big, 3));
    if (write(1, line, length) != length || toft_stats_json(1)) return 1;
    pause();
}
"#;

/// What the target says of itself.
struct Target {
    child: Child,
    own: Value,
    library: Value,
}

impl Target {
    fn pid(&self) -> i32 {
        self.own["pid"].as_i64().unwrap() as i32
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // The target, whose end ends `toft run`.
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.pid()),
            nix::sys::signal::SIGKILL,
        );
        let _ = self.child.wait();
    }
}

/// Starts a program that says in a line that it is quiet, and in another what its library counts.
fn start(program: &Path) -> Target {
    start_with(&[], program)
}

fn start_with(options: &[(&str, &str)], program: &Path) -> Target {
    start_by(&[], options, program)
}

fn start_by(words: &[&str], options: &[(&str, &str)], program: &Path) -> Target {
    let mut toft = toft();
    let command = toft.envs(options.iter().copied()).arg("run").args(words).arg("--").arg(program);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    Target { own: next(), library: next(), child }
}

fn rss(words: &[&str]) -> Output {
    toft().arg("rss").args(words).output().unwrap()
}

#[track_caller]
fn object(pid: i32) -> Value {
    let output = rss(&["--json", &pid.to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn site<'a>(object: &'a Value, function: &str) -> &'a Value {
    let pins = object["pins"].as_array().unwrap();
    pins.iter()
        .find(|pin| pin["function"] == function)
        .unwrap_or_else(|| panic!("{function}: {object}"))
}

#[test]
fn live_bytes_are_exact_and_everything_adds_up_to_the_kernels_number() {
    let directory = directory();
    let target = start(&compile(directory.path(), "target", TARGET, &["-pthread"]));
    let said = object(target.pid());

    assert_eq!(said["live_bytes"], target.library["live_bytes"]);
    assert_eq!(said["live_blocks"], target.library["live_blocks"]);
    assert_eq!(said["guard_bytes"], target.library["guard_bytes"]);
    assert_eq!(site(&said, "hold")["live_bytes"], target.own["hold"]);
    assert_eq!(site(&said, "large")["live_bytes"], target.own["large"]);
    assert_eq!(site(&said, "give")["live_bytes"], 0);

    // The sum of all terms is the kernel's number, and nearly nothing of it goes by no name.
    let terms = said["resident"].as_object().unwrap();
    let sum: i64 = terms.values().map(|term| term.as_i64().unwrap()).sum();
    assert_eq!(sum, said["kernel"]["rss"].as_i64().unwrap());
    let left = terms["not_told_apart"].as_i64().unwrap();
    assert!(left.abs() <= 64 << 10, "{left}: {said}");
    // The program's own mebibyte of zeroed data is the program's.
    assert!(
        number(&terms["programs"]) >= 1 << 20 && number(&terms["anonymous"]) < 1 << 20,
        "{said}"
    );
    // And so is the sum of ours, of what the kernel counts in our windows.
    let ours: u64 = [
        "live",
        "large_slack",
        "claimed",
        "uncollected",
        "free_pinned",
        "free_dirty",
        "lent",
        "empty_slabs",
        "large_kept",
        "descriptors",
        "heaps",
        "tables",
    ]
    .iter()
    .map(|name| number(&terms[*name]))
    .sum();
    assert!(ours.abs_diff(number(&said["kernel_of_toft"]["rss"])) <= 64 << 10, "{ours}: {said}");
    // An independent reader of the kernel's number, a moment later.
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", target.pid())).unwrap();
    let rollup = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let rollup = rollup.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024;
    assert!(rollup.abs_diff(number(&said["kernel"]["rss"])) <= 256 << 10, "{rollup}: {said}");
    assert_eq!(
        (number(&said["reading"]["descriptors_senseless"]), number(&said["reading"]["tries"])),
        (0, 1)
    );
    assert!(
        number(&said["page_tables"]) > 0
            && number(&said["peak_rss"]) >= number(&said["kernel"]["rss"])
    );
}

#[test]
fn the_site_that_keeps_one_block_on_each_page_is_the_pin() {
    let directory = directory();
    let target = start(&compile(directory.path(), "target", TARGET, &["-pthread"]));
    let said = object(target.pid());
    // 256-byte slots, sixteen to a page, of which one is live.
    let first = &said["pins"][0];
    assert_eq!(first["function"], "pin", "{said}");
    assert!(first["file"].as_str().unwrap().ends_with("target.c"));
    assert_eq!(first["live_bytes"], target.own["pin"]);
    assert_eq!(number(&first["pinned_pages"]), 1250);
    // What malloc would hand out next is on one page of these, or on none.
    let pinned = number(&first["pinned_bytes"]);
    assert!((1250 * 3840 - 4096..=1250 * 3840).contains(&pinned), "{pinned}");
    assert_eq!(site(&said, "give")["pinned_bytes"], 0);

    // What machines rely on: names come, none goes.
    let names = |value: &Value| {
        let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
        let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(
        names(&said),
        "claimed_bytes empty_slabs free_bytes guard_bytes kernel kernel_of_toft large_blocks \
         large_blocks_kept lent_slots library live_blocks live_bytes name page_tables partitions peak_rss pid pins \
         reading resident saved_bytes seccomp slabs threads toft uncollected_bytes"
    );
    assert_eq!(names(&said["kernel"]), "anon_huge_pages anonymous lazy_free pss rss swap");
    assert_eq!(
        names(&said["resident"]),
        "anonymous brk claimed descriptors empty_slabs files free_dirty free_pinned heaps kernel \
         large_kept large_slack lent live not_told_apart programs quarantined reserved shared stacks tables \
         uncollected"
    );
    assert_eq!(
        names(first),
        "file function line live_blocks live_bytes module offset partition pinned_bytes pinned_pages \
         resident_bytes site"
    );
    assert_eq!(
        names(&said["threads"][0]),
        "claimed_bytes free_bytes heap live_bytes resident running slabs thread uncollected_bytes"
    );

    let page = stdout(&rss(&[&target.pid().to_string()]));
    for expected in [
        "the kernel's Rss",
        "free, pinned",
        "4.6 MiB   312.5 KiB       1 250  pin at target.c:15",
        "unaccounted",
        "Toft 0.",
    ] {
        assert!(page.contains(expected), "{expected} is missing: {page}");
    }
    assert!(!page.contains("give at"), "{page}");
    assert!(!page.contains('\x1b'), "colour in a pipe");
    let narrow = in_terminal(directory.path(), &["rss", &target.pid().to_string()], 80);
    let longest = narrow.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80 && narrow.contains("free, pinned"), "{longest}: {narrow}");
}

/// Runtimes such as V8 map at random addresses. The allocator reserves none of its windows, so that
/// such mappings may be in them.
const MAPS: &str = r#"#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    char *block = malloc(100);
    int mapped = 0;
    /* Four GiB apart, beginning behind those of the first block. */
    for (uintptr_t step = 1; step <= 400 && mapped < 64; step += 5) {
        char *at = (char *)(((uintptr_t)block >> 32) + step << 32);
        char *p = mmap(at, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED) continue;
        memset(p, 1, 1 << 20);
        mapped++;
    }
    printf("{\"pid\": %d, \"mapped\": %d}\n{}\n", getpid(), mapped);
    fflush(stdout);
    pause();
}
"#;

#[test]
fn mappings_of_the_program_between_the_allocator_s_are_not_taken_for_its() {
    let directory = directory();
    let target = start(&compile(directory.path(), "maps", MAPS, &[]));
    let mapped = number(&target.own["mapped"]) << 20;
    assert!(mapped > 32 << 20, "{}", target.own);
    let said = object(target.pid());
    let anonymous = number(&said["resident"]["anonymous"]);
    let rest = said["resident"]["not_told_apart"].as_i64().unwrap();
    // A few of these are in granules that the allocator has.
    assert!(anonymous > mapped - (8 << 20) && rest.abs() < 8 << 20, "{said}");
}

#[test]
fn each_thread_has_its_own() {
    let directory = directory();
    let target = start(&compile(directory.path(), "target", TARGET, &["-pthread"]));
    let said = object(target.pid());
    let of = |number: &Value| {
        let threads = said["threads"].as_array().unwrap();
        threads
            .iter()
            .find(|thread| thread["thread"] == *number)
            .unwrap_or_else(|| panic!("{number}: {said}"))
    };
    let (main, worker) = (of(&target.own["pid"]), of(&target.own["worker"]));
    assert!(number(&main["live_bytes"]) >= number(&target.own["pin"]), "{main}");
    assert!(number(&main["live_bytes"]) < number(&target.own["hold"]), "{main}");
    // The worker has little else than what it holds. The blocks of it that the first thread has
    // freed are collected at some later time.
    let live = number(&worker["live_bytes"]);
    let hold = number(&target.own["hold"]);
    assert!((hold..hold + 64 * 1024).contains(&live), "{worker}");
    let (free, uncollected) = (number(&worker["free_bytes"]), number(&worker["uncollected_bytes"]));
    assert!(uncollected == 100 * 3072 || (uncollected == 0 && free >= 100 * 3072), "{worker}");
    assert_eq!(number(&worker["resident"]["live"]), live);
}

/// A shell tells the number of `toft run`, which stands for the program.
#[test]
fn the_number_of_a_toft_run_stands_for_its_program() {
    let directory = directory();
    let target = start(&compile(directory.path(), "target", TARGET, &["-pthread"]));
    let pid = target.child.id() as i32;
    assert_ne!(pid, target.pid());
    assert_eq!(object(pid)["pid"], target.own["pid"]);
    for words in
        [&["heap"][..], &["metrics"], &["top", "--json", "--count", "2", "--interval", "0.05"]]
    {
        let output = toft().args(words).arg(pid.to_string()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
    }
}

/// `npx toft run` is npm, a shell, `toft` and the program. npm names its process by what it runs.
#[test]
fn the_number_of_an_npx_stands_for_the_program_that_toft_runs() {
    let directory = directory();
    let program = compile(directory.path(), "target", TARGET, &["-pthread"]);
    let npm = directory.path().join("npm exec toft");
    // Another process copies it: see `common::file`.
    assert!(Command::new("cp").arg("/bin/sh").arg(&npm).status().unwrap().success());
    let run = format!("{} run -- {}; :", env!("CARGO_BIN_EXE_toft"), program.display());
    let mut child = Command::new(&npm).args(["-c", &run]).stdout(Stdio::piped()).spawn().unwrap();
    // Both lines are read, and the pipe stays open: the program ends if it cannot write.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let target = Target { own: next(), library: next(), child };
    let pid = target.child.id() as i32;
    assert_ne!(pid, target.pid());
    assert_eq!(object(pid)["pid"], target.own["pid"]);
}

/// Of a program whose slabs share pages: what the kernel counts more than once is a separate line.
/// The lines add up to the kernel's number. What is saved is what the library says, and the
/// kernel's proportional number.
#[test]
fn what_compaction_shares_is_a_line_of_its_own() {
    let directory = directory();
    let source = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define N 40000
size_t toft_compact(void) __attribute__((weak));
int toft_stats_json(int) __attribute__((weak));
static char *block[N];
int main(void) {
    unsigned seed = 7;
    for (int i = 0; i < N; i++) memset(block[i] = malloc(250), 1, 250);
    for (int i = 0; i < N; i++) if (rand_r(&seed) % 100 < 90) { free(block[i]); block[i] = NULL; }
    size_t saved = toft_compact();
    for (int i = 0; i < N; i++) if (block[i]) memset(block[i], 2, 250);
    char line[100];
    int length = snprintf(line, sizeof line, "{\"pid\":%d,\"saved\":%zu}\n", getpid(), saved);
    if (write(1, line, length) != length || toft_stats_json(1)) return 1;
    pause();
}
"#;
    let program = compile(directory.path(), "sparse", source, &[]);
    let target = start_with(&[("TOFT_COMPACT", "1")], &program);
    let said = object(target.pid());
    let shared = &target.library["shared"];
    assert_eq!(shared["status"], "done");
    assert!(number(&shared["groups"]) > 0 && number(&shared["units"]) > number(&shared["groups"]));
    let (lent, saved) = (number(&shared["lent_slots"]), number(&shared["saved_bytes"]));
    assert!(saved > 2 << 20 && saved == 256 * lent, "{shared}");
    assert_eq!((number(&said["lent_slots"]), number(&said["saved_bytes"])), (lent, saved));
    // What the pass has calculated, pages that are not needed included.
    assert_eq!(number(&shared["given_bytes"]), number(&target.own["saved"]));
    assert!(number(&target.own["saved"]) >= saved, "{shared}");
    // Not counted twice: by what a slot is, there is memory for it once.
    let free = number(&target.library["free_bytes"]);
    assert!(free.abs_diff(number(&said["free_bytes"])) < 256 << 10, "{free}: {said}");
    let all = free + number(&target.library["live_bytes"]) + saved;
    assert!(all.abs_diff(40_000 * 256) < 256 << 10, "{all}");

    let terms = said["resident"].as_object().unwrap();
    let sum: i64 = terms.values().map(|term| term.as_i64().unwrap()).sum();
    assert_eq!(sum, said["kernel"]["rss"].as_i64().unwrap());
    assert!(terms["not_told_apart"].as_i64().unwrap().abs() <= 64 << 10, "{said}");
    // Everything was touched at its own address, so the kernel counts each page as often as it is
    // shown.
    let ours = &said["kernel_of_toft"];
    let twice = number(&ours["rss"]) - number(&ours["pss"]);
    let lent = number(&terms["lent"]);
    assert!(twice > 2 << 20 && lent.abs_diff(twice) < twice / 8, "{lent}, {twice}: {said}");
    let of_thread = &said["threads"][0]["resident"];
    assert_eq!(number(&of_thread["lent"]), lent);

    let line = |page: &str| {
        page.lines().find(|line| line.contains("shared by compaction")).map(str::to_owned)
    };
    let page = stdout(&rss(&[&target.pid().to_string()]));
    let line_of = line(&page).unwrap_or_else(|| panic!("{page}"));
    assert!(line_of.contains("slots lent, which saves"), "{line_of}");
    // Nothing of it where nothing is shared.
    let target = start(&program);
    assert_eq!(target.library["shared"]["status"], "untried");
    assert_eq!(number(&object(target.pid())["lent_slots"]), 0);
    assert_eq!(line(&stdout(&rss(&[&target.pid().to_string()]))), None);
}

/// The processor time that a process has had, in hundredths of a second.
/// Threads that end with freed blocks in the quarantine, in a program on the secure build.
const QUARANTINED: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t all;
static void *fill(void *arg) {
    for (int size = 16; size <= 8000; size += size / 8 + 16)
        for (int i = 0; i < 100; i++) {
            char *block = malloc(size);
            memset(block, 1, size);
            free(block);
        }
    // All have a heap at once, or one would take over another's.
    pthread_barrier_wait(&all);
    return arg;
}
static void *keep(void *arg) { fill(arg); pause(); return arg; }
int toft_stats_json(int) __attribute__((weak));
int main(void) {
    pthread_t thread[9];
    pthread_barrier_init(&all, NULL, 9);
    for (int i = 0; i < 9; i++) pthread_create(&thread[i], NULL, i < 8 ? fill : keep, NULL);
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
    // Enough for a reclaimer that can be asked to purge.
    for (int i = 0; i < 20000; i++) memset(malloc(1000), 1, 1000);
    char line[100];
    int length = snprintf(line, sizeof line, "{\"pid\":%d}\n", getpid());
    if (write(1, line, length) != length || toft_stats_json(1)) return 1;
    pause();
}
"#;

#[test]
fn the_quarantine_of_the_secure_build_is_a_line_of_its_own() {
    let directory = directory();
    let program = compile(directory.path(), "waits", QUARANTINED, &["-pthread", "-fno-builtin"]);
    let target = start_by(&["--secure"], &[], &program);
    let said = object(target.pid());
    let terms = &said["resident"];
    assert!(number(&terms["quarantined"]) > 1 << 20, "{said}");
    // That build does not compact, and what it never hands out is named as such.
    assert_eq!((number(&terms["lent"]), number(&said["lent_slots"])), (0, 0), "{said}");
    assert!(number(&terms["reserved"]) > 0, "{said}");
    let ended = said["threads"].as_array().unwrap().iter().filter(|t| t["running"] == false);
    let waits: u64 = ended.map(|thread| number(&thread["resident"]["quarantined"])).sum();
    assert!(waits > 0, "{said}");
    let pid = target.pid().to_string();
    let page = stdout(&rss(&[&pid]));
    assert!(!page.contains("shared by compaction"), "{page}");
    assert!(page.contains("quarantine ") && page.contains("reserved slots "), "{page}");
    // As the line says.
    assert!(toft().args(["purge", &pid]).output().unwrap().status.success());
    let after = object(target.pid());
    let left = number(&after["resident"]["quarantined"]);
    assert!(left < number(&terms["quarantined"]) / 4, "{left}: {said}");
}

#[test]
fn the_usual_build_has_no_quarantine() {
    let directory = directory();
    let program = compile(directory.path(), "waits", QUARANTINED, &["-pthread", "-fno-builtin"]);
    let target = start(&program);
    let said = object(target.pid());
    let terms = &said["resident"];
    assert_eq!((number(&terms["quarantined"]), number(&terms["reserved"])), (0, 0), "{said}");
}

fn processor_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let words = stat.rsplit(')').next().unwrap().split_whitespace();
    words.skip(11).take(2).map(|word| word.parse::<u64>().unwrap()).sum()
}

/// Planted: a program that is never quiet. It is read all the same, and the page says that it was
/// not quiet. That what has changed is told exactly is shown by a made-up process (`image.rs` of
/// `toft-profile`).
#[test]
fn a_target_that_runs_is_read_and_its_changes_are_told() {
    let directory = directory();
    let source = r#"#include <stdlib.h>
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t steady;
static void *volatile small[1 << 19];
static void *churn(void *arg) {
    unsigned seed = (unsigned)(size_t)arg;
    static _Thread_local void *volatile kept[5000];
    for (int round = 0;; round++) {
        int i = rand_r(&seed) % 5000;
        if (round == 20000) pthread_barrier_wait(&steady);
        free(kept[i]);
        kept[i] = malloc(rand_r(&seed) % (i % 50 || arg ? 2000 : 300000));
        if (kept[i]) *(volatile char *)kept[i] = 1;
    }
}
int main(void) {
    pthread_t thread;
    pthread_barrier_init(&steady, NULL, 5);
    /* Many descriptors take long to read, so that they change meanwhile although little time is given to anybody. */
    for (int i = 0; i < 1 << 19; i++) small[i] = malloc(16);
    for (size_t i = 0; i < 4; i++) pthread_create(&thread, NULL, churn, (void *)i);
    pthread_barrier_wait(&steady);
    printf("{\"pid\":%d}\n{}\n", getpid());
    fflush(stdout);
    pause();
}
"#;
    let target = start(&compile(directory.path(), "churner", source, &["-pthread"]));
    let mut changed = 0;
    // On a busy machine the target may not run while it is read: so its own time counts, not the
    // machine's.
    let begin = processor_ticks(target.pid());
    while changed == 0 && processor_ticks(target.pid()) < begin + 3_000 {
        let said = object(target.pid());
        changed += number(&said["reading"]["descriptors_changed"]);
        let sum: i64 =
            said["resident"].as_object().unwrap().values().map(|term| term.as_i64().unwrap()).sum();
        assert_eq!(sum, said["kernel"]["rss"].as_i64().unwrap());
        let left = said["resident"]["not_told_apart"].as_i64().unwrap().unsigned_abs();
        let reading = &said["reading"];
        let rss = number(&reading["rss_before"]).max(number(&reading["rss_after"]));
        assert!(left < rss / 2, "{said}");
        assert!(number(&said["live_blocks"]) > 0);
    }
    assert!(changed > 0, "nothing ever changed");
}

/// Starts a program and waits for its first line.
fn bare(program: &Path) -> Child {
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    child
}

#[track_caller]
fn refused(pid: impl ToString) -> String {
    let output = rss(&[&pid.to_string()]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""));
    said(&output)
}

#[test]
fn what_cannot_be_explained_is_named() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    // Until it has executed `sleep` it is a copy of this test.
    while !fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap().starts_with("sleep") {
        std::thread::yield_now();
    }
    let pid = child.id();
    assert!(refused(pid).contains(&format!("process {pid} does not run on Toft")));
    child.kill().unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    // Not waited for: a zombie.
    while !refused(pid).contains("has ended and waits for its parent") {
        assert!(Instant::now() < deadline, "{}", refused(pid));
    }
    child.wait().unwrap();
    assert!(refused(pid).contains(&format!("there is no process {pid}")));
    assert!(refused(i32::MAX).contains("there is no process"));
    for wrong in ["0", "-5", "abc", "99999999999"] {
        assert_eq!(rss(&[wrong]).status.code(), Some(2), "{wrong}");
    }
    assert_eq!(rss(&[]).status.code(), Some(2));
}

#[test]
fn a_process_of_somebody_else_is_refused_with_the_way_out() {
    let directory = directory();
    let target = start(&compile(directory.path(), "target", TARGET, &["-pthread"]));
    let pid = target.pid().to_string();
    if !nix::unistd::geteuid().is_root() {
        assert!(refused(1).contains("`sudo toft rss 1` may"), "{}", refused(1));
        return;
    }
    // As user 65534, by a copy that this user can reach.
    let copied = directory.path().join("toft");
    copy(env!("CARGO_BIN_EXE_toft"), &copied);
    Command::new("chmod").arg("755").arg(directory.path()).arg(&copied).status().unwrap();
    let output = Command::new(&copied).args(["rss", &pid]).uid(65534).gid(65534).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = said(&output);
    assert!(
        said.contains(&format!("may not look into process {pid}: it belongs to another user")),
        "{said}"
    );
    assert!(said.contains(&format!("`sudo toft rss {pid}` may")), "{said}");
}

/// Anchors that are planted in programs without Toft: of another version, before anything was
/// allocated, of tables that make no sense; and what is only a copy of one, which is none.
#[test]
fn other_versions_and_nonsense_are_refused() {
    let directory = directory();
    let words = toft_core::stats::Root::NAMES.len();
    let program = |name: &str, version: u64, words: usize, this: &str, fill: u32| {
        let source = format!(
            r#"#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static uint64_t root[100];
struct anchor {{ unsigned char magic[16]; uint64_t version, words; void *self, *root; char library[16]; }};
struct anchor anchor __attribute__((aligned(64))) =
    {{{{{magic}}}, {version}, {words}, {this}, root, "9.8.7"}};
int main(void) {{ memset(root, {fill}, sizeof root); puts("x"); fflush(stdout); pause(); }}
"#,
            magic = toft_core::stats::MAGIC.map(|byte| byte.to_string()).join(","),
        );
        bare(&compile(directory.path(), name, &source, &[]))
    };
    for (name, version, count, this, fill, expected) in [
        ("next", 2, words, "&anchor", 0, "runs on Toft 9.8.7, whose tables (version 2) this toft"),
        ("short", 1, words - 1, "&anchor", 0, "use the toft command of that version"),
        ("fresh", 1, words, "&anchor", 0, "has Toft in it, but nothing was ever allocated"),
        ("broken", 1, words, "&anchor", 255, "tables make no sense"),
        ("copy", 1, words, "&anchor + 1", 0, "does not run on Toft"),
    ] {
        let mut child = program(name, version, count, this, fill);
        let said = refused(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// A 32-bit program of 96 bytes that writes a byte and sleeps.
#[test]
fn a_32_bit_program_is_told() {
    let directory = directory();
    let code: &[u8] = &[
        0xb8, 4, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xb9, 0, 0x80, 4, 8, 0xba, 1, 0, 0, 0, 0xcd,
        0x80, // write(1, base, 1)
        0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7, // pause, for ever
    ];
    let half = |n: u16| n.to_le_bytes();
    let word = |n: u32| n.to_le_bytes();
    let base = 0x0804_8000u32;
    let length = 84 + code.len() as u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    [half(2), half(3)].iter().for_each(|bytes| file.extend(bytes));
    [1, base + 84, 52, 0, 0].iter().for_each(|&n| file.extend(word(n)));
    [52, 32, 1, 0, 0, 0].iter().for_each(|&n| file.extend(half(n)));
    [1, 0, base, base, length, length, 5, 4096].iter().for_each(|&n| file.extend(word(n)));
    file.extend(code);
    let program = crate::common::file(directory.path(), "narrow", &file, 0o755);
    let child = Command::new(&program).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("this kernel runs no 32-bit programs");
        return;
    };
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let said = refused(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("is a 32-bit program"), "{said}");
}

/// Whenever the target ends, there is an answer or a line, and never more.
#[test]
fn a_target_may_end_at_any_moment() {
    let directory = directory();
    let program = compile(directory.path(), "target", TARGET, &["-pthread"]);
    let mut answers = [0, 0];
    for wait in 0..12 {
        let target = start(&program);
        let pid = nix::unistd::Pid::from_raw(target.pid());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(400 * wait));
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
        });
        let output = rss(&[&pid.to_string()]);
        killer.join().unwrap();
        match output.status.code() {
            Some(0) => answers[0] += 1,
            Some(125) => {
                said(&output);
                answers[1] += 1;
            }
            other => panic!("{other:?}: {}", stderr(&output)),
        }
    }
    assert_eq!(answers[0] + answers[1], 12);
    assert!(answers[1] > 0, "the first is killed at once");
}

#[test]
fn help_says_what_to_type() {
    let help = stdout(&rss(&["--help"]));
    for expected in ["toft rss 1234", "--json", "125", "kernel's Rss"] {
        assert!(help.contains(expected), "{expected} is missing: {help}");
    }
}
