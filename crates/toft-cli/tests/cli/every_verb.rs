//! What holds for every verb: help with examples and exit status, the manual page and the
//! completions have each option, no colour and no panic where the output goes elsewhere, one line
//! where something is wrong.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::*;

/// The verbs, as the help of the whole lists them.
fn verbs() -> Vec<String> {
    let help = stdout(&toft().arg("--help").env("COLUMNS", "100").output().unwrap());
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let verb = |line: &str| {
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        Some(line.split_whitespace().next()?.to_owned())
    };
    let verbs: Vec<String> = list.lines().filter_map(verb).filter(|verb| verb != "help").collect();
    for known in ["run", "heap", "metrics", "bench", "man"] {
        assert!(verbs.iter().any(|verb| verb == known), "{known}: {help}");
    }
    verbs
}

/// The long options that a help text lists.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let name = |line: &str| {
        let rest = &line[line.find("--")?..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        Some(rest[..end.unwrap_or(rest.len())].to_owned())
    };
    lines.filter_map(name).collect()
}

fn help_of(verb: &str) -> String {
    let output = toft().args([verb, "--help"]).env("COLUMNS", "100").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{verb}");
    stdout(&output)
}

#[test]
fn every_help_has_examples_and_says_how_it_ends() {
    let whole = stdout(&toft().arg("--help").output().unwrap());
    assert!(whole.contains("Examples:\n  toft run -- "), "{whole}");
    for verb in verbs() {
        let help = help_of(&verb);
        assert_contains(&help, &["Examples:\n", &format!("\n  toft {verb} ")]);
        assert!(help.to_lowercase().contains("exit status"), "{verb}: {help}");
        // An example may be as long as it is.
        let wide = help.lines().find(|line| line.chars().count() > 110);
        assert_eq!(wide, None, "{verb}");
    }
}

/// The sections that every page has, in the usual order.
const SECTIONS: [&str; 7] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "\"EXIT STATUS\"",
    "ENVIRONMENT",
    "EXAMPLES",
    "\"SEE ALSO\"",
];

/// The first section that a manual page does not have after the one before.
fn missing_section(page: &str) -> Option<&'static str> {
    let mut titles = page.lines().filter_map(|line| line.strip_prefix(".SH "));
    SECTIONS.into_iter().find(|section| !titles.any(|title| title == *section))
}

/// What `mandoc -T lint` has against a page.
fn warnings(page: &std::path::Path) -> String {
    let lint = Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(page).output();
    let lint = lint.expect("the tests need mandoc");
    stdout(&lint) + &stderr(&lint)
}

#[test]
fn manual_pages_are_well_formed() {
    let folder = directory();
    succeeds(&["man", "-o", text(folder.path())]);
    let mut pages = 0;
    if Command::new("mandoc").output().is_ok() {
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            assert_eq!(warnings(&entry.unwrap().path()), "");
            pages += 1;
        }
        assert!(pages > verbs().len(), "{pages}");
        let bad = file(folder.path(), "bad.1", b".TH bad 1 2026-11-25\n.SH NAME\n.nosuch\n", 0o644);
        assert!(warnings(&bad).contains("unknown macro"), "{}", warnings(&bad));
    } else {
        println!("there is no mandoc: the form of the pages is not tested");
    }
    assert_eq!(missing_section(".SH NAME\n.SH DESCRIPTION\n"), Some("SYNOPSIS"));
    let run = std::fs::read_to_string(folder.path().join("toft-run.1")).unwrap();
    assert!(run.contains("\\fBTOFT_LIMIT\\fR"), "{run}");
}

/// The page of the book is what the help says.
#[test]
fn the_page_of_the_command_is_what_its_help_says() {
    let page = stdout(&toft().args(["man", "--markdown"]).output().unwrap());
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command.md");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(kept == page, "docs/command.md is not what the help says: run cargo xtask docs");
    for verb in verbs() {
        assert!(page.contains(&format!("\n## toft {verb}\n")), "{verb}");
    }
}

#[test]
fn the_manual_and_the_completions_have_every_option() {
    let folder = directory();
    succeeds(&["man", "-o", text(folder.path())]);
    let shells: Vec<(&str, String)> = ["bash", "zsh", "fish"]
        .map(|shell| (shell, stdout(&toft().args(["completions", shell]).output().unwrap())))
        .into();
    let mut seen = 0;
    // What follows `toft bench` are arguments of another program.
    for verb in verbs().into_iter().filter(|verb| verb != "bench") {
        let file = folder.path().join(format!("toft-{verb}.1"));
        let page = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{verb}: {e}"));
        assert_eq!(page, stdout(&toft().args(["man", &verb]).output().unwrap()), "{verb}");
        assert_eq!(missing_section(&page), None, "{verb}: {page}");
        let page = page.replace("\\-", "-");
        for option in options(&help_of(&verb)) {
            seen += 1;
            assert!(page.contains(&option), "{verb} {option} is not on its page");
            for (shell, script) in &shells {
                // fish has no dashes.
                let name = if *shell == "fish" { option.trim_start_matches('-') } else { &option };
                assert!(script.contains(name), "{shell}: {verb} {option}");
            }
        }
        assert!(shells.iter().all(|(_, script)| script.contains(&verb)), "{verb}");
    }
    assert!(seen > 60, "{seen}");
    // What does not exist has no page.
    toft_ends_with(2, &["man", "no-such-verb"]);
    assert_eq!(options("  -o, --output <FILE>\n      --json\n  text --not"), {
        ["--json".to_owned(), "--output".to_owned()].into()
    });
}

/// Verbs that need no process.
const ALONE: [&[&str]; 6] = [
    &["options"],
    &["options", "--json"],
    &["doctor"],
    &["man"],
    &["completions", "bash"],
    &["run", "--dry-run", "--json", "--", "ls"],
];

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    for words in ALONE {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = toft().args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {}", stderr(&output));
        assert!(message(&output).contains("cannot write"), "{words:?}");
        // Closed before the first byte.
        let mut child = toft();
        let mut child =
            child.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{words:?}");
    }
}

/// Of a process: large enough to have a thread that can be asked to purge.
#[test]
fn a_full_disk_is_an_error_of_verbs_that_read_a_process() {
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(void) {\n\
                  for (int i = 0; i < 40000; i++) memset(malloc(1000), 1, 1000);\n\
                  write(1, \"\\n\", 1); pause(); }\n";
    let program = compiled("large", source, &["-fno-builtin"]);
    let target = Target::start(&program);
    let pid = target.pid.clone();
    let purged = || toft().args(["purge", &pid]).output().unwrap().status.success().then_some(());
    until("it can be purged", purged);
    for words in [["purge", &pid], ["rss", &pid], ["heap", &pid], ["metrics", &pid]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = toft().args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {}", stderr(&output));
        assert!(message(&output).contains("cannot write"), "{words:?}: {}", stderr(&output));
    }
}

/// docs/exit-status.md: what is no command line is 2, and of a verb that ends as a program does 125.
fn of_a_bad_command_line(verb: &str) -> Option<i32> {
    Some(if ["run", "record"].contains(&verb) { 125 } else { 2 })
}

#[test]
fn an_unknown_option_ends_every_verb_alike() {
    for verb in verbs() {
        let output = toft().args([&verb, "--no-such-option"]).output().unwrap();
        assert_eq!(output.status.code(), of_a_bad_command_line(&verb), "{verb}");
        assert!(stderr(&output).contains("--no-such-option"), "{verb}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{verb}");
    }
    ends_with(2, toft().arg("no-such-verb").output().unwrap());
    ends_with(2, toft().output().unwrap());
}

/// Verbs with a process as argument, as their help tells: all have one answer for what is no
/// process, and one for a process that they may not read.
#[test]
fn a_process_that_is_none_ends_every_verb_alike() {
    let looks = |verb: &String| {
        let help = help_of(verb);
        help.lines().any(|line| line.starts_with("Usage: ") && line.contains("PID"))
    };
    let looking: Vec<String> = verbs().into_iter().filter(looks).collect();
    for known in ["rss", "heap", "top", "metrics", "purge"] {
        assert!(looking.iter().any(|verb| verb == known), "{known} is not in {looking:?}");
    }
    for verb in &looking {
        for bad in ["sshd", "0", "-5", "99999999999", "", "/no/such/core"] {
            let output = toft().args([verb, bad]).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{verb} {bad}: {}", stderr(&output));
            assert!(stderr(&output).contains("not the number of a process"), "{}", stderr(&output));
        }
        let stranger = stranger();
        let own = stranger.pid();
        for (pid, why) in [("2147483647", "there is no process"), (&*own, "does not run on Toft")] {
            let output = toft().arg(verb).arg(pid).output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{verb} {pid}: {}", stderr(&output));
            assert!(message(&output).contains(why), "{verb} {pid}: {}", stderr(&output));
        }
    }
}

/// Verbs that read a file: one that is not there, and one that is something else.
#[test]
fn a_file_that_is_none_ends_every_verb_alike() {
    let place = directory();
    let other = file(place.path(), "other", b"no profile, no trace, no core\n", 0o644);
    for words in [&["report"][..], &["hints"], &["trace"], &["heap"], &["diff", text(&other)]] {
        let missing: &str = if words == ["heap"] { "./other" } else { "/no/such/file" };
        for path in [missing, text(&other)] {
            let mut command = toft();
            command.current_dir(place.path()).args(words).arg(path);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{words:?} {path}: {}", stderr(&output));
            assert_eq!(stdout(&output), "", "{words:?} {path}");
            let _ = message(&output);
        }
    }
}

/// A bad value of an option of the library ends `toft run` before the program starts, wherever it
/// stands.
#[test]
fn a_bad_value_is_refused_before_the_program_starts() {
    let place = directory();
    let started = place.path().join("started");
    let run = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = toft();
        command.envs(variables.iter().copied()).arg("run").args(words).args(["--", "touch"]);
        command.arg(&started).output().unwrap()
    };
    let refused = |words: &[&str], variables: &[(&str, &str)], why: &str| {
        let output = run(words, variables);
        assert_eq!(output.status.code(), Some(125), "{words:?} {variables:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{words:?} {variables:?}: {}", stderr(&output));
        assert!(!started.exists(), "{words:?} {variables:?}");
    };
    refused(&["--sample", "bogus"], &[], "not a size such as");
    refused(&["--sample", ""], &[], "not a size such as");
    refused(&["--env", "TOFT_SAMPLE=bogus"], &[], "TOFT_SAMPLE=bogus is not a size");
    refused(&["--env", "TOFT_LIMTI=512m"], &[], "did you mean TOFT_LIMIT?");
    refused(&["--env", "TOFT_QUITE_ANOTHER_NAME=1"], &[], "unknown option");
    refused(&["--output", "/no/such/folder/stats"], &[], "no such folder");
    refused(&["--output", "/"], &[], "it is a folder");
    let all = object(&["options", "--json"]);
    let mut seen = 0;
    for option in all["options"].as_array().unwrap() {
        let (name, expected) = (option["name"].as_str().unwrap(), &option["expected"]);
        let expected = expected.as_str().unwrap();
        // Any text is a name.
        if expected.starts_with("name") || expected.starts_with("the name") {
            continue;
        }
        seen += 1;
        refused(&["--env", &format!("{name}=no such value")], &[], "no such value is not ");
        refused(&[], &[(name, "no such value")], "no such value is not ");
    }
    assert!(seen > 20, "{seen}");
    for (words, variables) in [
        (&["--sample", "64k"][..], &[][..]),
        (&["--env", "TOFT_SAMPLE=64k"], &[("TOFT_SAMPLE", "bogus")]),
        (&["--env", "OTHER=bogus"], &[("TOFT_QUITE_ANOTHER_NAME", "1"), ("TOFT_LIMIT", "50%")]),
    ] {
        let output = run(words, variables);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        std::fs::remove_file(&started).unwrap();
    }
}

#[test]
fn samples_have_a_usual_size() {
    let place = directory();
    let file = place.path().join("heap.toft");
    let interval = |words: &[&str]| {
        succeeds(&[&["run", "--profile", text(&file)], words, &["--", "true"]].concat());
        object(&["report", "--json", text(&file)])["sampled"]["interval"].as_u64()
    };
    assert_eq!(interval(&["--sample"]), Some(512 << 10));
    assert_eq!(interval(&["--sample", "64k"]), Some(64 << 10));
    assert_eq!(interval(&[]), None);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_program_starts() {
    let place = directory();
    let kept = file(place.path(), "kept", b"mine", 0o444);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let fresh = place.path().join("new.html");
    let elsewhere = directory();
    for words in [
        &["run", "--stats", "--output", text(&fresh)][..],
        &["run", "--stats", "--output", text(&kept)],
        &["run", "--profile", text(&fresh)],
        &["record", "-o", text(&fresh)],
    ] {
        let mut command = unprivileged(elsewhere.path());
        let output = command.args(words).args(["--", "echo", "started"]).output().unwrap();
        assert!(message(&output).contains(": Permission denied"), "{words:?}: {}", stderr(&output));
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""), "{words:?}");
    }
    // What only the write itself shows.
    let output = ends_with(125, run(&["--stats", "--output", "/proc/none"], &["true"]));
    assert!(message(&output).contains("cannot write /proc/none"));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_output_without_results_is_named() {
    let output = ends_with(0, run(&["--json"], &["true"]));
    assert!(message(&output).contains("print nothing without --stats or --leaks"));
}

#[test]
fn nothing_is_coloured_that_is_not_for_a_terminal() {
    for words in [&["--help"][..], &["doctor"], &["options"], &["heap", "--help"], &["no-verb"]] {
        let output = toft().args(words).output().unwrap();
        assert!(
            !stdout(&output).contains('\x1b') && !stderr(&output).contains('\x1b'),
            "{words:?}"
        );
    }
}
