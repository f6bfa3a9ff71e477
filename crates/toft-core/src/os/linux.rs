//! Linux, by raw system calls.

use super::filter::Permit;
use super::keys::{self, KeyNumber};
use super::process::Status;
use super::random::Random;
use super::seccomp::{self, Answers};
use super::{Error, Group, Os, cgroup, process};
use core::ops::Range;

/// The running Linux kernel.
#[derive(Debug)]
pub struct Linux {
    pub(super) page_size: usize,
    /// The protection key of the allocator's tables, or zero if they have none.
    key: KeyNumber,
    /// The first address of the tables, and their end.
    tables: (usize, usize),
    random: Random,
}

impl Linux {
    /// Returns the running kernel, with its page size read from the auxiliary vector.
    pub fn detect() -> Linux {
        let random = Random::many();
        Linux { page_size: process::page_size(), key: 0, tables: (0, 0), random }
    }

    /// Gives the allocator's tables a protection key.
    pub fn with_key(self, key: KeyNumber) -> Linux {
        Linux { key, ..self }
    }

    /// Returns the protection key: zero if there is none, [`keys::UNKNOWN`] before detection.
    #[inline(always)]
    pub fn key(&self) -> KeyNumber {
        self.key
    }

    /// Returns true if an address is in the allocator's tables.
    pub fn is_in_tables(&self, address: usize) -> bool {
        (self.tables.0..self.tables.1).contains(&address)
    }

    /// Returns a value for use before detection, for a static that is not used yet.
    pub const fn undetected() -> Linux {
        Linux { page_size: 4096, key: keys::UNKNOWN, tables: (0, 0), random: Random::single() }
    }
}

// SAFETY: (1) raw system calls do none of it.
unsafe impl Os for Linux {
    fn with_tables(self, tables: Range<usize>) -> Linux {
        Linux { tables: (tables.start, tables.end), ..self }
    }

    fn after_start(self) -> Linux {
        Linux { random: Random::single(), ..self }
    }

    fn is_filtered(&self) -> Option<bool> {
        match Status::of_thread() {
            Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => None,
            // A kernel that does not tell may have one.
            status => Some(status.map_or(None, |status| status.filtered) != Some(false)),
        }
    }

    fn probe_filter(&self, cloned: bool) -> Option<Answers> {
        seccomp::probe(self.page_size, cloned)
    }

    fn group<'a>(&self, permit: &dyn Fn() -> Option<Permit<'a>>) -> Group {
        cgroup::group(permit)
    }

    fn memory_there_is(&self) -> Option<usize> {
        cgroup::memory_there_is()
    }

    fn random(&self) -> Result<u64, Error> {
        self.random.word()
    }

    fn report(&self, line: &[u8]) {
        process::write_all(libc::STDERR_FILENO, line);
    }

    fn abort(&self) -> ! {
        process::abort()
    }
}
