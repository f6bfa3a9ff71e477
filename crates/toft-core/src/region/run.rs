//! A run of address space from which pieces are cut, one after another, and which grows upwards.
//!
//! ```text
//! base ... | handed out | next ... mapped ... end | never used ...
//! ```
//!
//! One word holds `next` and `end`. A thread takes the piece at `next` by compare and exchange. If
//! the rest is too short, one thread maps more behind it. The others spin for that thread. If it is
//! stopped meanwhile, each of them maps a piece for itself alone, behind all that any thread has
//! begun to map. So no thread waits without a bound (law 5), and none is refused because another
//! is stopped.
//!
//! What is mapped is never in the way of another thread, because each claims its part of the
//! address space first. What a thread finds in its way is therefore foreign, and is passed by.
//!
//! The default build has one run for all slabs (`field/dense.rs`), the secure builds one for each
//! plot (`field/plots.rs`). The runs of a field share a [`Mood`].
//!
//! - F1 `next <= end`, and all between them is mapped and was never handed out.
//! - F2 nothing at or behind `frontier` was ever mapped by this run.

use crate::os::{Error, Memory};
use crate::policy::SECURE;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, StoreChanged, spin_until};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The shared words of a run. In the metadata tables, zero at first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct State {
    /// The unit after the last one handed out, and in the upper half the one after the last that is
    /// mapped. Any thread changes it, by compare and exchange.
    word: AtomicU64,
    /// The first unit that no thread has begun to map. Any thread raises it. The thread that has
    /// raised it last may lower it again.
    frontier: AtomicU64,
    /// Units below `frontier` that are not mapped: the system has refused them, or they were mapped
    /// ahead and unmapped again.
    refused: Spares,
    /// Units below `frontier` that were passed by, because something foreign was among them.
    skipped: Spares,
    /// Not zero while a thread maps more for all. That thread clears it, or the repair in the child
    /// of a fork.
    growing: AtomicU32,
    /// Not zero if the last search found nothing but foreign mappings. The next one is short then.
    blocked: AtomicU32,
    /// Tells which of the units that were passed by are tried next. Any thread adds.
    probes: AtomicU32,
    /// The number of mapped units. Any thread adds and subtracts.
    mapped: AtomicUsize,
}

/// What all runs of a field know of the system. In the metadata tables, zero at first. Any thread
/// writes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Mood {
    /// Not zero if steps are to be small.
    is_modest: AtomicU32,
    /// Not zero if the system locks pages when they are mapped.
    is_locked: AtomicU32,
    /// The number of mapped bytes of all runs.
    mapped: AtomicUsize,
    /// The number of mapped bytes at which the next step is tested for locked pages. Any thread
    /// that has tested a step writes it.
    test_at: AtomicUsize,
}

impl Mood {
    /// Lets runs map ahead of need again, or little ahead.
    pub fn set_modest(&self, is_modest: bool) {
        self.is_modest.store(u32::from(is_modest), Relaxed);
    }

    /// Returns true if the system locks pages when they are mapped.
    pub fn is_locked(&self) -> bool {
        self.is_locked.load(Relaxed) != 0
    }

    /// Returns the number of mapped bytes of all runs.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped.load(Relaxed)
    }

    /// Returns true if a step of `bytes` bytes that was just mapped is tested for locked pages.
    fn is_test_due(&self, bytes: usize) -> bool {
        bytes >= TEST_LEAST || self.mapped_bytes() >= self.test_at.load(Relaxed).max(TEST_LEAST)
    }

    /// Notes the result of a test.
    fn note_test(&self, is_locked: bool) {
        let mapped = self.mapped_bytes();
        let growth = if is_locked { mapped / LOCKED_DIVISOR } else { mapped };
        self.test_at.store(mapped.saturating_add(growth), Relaxed);
        self.is_locked.store(u32::from(is_locked), Relaxed);
    }
}

/// The reason why a run has no units for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoUnits {
    /// All of it was handed out.
    UsedUp,
    /// Something foreign is in the way.
    Foreign,
    /// The system has refused them.
    Refused(Error),
}

/// A few ranges of units, each by its first unit and its length in the upper half, or zero. Any
/// thread puts one into an empty place or in that of a shorter one, and takes all of one, by
/// compare and exchange. So threads that are refused again and again lose a few ranges, and not one
/// each time.
#[derive(Debug)]
pub(super) struct Spares([AtomicU64; SPARES]);

/// The number of ranges. A secure build has thousands of runs.
const SPARES: usize = if SECURE { 4 } else { 16 };

impl Spares {
    #[cold]
    #[inline(never)]
    pub fn put(&self, first: usize, count: usize) {
        for place in &self.0 {
            let seen = place.load(Relaxed);
            if halves(seen).1 < count
                && place.compare_exchange(seen, word(first, count), AcqRel, Relaxed).is_ok()
            {
                return;
            }
        }
    }

    /// Takes the first range of at least `least` units. Returns its first unit and its length.
    #[inline(never)]
    pub fn take(&self, least: usize) -> Option<(usize, usize)> {
        loop {
            let ranges = self.0.iter().map(|place| (place, place.load(Acquire)));
            let fit = ranges.filter(|&(_, seen)| seen != 0 && halves(seen).1 >= least);
            let (place, seen) = fit.min_by_key(|&(_, seen)| halves(seen).0)?;
            // If this fails, another thread has changed the place.
            if place.compare_exchange(seen, 0, AcqRel, Relaxed).is_ok() {
                return Some(halves(seen));
            }
        }
    }
}

/// Where claimed units are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// They were refused before.
    Refused,
    /// They are at the frontier.
    Frontier,
    /// They are part of a range that was passed by: its first unit and its length.
    Skipped(usize, usize),
}

/// A run of address space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first address.
    base: usize,
    /// The number of units.
    units: usize,
    /// The least and the most units that are mapped at a time.
    least: usize,
    most: usize,
    page_size: usize,
    /// The number of units that were mapped for the same purpose in other runs. Steps are as long
    /// as if this run had them.
    before: usize,
    state: *const State,
    mood: *const Mood,
}

/// If the system locks pages, a step is what is needed, or the mapped units divided by this number
/// if that is more.
const LOCKED_DIVISOR: usize = 8;

/// A step of this number of bytes or more is tested for pages that the system has locked. So is a
/// shorter one if the field has this number of bytes, and has doubled since the last test. Once
/// pages are locked, an eighth more is enough. Every test costs a system call.
const TEST_LEAST: usize = 2 << 20;

/// log2 of the bytes in a unit: the smallest page of any system.
const SHIFT: u32 = 12;

/// How often a search finds something foreign. It passes by twice as much each time, so that it
/// crosses any run.
const FOREIGN_MOST: u32 = 48;

/// How many places are tried among units that were passed by.
const PROBES: u32 = 8;
/// Multiples of this part of 2^32 are spread evenly, however many there are: the golden ratio.
const PHI: u32 = 0x9E37_79B9;

impl Run {
    /// Returns the run of `bytes` bytes of address space from `base` on. It is mapped in steps of
    /// at least `least` bytes and usually at most `most`. Its steps are as long as if it had
    /// `before` bytes.
    ///
    /// # Safety
    /// 1. `state` is a zero `State`, or one that this function was called with before, for the same
    ///    run. It lives for ever and belongs to this run alone.
    /// 2. The address space is for this run alone, and begins with a page.
    /// 3. `mood` is a zero `Mood` at first, and lives for ever.
    pub unsafe fn new(
        (base, bytes): (usize, usize),
        (least, most, before): (usize, usize, usize),
        page_size: usize,
        state: *const State,
        mood: *const Mood,
    ) -> Run {
        Run {
            base,
            units: (bytes >> SHIFT).min(u32::MAX as usize),
            least: (least >> SHIFT).max(1),
            most: most >> SHIFT,
            before: before >> SHIFT,
            page_size,
            state,
            mood,
        }
    }

    /// Returns a run without address space.
    pub const fn none() -> Run {
        Run {
            base: 0,
            units: 0,
            least: 1,
            most: 1,
            before: 0,
            page_size: 4096,
            state: core::ptr::null(),
            mood: core::ptr::null(),
        }
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    fn mood(&self) -> &Mood {
        // SAFETY: `new` duty 3; all-zero is a `Mood`.
        unsafe { &*self.mood }
    }

    fn address(&self, unit: usize) -> usize {
        self.base + (unit << SHIFT)
    }

    /// Returns the number of units in a page, at least one.
    fn per_page(&self) -> usize {
        (self.page_size >> SHIFT).max(1)
    }

    /// Counts mapped units, or unmapped ones.
    fn count(&self, mapped: usize, unmapped: usize) {
        let change = mapped.wrapping_sub(unmapped);
        self.state().mapped.fetch_add(change, Relaxed);
        self.mood().mapped.fetch_add(change << SHIFT, Relaxed);
    }

    /// Returns the address and the number of bytes of what is mapped and was never handed out.
    pub fn ahead(&self) -> (usize, usize) {
        let (next, end) = halves(self.state().word.load(Acquire));
        (self.address(next), (end - next) << SHIFT)
    }

    /// Returns the first address that no thread has begun to map.
    #[cfg(all(test, not(loom)))]
    pub fn frontier(&self) -> usize {
        self.address(self.state().frontier.load(Acquire) as usize)
    }

    /// Takes adjacent addresses: a number of bytes, from a multiple of the second number on, a
    /// power of two. Both are at least a page. Returns the first address. If something was mapped
    /// for it, calls `was_mapped` with its start and length, before any thread gets some.
    /// `was_mapped` may refuse it by an error.
    pub fn take(
        &self,
        os: &impl Memory,
        (bytes, align): (usize, usize),
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<usize, NoUnits> {
        let state = self.state();
        let count = bytes >> SHIFT;
        // What may be left out before the first unit.
        let most = count + (align >> SHIFT) - 1;
        let aligned = |unit| (up(self.address(unit), align) - self.base) >> SHIFT;
        loop {
            let seen = state.word.load(Acquire);
            let (next, end) = halves(seen);
            let first = aligned(next);
            if first + count <= end {
                let taken = word(first + count, end);
                if state.word.compare_exchange(seen, taken, AcqRel, Relaxed).is_ok() {
                    return Ok(self.address(first));
                }
            } else if state.growing.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
                let grown = self.grow(os, most, was_mapped);
                state.growing.store(0, Release);
                grown?;
            } else if !spin_until(|| {
                state.growing.load(Acquire) == 0 || state.word.load(Relaxed) != seen
            }) {
                // The growing thread is stopped.
                let (begin, _) = self.map(os, (most, most), was_mapped)?;
                return Ok(self.address(aligned(begin)));
            }
        }
    }

    /// Maps more for all threads: `least` units or more. The caller has set `growing`.
    #[cold]
    fn grow(
        &self,
        os: &impl Memory,
        least: usize,
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<(), NoUnits> {
        let (state, mood) = (self.state(), self.mood());
        let mapped = state.mapped.load(Relaxed) + self.before;
        let was_locked = mood.is_locked();
        let most = if mood.is_modest.load(Relaxed) != 0 { self.least } else { self.most };
        let ahead = if was_locked { mapped / LOCKED_DIVISOR } else { mapped.max(self.least) };
        let step = ahead.min(most).max(least);
        let (begin, mut count) = self.map(os, (least, step), was_mapped)?;
        if mood.is_test_due(count << SHIFT) {
            // SAFETY: (1) the last page of what was mapped above, which no thread has got yet.
            let is_locked =
                unsafe { os.discard(self.address(begin + count) - self.page_size, self.page_size) }
                    .is_err();
            mood.note_test(is_locked);
            if is_locked && !was_locked {
                let stays = (mapped / LOCKED_DIVISOR).max(least);
                count = self.unmap_end(os, begin, count, stays);
            }
        }
        loop {
            let seen = state.word.load(Acquire);
            let (next, end) = halves(seen);
            // What is left of the old piece is lost, if something foreign is between the two.
            let from = if end == begin { next } else { begin };
            let grown = word(from, begin + count);
            if state.word.compare_exchange(seen, grown, AcqRel, Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// Unmaps what is behind the first `stays` of `count` units, which no thread has got. Returns
    /// how many are still mapped.
    fn unmap_end(&self, os: &impl Memory, begin: usize, count: usize, stays: usize) -> usize {
        let stays = up(stays, self.per_page());
        let Some(rest) = count.checked_sub(stays).filter(|&rest| rest != 0) else { return count };
        // SAFETY: (1) the caller's duty: no thread has got these units.
        if unsafe { os.unmap(self.address(begin + stays), rest << SHIFT) }.is_err() {
            // The limit of mappings prevents it.
            return count;
        }
        let state = self.state();
        self.count(0, rest);
        if !self.lower_frontier(begin + stays, rest) {
            state.refused.put(begin + stays, rest);
        }
        stays
    }

    /// Maps units that no thread has begun to map: as many as the second number says, or as the
    /// first if the system has no more. Returns the first unit and their number.
    ///
    /// The units are some that were refused before, else those at `frontier`. At the end of the run
    /// they are some that were passed by, where something foreign may be gone.
    fn map(
        &self,
        os: &impl Memory,
        (least, wanted): (usize, usize),
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<(usize, usize), NoUnits> {
        let state = self.state();
        let least = up(least, self.per_page());
        let mut count = up(wanted, self.per_page());
        let blocked = state.blocked.load(Relaxed) != 0;
        let (most, probes) = if blocked { (1, 1) } else { (FOREIGN_MOST, PROBES) };
        let (mut passed, mut tried, mut probe) = (0, 0, u32::from(blocked));
        loop {
            let (begin, source) = match self.claim(count, probe) {
                Some(claimed) => claimed,
                None if count > least => {
                    // What is left of the run may do.
                    let frontier = state.frontier.load(Relaxed) as usize;
                    let room = self.units.saturating_sub(frontier) & !(self.per_page() - 1);
                    count = if room < count { room.max(least) } else { least };
                    continue;
                }
                None if tried == 0 => return Err(NoUnits::UsedUp),
                None => return Err(NoUnits::Foreign),
            };
            let (address, bytes) = (self.address(begin), count << SHIFT);
            let done = os.map(address, bytes).and_then(|()| {
                was_mapped(address, bytes).inspect_err(|_| {
                    // SAFETY: (1) mapped above, and no thread has it.
                    let _ = unsafe { os.unmap(address, bytes) };
                })
            });
            match done {
                Ok(()) => {
                    if let Source::Skipped(first, length) = source {
                        let end = begin + count;
                        state.skipped.put(first, begin - first);
                        state.skipped.put(end, first + length - end);
                    }
                    state.blocked.store_changed(0, Relaxed);
                    self.count(count, 0);
                    return Ok((begin, count));
                }
                Err(Error::Occupied) => {
                    self.pass_by((begin, count), least, source, &mut passed);
                    tried += 1;
                    probe += u32::from(matches!(source, Source::Skipped(..)));
                    if count > least {
                        // Only a part may be foreign.
                        count = least;
                    } else if tried > most || probe > probes {
                        state.blocked.store_changed(1, Relaxed);
                        return Err(NoUnits::Foreign);
                    }
                }
                Err(error) => {
                    match source {
                        Source::Skipped(first, length) => state.skipped.put(first, length),
                        _ if source == Source::Frontier && self.lower_frontier(begin, count) => {}
                        _ => state.refused.put(begin, count),
                    }
                    if error != Error::NoMemory || count <= least {
                        return Err(NoUnits::Refused(error));
                    }
                    count = least;
                }
            }
        }
    }

    /// Claims units for a thread that will map them. Returns the first one.
    fn claim(&self, count: usize, probe: u32) -> Option<(usize, Source)> {
        let state = self.state();
        if let Some((first, length)) = state.refused.take(count) {
            state.refused.put(first + count, length - count);
            return Some((first, Source::Refused));
        }
        // map piece: each unit is claimed once.
        let begin = state.frontier.fetch_add(count as u64, AcqRel) as usize;
        if begin + count <= self.units {
            return Some((begin, Source::Frontier));
        }
        self.lower_frontier(begin, count);
        // The first ones, then any: what is far away makes the page map long.
        let (first, length) = state.skipped.take(count)?;
        let turn = state.probes.fetch_add(PHI, Relaxed);
        let offset = (((length - count) as u64 * u64::from(turn)) >> 32) as usize;
        let offset = if probe == 0 { 0 } else { offset & !(self.per_page() - 1) };
        Some((first + offset, Source::Skipped(first, length)))
    }

    /// Takes a claim at the frontier back. Returns false if another thread has claimed what
    /// follows.
    fn lower_frontier(&self, begin: usize, count: usize) -> bool {
        let (from, to) = ((begin + count) as u64, begin as u64);
        self.state().frontier.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Something foreign is among claimed units. Passes by more each time, and remembers some of
    /// it.
    #[cold]
    #[inline(never)]
    fn pass_by(
        &self,
        (begin, count): (usize, usize),
        least: usize,
        source: Source,
        passed: &mut u32,
    ) {
        let state = self.state();
        match source {
            Source::Refused => state.skipped.put(begin, count),
            Source::Skipped(first, length) => state.skipped.put(first, length),
            Source::Frontier if count > least => {
                // Only a part may be foreign: fewer are tried next.
                if !self.lower_frontier(begin, count) {
                    state.skipped.put(begin, count);
                }
            }
            Source::Frontier => {
                let skip = self.per_page() << *passed;
                let at = state.frontier.fetch_add(skip as u64, AcqRel) as usize;
                state.skipped.put(begin, count);
                state.skipped.put(at, skip.min(self.units.saturating_sub(at)));
                *passed = (*passed + 1).min(40);
            }
        }
    }

    /// Unmaps what is mapped ahead of need, unless a thread maps more at this moment.
    pub fn retract(&self, os: &impl Memory) {
        let state = self.state();
        if state.growing.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
            self.unmap_ahead(os);
            state.growing.store(0, Release);
        }
    }

    /// Unmaps the units that no thread has got. The caller has set `growing`.
    fn unmap_ahead(&self, os: &impl Memory) {
        let state = self.state();
        let per_page = self.per_page();
        loop {
            let seen = state.word.load(Acquire);
            let (next, end) = halves(seen);
            let first = up(next, per_page);
            if first >= end {
                return;
            }
            if state.word.compare_exchange(seen, word(next, first), AcqRel, Relaxed).is_err() {
                continue;
            }
            // Now no thread can take them. If they stay mapped, they stay for all.
            let left = self.unmap_end(os, first, end - first, 0);
            if left != 0 {
                let (from, to) = (word(next, first), word(next, end));
                let _ = state.word.compare_exchange(from, to, AcqRel, Relaxed);
            }
            return;
        }
    }

    /// Repairs the run in the child of a fork. What a thread of the parent had begun to map stays
    /// unused.
    pub fn repair(&self) {
        self.state().growing.store_changed(0, Release);
    }

    /// Verifies F1 and F2.
    pub fn check(&self) -> bool {
        let (next, end) = halves(self.state().word.load(Acquire));
        next <= end && end <= self.state().frontier.load(Acquire) as usize
    }

    /// Acts like a thread that stops for ever while it maps more for all.
    #[cfg(all(test, not(loom)))]
    pub fn stop_growing_for_ever(&self) {
        self.state().growing.store(1, Release);
    }
}

/// Rounds up to a multiple of a power of two, without code that may panic.
pub(super) fn up(number: usize, unit: usize) -> usize {
    (number + (unit - 1)) & !(unit - 1)
}

fn halves(word: u64) -> (usize, usize) {
    (word as u32 as usize, (word >> 32) as usize)
}

fn word(next: usize, end: usize) -> u64 {
    next as u64 | (end as u64) << 32
}
