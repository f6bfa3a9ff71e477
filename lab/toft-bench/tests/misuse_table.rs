//! The corpus of misuse as a person runs it, and the table of it in docs/misuse.md, which is not
//! written by hand.

mod common;

use common::{Ran, command, json, scratch, text_of};
use std::path::{Path, PathBuf};

/// The text of a file of this repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs the corpus with the words of a line, and programs and unfinished runs in a cache.
fn misuse_in(cache: &str, line: &str) -> Ran {
    let mut command = command(&["misuse"]);
    command.args(line.split(' ')).env("TOFT_BENCH_CACHE", scratch(cache));
    command.output().unwrap().into()
}

fn misuse(line: &str) -> Ran {
    misuse_in("misuse cache", line)
}

/// The page is made of the committed run: made again it is as it was, and so is the run.
#[test]
fn the_table_is_written_again_of_what_is_kept() {
    std::fs::create_dir_all(scratch("misuse-page")).unwrap();
    let (page, kept) = (read("docs/misuse.md"), read("docs/figures/misuse.json"));
    let old = page.replace("| missed |", "| old |");
    assert_ne!(old, page);
    std::fs::write(scratch("misuse-page/misuse.md"), old).unwrap();
    std::fs::write(scratch("misuse-kept.json"), &kept).unwrap();
    let line = "--from misuse-kept.json --page misuse-page/misuse.md";
    misuse(line).page();
    for (line, wanted) in page.lines().zip(text_of("misuse-page/misuse.md").lines()) {
        assert_eq!(line, wanted, "written by hand? `cargo xtask misuse --page` makes it");
    }
    assert_eq!(text_of("misuse-page/misuse.md"), page);
    assert_eq!(text_of("misuse-page/figures/misuse.json"), kept);
    let record = json("misuse-kept.json");
    assert_eq!(record["classes"].as_array().unwrap().len(), 33);
    for name in ["toft", "glibc", "hardened_malloc", "scudo"] {
        let peers = record["peers"].as_array().unwrap();
        assert!(peers.iter().any(|peer| peer["name"] == name), "{name} was not run");
    }
    std::fs::write(scratch("misuse-page/misuse.md"), "no marks\n").unwrap();
    let ran = misuse(line);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("misuse.md: there is no line"), "{ran:?}");
}

/// On the system's malloc, which is always there: a class that it catches and one that it does not.
#[test]
fn a_class_is_run_and_every_run_is_in_the_file() {
    let table = misuse("--only 11,26 --peers glibc --output misuse-run.json").page();
    let row = |number: &str| {
        let found = table.lines().find(|line| line.starts_with(&format!("| {number} ")));
        found.unwrap_or_else(|| panic!("no row {number} in\n{table}")).to_owned()
    };
    assert!(row("11").contains("| caught"), "{table}");
    assert!(row("26").contains("| missed"), "{table}");
    let case = json("misuse-run.json")["classes"][0]["cases"][0].clone();
    let how = case["peers"]["glibc"][0].as_str().unwrap();
    assert!(how.starts_with("caught SIGABRT: free(): double free"), "{case}");
}

#[test]
fn a_run_that_is_stopped_goes_on_where_it_was() {
    let cache = scratch("misuse-stopped");
    let _ = std::fs::remove_dir_all(&cache);
    let run =
        |more: &str| misuse_in("misuse-stopped", &format!("--only 11,26 --peers glibc {more}"));
    let unfinished = || {
        let there = std::fs::read_dir(cache.join("misuse")).unwrap().flatten().map(|e| e.path());
        there.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect::<Vec<_>>()
    };
    // No time at all: nothing is begun, and nothing is said to have been found out.
    let stopped = run("--minutes 0");
    assert!(stopped.status == Some(3) && stopped.out.is_empty(), "{stopped:?}");
    for part in ["60 of 60 are left", "goes on from there"] {
        assert!(stopped.err.contains(part), "{stopped:?}");
    }
    // Some of it done, with something in it that no run would find: it is not run again.
    let file = unfinished().pop().unwrap();
    let job = "glibc, class 26 (c same 24)";
    let line = format!(
        r#"{{"job":"{job}","outcome":{{"runs":[{{"judged":["late","planted"]}}],"twin":{{"Ok":null}},"deviations":[]}}}}"#
    );
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &line + "\n").unwrap();
    let went_on = run("--output misuse-stopped.json");
    assert_eq!(went_on.status, Some(0), "{went_on:?}");
    assert!(went_on.err.contains("1 of 60 were done by a run that was stopped"), "{went_on:?}");
    assert!(text_of("misuse-stopped.json").contains("late planted"), "it was run again");
    assert_eq!(unfinished(), Vec::<PathBuf>::new(), "what is finished is not kept");
    // And `--again` runs everything again.
    run("--minutes 0");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &line + "\n").unwrap();
    run("--again --output misuse-stopped.json").page();
    assert!(!text_of("misuse-stopped.json").contains("planted"));
}

/// Any library may be called Toft; what does not do what Toft does is found out.
#[test]
fn a_toft_that_does_not_do_what_the_corpus_says_is_status_one() {
    let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = libc.split_whitespace().find(|word| word.ends_with("/libc.so.6")).unwrap();
    let ran = misuse(&format!("--only 20 --peers toft={libc}"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let wanted = "not as expected: toft, class 20 (c same 1): expected caught double-free, was ";
    assert!(ran.out.contains(wanted), "{ran:?}");
}

#[test]
fn what_cannot_be_run_says_so() {
    for (line, reason) in [
        ("--only 99", "no class is called 99"),
        ("--peers nomalloc", "no peer is called nomalloc"),
        ("--peers toft-secure=/nowhere/lib.so", "/nowhere/lib.so"),
        ("--from /nowhere/run.json", "/nowhere/run.json"),
        // The table of a page has every class.
        ("--only 11 --page /nowhere/misuse.md", "cannot be used with"),
    ] {
        let ran = misuse(line);
        assert!(ran.status == Some(2) && ran.err.contains(reason), "{ran:?}");
    }
}

#[test]
fn the_list_has_every_class_with_what_toft_comes_to() {
    let list = misuse("--list").page();
    for part in
        ["11 Free a small block twice in a row", "c++ cross 24 first", "toft: caught double-free"]
    {
        assert!(list.contains(part), "{part} is not in\n{list}");
    }
}
