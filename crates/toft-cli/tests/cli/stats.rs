//! `toft run --stats`: the figures are there, they are right, and they are shown as the terminal
//! wants it.

use std::fs;
use std::process::Command;

use crate::common::*;
use serde_json::Value;

/// A program whose allocations are known: one function takes a million bytes in a thousand blocks
/// and keeps them.
const HOARDER: &str = include_str!("programs/stats-hoarder.c");

fn json(options: &[&str], words: &[&str]) -> Value {
    let output = run(&[&["--stats", "--json"], options].concat(), words);
    let text = stderr(&output);
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap_or_else(|| panic!("no object: {text}"));
    serde_json::from_str(line).unwrap()
}

#[test]
fn the_object_has_the_figures_of_the_run() {
    let program = compiled("hoarder", HOARDER, &[]);
    let stats = json(&[], &[text(&program)]);
    assert_eq!(stats["loaded"], true);
    assert_eq!(stats["exit_status"], 3);
    assert_eq!(stats["signal"], Value::Null);
    assert_eq!(stats["program"], text(&program));
    assert_eq!(stats["toft"], stats["heap"]["toft"]);
    assert!(stats["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(stats["max_rss_bytes"].as_u64().unwrap() > 1_000_000, "{stats}");
    assert!(stats["minor_faults"].as_u64().unwrap() > 0);
    let heap = &stats["heap"];
    assert!(heap["allocations"].as_u64().unwrap() >= 1000, "{heap}");
    assert!(heap["live_blocks"].as_u64().unwrap() >= 1000);
    let live = heap["live_bytes"].as_u64().unwrap();
    assert!((1_000_000..2_000_000).contains(&live), "{live}");
    assert!(heap["peak_bytes"].as_u64().unwrap() >= live);
    assert_eq!(heap["misuse"], 0);
    assert!(stats["allocations_per_second"].as_f64().unwrap() > 1000.0);
}

#[test]
fn the_top_call_site_is_named_with_file_and_line() {
    let program = compiled("hoarder", HOARDER, &[]);
    let stats = json(&[], &[text(&program)]);
    let top = &stats["top_sites"][0];
    assert_eq!(top["function"], "hoard", "{stats}");
    assert!(top["file"].as_str().unwrap().ends_with("hoarder.c"));
    assert_eq!(top["line"], 6);
    assert_eq!(top["module"], text(&program));
    assert_eq!(top["allocated_blocks"], 1000);
    assert!(top["allocated_bytes"].as_u64().unwrap() >= 1_000_000);

    // Without debug information the symbol is left, and without symbols the place in the file.
    let strip = |flags: &[&str]| {
        tool(Command::new("strip").args(flags).arg(&program));
    };
    strip(&["--strip-debug"]);
    let stats = json(&[], &[text(&program)]);
    assert_eq!(stats["top_sites"][0]["function"], "hoard");
    assert_eq!(stats["top_sites"][0]["line"], Value::Null);
    strip(&["--strip-all"]);
    let stats = json(&[], &[text(&program)]);
    assert_eq!(stats["top_sites"][0]["function"], Value::Null);
    assert!(stats["top_sites"][0]["offset"].as_str().unwrap().starts_with("0x1"));
}

#[test]
fn the_page_for_people_has_the_same_figures() {
    let program = compiled("hoarder", HOARDER, &[]);
    let output = ends_with(3, run(&["--stats"], &[text(&program)]));
    assert_eq!(stdout(&output), "");
    let page = stderr(&output);
    for expected in [
        "exit 3",
        "wall",
        "max RSS",
        "peak",
        "live at exit",
        "/s",
        "misuse   none",
        "hoard at hoarder.c:6",
    ] {
        assert!(page.contains(expected), "{expected} is missing: {page}");
    }
    assert!(!page.contains('\x1b'), "colour in a pipe");
}

/// Twenty-four large blocks, two of them freed; the program says what the kernel counts a moment
/// before its end.
const LARGE: &str = include_str!("programs/stats-large.c");

#[test]
fn what_is_resident_at_the_end_adds_up_to_what_the_kernel_says() {
    let program = compiled("large", LARGE, &[]);
    let output = run(&["--stats", "--json"], &[text(&program)]);
    let stats: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
    let heap = &stats["heap"];
    let resident = |name: &str| heap["resident"][name].as_u64().unwrap();
    let terms = ["slabs", "large", "metadata", "files", "stack", "brk", "other"];
    assert_eq!(terms.map(resident).iter().sum::<u64>(), resident("rss"));
    let kernels = |name: &str| {
        let page = stdout(&output);
        let value = page.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        value.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    };
    // Between the two looks the program has only ended.
    assert!(resident("rss").abs_diff(kernels("Rss:")) < 512 << 10, "{heap}");
    assert!(resident("anonymous").abs_diff(kernels("Anonymous:")) < 256 << 10, "{heap}");
    assert!(resident("pss").abs_diff(kernels("Pss:")) < 512 << 10, "{heap}");
    assert!((22 << 20..=24 << 20).contains(&resident("large")), "{heap}");
    assert_eq!(heap["large_bytes"].as_u64().unwrap(), 22 << 20);
    assert!(heap["large_kept_bytes"].as_u64().unwrap() <= 2 << 20);
    assert!(resident("peak_rss") >= 24 << 20 && resident("page_tables") > 0);
    assert!(stats["max_rss_bytes"].as_u64().unwrap() >= 24 << 20);
    // Each block has a guard of a page at least, and its extent's unused rest.
    assert!(heap["guard_bytes"].as_u64().unwrap() >= 24 * 4096);

    let page = stderr(&run(&["--stats"], &[text(&program)]));
    for expected in [
        "resident   share  at exit",
        "large blocks",
        "the kernel's Rss",
        "LazyFree 0 B",
        "guards   ",
    ] {
        assert!(page.contains(expected), "{expected} is missing: {page}");
    }
}

#[test]
fn slots_at_the_end_are_live_free_or_claimed() {
    let source = include_str!("programs/stats-halves.c");
    let program = compiled("halves", source, &[]);
    let heap = &json(&[], &[text(&program)])["heap"];
    let number = |name: &str| heap[name].as_u64().unwrap();
    assert!((500 * 1024..600 * 1024).contains(&number("live_bytes")), "{heap}");
    assert!((500 * 1024..600 * 1024).contains(&number("free_bytes")), "{heap}");
    // Four slots to a page, every second one live: all that is free is pinned, but for the ends.
    assert!((490 * 1024..=number("free_bytes")).contains(&number("pinned_bytes")), "{heap}");
    let page = stderr(&run(&["--stats"], &[text(&program)]));
    assert_contains(&page, &["pinned by a block of", "main at halves.c:4"]);
    assert!(number("claimed_bytes") <= 64 * 1024 && number("uncollected_bytes") == 0, "{heap}");
}

/// What slabs share is a row of the page, and figures of the object; of a program that shares
/// nothing it is not.
#[test]
fn the_savings_of_compaction_are_shown() {
    let source = include_str!("programs/stats-sparse.c");
    let program = compiled("sparse", source, &[]);
    let page = |compact: &str| {
        let mut toft = toft();
        let run = toft.env("TOFT_COMPACT", compact).args(["run", "--stats", "--"]).arg(&program);
        stderr(&run.output().unwrap())
    };
    let with = page("1");
    let line = with.lines().find(|line| line.contains("slots lent"));
    assert!(
        line.is_some_and(|line| line.contains("shared") && line.contains("which saves")),
        "{with}"
    );
    assert!(!page("0").contains("slots lent"));
}

#[test]
fn colours_and_width_are_the_terminals_choice() {
    let page = |settings: &[(&str, &str)]| {
        let output = toft()
            .envs(settings.iter().copied())
            .args(["run", "--stats", "true"])
            .output()
            .unwrap();
        stderr(&output)
    };
    assert!(page(&[("CLICOLOR_FORCE", "1")]).contains("\x1b[1m"));
    assert!(!page(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\x1b'));
    // On a terminal: `script` gives its own stdout and stderr.
    let line = "stty rows 24 cols 80; exec \"$TOFT\" run --stats true";
    let mut script = Command::new("script");
    script.args(["-qec", line, "/dev/null"]).env("TOFT", env!("CARGO_BIN_EXE_toft"));
    script.env("SHELL", "/bin/sh").env("TERM", "dumb").env_remove("COLUMNS");
    script.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let shown = stdout(&script.output().unwrap()).replace('\r', "");
    assert!(shown.contains("resident"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn a_killed_program_has_the_kernels_figures() {
    let program = compiled("hoarder", HOARDER, &[]);
    let stats = json(&[], &[text(&program), "abort"]);
    assert_eq!((&stats["signal"], &stats["exit_status"]), (&libc::SIGABRT.into(), &Value::Null));
    assert_eq!(stats["heap"], Value::Null);
    assert!(stats["max_rss_bytes"].as_u64().unwrap() > 0);
    let page = stderr(&run(&["--stats"], &[text(&program), "abort"]));
    assert_contains(&page, &["killed by SIGABRT", "before it could write them"]);
}

#[test]
fn figures_can_go_to_a_file() {
    let directory = directory();
    let target = directory.path().join("stats.json");
    let output = run(&["--stats", "--json", "--output", text(&target)], &["true"]);
    assert_clean(&output);
    let stats: Value = serde_json::from_str(&fs::read_to_string(&target).unwrap()).unwrap();
    assert_eq!(stats["exit_status"], 0);
    let output = run(&["--stats", "--output", "/no/such/place"], &["true"]);
    assert_eq!(output.status.code(), Some(125), "before the program starts");
    assert!(message(&output).contains("cannot write to /no/such/place: no such folder"));
}

#[test]
fn without_the_library_only_the_kernel_counts() {
    let library = compiled("other.so", "int other;", &["-shared", "-fPIC"]);
    let stats = json(&["--library", text(&library)], &["true"]);
    assert_eq!((&stats["loaded"], &stats["heap"]), (&false.into(), &Value::Null));
    assert!(stats["user_seconds"].is_number());
}

#[test]
fn the_figures_are_of_the_program_not_of_its_children() {
    let program = compiled("hoarder", HOARDER, &[]);
    let script = format!("{} & {} & wait; exit 0", text(&program), text(&program));
    let stats = json(&["--children"], &["bash", "-c", &script]);
    assert_eq!(stats["loaded"], true);
    // Where the reports of processes that end together run into each other, there is none rather
    // than a wrong one.
    if let Some(top) = stats["top_sites"].get(0) {
        assert_ne!(top["function"], "hoard", "{stats}");
    } else {
        assert!(stats["garbled_lines"].as_u64().unwrap() > 0, "{stats}");
    }
}

#[test]
fn the_variable_means_the_same_as_the_option() {
    let output = toft().env("TOFT_STATS", "1").args(["run", "true"]).output().unwrap();
    assert!(stderr(&output).contains("max RSS"), "{}", stderr(&output));
}
