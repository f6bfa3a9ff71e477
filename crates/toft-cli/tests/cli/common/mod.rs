//! What the tests of the command share: the command itself in a clean environment, C programs that
//! are compiled for a test, and processes on Toft.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
/// A process that ends with the test, however that ends.
pub use toft_bench::child::Killed as Running;

/// Runs before the tests, which start programs in many places.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_ALL: extern "C" fn() = {
    extern "C" fn begin() {
        toft_bench::signals::default_in_children();
    }
    begin
};

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

/// The command as a user without root's rights: the caller, or else user 65534, by a copy in a
/// folder that this user can reach.
pub fn unprivileged(directory: &Path) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return toft();
    }
    let copied = directory.join("toft");
    copy(env!("CARGO_BIN_EXE_toft"), &copied);
    tool(Command::new("chmod").arg("755").arg(directory).arg(&copied));
    let mut command = Command::new(copied);
    command.uid(65534).gid(65534);
    command
}

/// The library that the command carries, as a file.
pub fn library() -> PathBuf {
    let output = run(&["--children"], &["sh", "-c", "echo $LD_PRELOAD"]);
    let path = PathBuf::from(stdout(&output).trim());
    assert!(path.is_file(), "{path:?}: {}", stderr(&output));
    path
}

/// A port that nothing listens on.
pub fn port() -> u16 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/lib/port.sh");
    let printed = tool(Command::new("bash").args(["-c", ". \"$0\" && port", script]));
    printed.trim().parse().expect("a port")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The only message of the command itself.
#[track_caller]
pub fn message(output: &Output) -> String {
    let text = stderr(output);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("toft: ")).collect();
    assert_eq!(lines.len(), 1, "one line expected: {text}");
    lines[0].to_owned()
}

/// What a command printed, which must have ended with this status.
#[track_caller]
pub fn ends_with(status: i32, output: Output) -> Output {
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    output
}

/// `toft WORDS`, which must end with this status.
#[track_caller]
pub fn toft_ends_with(status: i32, words: &[&str]) -> Output {
    let output = toft().args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
    output
}

/// `toft WORDS`, which must succeed.
#[track_caller]
pub fn succeeds(words: &[&str]) -> Output {
    toft_ends_with(0, words)
}

/// The object that `toft WORDS` prints.
#[track_caller]
pub fn object(words: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(words).stdout).unwrap()
}

/// What `toft WORDS` prints, which must succeed without a message.
#[track_caller]
pub fn prints(words: &[&str]) -> String {
    let output = succeeds(words);
    assert_eq!(stderr(&output), "", "{words:?}");
    stdout(&output)
}

/// The only message of `toft WORDS`, which must end with status 125.
#[track_caller]
pub fn refused(words: &[&str]) -> String {
    message(&toft_ends_with(125, words))
}

/// That a text has all of these in it.
#[track_caller]
pub fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[track_caller]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Waits until there is a result.
#[track_caller]
pub fn until<T>(what: &str, mut result: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        if let Some(result) = result() {
            return result;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// That the program ran as if the command were not there.
#[track_caller]
pub fn assert_clean(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    assert_eq!(stderr(output), "");
}

/// A program on Toft that prints a line when it is ready, and one for each that it reads.
pub struct Target {
    pub child: Running,
    pub pid: String,
    /// The last line that it printed.
    pub line: String,
    lines: Lines<BufReader<ChildStdout>>,
    /// The program, if nothing else needs it.
    _program: Option<Program>,
}

impl Target {
    /// Starts a program with the library preloaded, without the command in between.
    pub fn start(program: &Path) -> Target {
        Target::with(program, &[])
    }

    pub fn with(program: &Path, variables: &[(&str, &str)]) -> Target {
        Target::of(Command::new(program).envs(variables.iter().copied()))
    }

    /// Removes its program with this value.
    pub fn keeping(self, program: Program) -> Target {
        Target { _program: Some(program), ..self }
    }

    #[track_caller]
    pub fn of(command: &mut Command) -> Target {
        let command = command.env("LD_PRELOAD", library());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        Target { pid: child.id().to_string(), child: Running(child), line, lines, _program: None }
    }

    pub fn send(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Sends a text, and waits for the line that answers.
    pub fn ask(&mut self, text: &str) {
        self.send(text);
        self.line = self.lines.next().unwrap().unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes its standard input, which ends it.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
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
    let source = file(directory, &format!("{name}.c"), source.as_bytes(), 0o644);
    build(&source, name, &[&["gcc", "-O0", "-g"], flags].concat())
}

/// A program in a folder that is removed with it.
pub struct Program {
    path: PathBuf,
    _folder: TempDir,
}

impl Deref for Program {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<OsStr> for Program {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

impl Program {
    /// Makes a program in a separate folder.
    #[track_caller]
    pub fn made(make: impl FnOnce(&Path) -> PathBuf) -> Program {
        let folder = directory();
        Program { path: make(folder.path()), _folder: folder }
    }
}

/// Compiles a C program in a separate folder.
#[track_caller]
pub fn compiled(name: &str, source: &str, flags: &[&str]) -> Program {
    Program::made(|folder| compile(folder, name, source, flags))
}

/// Builds a program beside its source with a compiler and its flags.
#[track_caller]
pub fn build(source: &Path, name: &str, compiler: &[&str]) -> PathBuf {
    let program = source.with_file_name(name);
    let mut command = Command::new(compiler[0]);
    tool(command.arg("-o").arg(&program).arg(source).args(&compiler[1..]));
    program
}

/// What a tool that the tests need printed. It must succeed.
#[track_caller]
pub fn tool(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("the tests need {command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    stdout(&output)
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
    tool(Command::new("cp").arg(from).arg(to));
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What `toft WORDS` shows in a terminal of `columns` columns, which `script` makes; without
/// colours.
pub fn in_terminal(place: &Path, words: &[&str], columns: u16) -> String {
    in_terminal_with(place, words, columns, "2>/dev/null")
}

/// As `in_terminal`, with what follows the words in the shell.
pub fn in_terminal_with(place: &Path, words: &[&str], columns: u16, after: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let toft = env!("CARGO_BIN_EXE_toft");
    let line = format!("stty rows 24 cols {columns}; exec {toft} {} {after}", quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place);
    script.env("SHELL", "/bin/sh").env("TERM", "dumb").env_remove("COLUMNS");
    script.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = script.stdin(Stdio::null()).output();
    stdout(&output.expect("the tests need script, of util-linux")).replace('\r', "")
}
