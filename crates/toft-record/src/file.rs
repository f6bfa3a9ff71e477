//! The file. It is opened for every chunk and closed again, so that a program that closes or counts
//! its descriptors sees none of ours, and our bytes never go into another file.

use crate::lock::Lock;
use crate::map::{map, unmap};
use crate::session;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use toft_trace::chunk::{CHUNK_HEADER, Header, Kind, file_header};
use toft_trace::varint::{self, Put};

/// The variable that names the file.
pub const VARIABLE: &CStr = c"LIBTOFT_RECORD_FILE";
/// The longest name that is accepted, and room for what is put behind it.
const LONGEST: usize = 4096;
const ROOM: usize = LONGEST + 32;

/// Changed with the lock held.
struct File {
    lock: Lock,
    name: UnsafeCell<Name>,
}

struct Name {
    bytes: [u8; ROOM],
    /// The length of the name as it was given; 0 when none was.
    given: usize,
    /// Whether the file was made.
    made: bool,
}

// SAFETY: the name is reached with the lock held only.
unsafe impl Sync for File {}

static FILE: File = File {
    lock: Lock::new(),
    name: UnsafeCell::new(Name { bytes: [0; ROOM], given: 0, made: false }),
};

/// The process whose file it is. Another number is that of a child that shares our memory.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Whether this process is the child of a fork.
static CHILD: AtomicBool = AtomicBool::new(false);
/// Whether the program has ended as far as it concerns us: what still comes is written at once.
static LATE: AtomicBool = AtomicBool::new(false);

fn process() -> i32 {
    // SAFETY: no duties.
    unsafe { libc::getpid() }
}

fn with<R>(work: impl FnOnce(&mut Name) -> R) -> R {
    // SAFETY: the lock is held, so that this is the only borrow.
    FILE.lock.with(|| work(unsafe { &mut *FILE.name.get() }))
}

/// Takes the name from the environment. Returns true if there is one.
pub fn named() -> bool {
    PROCESS.store(process(), Relaxed);
    with(Name::read)
}

/// Closes the lock, before a fork.
pub fn close() {
    FILE.lock.close();
}

/// Opens it, after a fork.
pub fn open() {
    FILE.lock.open();
}

/// In the child of a fork: it writes a separate file.
pub fn forget() {
    PROCESS.store(process(), Relaxed);
    CHILD.store(true, Relaxed);
    with(|name| name.made = false);
}

/// Whether every event is to be written at once.
pub fn is_late() -> bool {
    LATE.load(Relaxed)
}

/// From now on, every event is.
pub fn set_late() {
    LATE.store(true, Relaxed);
}

/// Whether what was gathered is to be written now, before an exec or the end. Not by a child that
/// shares our memory; and one that was forked to start another program has nothing to tell.
pub fn is_worth_it(before_exec: bool) -> bool {
    let made = with(|name| name.made);
    process() == PROCESS.load(Relaxed) && (made || !before_exec || !CHILD.load(Relaxed))
}

/// Appends a chunk. What cannot be written is lost without a message.
pub fn append(chunk: &[u8]) {
    with(|name| {
        if name.given == 0 && !name.read() {
            return;
        }
        let maps = !name.made;
        if maps && !name.make() {
            return;
        }
        name.write(chunk);
        // The file of a process that is killed has only this one.
        if maps {
            name.write_maps();
        }
    });
}

/// Appends what is known at the end: the maps, and what is missing.
pub fn append_last() {
    with(|name| {
        if !name.made {
            return;
        }
        name.write_maps();
        let mut bytes = [0; CHUNK_HEADER + 2 * varint::LONGEST];
        let (unrecorded, unknown) = session::missed();
        let mut put = Put::new(&mut bytes[CHUNK_HEADER..]);
        put.number(unrecorded);
        put.number(unknown);
        let length = put.len();
        let header =
            Header { kind: Some(Kind::Missed), thread: 0, length: length as u32, before: 0 };
        bytes[..CHUNK_HEADER].copy_from_slice(&header.encode());
        name.write(&bytes[..CHUNK_HEADER + length]);
    });
}

impl Name {
    fn read(&mut self) -> bool {
        // SAFETY: a C string; the answer is null or one, and is copied at once.
        let found = unsafe {
            let value = libc::getenv(VARIABLE.as_ptr());
            if value.is_null() { c"" } else { CStr::from_ptr(value) }
        };
        let bytes = found.to_bytes();
        if bytes.is_empty() || bytes.len() > LONGEST {
            return false;
        }
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.given = bytes.len();
        true
    }

    /// Puts `.PID` behind the name, and a number if it is not the first try; or nothing.
    fn end(&mut self, suffix: Option<(i32, u32)>) {
        let mut end = self.given;
        let mut put = |bytes: &[u8]| {
            self.bytes[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
        };
        if let Some((process, attempt)) = suffix {
            put(b".");
            put(decimal(process.unsigned_abs(), &mut [0; 10]));
            if attempt > 1 {
                put(b".");
                put(decimal(attempt, &mut [0; 10]));
            }
        }
        self.bytes[end] = 0;
    }

    fn pointer(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Makes a file that was not there: of the given name for the first process that comes here,
    /// and with the process's number for others.
    fn make(&mut self) -> bool {
        let process = process();
        let first = u32::from(CHILD.load(Relaxed));
        for attempt in first..1000 {
            self.end((attempt > 0).then_some((process, attempt)));
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            // SAFETY: a C string, and the mode that the flags ask for.
            let descriptor = unsafe { libc::open(self.pointer(), flags, 0o644) };
            if descriptor >= 0 {
                // SAFETY: just opened, and no other code knows it.
                unsafe { libc::close(descriptor) };
                self.made = true;
                self.write(&file_header(process.unsigned_abs()));
                return true;
            }
            // SAFETY: libc's errno is a thread-local int.
            if unsafe { *libc::__errno_location() } != libc::EEXIST {
                return false;
            }
        }
        false
    }

    fn write(&mut self, mut bytes: &[u8]) {
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC;
        // SAFETY: a C string.
        let descriptor = unsafe { libc::open(self.pointer(), flags) };
        if descriptor < 0 {
            return;
        }
        while !bytes.is_empty() {
            // SAFETY: as many bytes as are stated.
            let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(written) {
                Ok(written) => bytes = &bytes[written..],
                // SAFETY: libc's errno is a thread-local int.
                Err(_) if unsafe { *libc::__errno_location() } == libc::EINTR => {}
                Err(_) => break,
            }
        }
        // SAFETY: opened above.
        unsafe { libc::close(descriptor) };
    }

    /// A chunk with those lines of `/proc/self/maps` that are code.
    fn write_maps(&mut self) {
        const MOST: usize = 4 << 20;
        let place = map(MOST);
        if place.is_null() {
            return;
        }
        // SAFETY: a mapping of as many bytes, zeroed, of this function alone.
        let text = unsafe { std::slice::from_raw_parts_mut(place, MOST) };
        let read = read_maps(&mut text[CHUNK_HEADER..]);
        let (mut from, mut to) = (CHUNK_HEADER, CHUNK_HEADER);
        let end = CHUNK_HEADER + read;
        while let Some(length) = text[from..end].iter().position(|&byte| byte == b'\n') {
            let line = from..from + length + 1;
            from = line.end;
            let rights = text[line.clone()].split(|&byte| byte == b' ').nth(1);
            if rights.is_some_and(|rights| rights.contains(&b'x')) {
                text.copy_within(line.clone(), to);
                to += line.len();
            }
        }
        let length = (to - CHUNK_HEADER) as u32;
        let header = Header { kind: Some(Kind::Maps), thread: 0, length, before: 0 };
        text[..CHUNK_HEADER].copy_from_slice(&header.encode());
        self.write(&text[..to]);
        // SAFETY: (1) mapped above; the borrow has ended.
        unsafe { unmap(place, MOST) };
    }
}

/// Reads as much of the maps as fits.
fn read_maps(text: &mut [u8]) -> usize {
    // SAFETY: a C string.
    let descriptor =
        unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let mut end = 0;
    while descriptor >= 0 && end < text.len() {
        let rest = &mut text[end..];
        // SAFETY: as many bytes as are stated.
        let read = unsafe { libc::read(descriptor, rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(read) {
            Ok(0) | Err(_) => break,
            Ok(read) => end += read,
        }
    }
    if descriptor >= 0 {
        // SAFETY: opened above.
        unsafe { libc::close(descriptor) };
    }
    end
}

/// The digits of a number.
fn decimal(mut number: u32, place: &mut [u8; 10]) -> &[u8] {
    let mut start = place.len();
    loop {
        start -= 1;
        place[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &place[start..];
        }
    }
}
