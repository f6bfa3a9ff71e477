//! What the tests of the command share: the command itself in a clean environment, and C programs
//! made on the spot.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// The command, with nothing of the caller's settings.
pub fn toft() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft"));
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("TOFT_") || name.starts_with("CLICOLOR"))
        {
            command.env_remove(name);
        }
    }
    command.env_remove("LD_PRELOAD").env_remove("NO_COLOR").env_remove("COLUMNS");
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// `toft run OPTIONS -- WORDS`.
pub fn run(options: &[&str], words: &[&str]) -> Output {
    toft().arg("run").args(options).arg("--").args(words).output().unwrap()
}

/// The library that the command carries, as a file.
pub fn library() -> PathBuf {
    let output = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    let path = PathBuf::from(stdout(&output).trim());
    assert!(path.is_file(), "{path:?}: {}", stderr(&output));
    path
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one line that the command itself said.
#[track_caller]
pub fn said(output: &Output) -> String {
    let text = stderr(output);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("toft: ")).collect();
    assert_eq!(lines.len(), 1, "one line expected: {text}");
    lines[0].to_owned()
}

/// That the program ran as if the command were not there.
#[track_caller]
pub fn assert_clean(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    assert_eq!(stderr(output), "");
}

/// A process that ends with the test, however that ends.
pub struct Running(pub Child);

impl Running {
    /// Starts a program on Toft, and waits until it has said something.
    pub fn on_toft(program: &Path) -> Running {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", library());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Running(command.spawn().unwrap());
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        child
    }

    pub fn pid(&self) -> String {
        self.id().to_string()
    }
}

impl Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that does not run on Toft. The test's own would not do: parts of Toft are in it.
pub fn stranger() -> Running {
    Running(Command::new("sleep").arg("1000").spawn().unwrap())
}

pub fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Compiles a C program in `directory`.
#[track_caller]
pub fn compile(directory: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = directory.join(format!("{name}.c"));
    let program = directory.join(name);
    fs::write(&file, source).unwrap();
    let compiler =
        Command::new("gcc").args(["-O0", "-g", "-o"]).arg(&program).arg(&file).args(flags).output();
    let compiler = compiler.expect("the tests need gcc");
    assert!(compiler.status.success(), "{}", stderr(&compiler));
    program
}

/// A file with these contents and permissions. Another process writes it: while a test beside this
/// one forks, its child would hold our descriptor for a moment, and a file that is open for writing
/// cannot be executed.
pub fn file(directory: &Path, name: &str, contents: &[u8], mode: u32) -> PathBuf {
    let path = directory.join(name);
    let mut tee =
        Command::new("tee").arg(&path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    tee.stdin.take().unwrap().write_all(contents).unwrap();
    assert!(tee.wait().unwrap().success());
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A copy of an executable, made by another process for the same reason.
pub fn copy(from: &str, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What `toft WORDS` shows in a terminal of `columns` columns, which `script` makes; without
/// colours.
pub fn in_terminal(place: &Path, words: &[&str], columns: u16) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let toft = env!("CARGO_BIN_EXE_toft");
    let line = format!("stty rows 24 cols {columns}; exec {toft} {} 2>/dev/null", quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place);
    script.env("SHELL", "/bin/sh").env("TERM", "dumb").env_remove("COLUMNS");
    script.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let output =
        script.stdin(Stdio::null()).output().expect("the tests need script, of util-linux");
    stdout(&output).replace('\r', "")
}
