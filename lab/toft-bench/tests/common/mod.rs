//! The program, run as a person runs it, in a folder for files of tests.
#![allow(dead_code, reason = "each file of tests uses a part of it")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the program did.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// What it printed. Asserts that it ended well.
    pub fn page(self) -> String {
        assert_eq!(self.status, Some(0), "{self:?}");
        self.out
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Output { status, stdout, stderr } = output;
        Self { status: status.code(), out: text(&stdout), err: text(&stderr) }
    }
}

/// The program with these words.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.args(words).env_remove("LD_PRELOAD").current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs the program with the words of a line.
pub fn bench(line: &str) -> Ran {
    bench_words(&line.split(' ').collect::<Vec<_>>())
}

/// Runs the program with words that may have spaces in them.
pub fn bench_words(words: &[&str]) -> Ran {
    command(words).output().unwrap().into()
}

/// The path of a file in the folder that the program runs in.
pub fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The text of a file there.
pub fn text_of(name: &str) -> String {
    std::fs::read_to_string(scratch(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The content of a JSON file there.
pub fn json(name: &str) -> Value {
    serde_json::from_str(&text_of(name)).unwrap()
}

/// The samples of a figure of the first case on a peer, in a file of `--output`.
pub fn samples(name: &str, peer: &str, key: &str) -> Vec<f64> {
    let rounds = json(name)["cases"][0]["peers"][peer].clone();
    let rounds = rounds.as_array().unwrap_or_else(|| panic!("{peer} failed: {rounds}"));
    rounds.iter().map(|round| round["metrics"][key].as_f64().unwrap()).collect()
}

/// Compiles a file there.
pub fn compiled(name: &str, source: &str, flags: &[&str]) {
    let file = scratch(&format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let output = Command::new("gcc").args(flags).arg("-o").arg(scratch(name)).arg(file).output();
    assert!(output.expect("the tests need gcc").status.success(), "{name}");
}

/// A library there that does nothing, for a second peer where none need be installed.
pub fn empty_library(name: &str) {
    compiled(name, "int nothing_at_all;\n", &["-shared", "-fPIC"]);
}
