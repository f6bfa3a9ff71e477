//! What every verb says and takes in the same way: text on stdout, files and `-`, the number of a
//! process, how often.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use toft_profile::format::Format;

use crate::run::{REFUSED, say};
use crate::style;

/// Exit status: the command line is not understood. Of `run` and `record` it is [`REFUSED`].
pub const USAGE: i32 = 2;
/// The longest file that is read, but for traces.
pub const FILE_MOST: u64 = 256 << 20;

/// Prints, for a reader who may have seen enough before its end.
pub fn print(bytes: &[u8]) -> Result<(), String> {
    print_on(bytes).map(|_| ())
}

/// As [`print`], but returns false if the reader is gone: for a verb that has more to say.
pub fn print_on(bytes: &[u8]) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// As [`print`], as the last thing that a verb does. Returns `status` if that works.
pub fn printed(text: &str, status: i32) -> i32 {
    match print(text.as_bytes()) {
        Ok(()) => status,
        Err(why) => {
            say(&why);
            REFUSED
        }
    }
}

/// Returns true if a name stands for standard input, or for standard output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a file of at most `most` bytes, or standard input; the reason names it. Only a regular
/// file is opened: a pipe may have no writer, and a device no end.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let too_long = || format!("longer than {}", style::bytes(most));
    if is_standard(path) {
        let told = |why: String| format!("standard input: {why}");
        let mut bytes = Vec::new();
        let mut input = io::stdin().lock().take(most.saturating_add(1));
        input.read_to_end(&mut bytes).map_err(|error| told(error.to_string()))?;
        return if bytes.len() as u64 > most { Err(told(too_long())) } else { Ok(bytes) };
    }
    toft_profile::read_file(path, most).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::FileTooLarge => too_long(),
            io::ErrorKind::InvalidInput => format!("{error} (- reads standard input)"),
            _ => error.to_string(),
        };
        format!("{}: {why}", path.display())
    })
}

/// Writes to a file, or to standard output.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if is_standard(path) {
        return print(bytes);
    }
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The form that a file's name tells, where it must not be another than `form`: the reason, if it
/// is.
pub fn agrees(path: &Path, form: Format) -> Result<(), String> {
    match Format::of_name(&path.to_string_lossy()) {
        Some(other) if other != form && !is_standard(path) => Err(format!(
            "{} has the extension of another format than the requested one: leave one of the two out",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// The number of a process, as it is given on the command line. That of a `toft run`, or of an
/// `npx` that has started one, stands for the program that it runs: it is the one that a shell
/// tells (`$!`).
pub fn pid(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(program_of(pid).unwrap_or(pid)),
        _ => Err("not the number of a process, which `pgrep -x NAME` prints".into()),
    }
}

/// The program that a process runs if it is a `toft`, or an `npx` with one: npm, a shell, `toft`,
/// the program.
fn program_of(mut pid: i32) -> Option<i32> {
    const LEVELS: usize = 4;
    let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
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
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let mut children = children.split_whitespace();
    let child = children.next()?.parse().ok()?;
    children.next().is_none().then_some(child)
}

/// How long it is from one look to the next.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.05 to 86400".into()),
    }
}
