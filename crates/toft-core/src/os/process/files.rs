//! Files and lines: reading in pieces or as a whole, and writing, by calls that allocate nothing.

use super::super::syscall::syscall;
use super::{scratch, unmap};
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;

/// Writes all of `bytes`. Returns true if the descriptor accepted them. Waits at most one second
/// for a full descriptor.
pub fn write_all(descriptor: c_int, mut bytes: &[u8]) -> bool {
    let mut patience = 100;
    while !bytes.is_empty() {
        let args = [descriptor as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        // SAFETY: the kernel only reads `bytes`.
        let code = unsafe { syscall(libc::SYS_write, args) };
        if code == -(libc::EINTR as isize) {
            continue;
        }
        if code == -(libc::EAGAIN as isize) && patience > 0 {
            patience -= 1;
            wait_writable(descriptor);
            continue;
        }
        if code <= 0 {
            return false;
        }
        bytes = bytes.get(code as usize..).unwrap_or(&[]);
    }
    true
}

/// Waits up to ten milliseconds until a descriptor accepts more.
fn wait_writable(descriptor: c_int) {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let args = [&raw mut poll as usize, 1, &raw const timeout as usize, 0, 0, 0];
    // SAFETY: the kernel reads the time, and writes only to `poll`.
    unsafe { syscall(libc::SYS_ppoll, args) };
}

/// Returns true if a descriptor is open and is a pipe or a socket, which is read while it is
/// written.
pub fn is_pipe(descriptor: c_int) -> bool {
    let kind = status_of(descriptor).map(|status| status.st_mode & libc::S_IFMT);
    kind == Some(libc::S_IFIFO) || kind == Some(libc::S_IFSOCK)
}

/// Returns what the kernel knows about an open file.
fn status_of(file: c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let args = [file as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `stat`, which on this platform is libc's.
    let code = unsafe { syscall(libc::SYS_fstat, args) };
    // SAFETY: the call succeeded, so the kernel has written it.
    (code == 0).then(|| unsafe { status.assume_init() })
}

/// Opens a file, and keeps it out of programs that this process will execute. Only the owner has
/// access to a new file. Returns the error number on failure.
pub fn open(path: &CStr, flags: c_int) -> Result<c_int, c_int> {
    let at = libc::AT_FDCWD as isize as usize;
    let flags = (flags | libc::O_CLOEXEC) as usize;
    let args = [at, path.as_ptr() as usize, flags, 0o600, 0, 0];
    // SAFETY: the path is a C string, and the kernel only reads it.
    let file = unsafe { syscall(libc::SYS_openat, args) };
    if file < 0 { Err(-file as c_int) } else { Ok(file as c_int) }
}

/// Closes a descriptor.
pub fn close(descriptor: c_int) {
    // SAFETY: callers own the descriptor.
    unsafe { syscall(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Keeps a descriptor out of programs that this process will execute.
pub fn close_on_exec(descriptor: c_int) {
    let (set, flag) = (libc::F_SETFD as usize, libc::FD_CLOEXEC as usize);
    // SAFETY: changes only a flag of the descriptor.
    unsafe { syscall(libc::SYS_fcntl, [descriptor as usize, set, flag, 0, 0, 0]) };
}

/// Reads a file in pieces and passes each to `each`. Does nothing if the file cannot be opened.
pub fn read_file(path: &CStr, each: impl FnMut(&[u8])) {
    let _ = read_file_with(path, &mut [0u8; 4096], each);
}

/// Reads a file in pieces of the size of `buffer`, for callers with a short stack. Returns the
/// error number if the file was not read to its end.
pub fn read_file_with(
    path: &CStr,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), c_int> {
    let file = open(path, libc::O_RDONLY)?;
    let end = loop {
        let args = [file as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most the buffer.
        let got = unsafe { syscall(libc::SYS_read, args) };
        match got {
            0 => break Ok(()),
            1.. => each(buffer.get(..got as usize).unwrap_or(&[])),
            _ if got == -(libc::EINTR as isize) => {}
            _ => break Err(-got as c_int),
        }
    };
    close(file);
    end
}

/// Reads a whole regular file into memory that stays mapped for the life of the process. If the
/// file grows meanwhile, reads only the earlier size. Returns the reason on failure: there is no
/// file, it cannot be read, or it has more than `most` bytes.
pub fn read_whole(path: &CStr, most: usize) -> Result<&'static [u8], &'static str> {
    // The open does not wait for a writer to a pipe.
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = open(path, flags).map_err(|code| match code {
        libc::ENOENT => "there is no such file",
        _ => "it cannot be opened",
    })?;
    let text = read_open(file, most);
    close(file);
    text
}

fn read_open(file: c_int, most: usize) -> Result<&'static [u8], &'static str> {
    let status = status_of(file).ok_or("it cannot be read")?;
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err("it is no regular file");
    }
    let bytes = usize::try_from(status.st_size).unwrap_or(usize::MAX);
    if bytes > most {
        return Err("it is too large");
    }
    let address = scratch(bytes.max(1)).ok_or("there is no memory for it")?;
    let mut len = 0;
    while len < bytes {
        let args = [file as usize, address + len, bytes - len, 0, 0, 0];
        // SAFETY: the kernel writes only to the memory mapped above.
        let got = unsafe { syscall(libc::SYS_read, args) };
        if got == -(libc::EINTR as isize) {
            continue;
        }
        if got < 0 {
            unmap(address, bytes.max(1));
            return Err("it cannot be read");
        }
        if got == 0 {
            break;
        }
        len += got as usize;
    }
    let first = core::ptr::with_exposed_provenance(address);
    // SAFETY: mapped above for this text only, with at least `len` bytes. It is not written any
    // more, and never unmapped.
    Ok(unsafe { core::slice::from_raw_parts(first, len) })
}

/// Maps a file while `body` reads it. Does nothing if that is not possible.
pub fn with_file(path: &CStr, body: impl FnOnce(&[u8])) {
    let Ok(file) = open(path, libc::O_RDONLY | libc::O_NONBLOCK) else { return };
    let bytes = status_of(file).map_or(0, |status| status.st_size as usize);
    let (read, private) = (libc::PROT_READ as usize, libc::MAP_PRIVATE as usize);
    // SAFETY: a new mapping changes no existing one.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, read, private, file as usize, 0]) };
    close(file);
    if got <= 0 {
        return;
    }
    let start = core::ptr::with_exposed_provenance(got as usize);
    // SAFETY: mapped by the call above, and unmapped below. The files read here are mapped as code
    // of this process, so truncating one ends the process in any case.
    body(unsafe { core::slice::from_raw_parts(start, bytes) });
    // SAFETY: no reference is left, because that of `body` ends with it.
    unsafe { syscall(libc::SYS_munmap, [got as usize, bytes, 0, 0, 0, 0]) };
}

/// The number of bytes of a line that are kept.
pub const LINE: usize = 512;

/// Reads a text file and passes each line to `each`, without its end. At most the first [`LINE`]
/// bytes of a line are passed. A last line without an end is left out.
pub fn read_lines(path: &CStr, each: impl FnMut(&[u8])) {
    read_lines_by::<4096>(path, each);
}

/// Reads a text file by lines, in pieces of `BYTES` bytes, for callers with a short stack.
pub fn read_lines_by<const BYTES: usize>(path: &CStr, each: impl FnMut(&[u8])) {
    let _ = read_lines_with(path, (&mut [0u8; BYTES], &mut [0u8; LINE]), each);
}

/// Reads a text file by lines, with a buffer for the pieces and one for a line, for callers without
/// spare stack. Returns the error number if the file was not read to its end.
pub fn read_lines_with(
    path: &CStr,
    (buffer, line): (&mut [u8], &mut [u8; LINE]),
    mut each: impl FnMut(&[u8]),
) -> Result<(), c_int> {
    let mut lines = Lines { line, len: 0 };
    read_file_with(path, buffer, |piece| lines.take(piece, &mut each))
}

/// Puts a text that comes in pieces together to lines.
#[derive(Debug)]
pub struct Lines<'a> {
    /// The beginning of the line that is not complete yet.
    pub line: &'a mut [u8; LINE],
    /// The number of its bytes.
    pub len: usize,
}

impl Lines<'_> {
    /// Takes a piece, and passes each line that ends in it to `each`.
    pub fn take(&mut self, piece: &[u8], mut each: impl FnMut(&[u8])) {
        for &byte in piece {
            if byte == b'\n' {
                each(self.line.get(..self.len).unwrap_or(&[]));
                self.len = 0;
            } else if let Some(place) = self.line.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }
}

/// Opens a file to append to it.
pub fn open_to_append(path: &CStr) -> Option<c_int> {
    open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_NOCTTY).ok()
}

/// Opens a file to replace its contents.
pub fn open_to_replace(path: &CStr) -> Option<c_int> {
    open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_NOCTTY).ok()
}
