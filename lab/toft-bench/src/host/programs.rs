//! Real programs on generated input: how long they take and how large they get.

use super::{HostWorkload, Stage};
use crate::child::{self, Ended, Limits};
use crate::outcome::{Outcome, megabytes};
use crate::params::Params;
use crate::peers::Peer;
use crate::rng::Rng;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// CPython, with its own small-object allocator and without.
pub const PYTHON: HostWorkload = HostWorkload {
    name: "python",
    file: include_str!("../../workloads/python.toml"),
    prepare: |params| {
        with_tool("python3", "python3", &["--version"]).and_then(|()| python_stage(params))
    },
    run: |peer, params, stage, limits| {
        let mut python = child::on_peer(peer, interpreter()?);
        python.arg(stage.path("churn.py")).env_remove("PYTHONMALLOC");
        if params.get("pymalloc", 1) == 0 {
            python.env("PYTHONMALLOC", "malloc");
        }
        all([python], limits)
    },
};

pub const GCC: HostWorkload = HostWorkload {
    name: "gcc",
    file: include_str!("../../workloads/gcc.toml"),
    prepare: |params| {
        with_tool("gcc", "gcc", &["--version"])?;
        let stage = Stage::new()?;
        stage.write("large.c", &c_source(params.get("functions", 100), params.get("seed", 1)))?;
        Ok(stage)
    },
    run: |peer, _, stage, limits| {
        let mut gcc = child::on_peer(peer, "gcc");
        gcc.args(["-O1", "-w", "-c", "-o"]).arg(stage.path("large.o")).arg(stage.path("large.c"));
        all([gcc], limits)
    },
};

/// Git on a tree of generated files.
pub const GIT: HostWorkload = HostWorkload {
    name: "git",
    file: include_str!("../../workloads/git.toml"),
    prepare: |params| {
        with_tool("git", "git", &["--version"])?;
        let stage = Stage::new()?;
        tree(&stage, params.get("files", 100), params.get("seed", 1))?;
        Ok(stage)
    },
    run: |peer, _, stage, limits| {
        let repository = stage.path("repository");
        if repository.exists() {
            std::fs::remove_dir_all(&repository).map_err(|error| error.to_string())?;
        }
        let steps: [&[&str]; 6] = [
            &["init", "-q"],
            &["add", "-A"],
            &["commit", "-q", "-m", "everything"],
            &["log", "--stat", "-p"],
            &["gc", "-q"],
            &["fsck", "--full"],
        ];
        all(steps.map(|step| git(peer, stage, step)), limits)
    },
};

const PYTHON_SCRIPT: &str = "\
import json, random
random.seed(1)
kept = []
for _ in range(ROUNDS):
    dicts = [{str(i * j % 997): i for i in range(ENTRIES)} for j in range(DICTS)]
    lists = [[float(i) for i in range(100)] for _ in range(LISTS)]
    texts = ['x' * random.randint(1, 300) for _ in range(20000)]
    kept.append((json.dumps(dicts), lists, texts))
    kept = kept[-3:]
print(sum(len(k[0]) for k in kept))
";

/// Fails with the package to install when a program is not there.
pub(crate) fn with_tool(program: &str, package: &str, version: &[&str]) -> Result<(), String> {
    match Command::new(program).args(version).output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(format!("{program} is not there: apt-get install {package}")),
    }
}

/// The interpreter itself: what is called `python3` may be a script that looks for it.
pub(super) fn interpreter() -> Result<PathBuf, String> {
    let ask = "import os, sys; print(os.path.realpath(sys.executable))";
    let output =
        Command::new("python3").args(["-c", ask]).output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

fn python_stage(params: &Params) -> Result<Stage, String> {
    let stage = Stage::new()?;
    stage.write("churn.py", &python_script(params))?;
    Ok(stage)
}

/// The script with its numbers filled in. Without others they are those of the case `python`;
/// btmalloc's sweep, the case `python-sweep`, is the same with more.
fn python_script(params: &Params) -> String {
    let numbers = [("rounds", 2), ("entries", 60), ("dicts", 1000), ("lists", 1500)];
    numbers.iter().fold(PYTHON_SCRIPT.to_owned(), |script, (key, default)| {
        script.replace(&key.to_uppercase(), &params.get(key, *default).to_string())
    })
}

/// Runs commands in turn.
pub(super) fn all(
    commands: impl IntoIterator<Item = Command>,
    limits: Limits,
) -> Result<Outcome, String> {
    let ended = commands.into_iter().map(|command| child::run(command, limits));
    Ok(together(&ended.collect::<Result<Vec<_>, _>>()?))
}

/// The outcome of processes that ran in turn: their times together, the largest of their peaks.
pub(super) fn together(ended: &[Ended]) -> Outcome {
    let sum = |seconds: fn(&Ended) -> f64| ended.iter().map(seconds).sum::<f64>();
    let peak = ended.iter().map(|one| one.peak_kib).max().unwrap_or(0);
    Outcome::timed(ended.len() as u64, sum(|one| one.seconds))
        .with("cpu_seconds", sum(|one| one.cpu_seconds))
        .with("peak_mb", megabytes(peak))
}

fn git(peer: &Peer, stage: &Stage, step: &[&str]) -> Command {
    let option = |name: &str, path: PathBuf| -> OsString {
        [OsStr::new(name), path.as_os_str()].join(OsStr::new("="))
    };
    let mut git = child::on_peer(peer, "git");
    git.arg(option("--git-dir", stage.path("repository")))
        .arg(option("--work-tree", stage.path("tree")))
        .args(["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"])
        .args(step)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

fn tree(stage: &Stage, files: u64, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    for index in 0..files {
        let folder = stage.path("tree").join(format!("part{}", index % 20));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut text = String::new();
        for _ in 0..rng.below(200) + 5 {
            writeln!(text, "line {} of file {index}: {:x}", rng.below(50), rng.below(5000))
                .expect("a string");
        }
        std::fs::write(folder.join(format!("file{index}.txt")), text)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn c_source(functions: u64, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = String::from("struct node { struct node *next; int key; double weight; };\n");
    for index in 0..functions {
        let (a, b, c) = (rng.below(1000), rng.below(1000) + 1, rng.below(30) + 2);
        write!(
            text,
            "static double f{index}(struct node *list, int n) {{
    double sum = {a};
    for (struct node *at = list; at; at = at->next) {{
        switch (at->key % {c}) {{
        case 0: sum += at->weight * {b}; break;
        case 1: sum -= n / (at->key + {b}); break;
        default: for (int i = 0; i < n % {c}; i++) sum += i ^ at->key;
        }}
        if (sum > {b} && at->key > n) {{ at->key -= {c}; sum /= 2; }}
    }}
    return sum{};
}}
",
            if index == 0 { String::new() } else { format!(" + f{}(list, n - 1)", index - 1) }
        )
        .expect("a string");
    }
    writeln!(text, "double all(struct node *list) {{ return f{}(list, 9); }}", functions - 1)
        .expect("a string");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_case_is_in_the_script() {
        let script = |words: &[&str]| python_script(&Params::parse(words.to_vec()).unwrap());
        let plain = script(&[]);
        assert!(plain.contains("range(2)") && plain.contains("range(60)"), "{plain}");
        let sweep = script(&["rounds=41", "dicts=42", "entries=43", "lists=44"]);
        for number in 41..=44 {
            assert_eq!(sweep.matches(&format!("range({number})")).count(), 1, "{sweep}");
        }
        assert!(!sweep.contains(|c: char| c.is_ascii_uppercase()), "{sweep}");
    }
}
