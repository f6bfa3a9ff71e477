//! Whether system calls of this process go through a filter (seccomp), which may kill it.
//!
//! A filter that was made for a program with a malloc allows `mmap`, `munmap`, `mremap`, `mprotect`,
//! `madvise` that gives pages back, `futex` and the like: *usual* calls. Everything else (`membarrier`,
//! `process_madvise`, io_uring, other advice, a thread of our own) is *unusual*: it needs a
//! [`Permit`], and nobody gets one where there may be a filter. How a filter is learnt of, without
//! a call that it may forbid:
//!
//! - *Inherited* from whoever started the program: the kernel says so in `/proc`. The program was
//!   started and has opened its libraries, so a file may be opened and read. Looked at late, as most
//!   processes never get there, and until there is an answer: a process that has no descriptor left at
//!   that moment is asked about again.
//! - *Installed* by the process itself: whoever exports `prctl` and `syscall` says so before
//!   ([`Filter::about_to_install`]), and from then on no file is opened either.
//! - *Unwatched*: nobody says so, as in a Rust program that has the allocator without those names.
//!   It may install a filter at any time, so there are no permits.
//!
//! What nobody can see is a filter that a program installs by an instruction of its own.

use super::{Os, wait_for};
use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Relaxed, Release, SeqCst};

/// What is known about filters. All zero at first; in memory that the core provides.
#[derive(Debug)]
pub struct Filter {
    /// Filters that the process has installed, or is about to. Any thread. SeqCst with `in_flight`:
    /// each side writes its own and then reads the other's, so at least one sees the other.
    installed: AtomicU32,
    /// Permits that are held. Any thread.
    in_flight: AtomicU32,
    /// Not zero where somebody tells of each installation. Written at the start of the library.
    watched: AtomicU32,
    /// [`UNKNOWN`], [`FREE`] or [`FILTERED`]. Any thread, and all write the same.
    inherited: AtomicU32,
    /// When there was no answer, in ticks, or zero. Any thread; one that sees an old one asks once more.
    asked: AtomicU32,
}

const UNKNOWN: u32 = 0;
const FREE: u32 = 1;
const FILTERED: u32 = 2;

/// Whether there may be a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterState {
    /// There is none, and nobody installs one unnoticed.
    None,
    /// The process was started under one, or the kernel does not say.
    Inherited,
    /// It may have been: that could not be looked up yet.
    Unknown,
    /// The process has installed one, or is about to.
    Installed,
    /// Nobody would tell.
    Unwatched,
}

impl FilterState {
    /// A word for reports.
    pub fn name(self) -> &'static str {
        match self {
            FilterState::None => "none",
            FilterState::Inherited => "inherited",
            FilterState::Unknown => "unknown",
            FilterState::Installed => "installed",
            FilterState::Unwatched => "unwatched",
        }
    }
}

/// Leave to make an unusual system call. A filter is not installed while one is held, or only after
/// a fifth of a second: hold it for one call.
#[derive(Debug)]
pub struct Permit<'a>(&'a Filter);

impl Filter {
    /// Nothing is known yet.
    pub const fn new() -> Filter {
        Filter {
            installed: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            inherited: AtomicU32::new(UNKNOWN),
            asked: AtomicU32::new(0),
        }
    }

    /// From now on each installation is told of.
    pub fn watch(&self) {
        self.watched.store(1, Release);
    }

    /// A filter is about to be installed. When this returns no unusual call is under way, unless one
    /// takes longer than a fifth of a second.
    pub fn about_to_install(&self, os: &impl Os) {
        self.installed.fetch_add(1, SeqCst);
        wait_for(os, || self.in_flight.load(SeqCst) == 0);
    }

    /// The kernel has refused the filter that was told of.
    pub fn was_refused(&self) {
        // Not below zero: it may have been told while there was nobody to be told.
        let _ = self.installed.fetch_update(AcqRel, Relaxed, |number| number.checked_sub(1));
    }

    /// Whether the process has installed a filter. One load.
    pub fn is_installed(&self) -> bool {
        self.installed.load(SeqCst) != 0
    }

    /// What is known; asks the kernel until it has answered, unless that may be forbidden already.
    pub fn state(&self, os: &impl Os) -> FilterState {
        if self.is_installed() {
            return FilterState::Installed;
        }
        if self.watched.load(Relaxed) == 0 {
            return FilterState::Unwatched;
        }
        match self.inherited.load(Relaxed) {
            UNKNOWN => self.ask(os),
            FREE => FilterState::None,
            _ => FilterState::Inherited,
        }
    }

    #[cold]
    fn ask(&self, os: &impl Os) -> FilterState {
        // Not more than once in a tick: slow paths of malloc come here.
        let now = os.ticks().max(1);
        if self.asked.load(Relaxed) == now {
            return FilterState::Unknown;
        }
        let Some(filtered) = os.is_filtered() else {
            self.asked.store(now, Relaxed);
            return FilterState::Unknown;
        };
        // A filter that was installed meanwhile would be taken for an inherited one: no harm.
        self.inherited.store(if filtered { FILTERED } else { FREE }, Relaxed);
        if filtered { FilterState::Inherited } else { FilterState::None }
    }

    /// Leave to make an unusual call; `None` where there may be a filter. Where the user says so, one
    /// that the process was started under, or that nobody would tell of, is `trusted` to allow it.
    pub fn permit(&self, os: &impl Os, trusted: bool) -> Option<Permit<'_>> {
        // Asked before, because it may take long.
        match self.state(os) {
            FilterState::None => {}
            FilterState::Inherited | FilterState::Unknown | FilterState::Unwatched if trusted => {}
            _ => return None,
        }
        self.permit_unless_installed()
    }

    /// Leave to make a call that any malloc makes, of a kind that only a filter which looks at its
    /// arguments does not know: `None` where the process has installed one itself, as sandboxes do. Asks
    /// nobody.
    pub fn permit_unless_installed(&self) -> Option<Permit<'_>> {
        self.in_flight.fetch_add(1, SeqCst);
        let permit = Permit(self);
        (!self.is_installed()).then_some(permit)
    }

    /// In the child of a fork: the threads that held permits are not here.
    pub fn repair(&self) {
        self.in_flight.store(0, Relaxed);
    }
}

impl Default for Filter {
    fn default() -> Filter {
        Filter::new()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // Not below zero: a signal handler may have forked while this one was held.
        let _ = self.0.in_flight.fetch_update(Release, Relaxed, |held| held.checked_sub(1));
    }
}

/// Finds the mode in the kernel's description of a thread, which comes in pieces.
#[derive(Debug, Default)]
pub(super) struct ModeFinder {
    /// Bytes of [`FIELD`] that the text before has ended with.
    matched: usize,
    mode: Option<u8>,
}

const FIELD: &[u8] = b"\nSeccomp:";

impl ModeFinder {
    pub(super) fn take(&mut self, piece: &[u8]) {
        for &byte in piece {
            if self.matched == FIELD.len() {
                if self.mode.is_none() && !byte.is_ascii_whitespace() {
                    self.mode = Some(byte);
                }
            } else if FIELD.get(self.matched) == Some(&byte) {
                self.matched += 1;
            } else {
                // Only its first byte can begin it anew.
                self.matched = usize::from(FIELD.first() == Some(&byte));
            }
        }
    }

    /// Whether it says that there is no filter: a kernel that does not say may have one.
    pub(super) fn says_none(&self) -> bool {
        self.mode == Some(b'0')
    }
}

#[cfg(test)]
mod tests {
    use super::super::Linux;
    use super::super::fake::{Fake, Machine};
    use super::*;

    fn watched() -> Filter {
        let filter = Filter::new();
        filter.watch();
        filter.inherited.store(FREE, Relaxed);
        filter
    }

    #[test]
    fn a_permit_is_had_only_where_there_can_be_no_filter() {
        let os = Linux::detect();
        let filter = Filter::new();
        assert_eq!(filter.state(&os), FilterState::Unwatched);
        assert!(filter.permit(&os, false).is_none());
        let filter = watched();
        assert_eq!(filter.state(&os), FilterState::None);
        assert!(filter.permit(&os, false).is_some());
        filter.about_to_install(&os);
        assert_eq!(filter.state(&os), FilterState::Installed);
        assert!(filter.permit(&os, false).is_none());
        filter.was_refused();
        assert!(filter.permit(&os, false).is_some());
        filter.inherited.store(FILTERED, Relaxed);
        assert_eq!(filter.state(&os), FilterState::Inherited);
        assert!(filter.permit(&os, false).is_none());
        assert_eq!(filter.in_flight.load(Relaxed), 0);
    }

    #[test]
    fn what_could_not_be_looked_up_is_looked_up_again() {
        for (answer, state) in [(false, FilterState::None), (true, FilterState::Inherited)] {
            let os = Fake::new(Machine::SMALL);
            let filter = Filter::new();
            filter.watch();
            os.set_filtered(None);
            for _ in 0..3 {
                os.pass(1);
                assert_eq!(filter.state(&os), FilterState::Unknown);
                assert!(filter.permit(&os, false).is_none());
            }
            // In the same tick nobody is asked; what was answered once holds.
            os.set_filtered(Some(answer));
            assert_eq!(filter.state(&os), FilterState::Unknown);
            os.pass(1);
            assert_eq!(filter.state(&os), state);
            os.set_filtered(Some(!answer));
            os.pass(1);
            assert_eq!(filter.state(&os), state);
        }
    }

    #[test]
    fn a_process_without_a_descriptor_to_spare_is_not_taken_for_a_filtered_one() {
        let os = Linux::detect();
        let filtered = os.is_filtered();
        assert!(filtered.is_some());
        // In a child, because the limit is the process's.
        // SAFETY: the child makes system calls only, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let all = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 64 };
                libc::setrlimit(libc::RLIMIT_NOFILE, &none);
                let without = os.is_filtered();
                libc::setrlimit(libc::RLIMIT_NOFILE, &all);
                libc::_exit(i32::from(without.is_some() || os.is_filtered() != filtered));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0, "in the child");
        }
    }

    #[test]
    fn installing_waits_for_permits_and_not_for_ever() {
        let os = Linux::detect();
        let filter = watched();
        let permit = filter.permit(&os, false).unwrap();
        // Nobody gives it back: a bound, not a hang.
        filter.about_to_install(&os);
        assert_eq!(filter.in_flight.load(Relaxed), 1);
        filter.was_refused();
        // Somebody does: no installation is seen to go on while it is held.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                filter.about_to_install(&os);
                filter.in_flight.load(SeqCst)
            });
            while !filter.is_installed() {
                std::thread::yield_now();
            }
            assert!(filter.permit(&os, false).is_none());
            drop(permit);
            assert_eq!(thread.join().unwrap(), 0);
        });
    }

    #[test]
    fn a_child_forgets_the_permits_of_threads_that_it_does_not_have() {
        let os = Linux::detect();
        let filter = watched();
        let permit = filter.permit(&os, false).unwrap();
        filter.repair();
        drop(permit);
        assert_eq!(filter.in_flight.load(Relaxed), 0);
    }

    #[test]
    fn the_mode_is_found_in_whatever_pieces() {
        let text = b"Name:\tx\n\nSeccompX:\t1\nSeccomp:\t2\nSeccomp_filters:\t0\n";
        for size in 1..=text.len() {
            let mut finder = ModeFinder::default();
            text.chunks(size).for_each(|piece| finder.take(piece));
            assert_eq!(finder.mode, Some(b'2'), "{size}");
        }
        let says_none = |text: &[u8]| {
            let mut finder = ModeFinder::default();
            finder.take(text);
            finder.says_none()
        };
        assert!(says_none(b"\nSeccomp:\t0\n"));
        assert!(!says_none(b"\nSeccomp:\t2\n") && !says_none(b"\nSeccomp:") && !says_none(b""));
    }
}
