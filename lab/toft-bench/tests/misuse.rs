//! The corpus of misuse as a person runs it, and the table of it in docs/misuse.md, which is not
//! written by hand.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use toft_bench::misuse::record::Record;
use toft_bench::misuse::table::{MARKS, section};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn misuse(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.arg("misuse").args(words).env_remove("LD_PRELOAD");
    command.env("TOFT_BENCH_CACHE", folder("misuse cache")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_page_is_made_of_the_committed_run() {
    let record = Record::read(&root().join("docs/figures/misuse.json")).unwrap();
    assert_eq!(record.classes.len(), 33);
    for name in ["toft", "glibc", "hardened_malloc", "scudo"] {
        assert!(record.peers.iter().any(|peer| peer.name == name), "{name} was not run");
    }
    let made = section(&record);
    let page = read(&root().join("docs/misuse.md"));
    let has = MARKS.section_of(&page).unwrap();
    for (line, wanted) in has.lines().zip(made.lines()) {
        assert_eq!(line, wanted, "written by hand? `cargo xtask misuse --page` makes it");
    }
    assert_eq!(has.lines().count(), made.lines().count());
}

#[test]
fn the_table_is_written_again_of_what_is_kept() {
    let folder = folder("misuse page");
    let page = folder.join("misuse.md");
    std::fs::write(&page, "before\n<!-- misuse -->\nold\n<!-- /misuse -->\nafter\n").unwrap();
    let kept = root().join("docs/figures/misuse.json");
    let words = ["--from", kept.to_str().unwrap(), "--page", page.to_str().unwrap()];
    let output = misuse(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let made = read(&page);
    assert!(made.starts_with("before\n") && made.ends_with("\nafter\n") && !made.contains("old"));
    let theirs = read(&root().join("docs/misuse.md"));
    assert_eq!(MARKS.section_of(&made), MARKS.section_of(&theirs));
    assert_eq!(read(&folder.join("figures/misuse.json")), read(&kept));
    std::fs::write(&page, "no marks\n").unwrap();
    let output = misuse(&words);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("misuse.md: there is no line"));
}

/// On the system's malloc, which is always there: a class that it catches and one that it does not.
#[test]
fn a_class_is_run_and_every_run_is_in_the_file() {
    let json = folder("misuse run").join("run.json");
    let words = ["--only", "11,26", "--peers", "glibc", "--output", json.to_str().unwrap()];
    let output = misuse(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let row = |number: &str| {
        let found = table.lines().find(|line| line.starts_with(&format!("| {number} ")));
        found.unwrap_or_else(|| panic!("no row {number} in\n{table}")).to_owned()
    };
    assert!(row("11").contains("| caught"), "{table}");
    assert!(row("26").contains("| missed"), "{table}");
    let record: Value = serde_json::from_str(&read(&json)).unwrap();
    let case = &record["classes"][0]["cases"][0];
    let how = case["peers"]["glibc"][0].as_str().unwrap();
    assert!(how.starts_with("caught SIGABRT: free(): double free"), "{case}");
}

#[test]
fn a_run_that_is_stopped_goes_on_where_it_was() {
    let cache = folder("misuse stopped");
    let _ = std::fs::remove_dir_all(&cache);
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
        command.args(["misuse", "--only", "11,26", "--peers", "glibc"]).args(words);
        command.env_remove("LD_PRELOAD").env("TOFT_BENCH_CACHE", &cache).output().unwrap()
    };
    let unfinished = || {
        let there = std::fs::read_dir(cache.join("misuse")).unwrap().flatten().map(|e| e.path());
        there.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect::<Vec<_>>()
    };
    // No time at all: nothing is begun, and nothing is said to have been found out.
    let stopped = run(&["--minutes", "0"]);
    assert_eq!(stopped.status.code(), Some(3), "{}", text(&stopped.stderr));
    assert!(stopped.stdout.is_empty());
    let said = text(&stopped.stderr);
    assert!(said.contains("60 of 60 are left") && said.contains("goes on from there"), "{said}");
    // Some of it done, with something in it that no run would find: it is not run again.
    let file = unfinished().pop().unwrap();
    let job = "glibc, class 26 (c same 24)";
    let line = format!(
        r#"{{"job":"{job}","outcome":{{"runs":[{{"judged":["late","planted"]}}],"twin":{{"Ok":null}},"deviations":[]}}}}"#
    );
    std::fs::write(&file, read(&file) + &line + "\n").unwrap();
    let json = cache.join("run.json");
    let went_on = run(&["--output", json.to_str().unwrap()]);
    assert!(went_on.status.success(), "{}", text(&went_on.stderr));
    assert!(text(&went_on.stderr).contains("1 of 60 were done by a run that was stopped"));
    assert!(read(&json).contains("late planted"), "what was kept was run again");
    assert_eq!(unfinished(), Vec::<PathBuf>::new(), "what is finished is not kept");
    // And `--again` runs everything again.
    run(&["--minutes", "0"]);
    std::fs::write(&file, read(&file) + &line + "\n").unwrap();
    let anew = run(&["--again", "--output", json.to_str().unwrap()]);
    assert!(anew.status.success() && !read(&json).contains("planted"));
}

/// Any library may be called Toft; what does not do what Toft does is found out.
#[test]
fn a_toft_that_does_not_do_what_the_corpus_says_is_status_one() {
    let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = libc.split_whitespace().find(|word| word.ends_with("/libc.so.6")).unwrap();
    let output = misuse(&["--only", "20", "--peers", &format!("toft={libc}")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let wanted = "not as expected: toft, class 20 (c same 1): expected caught double-free, was ";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn what_cannot_be_run_says_so() {
    for (words, reason) in [
        (&["--only", "99"][..], "no class is called 99"),
        (&["--peers", "nomalloc"], "no peer is called nomalloc"),
        (&["--peers", "toft-secure=/nowhere/lib.so"], "/nowhere/lib.so"),
        (&["--from", "/nowhere/run.json"], "/nowhere/run.json"),
        // The table of a page has every class.
        (&["--only", "11", "--page", "/nowhere/misuse.md"], "cannot be used with"),
    ] {
        let output = misuse(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    }
}

#[test]
fn the_list_has_every_class_with_what_toft_comes_to() {
    let output = misuse(&["--list"]);
    assert!(output.status.success());
    let list = text(&output.stdout);
    for part in
        ["11 Free a small block twice in a row", "c++ cross 24 first", "toft: caught double-free"]
    {
        assert!(list.contains(part), "{part} is not in\n{list}");
    }
}
