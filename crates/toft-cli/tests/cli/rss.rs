//! `toft rss`: what it says of programs that know what they have, and what it says where it can say
//! nothing.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::*;
use serde_json::Value;
use toft_core::stats::VERSION;

/// Two functions fill pages with blocks, each of other sizes. Of `pin`'s every sixteenth stays, one
/// on each page; of `give`'s none. A second thread has blocks that the first one frees. The program
/// itself prints what is left, to the byte, and so does the library in it.
const PROGRAM: &str = include_str!("programs/rss.c");

/// A program that `toft run` runs, and what it prints: its own count, and the library's.
struct Counted {
    command: Running,
    own: Value,
    library: Value,
    /// The program, if nothing else needs it.
    _program: Option<Program>,
}

impl Counted {
    fn pid(&self) -> String {
        self.own["pid"].to_string()
    }

    /// What `toft rss --json` prints of it.
    #[track_caller]
    fn report(&self) -> Value {
        object(&["rss", "--json", &self.pid()])
    }

    #[track_caller]
    fn page(&self) -> String {
        stdout(&succeeds(&["rss", &self.pid()]))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // The program, whose end ends `toft run`.
        kill(&self.pid());
        let _ = self.command.wait();
    }
}

fn kill(pid: &str) {
    let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
}

fn start(program: &Path) -> Counted {
    start_by(toft().args(["run", "--"]).arg(program))
}

fn start_by(command: &mut Command) -> Counted {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // Both lines are read, and the pipe stays open: the program ends if it cannot write.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    Counted { own: next(), library: next(), command: Running(child), _program: None }
}

/// That the terms of a report add up to the kernel's number; what is left without a name.
#[track_caller]
fn unaccounted(report: &Value) -> u64 {
    let terms = report["resident"].as_object().unwrap();
    let sum: i64 = terms.values().map(|term| term.as_i64().unwrap()).sum();
    assert_eq!(sum, report["kernel"]["rss"].as_i64().unwrap());
    terms["unaccounted"].as_i64().unwrap().unsigned_abs()
}

/// The program whose blocks are known.
fn start_known() -> Counted {
    let program = compiled("target", PROGRAM, &["-pthread"]);
    // So that most call sites have a partition to themselves.
    // No memory is returned to the OS between two readings.
    let all = ["run", "--env", "TOFT_PARTITIONS=64", "--env", "TOFT_RECLAIM=off", "--"];
    let mut target = start_by(toft().args(all).arg(&program));
    target._program = Some(program);
    target
}

fn site<'a>(object: &'a Value, function: &str) -> &'a Value {
    let pins = object["pins"].as_array().unwrap();
    pins.iter()
        .find(|pin| pin["function"] == function)
        .unwrap_or_else(|| panic!("{function}: {object}"))
}

#[test]
fn live_bytes_are_exact_and_everything_adds_up_to_the_kernels_number() {
    let target = start_known();
    let report = target.report();

    assert_eq!(report["live_bytes"], target.library["live_bytes"]);
    assert_eq!(report["live_blocks"], target.library["live_blocks"]);
    assert_eq!(report["guard_bytes"], target.library["guard_bytes"]);
    assert_eq!(site(&report, "hold")["live_bytes"], target.own["hold"]);
    assert_eq!(site(&report, "large")["live_bytes"], target.own["large"]);
    assert_eq!(site(&report, "give")["live_bytes"], 0);

    assert!(unaccounted(&report) <= 64 << 10, "{report}");
    // The program's own mebibyte of zeroed data is the program's.
    let terms = &report["resident"];
    assert!(number(&terms["programs"]) >= 1 << 20, "{report}");
    assert!(number(&terms["anonymous"]) < 1 << 20, "{report}");
    // And so is the sum of ours, of what the kernel counts in our windows.
    let names = "live large_slack claimed uncollected free_pinned free_dirty lent empty_slabs \
                 large_kept descriptors heaps tables";
    let ours: u64 = names.split_whitespace().map(|name| number(&terms[name])).sum();
    let theirs = number(&report["kernel_of_toft"]["rss"]);
    assert!(ours.abs_diff(theirs) <= 64 << 10, "{ours}: {report}");
    // An independent reader of the kernel's number, a moment later.
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", target.pid())).unwrap();
    let rollup = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let rollup = rollup.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024;
    assert!(rollup.abs_diff(number(&report["kernel"]["rss"])) <= 256 << 10, "{rollup}: {report}");
    assert_eq!(report["reading"]["descriptors_senseless"], 0);
    assert_eq!(report["reading"]["tries"], 1);
    assert!(number(&report["page_tables"]) > 0);
    assert!(number(&report["peak_rss"]) >= number(&report["kernel"]["rss"]));
}

#[test]
fn the_site_that_keeps_one_block_on_each_page_is_the_pin() {
    let directory = directory();
    let target = start_known();
    let report = target.report();
    // 256-byte slots, sixteen to a page, of which one is live.
    let first = &report["pins"][0];
    assert_eq!(first["function"], "pin", "{report}");
    assert!(first["file"].as_str().unwrap().ends_with("target.c"));
    assert_eq!(first["live_bytes"], target.own["pin"]);
    assert_eq!(number(&first["pinned_pages"]), 1250);
    // What malloc would hand out next is on one page of these, or on none.
    let pinned = number(&first["pinned_bytes"]);
    assert!((1250 * 3840 - 4096..=1250 * 3840).contains(&pinned), "{pinned}");
    assert_eq!(site(&report, "give")["pinned_bytes"], 0);

    // What machines rely on: names come, none goes.
    let names = |value: &Value| {
        let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
        let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(
        names(&report),
        "claimed_bytes empty_slabs free_bytes guard_bytes kernel kernel_of_toft large_blocks \
         large_blocks_kept lent_slots library live_blocks live_bytes name page_tables partitions peak_rss pid pins \
         reading resident saved_bytes seccomp slabs threads toft uncollected_bytes"
    );
    assert_eq!(names(&report["kernel"]), "anon_huge_pages anonymous lazy_free pss rss swap");
    assert_eq!(
        names(&report["resident"]),
        "anonymous brk claimed descriptors empty_slabs files free_dirty free_pinned heaps kernel \
         large_kept large_slack lent live programs quarantined reserved shared stacks tables \
         unaccounted uncollected"
    );
    assert_eq!(
        names(first),
        "file function line live_blocks live_bytes module offset partition pinned_bytes pinned_pages \
         resident_bytes site"
    );
    assert_eq!(
        names(&report["threads"][0]),
        "claimed_bytes free_bytes free_resident_bytes heap live_blocks live_bytes name quarantined_bytes \
         resident resident_bytes running shared slabs state thread uncollected_bytes"
    );

    let page = target.page();
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
    let narrow = in_terminal(directory.path(), &["rss", &target.pid()], 80);
    let longest = narrow.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80 && narrow.contains("free, pinned"), "{longest}: {narrow}");
}

/// Runtimes such as V8 map at random addresses. The allocator reserves none of its windows, so that
/// such mappings may be in them.
const MAPS: &str = include_str!("programs/rss-maps.c");

#[test]
fn mappings_of_the_program_between_the_allocator_s_are_not_taken_for_its() {
    let directory = directory();
    let target = start(&compile(directory.path(), "maps", MAPS, &[]));
    let mapped = number(&target.own["mapped"]) << 20;
    assert!(mapped > 32 << 20, "{}", target.own);
    let report = target.report();
    let anonymous = number(&report["resident"]["anonymous"]);
    // A few of these are in windows that the allocator has.
    assert!(anonymous > mapped - (8 << 20) && unaccounted(&report) < 8 << 20, "{report}");
}

#[test]
fn each_thread_has_its_own() {
    let target = start_known();
    let report = target.report();
    let of = |number: &Value| {
        let mut threads = report["threads"].as_array().unwrap().iter();
        let found = threads.find(|thread| thread["thread"] == *number);
        found.unwrap_or_else(|| panic!("{number}: {report}"))
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
    let target = start_known();
    let pid = target.command.pid();
    assert_ne!(pid, target.pid());
    assert_eq!(object(&["rss", "--json", &pid])["pid"], target.own["pid"]);
    for words in
        [&["heap"][..], &["metrics"], &["top", "--json", "--count", "2", "--interval", "0.05"]]
    {
        succeeds(&[words, &[&pid]].concat());
    }
}

/// `npx toft run` is npm, a shell, `toft` and the program. npm names its process by what it runs.
#[test]
fn the_number_of_an_npx_stands_for_the_program_that_toft_runs() {
    let directory = directory();
    let program = compile(directory.path(), "target", PROGRAM, &["-pthread"]);
    let npm = directory.path().join("npm exec toft");
    copy("/bin/sh", &npm);
    let run = format!("{} run -- {}; :", env!("CARGO_BIN_EXE_toft"), program.display());
    let target = start_by(Command::new(&npm).args(["-c", &run]));
    let pid = target.command.pid();
    assert_ne!(pid, target.pid());
    assert_eq!(object(&["rss", "--json", &pid])["pid"], target.own["pid"]);
}

/// Of a program whose slabs share pages: what the kernel counts more than once is a separate line.
/// The lines add up to the kernel's number. What is saved is what the library says, and the
/// kernel's proportional number.
#[test]
fn what_compaction_shares_is_a_line_of_its_own() {
    let source = include_str!("programs/rss-sparse.c");
    let program = compiled("sparse", source, &[]);
    let target = start_by(toft().env("TOFT_COMPACT", "1").args(["run", "--"]).arg(&program));
    let report = target.report();
    let shared = &target.library["shared"];
    assert_eq!(shared["status"], "done");
    assert!(number(&shared["groups"]) > 0 && number(&shared["units"]) > number(&shared["groups"]));
    let (lent, saved) = (number(&shared["lent_slots"]), number(&shared["saved_bytes"]));
    assert!(saved > 2 << 20 && saved == 256 * lent, "{shared}");
    assert_eq!((number(&report["lent_slots"]), number(&report["saved_bytes"])), (lent, saved));
    // What the pass has calculated, pages that are not needed included.
    assert_eq!(number(&shared["given_bytes"]), number(&target.own["saved"]));
    assert!(number(&target.own["saved"]) >= saved, "{shared}");
    // Not counted twice: by what a slot is, there is memory for it once.
    let free = number(&target.library["free_bytes"]);
    assert!(free.abs_diff(number(&report["free_bytes"])) < 256 << 10, "{free}: {report}");
    let all = free + number(&target.library["live_bytes"]) + saved;
    assert!(all.abs_diff(40_000 * 256) < 256 << 10, "{all}");

    assert!(unaccounted(&report) <= 64 << 10, "{report}");
    // Everything was touched at its own address, so the kernel counts each page as often as it is
    // shown.
    let ours = &report["kernel_of_toft"];
    let twice = number(&ours["rss"]) - number(&ours["pss"]);
    let lent = number(&report["resident"]["lent"]);
    assert!(twice > 2 << 20 && lent.abs_diff(twice) < twice / 8, "{lent}, {twice}: {report}");
    let of_thread = &report["threads"][0]["resident"];
    assert_eq!(number(&of_thread["lent"]), lent);

    let line = |page: &str| {
        page.lines().find(|line| line.contains("shared by compaction")).map(str::to_owned)
    };
    let page = target.page();
    let line_of = line(&page).unwrap_or_else(|| panic!("{page}"));
    assert!(line_of.contains("slots lent, which saves"), "{line_of}");
    // Nothing of it where nothing is shared.
    let target = start(&program);
    assert_eq!(target.library["shared"]["status"], "untried");
    assert_eq!(number(&target.report()["lent_slots"]), 0);
    assert_eq!(line(&target.page()), None);
}

/// Threads that end with freed blocks in the quarantine, in a program on the secure build.
const QUARANTINED: &str = include_str!("programs/rss-quarantined.c");

#[test]
fn the_quarantine_of_the_secure_build_is_a_line_of_its_own() {
    let program = compiled("waits", QUARANTINED, &["-pthread", "-fno-builtin"]);
    let target = start_by(toft().args(["run", "--secure", "--"]).arg(&program));
    let report = target.report();
    let terms = &report["resident"];
    assert!(number(&terms["quarantined"]) > 1 << 20, "{report}");
    // That build does not compact, and what it never hands out is named as such.
    assert_eq!((number(&terms["lent"]), number(&report["lent_slots"])), (0, 0), "{report}");
    assert!(number(&terms["reserved"]) > 0, "{report}");
    let ended = report["threads"].as_array().unwrap().iter().filter(|t| t["running"] == false);
    let waits: u64 = ended.map(|thread| number(&thread["resident"]["quarantined"])).sum();
    assert!(waits > 0, "{report}");
    let page = target.page();
    assert!(!page.contains("shared by compaction"), "{page}");
    assert_contains(&page, &["quarantine ", "reserved slots "]);
    // As the line says.
    succeeds(&["purge", &target.pid()]);
    let after = target.report();
    let left = number(&after["resident"]["quarantined"]);
    assert!(left < number(&terms["quarantined"]) / 4, "{left}: {report}");
}

#[test]
fn the_usual_build_has_no_quarantine() {
    let program = compiled("waits", QUARANTINED, &["-pthread", "-fno-builtin"]);
    let target = start(&program);
    let report = target.report();
    let terms = &report["resident"];
    assert_eq!((number(&terms["quarantined"]), number(&terms["reserved"])), (0, 0), "{report}");
}

/// The processor time that a process has had, in hundredths of a second.
fn processor_ticks(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let words = stat.rsplit(')').next().unwrap().split_whitespace();
    words.skip(11).take(2).map(|word| word.parse::<u64>().unwrap()).sum()
}

/// Planted: a program that is never quiet. It is read all the same, and the page says that it was
/// not quiet. That changes are counted exactly is tested with a made-up process (`image.rs` of
/// `toft-profile`).
#[test]
fn a_running_target_is_read_and_its_changes_are_counted() {
    let directory = directory();
    let source = include_str!("programs/rss-churner.c");
    let target = start(&compile(directory.path(), "churner", source, &["-pthread"]));
    let mut changed = 0;
    // On a busy machine the target may not run while it is read: so its own time counts, not the
    // machine's.
    let begin = processor_ticks(&target.pid());
    while changed == 0 && processor_ticks(&target.pid()) < begin + 3_000 {
        let report = target.report();
        changed += number(&report["reading"]["descriptors_changed"]);
        let reading = &report["reading"];
        let rss = number(&reading["rss_before"]).max(number(&reading["rss_after"]));
        assert!(unaccounted(&report) < rss / 2, "{report}");
        assert!(number(&report["live_blocks"]) > 0);
    }
    assert!(changed > 0, "nothing ever changed");
}

/// Starts a program without Toft, and waits until it has written something.
fn bare(program: &Path) -> Running {
    let mut child = Running(Command::new(program).stdout(Stdio::piped()).spawn().unwrap());
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn a_process_that_has_ended_is_named() {
    let mut child = stranger();
    let pid = child.pid();
    child.kill().unwrap();
    // Not waited for: a zombie.
    let is_zombie = || {
        let why = refused(&["rss", &pid]);
        why.contains("has ended and waits for its parent").then_some(())
    };
    until("it is a zombie", is_zombie);
    child.wait().unwrap();
    assert!(refused(&["rss", &pid]).contains(&format!("there is no process {pid}")));
}

#[test]
fn a_process_of_somebody_else_is_refused_with_the_way_out() {
    let directory = directory();
    let target = start_known();
    let pid = target.pid();
    if !nix::unistd::geteuid().is_root() {
        assert!(refused(&["rss", "1"]).contains("`sudo toft` may"));
        return;
    }
    let output = unprivileged(directory.path()).args(["rss", &pid]).output().unwrap();
    let output = ends_with(125, output);
    let why = message(&output);
    let expected = format!("may not look into process {pid}: it belongs to another user");
    assert!(why.contains(&expected), "{why}");
    assert!(why.contains("`sudo toft` may"), "{why}");
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
    let next = format!("runs on Toft 9.8.7, whose tables (version {}) this toft", VERSION + 1);
    for (name, version, count, this, fill, expected) in [
        ("next", VERSION + 1, words, "&anchor", 0, next.as_str()),
        ("short", VERSION, words - 1, "&anchor", 0, "use the toft command of that version"),
        ("fresh", VERSION, words, "&anchor", 0, "has Toft in it, but nothing was ever allocated"),
        ("broken", VERSION, words, "&anchor", 255, "tables make no sense"),
        ("copy", VERSION, words, "&anchor + 1", 0, "does not run on Toft"),
    ] {
        let child = program(name, version, count, this, fill);
        let why = refused(&["rss", &child.pid()]);
        assert!(why.contains(expected), "{name}: {why}");
    }
}

/// A 32-bit program of 96 bytes that writes a byte and sleeps.
#[test]
fn a_32_bit_program_is_refused() {
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
    if Command::new(&program).stdout(Stdio::piped()).spawn().map(Running).is_err() {
        eprintln!("this kernel runs no 32-bit programs");
        return;
    }
    let why = refused(&["rss", &bare(&program).pid()]);
    assert!(why.contains("is a 32-bit program"), "{why}");
}

/// Whenever the target ends, there is an answer or a line, and never more.
#[test]
fn a_target_may_end_at_any_moment() {
    let program = compiled("target", PROGRAM, &["-pthread"]);
    let mut answers = [0, 0];
    for wait in 0..12 {
        let target = start(&program);
        let pid = target.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(400 * wait));
            kill(&pid);
        });
        let output = toft().args(["rss", &target.pid()]).output().unwrap();
        killer.join().unwrap();
        match output.status.code() {
            Some(0) => answers[0] += 1,
            Some(125) => {
                message(&output);
                answers[1] += 1;
            }
            other => panic!("{other:?}: {}", stderr(&output)),
        }
    }
    assert_eq!(answers[0] + answers[1], 12);
    assert!(answers[1] > 0, "the first is killed at once");
}
