//! Faults on pages that were never written, reported by the kernel: by userfaultfd.
//!
//! The descriptor must also report the kernel's own accesses (`read` into such a page). The system
//! allows that with `CAP_SYS_PTRACE` or with `vm.unprivileged_userfaultfd=1`. It also allows it to
//! a process that can open `/dev/userfaultfd`.

use super::Text;
use super::process::read_lines_by;
use super::syscall::syscall;
use super::userfaultfd::{self, REGISTER, UNREGISTER, control};
use core::ffi::c_int;

/// Each fault has the number of its thread, Linux 4.14.
const THREAD_ID: u64 = 1 << 8;
/// Each fault has its exact address instead of its page, Linux 5.18.
const EXACT_ADDRESS: u64 = 1 << 11;
const MISSING: u64 = 1;
const ZEROPAGE: usize = 0xC020_AA04;
const EVENT_PAGEFAULT: u8 = 0x12;
const FLAG_WRITE: u64 = 1;
/// The lowest number of the descriptor. A program that opens and closes low descriptors does not
/// affect it.
const HIGH: usize = 1000;

/// A fault of a thread, which waits for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address that the thread accesses. An older kernel reports only the page.
    pub address: usize,
    /// True if the thread writes.
    pub writes: bool,
    /// The number of the thread.
    pub thread: u32,
}

/// What a stopped thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs code of the program or of a library.
    Code,
    /// It is in a system call: the call's number, the address of its instruction, and the stack
    /// pointer.
    Call(i64, usize, usize),
    /// It is unknown, or it is not a thread of this process.
    Unknown,
}

/// Opens a descriptor that reports faults. Returns `None` if the system does not allow it.
pub fn open() -> Option<c_int> {
    let open = |features| userfaultfd::open(0, features, HIGH).ok();
    open(THREAD_ID | EXACT_ADDRESS).or_else(|| open(THREAD_ID))
}

/// Makes each first access to a page of the range wait and be reported. Returns true if it could.
pub fn register(file: c_int, start: usize, len: usize) -> bool {
    control(file, REGISTER, &mut [start as u64, len as u64, MISSING, 0]).is_ok()
}

/// Ends `register`. Waiting threads go on, with pages of zeros. Returns true if it could.
pub fn unregister(file: c_int, start: usize, len: usize) -> bool {
    control(file, UNREGISTER, &mut [start as u64, len as u64]).is_ok()
}

/// Fills a page that was never written with zeros, and releases the threads that wait for it.
/// Returns true if it could.
pub fn fill(file: c_int, start: usize, len: usize) -> bool {
    control(file, ZEROPAGE, &mut [start as u64, len as u64, 0, 0]).is_ok()
}

/// Waits for the next fault and returns it, or `None` if the descriptor is of no use any more.
pub fn next(file: c_int) -> Option<Fault> {
    loop {
        let mut message = [0u64; 4];
        let args = [file as usize, message.as_mut_ptr() as usize, size_of_val(&message), 0, 0, 0];
        // SAFETY: the kernel writes only to the message.
        let got = unsafe { syscall(libc::SYS_read, args) };
        if got == -(libc::EINTR as isize) || got == -(libc::EAGAIN as isize) {
            continue;
        }
        if got != size_of_val(&message) as isize {
            return None;
        }
        let [event, flags, address, thread] = message;
        if event as u8 == EVENT_PAGEFAULT {
            let writes = flags & FLAG_WRITE != 0;
            return Some(Fault { address: address as usize, writes, thread: thread as u32 });
        }
    }
}

/// Gives the calling thread a separate table of descriptors, with only `file` and stderr. The
/// program's later opens and closes do not affect it. Returns true if it could.
pub fn keep_alone(file: c_int) -> bool {
    // SAFETY: changes only the calling thread's table of descriptors, after the thread has its own.
    unsafe {
        if syscall(libc::SYS_unshare, [libc::CLONE_FILES as usize, 0, 0, 0, 0, 0]) != 0 {
            return false;
        }
        let close = |first: usize, last: usize| {
            if first <= last {
                syscall(libc::SYS_close_range, [first, last, 0, 0, 0, 0]);
            }
        };
        close(0, 1);
        close(3, (file as usize).saturating_sub(1));
        close(file as usize + 1, u32::MAX as usize);
    }
    true
}

/// Returns what a waiting thread of this process is doing.
pub fn doing(thread: u32) -> Doing {
    let path: Text<48> =
        *Text::new().add(b"/proc/self/task/").digits(thread.into(), 10).add(b"/syscall");
    let mut doing = Doing::Unknown;
    read_lines_by::<256>(path.as_c_str(), |line| doing = parse(line));
    doing
}

/// Parses the text of `/proc/PID/task/TID/syscall`. It is `running`, or the number of the call, its
/// arguments, the stack pointer and the instruction, or `-1` and the last two.
fn parse(line: &[u8]) -> Doing {
    // This splits bytes, because functions that split text can panic, as far as the compiler knows.
    let mut fields =
        line.split(|&byte| byte == b' ').map(|field| core::str::from_utf8(field).unwrap_or(""));
    let number = fields.next().and_then(|number| number.parse::<i64>().ok());
    let (pointer, at) = fields.fold(("", ""), |(_, last), field| (last, field));
    let hex = |text: &str| usize::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    match (number, hex(at), hex(pointer)) {
        (Some(-1), Some(_), Some(_)) => Doing::Code,
        (Some(number), Some(at), Some(pointer)) => Doing::Call(number, at, pointer),
        _ => Doing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_read() {
        assert_eq!(parse(b"-1 0x7ffd10 0x55d0"), Doing::Code);
        assert_eq!(
            parse(b"1 0x1 0x2 0x3 0x0 0x0 0x0 0x7ffd10 0x55d0"),
            Doing::Call(1, 0x55d0, 0x7ffd10)
        );
        assert_eq!(parse(b"running"), Doing::Unknown);
        assert_eq!(parse(b""), Doing::Unknown);
    }

    #[test]
    fn a_thread_that_sleeps_is_in_a_call() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            sender.send(crate::os::process::thread_number()).unwrap();
            std::thread::park_timeout(std::time::Duration::from_secs(5));
        });
        let thread = receiver.recv().unwrap();
        let found = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            Some(doing(thread)).filter(|doing| matches!(doing, Doing::Call(..)))
        });
        assert!(found.is_some());
        sleeper.thread().unpark();
        sleeper.join().unwrap();
        // The thread was joined, and may still be in the kernel's list.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            doing(thread) == Doing::Unknown
        });
        assert!(gone, "it is no more");
    }
}
