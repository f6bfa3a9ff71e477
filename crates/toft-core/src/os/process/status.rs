//! The kernel's record of a process or thread, such as `/proc/self/status`.

use super::{LINE, read_lines_with};
use crate::options::parse_number;
use core::ffi::{CStr, c_int};

/// What a record says. A number that it does not state is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The number of the parent process.
    pub parent: usize,
    /// The number of threads.
    pub threads: usize,
    /// True if the thread has a filter of system calls, or `None` if that is not stated.
    pub filtered: Option<bool>,
    /// The number of filters (Linux 5.9).
    pub filters: usize,
}

impl Status {
    /// Reads a record. Returns the error number if it was not read to its end. The buffers are
    /// small, because a signal handler may call this on a stack of 8 KiB.
    pub fn read(path: &CStr) -> Result<Status, c_int> {
        let mut status = Status::default();
        let buffers = (&mut [0u8; 256][..], &mut [0u8; LINE]);
        read_lines_with(path, buffers, |line| status.take(line)).map(|()| status)
    }

    /// Reads the record of the calling thread.
    pub fn of_thread() -> Result<Status, c_int> {
        Status::read(c"/proc/thread-self/status")
    }

    fn take(&mut self, line: &[u8]) {
        let number = |name: &[u8]| line.strip_prefix(name).and_then(parse_number);
        if let Some(parent) = number(b"PPid:\t") {
            self.parent = parent;
        } else if let Some(threads) = number(b"Threads:\t") {
            self.threads = threads;
        } else if let Some(mode) = line.strip_prefix(b"Seccomp:\t") {
            self.filtered = Some(mode != b"0");
        } else if let Some(filters) = number(b"Seccomp_filters:\t") {
            self.filters = filters;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_process() {
        let mut status = Status::default();
        for line in [
            &b"Name:\tPPid:\t9"[..],
            b"PPid:\t17",
            b"Threads:\t3",
            b"SeccompX:\t0",
            b"Seccomp:\t2",
            b"Seccomp_filters:\t2",
        ] {
            status.take(line);
        }
        let filtered = Some(true);
        assert_eq!(status, Status { parent: 17, threads: 3, filtered, filters: 2 });
        status.take(b"Seccomp:\t0");
        assert_eq!(status.filtered, Some(false));
        assert_eq!(Status::read(c"/nowhere"), Err(libc::ENOENT));
    }
}
