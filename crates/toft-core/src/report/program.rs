//! The process of a report, and the name that its program was started by.

use super::{Desk, Writer};
use crate::os::process;
use core::ffi::CStr;

/// The beginning of every line of a report except the first.
pub const DETAIL: &str = "toft:   ";
/// The longest name that the kernel keeps of a process.
const COMM: usize = 15;
/// The most bytes of a command that are read.
const COMMAND: usize = 256;

/// Writes the last line of a report's text. `named` is true if files may be read.
#[inline(never)]
pub fn process_line<const BYTES: usize>(w: &mut Writer<BYTES>, named: bool, advice: &str) {
    w.text(DETAIL).text("process ").digits(process::pid() as u64, 10);
    if named {
        with_program(|name, file| {
            w.text(" (").bytes(name).text(" of ").bytes(file).text(")");
        });
    }
    w.text(", thread ").digits(u64::from(process::thread_number()), 10);
    w.text("; `toft explain` says where that is in the source").text(advice).text("\n");
    w.flush();
}

/// Writes the fields of a report's JSON that name the process. `named` is true if files may be
/// read.
#[inline(never)]
pub fn process_json<const BYTES: usize>(w: &mut Writer<BYTES>, named: bool) {
    w.field("pid", process::pid() as u64).field("thread", u64::from(process::thread_number()));
    if named {
        with_program(|name, file| {
            w.word("program", name).word("program_file", file);
        });
    }
}

/// Passes the name that the program was started by and its file to `each`, if the file has another
/// name: a link has led to it.
fn with_program(each: impl FnOnce(&[u8], &[u8])) {
    // SAFETY: getauxval reads a table that the loader filled before any of our code ran.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    let mut desk = Desk::empty();
    let (mut comm, mut command) = ([0; COMM + 1], [0; COMMAND]);
    let comm = name_of_process(&mut comm, desk.pieces());
    let command = begin_of(c"/proc/self/cmdline", 0, &mut command, desk.pieces());
    if let Some(name) = program_name(comm, command)
        && name.iter().all(|&byte| byte >= b' ')
        && let Some(module) = desk.module_of(entry)
        && file_name(module.path()) != name
    {
        each(name, module.path());
    }
}

/// Returns the name of a program by those of its process and its command, if the two agree. A
/// script has the name of its file, and its command is that of the interpreter.
pub fn program_name<'a>(process: &[u8], command: &'a [u8]) -> Option<&'a [u8]> {
    // A program may have put its state in place of its arguments: `redis-server *:6379`.
    let name = file_name(command.split(|&byte| byte == b' ').next()?);
    let is_cut = process.len() == COMM && name.starts_with(process);
    (!process.is_empty() && (name == process || is_cut)).then_some(name)
}

/// Returns a path without its folders.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Copies the name of this process to `name`, and returns it.
pub fn name_of_process<'a>(name: &'a mut [u8; COMM + 1], pieces: &mut [u8]) -> &'a [u8] {
    begin_of(c"/proc/self/comm", b'\n', name, pieces)
}

/// Copies what a file has before the first byte `end` to `to`, and returns it. Returns nothing if
/// that byte is not in the first piece, or if there is no room.
fn begin_of<'a>(path: &CStr, end: u8, to: &'a mut [u8], pieces: &mut [u8]) -> &'a [u8] {
    let mut length = None;
    let _ = process::read_file_with(path, pieces, |bytes| {
        length.get_or_insert_with(|| {
            let found = bytes.iter().position(|&byte| byte == end)?;
            to.get_mut(..found)?.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from);
            Some(found)
        });
    });
    length.flatten().and_then(|length| to.get(..length)).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_name_of_process_and_command() {
        let name = |name: &str, command: &'static str| {
            let name = program_name(name.as_bytes(), command.as_bytes());
            name.map(|name| core::str::from_utf8(name).unwrap())
        };
        assert_eq!(name("redis-server", "redis-server *:6379"), Some("redis-server"));
        assert_eq!(name("server", "/usr/bin/server"), Some("server"));
        assert_eq!(name("server", "/usr/bin/server --dir=/a/b"), Some("server"));
        assert_eq!(name("a-rather-long-n", "/x/a-rather-long-name"), Some("a-rather-long-name"));
        assert_eq!(name("a-rather-long", "/x/a-rather-long-name"), None);
        assert_eq!(name("app.py", "/usr/bin/python3"), None);
        assert_eq!(name("", ""), None);
    }

    #[test]
    fn the_begin_of_a_file_is_what_precedes_a_byte() {
        let mut pieces = [0; 512];
        let mut begin =
            |end, room: &mut [u8]| begin_of(c"/proc/version", end, room, &mut pieces).len();
        assert_eq!(begin(b' ', &mut [0; 20]), "Linux".len());
        assert_eq!(begin(b' ', &mut [0; 4]), 0);
        assert_eq!(begin(1, &mut [0; 512]), 0);
        assert_eq!(begin_of(c"/nowhere", b' ', &mut [0; 4], &mut pieces), b"");
    }
}
