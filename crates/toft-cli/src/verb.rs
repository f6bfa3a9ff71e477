//! What the verbs share: exit statuses, messages, output, files, and common arguments.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use toft_profile::format::Format;

use crate::profile::Names;
use crate::style;

/// Exit status: the command line is not understood. `run` and `record` use [`REFUSED`] instead.
pub const USAGE: i32 = 2;
/// Exit status: the program leaked, under `--leaks`.
pub const LEAKED: i32 = 123;
/// Exit status: no proof that the program ran on Toft, or no report of it.
pub const UNPROVEN: i32 = 124;
/// Exit status: Toft could not do it.
pub const REFUSED: i32 = 125;
/// Exit status: the program is there and cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// Exit status: the program is not there.
pub const NOT_FOUND: i32 = 127;
/// The longest file that is read, except for traces.
pub const FILE_MOST: u64 = 256 << 20;

/// The reason why a verb has no result, and its exit status.
#[derive(Debug)]
pub struct Failure {
    pub status: i32,
    pub message: String,
}

impl Failure {
    pub fn new(status: i32, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    /// The failure of an executable that could not be started.
    pub fn of_start(program: &str, error: &io::Error) -> Failure {
        let status = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            io::ErrorKind::PermissionDenied => NOT_EXECUTABLE,
            _ if error.raw_os_error() == Some(libc::ENOEXEC) => NOT_EXECUTABLE,
            _ => REFUSED,
        };
        Failure::new(status, format!("{program}: {error}"))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { status: REFUSED, message }
    }
}

impl From<toft_profile::Error> for Failure {
    fn from(error: toft_profile::Error) -> Failure {
        error.to_string().into()
    }
}

/// How a verb ends: the exit status, or why it has no result.
pub type End = Result<i32, Failure>;

/// Prints one line on stderr. A closed stderr must not stop the program.
pub fn message(text: &str) {
    let _ = writeln!(io::stderr(), "toft: {text}");
}

/// Whether this process was started without a standard output.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Finds that out. The standard library opens `/dev/null` in place of a closed descriptor before
/// `main`, so it must run before that.
extern "C" fn find_closed_output() {
    // SAFETY: F_GETFD reads the flags of a descriptor, or fails.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    // One thread writes, before any other one exists.
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the C library calls each function of this section once, before `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn() = find_closed_output;

/// Prints on stdout. A reader that is gone has seen enough, which is no error.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), String> {
    print_while_read(text).map(|_| ())
}

/// Prints on stdout, and returns false if the reader is gone.
pub fn print_while_read(text: impl AsRef<[u8]>) -> Result<bool, String> {
    if CLOSED.load(Ordering::Relaxed) {
        return Err("cannot write: standard output is closed".into());
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// Returns true if a name stands for standard input, or for standard output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of an input file in messages.
pub fn input_name(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { path.display().to_string() }
}

/// Reads a file of at most `most` bytes, or standard input; an error names it. Only a regular file
/// is opened: a pipe may have no writer, and a device no end.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let too_long = || format!("longer than {}", style::bytes(most));
    let failed = |why: String| format!("{}: {why}", input_name(path));
    if is_standard(path) {
        let mut bytes = Vec::new();
        let mut input = io::stdin().lock().take(most.saturating_add(1));
        input.read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
        return if bytes.len() as u64 > most { Err(failed(too_long())) } else { Ok(bytes) };
    }
    toft_profile::read_file(path, most).map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::FileTooLarge => too_long(),
            io::ErrorKind::InvalidInput => format!("{error} (- reads standard input)"),
            _ => error.to_string(),
        })
    })
}

/// Writes to a file, or to standard output.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if is_standard(path) {
        return print(bytes);
    }
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Returns the reason if a file cannot be written, for a verb that writes it only after a program
/// has ended.
pub fn check_writable(path: &Path) -> Result<(), String> {
    let may = |path: &Path, how| {
        faccessat(AT_FDCWD, path, how, AtFlags::AT_EACCESS)
            .map_err(|e| io::Error::from(e).to_string())
    };
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err("it is a folder".into()),
        Ok(_) => may(path, AccessFlags::W_OK),
        Err(_) => match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) if !folder.is_dir() => Err("no such folder".into()),
            folder => may(folder.unwrap_or(Path::new(".")), AccessFlags::W_OK | AccessFlags::X_OK),
        },
    }
}

/// Returns an error if a file's extension selects another format than the requested one.
pub fn check_extension(path: &Path, format: Format) -> Result<(), String> {
    match Format::of_name(&path.to_string_lossy()) {
        Some(other) if other != format && !is_standard(path) => Err(format!(
            "{} has the extension of another format than the requested one: leave one of the two out",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// The option `--symbols`.
#[derive(Args, Debug, Default)]
pub struct SymbolFolders {
    /// Search this folder for programs, libraries and debug files of the call sites; may be
    /// repeated
    #[arg(long, value_name = "FOLDER")]
    symbols: Vec<PathBuf>,
}

impl SymbolFolders {
    /// Finds the names of call sites in these folders first.
    pub fn names(&self) -> Names {
        Names::new(self.symbols.clone())
    }

    /// Finds the names of a running process's call sites, also in its container.
    pub fn names_of(&self, pid: i32) -> Names {
        let mut folders = self.symbols.clone();
        if !sees_same_files(pid) {
            folders.push(format!("/proc/{pid}/root").into());
        }
        Names::new(folders).with_generated(pid)
    }
}

/// Returns true if a path leads a process to the same file as it leads this command to.
pub fn sees_same_files(pid: i32) -> bool {
    let same = |name: &str| {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
        of("self").is_some_and(|own| of(&pid.to_string()) == Some(own))
    };
    same("ns/mnt") && same("root")
}

/// Parses the number of a process. The number of a `toft run`, or of an `npx` that has started one,
/// stands for the program that it runs, because a shell reports that number in `$!`.
pub fn pid(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(program_of(pid).unwrap_or(pid)),
        _ => Err("not the number of a process, which `pgrep -x NAME` prints".into()),
    }
}

/// Returns the program that a process runs if it is a `toft`, or an `npx` with one: npm, a shell,
/// `toft`, the program.
fn program_of(mut pid: i32) -> Option<i32> {
    const LEVELS: usize = 4;
    let name = |pid| toft_profile::read(pid, "comm").ok();
    let first = name(pid)?;
    if first.trim_end() != "toft" && !first.starts_with("npm ") {
        return None;
    }
    for _ in 0..LEVELS {
        let is_toft = name(pid)?.trim_end() == "toft";
        pid = only_child(pid)?;
        if is_toft {
            return Some(pid);
        }
    }
    None
}

fn only_child(pid: i32) -> Option<i32> {
    let children = toft_profile::read(pid, &format!("task/{pid}/children")).ok()?;
    let mut children = children.split_whitespace();
    let child = children.next()?.parse().ok()?;
    children.next().is_none().then_some(child)
}

/// Parses the time between two scans.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.05 to 86400".into()),
    }
}

/// Parses a size as the library parses its options.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = toft_core::options::parse_size(text.as_bytes());
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or("not a size such as 512k, 10m or 1g".into())
}
