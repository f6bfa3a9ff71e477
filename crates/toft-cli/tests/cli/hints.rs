//! `toft hints` and `toft run --hints`: from a profile to the next run, and what that is worth.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::*;
use serde_json::Value;

/// One site with 6 MB in blocks of 1 KB, 300 sites with eight small blocks each; says its peak in
/// KB.
fn source() -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstatic void *kept[6000], *few[300][8];\n\
         __attribute__((noinline)) void much(void) { for (int i = 0; i < 6000; i++) memset(kept[i] = malloc(1000), 1, 1000); }\n",
    );
    for site in 0..300 {
        text += &format!(
            "__attribute__((noinline)) void little{site}(void) {{ for (int i = 0; i < 8; i++) \
             memset(few[{site}][i] = malloc(40 + 64 * i), 1, 40); }}\n"
        );
    }
    text += "int main(void) {\n    much();\n";
    for site in 0..300 {
        text += &format!("    little{site}();\n");
    }
    text + "    char line[200]; FILE *f = fopen(\"/proc/self/status\", \"r\");\n\
            while (fgets(line, sizeof line, f)) if (!strncmp(line, \"VmHWM:\", 6)) fputs(line + 6, stdout);\n\
            fflush(stdout); if (getenv(\"WAIT\")) getchar();\n\
            return 0;\n}\n"
}

fn program(directory: &Path, name: &str, flags: &[&str]) -> PathBuf {
    compile(directory, name, &source(), &[&["-fno-builtin"][..], flags].concat())
}

fn hints(words: &[&str]) -> Output {
    toft().arg("hints").args(words).output().unwrap()
}

/// A profile of the program, and hints made of it.
fn made(directory: &Path, program: &Path) -> PathBuf {
    let (profile, file) = (directory.join("heap.toft"), directory.join("program.hints"));
    ends_with(0, run(&["--profile", text(&profile)], &[text(program)]));
    let output = ends_with(0, hints(&[text(&profile), "-o", text(&file)]));
    let line = message(&output);
    assert_contains(&line, &["1 call sites with their own partition", "next: toft run --hints"]);
    file
}

fn peak(output: &Output) -> u64 {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output).split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn what_a_run_showed_saves_memory_in_the_next() {
    let directory = directory();
    let program = program(directory.path(), "scattered", &[]);
    let file = made(directory.path(), &program);
    let lines = fs::read_to_string(&file).unwrap();
    assert!(lines.starts_with("toft-hints 1\n# Of scattered: 1 call sites"), "{lines}");
    let own: Vec<&str> = lines.lines().filter(|line| line.starts_with("own ")).collect();
    assert!(own.len() == 1 && own[0].contains("much at scattered.c:"), "{lines}");

    let without = peak(&run(&["--env", "TOFT_PARTITIONS=64"], &[text(&program)]));
    let hinted = run(&["--hints", text(&file)], &[text(&program)]);
    assert_eq!(stderr(&hinted), "", "nothing to complain of");
    let with = peak(&hinted);
    // Eight sizes in one partition, and not in 64: some 500 pages and 60 pages of descriptors less.
    assert!(with + 1000 < without, "{with} KB with hints, {without} without");

    let output = run(&["--hints", text(&file), "--stats", "--json"], &[text(&program)]);
    let stats: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
    let heap = if stats["heap"].is_object() { &stats["heap"] } else { &stats };
    assert_eq!(heap["own_sites"], 1, "{stats}");
    assert!(heap["grouped_sites"].as_u64().unwrap() >= 300, "{stats}");
    let page = stderr(&run(&["--hints", text(&file), "--stats"], &[text(&program)]));
    assert!(page.contains("share one, as hinted"), "{page}");
}

#[test]
fn a_program_that_is_built_anew_needs_new_hints_and_says_so() {
    let directory = directory();
    let old = program(directory.path(), "rebuilt", &["-Wl,--build-id=0x1111"]);
    let file = made(directory.path(), &old);
    assert_eq!(stderr(&run(&["--hints", text(&file)], &[text(&old)])), "");
    let new = program(directory.path(), "rebuilt", &["-Wl,--build-id=0x2222"]);
    let output = ends_with(0, run(&["--hints", text(&file)], &[text(&new)]));
    assert!(message(&output).contains("rebuilt is not the build that the hints are of"));
    // A file under another name is the same.
    let moved = directory.path().join("renamed");
    copy(text(&new), &moved);
    let file = made(directory.path(), &new);
    assert_eq!(stderr(&run(&["--hints", text(&file)], &[text(&moved)])), "");
}

#[test]
fn files_that_are_no_profile_or_no_hints_are_refused() {
    let directory = directory();
    let refuse = |output: Output, why: &str| {
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(message(&output).contains(why), "{}", stderr(&output));
    };
    let garbage = file(directory.path(), "garbage", b"own 0x12\n", 0o644);
    let missing = directory.path().join("missing");
    refuse(run(&["--hints", text(&garbage)], &["true"]), "its first line is not `toft-hints 1`");
    refuse(run(&["--hints", text(&missing)], &["true"]), "No such file");
    refuse(run(&["--hints", text(directory.path())], &["true"]), "it is not a regular file");
    let long = directory.path().join("x".repeat(240));
    fs::write(&long, "toft-hints 1\n").unwrap();
    refuse(run(&["--hints", text(&long)], &["true"]), "its name is too long");

    let empty = directory.path().join("empty.toft");
    ends_with(
        0,
        run(
            &["--profile", text(&empty)],
            &[text(&compile(directory.path(), "none", "int main(void) { return 0; }", &[]))],
        ),
    );
    let profile = fs::read_to_string(&empty).unwrap();
    if profile.contains("\"rows\":[]") {
        refuse(hints(&[text(&empty)]), "nothing was live");
    }
    for words in [["--profile", "a.toft"], ["--leaks", "--stats"]] {
        let output =
            ends_with(125, run(&[&["--hints", text(&garbage)][..], &words].concat(), &["true"]));
        assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    }
}

#[test]
fn it_is_printed() {
    let directory = directory();
    let program = program(directory.path(), "printed", &["-Wl,--build-id=0xabcd"]);
    let _ = made(directory.path(), &program);
    let profile = directory.path().join("heap.toft");
    let page = hints(&[text(&profile), "--own-from", "1k"]);
    assert_clean(&page);
    // 40 + 104 + ... + 488 bytes are more than 2 KB in slots.
    assert!(stdout(&page).matches(" at printed.c:").count() == 301, "{}", stdout(&page));
    let bad = ends_with(2, hints(&[text(&profile), "--own-from", "much"]));
    assert!(stderr(&bad).contains("not a size such as"));
}

/// What is written over is kept, and only what is hints is written over.
#[test]
fn hints_that_are_there_are_kept_and_nothing_else_is_written_over() {
    let directory = directory();
    let program = program(directory.path(), "again", &["-Wl,--build-id=0xabcd"]);
    let file = made(directory.path(), &program);
    let first = fs::read_to_string(&file).unwrap();
    let profile = directory.path().join("heap.toft");
    let backup = PathBuf::from(format!("{}~", text(&file)));
    // Writing the same hints again changes nothing.
    let same = ends_with(0, hints(&[text(&profile), "-o", text(&file)]));
    assert!(
        !backup.exists() && !message(&same).contains("the earlier hints are in"),
        "{}",
        stderr(&same)
    );
    let other = ends_with(0, hints(&[text(&profile), "--own-from", "1k", "-o", text(&file)]));
    assert!(message(&other).contains(&format!("(the earlier hints are in {})", text(&backup))));
    assert_eq!(fs::read_to_string(&backup).unwrap(), first);
    assert_ne!(fs::read_to_string(&file).unwrap(), first);
    // The profile itself, by a slip of the hand.
    let before = fs::read(&profile).unwrap();
    let refused = ends_with(125, hints(&[text(&profile), "-o", text(&profile)]));
    assert_contains(&message(&refused), &["exists and does not contain hints"]);
    assert_eq!(fs::read(&profile).unwrap(), before);
}

/// What the command says of a doubtful profile stands in the file, too.
#[test]
fn hints_of_a_doubtful_profile_say_so_and_are_followed() {
    let directory = directory();
    let program = program(directory.path(), "doubtful", &[]);
    let (profile, file) = (directory.path().join("a.toft"), directory.path().join("a.hints"));
    // A run without a request for a profile: 300 sites share 64 partitions.
    let target = Target::with(&program, &[("WAIT", "1")]);
    succeeds(&["heap", &target.pid, "-o", text(&profile)]);
    target.end();
    let output = ends_with(0, hints(&[text(&profile), "-o", text(&file)]));
    assert!(stderr(&output).contains("their figures are not certain"), "{}", stderr(&output));
    let lines = fs::read_to_string(&file).unwrap();
    assert!(lines.contains("\n# Not certain: "), "{lines}");
    let followed = run(&["--hints", text(&file)], &[text(&program)]);
    assert_eq!(stderr(&followed), "", "a comment is none of the library's business");
    // A profile that tells sites apart makes hints without.
    assert!(!fs::read_to_string(made(directory.path(), &program)).unwrap().contains("certain"));
}
