//! Whether system calls of this process go through a filter (seccomp), which may kill it.
//!
//! A filter that was made for a program with a malloc allows `mmap`, `munmap`, `mremap`,
//! `mprotect`, `madvise` that gives pages back, `futex` and the like: *usual* calls. Everything
//! else (`membarrier`, `process_madvise`, io_uring, other advice, a separate thread) is *unusual*:
//! it needs a [`Permit`], and there is none where a filter may kill for it. How a filter is learnt
//! of, without a call that it may forbid:
//!
//! - *Inherited* from the process that started the program: `/proc` shows it. The program was
//!   started and has opened its libraries, so a file may be opened and read. The check is late, as
//!   most processes never need it, and is repeated until there is an answer: a process may have no
//!   descriptor left at that moment. Which calls such a filter allows is found out once, by a child
//!   ([`super::seccomp`]), when a feature first needs them: [`Filter::probe`].
//! - *Installed* by the process itself: the library that exports `prctl` and `syscall` reports it
//!   before ([`Filter::about_to_install`]), and from then on no file is opened either.
//! - *Unwatched*: no library reports it, as in a Rust program that has the allocator without those
//!   names. It may install a filter at any time, so there are no permits, but for the report that
//!   ends the process.
//!
//! A filter that a program installs by its own instruction cannot be seen.

use super::seccomp::{Answers, Calls};
use super::{Os, wait_for};
use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::StoreChanged;
use core::mem::offset_of;

/// What is known about filters. All zero at first; in memory that the core provides.
#[derive(Debug)]
pub struct Filter {
    /// Filters that the process has installed, or is about to. Any thread. SeqCst with `in_flight`:
    /// each side writes its own and then reads the other's, so at least one sees the other.
    installed: AtomicU32,
    /// Permits that are held. Any thread.
    in_flight: AtomicU32,
    /// Not zero where each installation is reported. Written at the start of the library.
    watched: AtomicU32,
    /// [`UNKNOWN`], [`FREE`] or [`FILTERED`]. Any thread, and all write the same.
    inherited: AtomicU32,
    /// When there was no answer, in ticks, or zero. Any thread; one that sees an old one asks
    /// again.
    asked: AtomicU32,
    /// [`UNPROBED`], [`PROBING`] or [`PROBED`]. The prober by compare and exchange; `PROBED` by
    /// Release, after the two words below. A thread reads those after an Acquire of it.
    probe: AtomicU32,
    /// What the filter allows, as [`Answers`]. The prober.
    safe: AtomicU32,
    works: AtomicU32,
    /// Not zero in a process that has come of a fork. Written in the child, before it has threads.
    cloned: AtomicU32,
    /// The tick before which there is no further attempt, and ticks between the last two; zero at
    /// first. The prober.
    next: AtomicU32,
    pause: AtomicU32,
}

const UNKNOWN: u32 = 0;
const FREE: u32 = 1;
const FILTERED: u32 = 2;

const UNPROBED: u32 = 0;
const PROBING: u32 = 1;
const PROBED: u32 = 2;

/// Ticks between two attempts at a probe, at most: about half a minute.
const PAUSE_MOST: u32 = 1024;

/// The words of a [`Filter`] that are read from outside of the process, and what they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Filters that the process has installed.
    pub installed: u32,
    /// Not zero where installations are reported.
    pub watched: u32,
    /// Zero: not looked up; one: none; else inherited.
    pub inherited: u32,
    /// What a probe has found, if there was one.
    pub answers: Option<Answers>,
}

impl Words {
    /// Where the words are in a [`Filter`], in the order of [`Words::of`].
    pub const OFFSETS: [usize; 6] = [
        offset_of!(Filter, installed),
        offset_of!(Filter, watched),
        offset_of!(Filter, inherited),
        offset_of!(Filter, probe),
        offset_of!(Filter, safe),
        offset_of!(Filter, works),
    ];

    /// What the words are.
    pub fn of([installed, watched, inherited, probe, safe, works]: [u32; 6]) -> Words {
        let [safe, works] = [safe, works].map(Calls::from_bits);
        let answers = (probe == PROBED).then_some(Answers { safe, works });
        Words { installed, watched, inherited, answers }
    }

    /// The state by the words alone, without a query.
    pub fn state(&self) -> FilterState {
        match (self.installed, self.watched, self.inherited) {
            (1.., ..) => FilterState::Installed,
            (_, 0, _) => FilterState::Unwatched,
            (.., UNKNOWN) => FilterState::Unknown,
            (.., FREE) => FilterState::None,
            _ => FilterState::Inherited,
        }
    }
}

/// Whether there may be a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterState {
    /// There is none, and none is installed unnoticed.
    None,
    /// The process was started under one, or the kernel does not say.
    Inherited,
    /// It may have been: that could not be looked up yet.
    Unknown,
    /// The process has installed one, or is about to.
    Installed,
    /// No installation would be reported.
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
            probe: AtomicU32::new(UNPROBED),
            safe: AtomicU32::new(0),
            works: AtomicU32::new(0),
            cloned: AtomicU32::new(0),
            next: AtomicU32::new(0),
            pause: AtomicU32::new(0),
        }
    }

    /// From now on each installation is reported.
    pub fn watch(&self) {
        self.watched.store(1, Release);
    }

    /// The process is about to be ended, and no thread installs a filter any more. So it is enough
    /// to ask the kernel once whether there is one. That opens a file, which an unreported filter
    /// of this process may forbid.
    pub fn nothing_follows(&self, os: &impl Os) {
        if self.watched.load(Relaxed) == 0 && self.ask(os) != FilterState::Unknown {
            self.watch();
        }
    }

    /// A filter is about to be installed. When this returns no unusual call is under way, unless
    /// one takes longer than a fifth of a second.
    pub fn about_to_install(&self, os: &impl Os) {
        self.installed.fetch_add(1, SeqCst);
        wait_for(os, || self.in_flight.load(SeqCst) == 0);
    }

    /// The kernel has refused the filter that was announced.
    pub fn was_refused(&self) {
        // Not below zero: the announcement may have come before there was an allocator.
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

    /// What a probe has found of the filter that the process was started under, if there was one.
    pub fn answers(&self) -> Option<Answers> {
        (self.probe.load(Acquire) == PROBED).then(|| {
            let [safe, works] = [&self.safe, &self.works].map(|word| word.load(Relaxed));
            Answers { safe: Calls::from_bits(safe), works: Calls::from_bits(works) }
        })
    }

    /// Finds out what an inherited filter allows, if that is not known and can be found out.
    /// Returns true if the permitted calls are known now. Creates a child: not on a fast path.
    /// After a failure it is tried again later, after longer and longer pauses.
    pub fn probe(&self, os: &impl Os) -> bool {
        match self.state(os) {
            FilterState::None => return true,
            FilterState::Inherited => {}
            _ => return false,
        }
        if self.answers().is_some() {
            return true;
        }
        let (now, pause) = (os.ticks(), self.pause.load(Relaxed));
        if pause != 0 && now.wrapping_sub(self.next.load(Relaxed)) > u32::MAX / 2 {
            return false;
        }
        // A filter that the process installs meanwhile waits.
        let Some(_permit) = self.permit_unless_installed() else { return false };
        if self.probe.compare_exchange(UNPROBED, PROBING, Relaxed, Relaxed).is_err() {
            return self.answers().is_some();
        }
        let Some(found) = os.probe_filter(self.cloned.load(Relaxed) != 0) else {
            let pause = (2 * pause).clamp(1, PAUSE_MOST);
            self.pause.store(pause, Relaxed);
            self.next.store(now.wrapping_add(pause), Relaxed);
            self.probe.store(UNPROBED, Relaxed);
            return false;
        };
        self.safe.store(found.safe.bits(), Relaxed);
        self.works.store(found.works.bits(), Relaxed);
        self.probe.store(PROBED, Release);
        true
    }

    /// Leave to make unusual calls of these rows; `None` where there may be a filter that kills for
    /// them. Where the user says so, an inherited filter that was not probed, or one that would not
    /// be reported, is `trusted` to allow them.
    pub fn permit(&self, os: &impl Os, calls: Calls, trusted: bool) -> Option<Permit<'_>> {
        // Asked before, because it may take long.
        match (self.state(os), self.answers()) {
            (FilterState::None, _) => {}
            (FilterState::Inherited, Some(answers)) if answers.safe.has(calls) => {}
            (FilterState::Inherited, Some(_)) => return None,
            (FilterState::Inherited | FilterState::Unknown | FilterState::Unwatched, _)
                if trusted => {}
            _ => return None,
        }
        self.permit_unless_installed()
    }

    /// Leave to make a call that any malloc makes, of a kind that only a filter which checks its
    /// arguments does not know: `None` where the process has installed one itself, as sandboxes do.
    /// Makes no query.
    pub fn permit_unless_installed(&self) -> Option<Permit<'_>> {
        self.in_flight.fetch_add(1, SeqCst);
        let permit = Permit(self);
        (!self.is_installed()).then_some(permit)
    }

    /// In the child of a fork: the threads that held permits are not here.
    pub fn repair(&self) {
        self.in_flight.store_changed(0, Relaxed);
        // Nor is the thread that was probing. The filter is the parent's, and so is what was found.
        if self.probe.load(Relaxed) == PROBING {
            self.probe.store(UNPROBED, Relaxed);
        }
        self.cloned.store_changed(1, Relaxed);
        self.pause.store_changed(0, Relaxed);
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
                // Only its first byte can begin it again.
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
mod tests;
