//! Detects whether a filter (seccomp) applies to system calls of this process. A filter may kill
//! the process.
//!
//! A filter that was made for a program with a malloc allows the *usual* calls. These are `mmap`,
//! `munmap`, `mremap`, `mprotect`, `madvise` that releases pages, `futex` and the like. All other
//! calls (`membarrier`, `process_madvise`, io_uring, other advice, a separate thread) are
//! *unusual*. An unusual call needs a [`Permit`], and there is none if a filter may kill for the
//! call. Toft learns of a filter without a call that the filter may forbid:
//!
//! - *Inherited* from the process that started the program: `/proc` shows it. The program was
//!   started and has opened its libraries, so it may open and read a file. The check is late,
//!   because most processes never need it. It is repeated until there is an answer, because a
//!   process may have no free descriptor at that moment. When a feature first needs unusual calls,
//!   a child ([`super::seccomp`]) finds out which ones the filter allows: [`Filter::probe`].
//! - *Installed* by the process itself: the library that exports `prctl` and `syscall` reports it
//!   before ([`Filter::about_to_install`]). From then on no file is opened either.
//! - *Unwatched*: no library reports it. A Rust program that has the allocator without those names
//!   is one example. It may install a filter at any time. There are then no permits, except for the
//!   report that ends the process.
//!
//! A filter that a program installs by its own instruction cannot be detected.

use super::seccomp::{Answers, Calls};
use super::{Os, wait_for};
use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::StoreChanged;
use core::mem::offset_of;

/// What is known about filters. It begins as zero, in memory that the core provides.
#[derive(Debug)]
pub struct Filter {
    /// The number of filters that the process has installed or is about to install. Any thread.
    /// SeqCst with `in_flight`: each side writes its own word and then reads the other's, so at
    /// least one sees the other.
    installed: AtomicU32,
    /// The number of permits that are held. Any thread.
    in_flight: AtomicU32,
    /// Not zero if each installation is reported. Written at the start of the library.
    watched: AtomicU32,
    /// [`UNKNOWN`], [`FREE`] or [`FILTERED`]. Any thread, and all write the same value.
    inherited: AtomicU32,
    /// The tick of the last query without an answer, or zero. Any thread. A thread that sees an
    /// older tick queries again.
    asked: AtomicU32,
    /// [`UNPROBED`], [`PROBING`] or [`PROBED`]. The prober writes it by compare and exchange. It
    /// writes `PROBED` by Release, after the two words below. A thread reads those after an Acquire
    /// of it.
    probe: AtomicU32,
    /// The calls that the filter allows, as [`Answers`]. Written by the prober.
    safe: AtomicU32,
    works: AtomicU32,
    /// Not zero in the child of a fork. Written in the child, before it has threads.
    cloned: AtomicU32,
    /// The tick before which there is no further attempt, and the ticks between the last two
    /// attempts. Zero at first. Written by the prober.
    next: AtomicU32,
    pause: AtomicU32,
}

const UNKNOWN: u32 = 0;
const FREE: u32 = 1;
const FILTERED: u32 = 2;

const UNPROBED: u32 = 0;
const PROBING: u32 = 1;
const PROBED: u32 = 2;

/// The longest pause between two attempts at a probe, in ticks: about half a minute.
const PAUSE_MOST: u32 = 1024;

/// The words of a [`Filter`] that a reader outside the process reads, and their meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The number of filters that the process has installed.
    pub installed: u32,
    /// Not zero if installations are reported.
    pub watched: u32,
    /// Zero: not checked. One: no filter. Else: inherited.
    pub inherited: u32,
    /// The result of a probe, if there was one.
    pub answers: Option<Answers>,
}

impl Words {
    /// The offsets of the words in a [`Filter`], in the order of [`Words::of`].
    pub const OFFSETS: [usize; 6] = [
        offset_of!(Filter, installed),
        offset_of!(Filter, watched),
        offset_of!(Filter, inherited),
        offset_of!(Filter, probe),
        offset_of!(Filter, safe),
        offset_of!(Filter, works),
    ];

    /// Returns the meaning of the words.
    pub fn of([installed, watched, inherited, probe, safe, works]: [u32; 6]) -> Words {
        let [safe, works] = [safe, works].map(Calls::from_bits);
        let answers = (probe == PROBED).then_some(Answers { safe, works });
        Words { installed, watched, inherited, answers }
    }

    /// Returns the state according to the words, without a query.
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

/// The knowledge about a possible filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterState {
    /// There is no filter, and any installation is reported.
    None,
    /// The process was started under a filter, or the kernel does not tell.
    Inherited,
    /// The process may have been started under a filter: the check has no answer yet.
    Unknown,
    /// The process has installed a filter, or is about to.
    Installed,
    /// No installation would be reported.
    Unwatched,
}

impl FilterState {
    /// Returns a word for reports.
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

/// Permission to make an unusual system call. While a permit is held, a filter is not installed, or
/// only after a fifth of a second. Hold it for one call.
#[derive(Debug)]
pub struct Permit<'a>(&'a Filter);

impl Filter {
    /// Returns an object that knows nothing yet.
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

    /// Notes that each installation is reported from now on.
    pub fn watch(&self) {
        self.watched.store(1, Release);
    }

    /// Returns true if each installation is reported.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Relaxed) != 0
    }

    /// Notes that the process is about to end, and that no thread installs a filter any more. One
    /// query to the kernel is then enough. The query opens a file, which an unreported filter of
    /// this process may forbid.
    pub fn nothing_follows(&self, os: &impl Os) {
        if !self.is_watched() && self.ask(os) != FilterState::Unknown {
            self.watch();
        }
    }

    /// Notes that a filter is about to be installed, and waits for unusual calls. Afterwards no
    /// unusual call is in progress, unless one takes longer than a fifth of a second.
    pub fn about_to_install(&self, os: &impl Os) {
        self.installed.fetch_add(1, SeqCst);
        wait_for(os, || self.in_flight.load(SeqCst) == 0);
    }

    /// Notes that the kernel has refused the filter that was announced.
    pub fn was_refused(&self) {
        // The number must not fall below zero, because the announcement may have been made before
        // there was an allocator.
        let _ = self.installed.fetch_update(AcqRel, Relaxed, |number| number.checked_sub(1));
    }

    /// Returns true if the process has installed a filter. It has one load.
    pub fn is_installed(&self) -> bool {
        self.installed.load(SeqCst) != 0
    }

    /// Returns what is known. Queries the kernel if it has not answered yet, unless the query may
    /// be forbidden.
    pub fn state(&self, os: &impl Os) -> FilterState {
        if self.is_installed() {
            return FilterState::Installed;
        }
        if !self.is_watched() {
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
        // At most one query in a tick, because slow paths of malloc call this.
        let now = os.ticks().max(1);
        if self.asked.load(Relaxed) == now {
            return FilterState::Unknown;
        }
        let Some(filtered) = os.is_filtered() else {
            self.asked.store(now, Relaxed);
            return FilterState::Unknown;
        };
        // A filter that was installed meanwhile would count as inherited, which does no harm.
        self.inherited.store(if filtered { FILTERED } else { FREE }, Relaxed);
        if filtered { FilterState::Inherited } else { FilterState::None }
    }

    /// Returns the result of a probe of the inherited filter, if there was one.
    pub fn answers(&self) -> Option<Answers> {
        (self.probe.load(Acquire) == PROBED).then(|| {
            let [safe, works] = [&self.safe, &self.works].map(|word| word.load(Relaxed));
            Answers { safe: Calls::from_bits(safe), works: Calls::from_bits(works) }
        })
    }

    /// Finds out what an inherited filter allows, if that is unknown and can be found out. Returns
    /// true if the permitted calls are known now. It creates a child, so do not call it on a fast
    /// path. After a failure, later calls try again, after pauses that double each time.
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
        // A filter that the process installs meanwhile waits for this permit.
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

    /// Returns a permit for unusual calls of these rows, or `None` if there may be a filter that
    /// kills for them. `trusted` means that the user vouches for filters that are not probed: an
    /// inherited one, or one that would not be reported.
    pub fn permit(&self, os: &impl Os, calls: Calls, trusted: bool) -> Option<Permit<'_>> {
        // The queries are made before the permit is taken, because they may take long.
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

    /// As [`Filter::permit`], at the start of a program that has the allocator built in: no
    /// installation would be reported, and none has been made.
    pub fn permit_at_start(&self, os: &impl Os, calls: Calls) -> Option<Permit<'_>> {
        let watched = self.watched.swap(1, Relaxed);
        self.probe(os);
        let permit = self.permit(os, calls, false);
        self.watched.store(watched, Release);
        permit
    }

    /// Returns a permit for a call that any malloc makes, but with arguments that a strict filter
    /// may not know. Returns `None` if the process has installed a filter itself, as sandboxes do.
    /// Makes no query.
    pub fn permit_unless_installed(&self) -> Option<Permit<'_>> {
        self.in_flight.fetch_add(1, SeqCst);
        let permit = Permit(self);
        (!self.is_installed()).then_some(permit)
    }

    /// Repairs the words in the child of a fork, which does not have the threads that held permits.
    pub fn repair(&self) {
        self.in_flight.store_changed(0, Relaxed);
        // The thread that was probing does not exist here either. The filter is the parent's, and
        // so is the result.
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
        // The number must not fall below zero, because a signal handler may have forked while this
        // permit was held.
        let _ = self.0.in_flight.fetch_update(Release, Relaxed, |held| held.checked_sub(1));
    }
}

#[cfg(test)]
mod tests;
