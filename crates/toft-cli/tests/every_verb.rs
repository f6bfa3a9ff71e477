//! What holds for every verb: help with examples and exit status, the manual page and the completions have each option, no
//! colour and no panic where the output goes elsewhere, one line where something is wrong.

mod common;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::*;

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
        assert!(
            help.contains("Examples:\n") && help.contains(&format!("\n  toft {verb} ")),
            "{help}"
        );
        assert!(help.to_lowercase().contains("exit status"), "{verb}: {help}");
        // An example may be as long as it is.
        let wide = help.lines().find(|line| line.chars().count() > 110);
        assert_eq!(wide, None, "{verb}");
    }
}

#[test]
fn the_manual_and_the_completions_have_every_option() {
    let man = stdout(&toft().arg("man").output().unwrap()).replace("\\-", "-");
    let shells: Vec<(&str, String)> = ["bash", "zsh", "fish"]
        .map(|shell| (shell, stdout(&toft().args(["completions", shell]).output().unwrap())))
        .into();
    let mut seen = 0;
    for verb in verbs() {
        let page = man.split(&format!(".TH toft-{verb} ")).nth(1);
        let page = page.unwrap_or_else(|| panic!("no page of {verb}"));
        let page = page.split(".TH ").next().unwrap();
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
fn a_full_disk_is_told_and_a_reader_that_goes_is_no_error() {
    for words in ALONE {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = toft().args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {}", stderr(&output));
        assert!(said(&output).contains("cannot write"), "{words:?}");
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
fn a_full_disk_is_told_by_looks_at_a_process() {
    let place = directory();
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(void) {\n\
                  for (int i = 0; i < 40000; i++) memset(malloc(1000), 1, 1000);\npause(); }\n";
    let program = compile(place.path(), "large", source, &["-fno-builtin"]);
    let shown = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    /// Ends with the test, however that ends.
    struct Target(std::process::Child);
    impl Drop for Target {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }
    let target =
        Target(Command::new(program).env("LD_PRELOAD", stdout(&shown).trim()).spawn().unwrap());
    let pid = target.0.id().to_string();
    let end = Instant::now() + Duration::from_secs(60);
    while !toft().args(["purge", &pid]).output().unwrap().status.success() {
        assert!(
            Instant::now() < end,
            "{}",
            stderr(&toft().args(["purge", &pid]).output().unwrap())
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    for words in [["purge", &pid], ["rss", &pid], ["heap", &pid], ["metrics", &pid]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = toft().args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {}", stderr(&output));
        assert!(said(&output).contains("cannot write"), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn what_is_no_process_is_told() {
    for verb in ["rss", "top", "purge", "metrics"] {
        for bad in ["sshd", "0", "-5", "99999999999", ""] {
            let output = toft().args([verb, bad]).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{verb} {bad}");
            assert!(stderr(&output).contains("not the number of a process"), "{}", stderr(&output));
        }
    }
    for bad in ["sshd", "0", "/no/such/core"] {
        let output = toft().args(["heap", bad]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{bad}");
        assert!(said(&output).contains("there is no core file"), "{}", stderr(&output));
    }
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
