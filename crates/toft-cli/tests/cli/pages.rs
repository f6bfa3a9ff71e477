//! The pages for newcomers, tried as a newcomer tries them: the commands of a page run in order, in
//! one shell and an empty folder, and print what the page shows.
//!
//! | fence | what is done |
//! |---|---|
//! | `sh` | run; the first command that fails ends the page |
//! | `sh skip: REASON` | not run; the reason is what the test does not have |
//! | `text` after `sh` | its lines are in the output before, in order; numbers, units may differ |

use crate::common::{directory, toft};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands of a page, and what it shows of their output.
#[derive(Debug, Default, PartialEq)]
struct Block {
    commands: String,
    shown: Vec<String>,
}

/// The blocks that are run.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines();
    // Whether the block before was run.
    let mut run = false;
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside: Vec<String> =
            lines.by_ref().take_while(|line| *line != "```").map(Into::into).collect();
        match kind {
            "sh" => {
                run = true;
                blocks.push(Block { commands: inside.join("\n"), shown: Vec::new() });
            }
            "text" if run => blocks.last_mut().expect("one was run").shown = inside,
            _ => run = false,
        }
    }
    blocks
}

/// Fences whose commands are not run and that do not say why.
fn skipped_without_reason(page: &str) -> Vec<&str> {
    let reason = |line: &str| line.strip_prefix("```sh skip: ").map_or(0, |why| why.trim().len());
    page.lines().filter(|line| line.starts_with("```sh ") && reason(line) < 5).collect()
}

/// What stands before the commands of a page. A page waits by `sleep` until a process in the
/// background is ready: here that takes as long as it takes, on a machine that is busy. It is ready
/// if it sleeps three times in a row: a program that starts also sleeps now and then.
const BEFORE: &str = r#"
set -eu
exec 2>&1
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
sleep() {
    command sleep "$1"
    [ -n "${!-}" ] || return 0
    asleep=0
    for _ in $(seq 1200); do
        kill -0 $! 2>/dev/null || return 0
        if grep -q '^State:.S' /proc/$!/status; then asleep=$((asleep + 1)); else asleep=0; fi
        if [ $asleep -ge 3 ] && toft heap $! >/dev/null 2>&1; then return 0; fi
        command sleep 0.1
    done
}
"#;

/// The line before the output of each block.
fn marker(at: usize) -> String {
    format!("== block {at} ==")
}

fn script(blocks: &[Block]) -> String {
    let mut text = BEFORE.to_owned();
    for (at, block) in blocks.iter().enumerate() {
        // The README builds the command; here it is built.
        let commands = block.commands.replace("cargo run --release -- ", "toft ");
        let commands = commands.replace("target/release/toft ", "toft ");
        text.push_str(&format!("echo '{}'\n{commands}\n", marker(at)));
    }
    text + &format!("echo '{}'\n", marker(blocks.len()))
}

/// A line without what differs from run to run.
fn normal(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let mut text = String::new();
        // An address is a number, too.
        let mut address = false;
        for letter in word.chars() {
            address = letter.is_ascii_hexdigit() && address || letter == 'x' && text.ends_with('N');
            if address {
                continue;
            }
            match letter {
                '0'..='9' if text.ends_with('N') => {}
                '0'..='9' => text.push('N'),
                letter => text.push(letter),
            }
        }
        let text = text.replace("N.N", "N").replace('~', "");
        match text.as_str() {
            "" => {}
            "KiB" | "MiB" | "GiB" => words.push("B".into()),
            // Thousands stand apart.
            "N" if words.last().is_some_and(|last| last == "N") => {}
            _ => words.push(text),
        }
    }
    words.join(" ")
}

/// The first line that a page shows and the output does not have at its place.
fn missing(shown: &[String], output: &str) -> Option<String> {
    let mut lines = output.lines().map(normal);
    shown
        .iter()
        .filter(|line| *line != "...")
        .find(|line| {
            let wanted = normal(line);
            !lines.any(|line| line == wanted)
        })
        .cloned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What is wrong with a page.
fn tried(page: &str) -> Result<(), String> {
    let blocks = blocks(page);
    if blocks.is_empty() {
        return Ok(());
    }
    let folder = directory();
    let mut path =
        PathBuf::from(env!("CARGO_BIN_EXE_toft")).parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    // The environment of `toft()`, for a shell.
    let clean = toft();
    let mut shell = Command::new("bash");
    for (name, value) in clean.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let output = shell
        .arg("-c")
        .arg(script(&blocks))
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    for (at, block) in blocks.iter().enumerate() {
        let after = text.split_once(&marker(at)).map(|(_, after)| after).unwrap_or_default();
        let Some((own, _)) = after.split_once(&marker(at + 1)) else {
            return Err(format!("failed: {}\n{after}", block.commands));
        };
        if let Some(line) = missing(&block.shown, own) {
            return Err(format!("not printed: {line}\nby: {}\nbut: {own}", block.commands));
        }
    }
    Ok(())
}

#[test]
fn the_pages_for_newcomers_are_true() {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs/start", "docs/find", "docs/tune"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            pages.push(entry.unwrap().path());
        }
    }
    assert!(pages.len() > 10, "{pages:?}");
    pages.sort();
    let (mut wrong, mut run) = (Vec::new(), 0);
    for path in pages {
        let page = fs::read_to_string(&path).unwrap();
        let needs = ["python3", "node"].into_iter().find(|program| {
            let there = Command::new(program).arg("--version").output().is_ok();
            !there && blocks(&page).iter().any(|block| block.commands.contains(program))
        });
        if let Some(program) = needs {
            println!("{}: left out, there is no {program}", path.display());
            continue;
        }
        let unreasoned = skipped_without_reason(&page);
        assert!(unreasoned.is_empty(), "{}: {unreasoned:?}", path.display());
        run += blocks(&page).len();
        if let Err(why) = tried(&page) {
            wrong.push(format!("{}: {why}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(run > 15, "{run} blocks were run");
}

/// A command that fails, and output that differs, are found; numbers may differ.
#[test]
fn a_page_that_is_not_true_is_found() {
    let page =
        |shown: &str| format!("```sh\necho 12 names, 1 003.5 KiB\n```\n\n```text\n{shown}\n```\n");
    assert_eq!(tried(&page("7 names, 20.1 MiB")), Ok(()));
    assert!(tried(&page("7 lines, 20.1 MiB")).unwrap_err().contains("not printed: 7 lines"));
    assert!(tried("```sh\nfalse\n```\n").unwrap_err().contains("failed: false"));
    assert_eq!(tried("```sh skip: it fails\nfalse\n```\n"), Ok(()));
    assert_eq!(skipped_without_reason("```sh skip\n```sh skip: it fails\n```sh\n"), ["```sh skip"]);
    assert_eq!(tried("```sh\ntrue\n```\n\n```c\nint x;\n```\n\n```text\nanything\n```\n"), Ok(()));
}
