//! Sampled stacks, from the program to every output: `toft run --sample`, TOFT_SAMPLE.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use serde_json::Value;

/// Known chains of calls, each with separate blocks, by what the first argument says.
const CHAINS: &str = include_str!("programs/samples-chains.c");

fn chains(directory: &Path) -> PathBuf {
    let flags =
        ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-builtin", "-pthread"];
    compile(directory, "chains", CHAINS, &flags)
}

fn report(file: &Path) -> Value {
    object(&["report", "--json", text(file)])
}

/// What `toft run --sample` writes of one of the program's ways.
fn sampled(directory: &Path, interval: &str, how: &str) -> Value {
    let (program, file) = (chains(directory), directory.join("heap.toft"));
    let options = ["run", "--sample", interval, "--profile", text(&file)];
    succeeds(&[&options[..], &["--", text(&program), how]].concat());
    report(&file)
}

/// The functions of a stack, innermost first, those of the program's own.
fn names(stack: &Value) -> String {
    let calls = stack["calls"].as_array().unwrap().iter();
    let names = calls.filter_map(|call| call["frames"][0]["function"].as_str());
    let mut names: Vec<&str> = names.collect();
    if let Some(end) = names.iter().position(|name| *name == "main" || *name == "thread") {
        names.truncate(end + 1);
    }
    names.join("<")
}

/// A figure's sum over the stacks of those names.
fn sum(profile: &Value, stack: &str, figure: &str) -> u64 {
    let stacks = profile["sampled"]["stacks"].as_array().unwrap().iter();
    stacks.filter(|s| names(s) == stack).map(|s| s[figure].as_u64().unwrap()).sum()
}

/// A figure of the rows of a function, which are exact.
fn exact(profile: &Value, function: &str, figure: &str) -> u64 {
    let rows = profile["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["frames"][0]["function"] == function);
    rows.map(|row| row[figure].as_u64().unwrap()).sum()
}

#[test]
fn with_every_byte_chosen_stacks_are_exact() {
    let directory = directory();
    let profile = sampled(directory.path(), "1", "exact");
    let is = |stack: &str, had: u64, live: u64| {
        let seen = [
            sum(&profile, stack, "samples"),
            sum(&profile, stack, "allocations"),
            sum(&profile, stack, "live_samples"),
            sum(&profile, stack, "objects"),
        ];
        assert_eq!(seen, [had, had, live, live], "{stack}: {profile:#}");
    };
    is("leaf<middle<main", 1010, 604);
    is("leaf<other<main", 100, 100);
    is("zeroed<main", 100, 100);
    is("aligned<main", 100, 100);
    is(&format!("{}main", "deep<".repeat(10)), 50, 50);
    is("leaf<middle<thread", 300, 200);
    // In place is no separate call; a block that gets another size is had where that was asked for.
    is("moved<main", 5, 5);
    // These are the rows' blocks; the rows keep a large block where it was had first: nothing was
    // lost.
    for function in ["leaf", "zeroed", "aligned", "deep"] {
        let stacks = profile["sampled"]["stacks"].as_array().unwrap().iter();
        let mine = stacks.filter(|s| {
            let name = s["calls"][0]["frames"][0]["function"].as_str();
            name == Some(function) || function == "leaf" && name == Some("moved")
        });
        let bytes: u64 = mine.map(|s| s["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, exact(&profile, function, "bytes"), "{function}");
    }
    assert_eq!(profile["sampled"]["missed"], 0);
}

#[test]
fn estimates_are_within_their_scatter() {
    let directory = directory();
    let interval = 64 << 10;
    let profile = sampled(directory.path(), "64k", "many");
    // A block of s bytes is chosen with probability p, and counts for s / p: the variance of each
    // is s * s * (1 - p) / p.
    let slots = [16.0, 80.0, 512.0, 3072.0, 20480.0];
    let (bytes, scatter) = slots.iter().fold((0.0, 0.0), |(bytes, scatter), s: &f64| {
        let p = -f64::exp_m1(-s / f64::from(interval));
        (bytes + 10_000.0 * s, scatter + 10_000.0 * s * s * (1.0 - p) / p)
    });
    for (stack, live) in [("leaf<middle<main", 0.5), ("leaf<other<main", 1.0)] {
        let near = |figure: &str, expected: f64, scatter: f64| {
            let estimate = sum(&profile, stack, figure) as f64;
            let off = (estimate - expected).abs();
            assert!(
                off < 5.0 * scatter.sqrt(),
                "{stack} {figure}: {estimate} {expected} {scatter}"
            );
            assert!(estimate != expected, "{stack} {figure}: no estimate");
        };
        near("allocated", bytes, scatter);
        near("bytes", bytes * live, scatter * live);
    }
    // As tight as that: half as much would be seen.
    assert!(5.0 * scatter.sqrt() < 0.25 * bytes, "{scatter} {bytes}");
}

/// What a claim was cut for is not taken by another site of the thread, which asks before: each has
/// its share.
#[test]
fn two_sites_that_allocate_in_turn_are_sampled_alike() {
    let directory = directory();
    let profile = sampled(directory.path(), "128k", "beside");
    for (stack, slot) in [("leaf<middle<main", 1024.0), ("leaf<other<main", 65536.0)] {
        let blocks = if slot < 2000.0 { 64.0 * 40_000.0 } else { 40_000.0 };
        let p = -f64::exp_m1(-slot / f64::from(128 << 10));
        let (bytes, scatter) = (blocks * slot, f64::sqrt(blocks * slot * slot * (1.0 - p) / p));
        let estimate = sum(&profile, stack, "allocated") as f64;
        let off = (estimate - bytes).abs();
        assert!(off < 5.0 * scatter, "{stack}: {estimate} {bytes} {scatter}");
        // Where the other one takes what a claim was cut for it is a tenth.
        assert!(5.0 * scatter < 0.05 * bytes, "{scatter} {bytes}");
    }
}

#[test]
fn what_is_freed_is_subtracted_to_nothing() {
    let directory = directory();
    for interval in ["1", "4k", "100k"] {
        let profile = sampled(directory.path(), interval, "gone");
        for stack in ["leaf<middle<main", "leaf<other<main", "leaf<middle<thread"] {
            for figure in ["live_samples", "objects", "bytes"] {
                assert_eq!(sum(&profile, stack, figure), 0, "{interval} {stack} {figure}");
            }
        }
        assert!(sum(&profile, "leaf<other<main", "samples") >= 6, "{interval}");
    }
}

#[test]
fn frame_pointers_that_lead_nowhere_are_marked_and_not_followed() {
    let directory = directory();
    let profile = sampled(directory.path(), "1", "broken");
    let stacks = profile["sampled"]["stacks"].as_array().unwrap();
    let of = |name: &str| -> Vec<&Value> {
        stacks.iter().filter(|s| s["calls"][0]["frames"][0]["function"] == name).collect()
    };
    let broken = of("broken");
    let samples: u64 = broken.iter().map(|s| s["samples"].as_u64().unwrap()).sum();
    assert_eq!(samples, 80, "{broken:#?}");
    for stack in broken {
        assert_eq!((stack["truncated"].as_bool(), names(stack).as_str()), (Some(true), "broken"));
    }
    // 81 calls and main are more than are kept.
    let [deep] = of("deep")[..] else { panic!("{stacks:#?}") };
    assert_eq!((deep["truncated"].as_bool(), deep["samples"].as_u64()), (Some(true), Some(10)));
    assert!(deep["calls"].as_array().unwrap().len() >= 50);
    // And it is said: of the loader's own, too, which may have no frame pointers.
    let cut = stacks.iter().filter(|s| s["truncated"] == true);
    let cut: u64 = cut.map(|s| s["samples"].as_u64().unwrap()).sum();
    let file = directory.path().join("heap.toft");
    let page = stdout(&succeeds(&["report", text(&file)]));
    let cut_off = format!("\n{cut} of the samples have a truncated stack\n");
    assert!(cut >= 90 && page.contains(&cut_off), "{page}");
}

/// The call before a return address tells which function it went to.
#[test]
fn functions_without_a_frame_are_inserted_and_words_that_are_no_caller_end_a_stack() {
    let directory = directory();
    let flags = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-builtin"];
    let source = include_str!("programs/samples-false.c");
    let program = compile(directory.path(), "false", source, &flags);
    let file = directory.path().join("heap.toft");
    let options = ["run", "--sample", "1", "--profile", text(&file), "--"];
    succeeds(&[&options[..], &[text(&program)]].concat());
    let profile = report(&file);
    for stack in ["plain<hidden<main", "leaf<jumper<through<main", "stale", "stale_in_toft"] {
        assert_eq!(sum(&profile, stack, "samples"), 100, "{stack}: {profile:#}");
    }
    let stacks = profile["sampled"]["stacks"].as_array().unwrap().iter();
    let own = stacks.filter(|stack| stack["samples"] == 100);
    for stack in own {
        let is_cut = names(stack).starts_with("stale");
        assert_eq!(stack["truncated"] == true, is_cut, "{stack:#}");
    }
}

#[test]
fn a_child_goes_on_from_what_its_parent_had() {
    let directory = directory();
    let program = chains(directory.path());
    let file = directory.path().join("fork.toft");
    let variable = format!("TOFT_PROFILE={}.%p", file.display());
    succeeds(&["run", "--sample", "1", "--env", &variable, "--", text(&program), "fork"]);
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| text(path).contains("fork.toft."));
    let figures = |profile: &Value, stack: &str| {
        (sum(profile, stack, "samples"), sum(profile, stack, "objects"))
    };
    let mut seen: Vec<_> = files
        .map(|path| report(&path))
        .map(|p| (figures(&p, "leaf<middle<main"), figures(&p, "leaf<other<main")))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [((200, 50), (30, 30)), ((200, 200), (0, 0))]);
}

#[test]
fn without_the_option_there_is_nothing_of_it() {
    let directory = directory();
    let (program, file) = (chains(directory.path()), directory.path().join("heap.toft"));
    succeeds(&["run", "--profile", text(&file), "--", text(&program), "exact"]);
    assert!(!fs::read_to_string(&file).unwrap().contains("sampled"));
    let why = refused(&["report", "--stacks", "--format", "folded", text(&file)]);
    assert!(why.contains("keeps no stacks: start it with TOFT_SAMPLE=512k"), "{why}");
}

#[test]
fn from_outside_every_form_has_the_stacks_apart() {
    let directory = directory();
    let program = chains(directory.path());
    let target = Target::of(Command::new(program).arg("wait").env("TOFT_SAMPLE", "1"));
    let file = directory.path().join("heap.toft");
    succeeds(&["heap", &target.pid, "-o", text(&file)]);
    drop(target);

    let profile = report(&file);
    assert_eq!(sum(&profile, "leaf<middle<main", "objects"), 1000, "{profile:#}");
    assert_eq!(sum(&profile, "leaf<other<main", "objects"), 10);
    let form = |words: &[&str]| stdout(&succeeds(&[&["report", text(&file)], words].concat()));
    let folded = form(&["--stacks", "--format", "folded"]);
    let middle = folded.lines().find(|line| line.contains("middle")).unwrap();
    let frames: Vec<&str> = middle.split(';').map(|f| f.split(" at ").next().unwrap()).collect();
    assert_eq!(frames[frames.len() - 3..], ["main", "middle", "leaf"], "{folded}");
    assert!(middle.ends_with(" 48000"), "{middle}");
    let sites = form(&["--format", "folded"]);
    assert!(sites.contains("leaf at") && !sites.contains("middle"), "{sites}");
    assert!(
        form(&["--stacks", "--format", "flame"]).contains("sampled stacks: about 2.9 MiB live")
    );
    let page = form(&[]);
    let (table, stacks) = page.split_once("sampled stacks: estimates from ").expect(&page);
    assert!(!table.contains("middle") && stacks.contains("< middle at chains.c:"), "{page}");
    assert!(form(&["--format", "html"]).contains("id=\"sampled\""));

    // In pprof's own hands.
    let proto = directory.path().join("heap.pb.gz");
    succeeds(&["report", text(&file), "-o", text(&proto)]);
    let go =
        |words: &[&str]| tool(Command::new("go").args(["tool", "pprof"]).args(words).arg(&proto));
    let traces = go(&["-traces", "-sample_index=sampled_inuse_objects"]);
    let words = traces.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("1000 leaf middle main"), "{traces}");
    assert!(words.contains("10 leaf other main"), "{traces}");
    let top = go(&["-top", "-cum", "-sample_index=sampled_inuse_space"]);
    assert!(top.lines().any(|line| line.ends_with(" middle")), "{top}");
    // What it shows by default is exact, and has no callers.
    assert!(!go(&["-top"]).contains("middle"));
}
