//! Finds wrappers of malloc that no option names (`TOFT_WRAPPERS=auto`).
//!
//! A site is in a wrapper if blocks of several sizes are requested there, and several callers are
//! above it. The callers are then the code that wants the memory. Slow paths of malloc count both,
//! for each site in a note beside its entry in the table:
//!
//! ```text
//! a bin has no more slots     note the class; with several, look up the function's frame once
//! such a site's next calls    note the callers; with several, the site is in a wrapper from now on
//! ```
//!
//! A long function is no wrapper, however many functions call it: it does other work, and is what a
//! person looks for. The callers of a site are all functions above it, up to the first long one.
//! With the nearest caller alone, a wrapper that another wrapper calls would have only one. The
//! blocks that the site has handed out until then stay in their partition, which no other site ever
//! gets.
//!
//! Any thread writes the words of a note, one by one. A count that is lost because two threads
//! write at a time is made up a little later.

use crate::os::Memory;
use crate::region::{Carve, STEP, Site};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// The number of classes that makes a site suspect.
pub const CLASSES_LEAST: u32 = 2;
/// The number of different rows of callers that makes a suspect site one of a wrapper.
pub const CALLERS_LEAST: u32 = 2;
/// The most bytes of code that a wrapper has.
pub const CODE_MOST: usize = 512;
/// The number of calls of a suspect site that are checked, until it is left alone for some time.
const LOOKS: u32 = 64;

/// Words in place of a code, for the way to the caller of a suspect site. This one: not looked up.
const NOBODY_KNOWS: u32 = 0;
/// By the frame pointer, if it leads to a return address.
const BY_GUESS: u32 = 1;
/// The site is in no wrapper.
const NEVER: u32 = 2;

/// The number of ways that are kept. A return address has one place, which its hash selects.
const WAYS: usize = 8192;
const WAY_BITS: u32 = 16;
/// The number of files whose code and unwind tables are remembered.
const FILES: usize = 64;
/// The bytes of both, which come before the notes.
const KEPT_BYTES: usize = WAYS * size_of::<AtomicU64>() + FILES * size_of::<File>();

/// The addresses of a file's code and unwind tables. Any thread writes them once, the end last.
#[repr(C)]
#[derive(Debug)]
struct File {
    start: AtomicUsize,
    table: AtomicUsize,
    end: AtomicUsize,
}

/// The code of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The first address, and the one after the last.
    pub text: (usize, usize),
    /// The address of the search table for its unwind tables, or zero if it has none.
    pub table: usize,
}

/// How to find the caller above a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not looked up yet.
    Unknown,
    /// By a code.
    Code(usize),
    /// By the frame pointer, if that leads to a return address.
    Guess,
    /// The site is in no wrapper.
    Never,
}

/// The counts of one site. All zero at first.
#[repr(C)]
#[derive(Debug)]
pub struct Note {
    /// A bit for each class that was requested.
    classes: AtomicU64,
    /// A bit for each row of callers, by its hash. Several rows may have the same bit.
    callers: AtomicU64,
    /// A code, or one of the words above.
    way: AtomicU32,
    /// The number of calls that are still to be checked.
    left: AtomicU32,
    /// The number of times that a bin had no more slots.
    refills: AtomicU32,
    /// The number of refills below which the site is not suspect again.
    next: AtomicU32,
}

impl Way {
    fn of(word: u32) -> Way {
        match word {
            NOBODY_KNOWS => Way::Unknown,
            BY_GUESS => Way::Guess,
            NEVER => Way::Never,
            code => Way::Code(code as usize),
        }
    }

    fn word(self) -> u32 {
        match self {
            Way::Unknown => NOBODY_KNOWS,
            Way::Guess => BY_GUESS,
            Way::Never => NEVER,
            Way::Code(code) => code as u32,
        }
    }
}

impl Note {
    /// Notes that a bin of a class had no more slots. Returns true if the site's calls are to be
    /// checked from now on.
    pub fn came(&self, class: usize) -> bool {
        let bit = 1 << (class % 64);
        let classes = self.classes.load(Relaxed) | bit;
        self.classes.store(classes, Relaxed);
        let refills = self.refills.load(Relaxed).saturating_add(1);
        self.refills.store(refills, Relaxed);
        let due = classes.count_ones() >= CLASSES_LEAST
            && refills >= self.next.load(Relaxed)
            && self.left.load(Relaxed) == 0
            && self.way() != Way::Never;
        if due {
            // The intervals grow, because new callers may come late.
            self.next.store(refills.saturating_mul(2), Relaxed);
        }
        due
    }

    /// Returns how to find the site's caller.
    pub fn way(&self) -> Way {
        Way::of(self.way.load(Relaxed))
    }

    /// Stores how to find the site's caller. Calls are checked from now on, unless that is `Never`.
    pub fn suspect(&self, way: Way) {
        self.way.store(way.word(), Relaxed);
        self.left.store(if way == Way::Never { 0 } else { LOOKS }, Relaxed);
    }

    /// Returns true if calls are to be checked.
    #[inline]
    pub fn is_suspect(&self) -> bool {
        self.left.load(Relaxed) != 0
    }

    /// Notes the callers of a checked call, as one hash. Returns true if several were seen by now.
    pub fn called_by(&self, callers: usize) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        let bit = (callers as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        let callers = self.callers.load(Relaxed) | 1 << bit;
        self.callers.store(callers, Relaxed);
        callers.count_ones() >= CALLERS_LEAST
    }
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// The number of sites that were found to be in wrappers. Any thread.
    found: AtomicU32,
    /// The number of wrappers' sites that turned out wrong, because their code is gone. Any thread.
    lost: AtomicU32,
    /// The number of files of which something is kept. Any thread.
    files: AtomicU32,
    notes: Carve,
}

/// The notes of all sites.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    base: usize,
    limit: usize,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Watch {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Watch {}

impl Watch {
    /// The number of zeroed bytes that `new` needs for its tables.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns an object that notes nothing.
    pub const fn none() -> Watch {
        Watch { base: 0, limit: 0, state: core::ptr::null() }
    }

    /// Returns notes in the address space from `start` to `end`, for as many entries of the site
    /// table as there is room for.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `start..end` is address space for this object alone.
    pub unsafe fn new((start, end): (usize, usize), tables: usize) -> Watch {
        let limit = (end - start).saturating_sub(KEPT_BYTES) / size_of::<Note>();
        Watch { base: start, limit, state: core::ptr::with_exposed_provenance(tables) }
    }

    /// Returns true if calls are noted.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read if nothing is noted.
        unsafe { &*self.state }
    }

    /// Returns the note of an entry, if there is one.
    pub fn note(&self, entry: usize) -> Option<&Note> {
        let bytes = entry.checked_add(1)?.checked_mul(size_of::<Note>())?;
        if !self.is_on() || self.state().notes.mapped() < KEPT_BYTES + bytes {
            return None;
        }
        let address = self.base + KEPT_BYTES + entry * size_of::<Note>();
        // SAFETY: `new` duty 2, below what is mapped; all-zero is a `Note`.
        Some(unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Returns the note of an entry, and creates it if there is none. Returns `None` without
    /// memory. No wrapper is then found there.
    pub fn note_for(&self, os: &impl Memory, entry: usize) -> Option<&Note> {
        if let Some(note) = self.note(entry) {
            return Some(note);
        }
        if !self.is_on() || entry >= self.limit {
            return None;
        }
        let bytes = KEPT_BYTES + (entry + 1) * size_of::<Note>();
        self.state().notes.reach(os, self.base, self.base + bytes, STEP).ok()?;
        self.note(entry)
    }

    /// Returns the way on from a site: the one that is kept, or else the result of `way`.
    pub fn way_from(&self, site: Site, way: impl FnOnce() -> Way) -> Way {
        if self.state().notes.mapped() < KEPT_BYTES {
            return way();
        }
        let key = (site.address() as u64) << WAY_BITS;
        let number = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - WAYS.trailing_zeros());
        let at = self.base + number as usize * size_of::<AtomicU64>();
        // SAFETY: `new` duty 2, below what is mapped; a separate word, of which zero is not in use.
        let place: &AtomicU64 = unsafe { &*core::ptr::with_exposed_provenance(at) };
        let word = place.load(Relaxed);
        if word != 0 && word >> WAY_BITS == key >> WAY_BITS {
            return Way::of(word as u32 & ((1 << WAY_BITS) - 1));
        }
        let way = way();
        place.store(key | u64::from(way.word()), Relaxed);
        way
    }

    /// Returns the code that contains an address: what is kept of it, or the result of `code`.
    pub fn code_at(&self, address: usize, code: impl FnOnce() -> Option<Code>) -> Option<Code> {
        if self.state().notes.mapped() < KEPT_BYTES {
            return code();
        }
        let file = |number: usize| -> &File {
            let first = self.base + WAYS * size_of::<AtomicU64>();
            // SAFETY: as above; all-zero is a `File`.
            unsafe { &*core::ptr::with_exposed_provenance(first + number * size_of::<File>()) }
        };
        let taken = self.state().files.load(Relaxed) as usize;
        for number in 0..taken.min(FILES) {
            let file = file(number);
            // publish file: pairs with the store below. A file whose end is zero is not written
            // yet. In the child of a fork it may never be.
            let end = file.end.load(Acquire);
            let (start, table) = (file.start.load(Relaxed), file.table.load(Relaxed));
            if (start..end).contains(&address) {
                return Some(Code { text: (start, end), table });
            }
        }
        let code = code()?;
        // If no more files can be kept, the result is only returned.
        let next = |taken: u32| ((taken as usize) < FILES).then_some(taken + 1);
        if let Ok(number) = self.state().files.fetch_update(Relaxed, Relaxed, next) {
            let file = file(number as usize);
            file.start.store(code.text.0, Relaxed);
            file.table.store(code.table, Relaxed);
            file.end.store(code.text.1, Release);
        }
        Some(code)
    }

    /// Counts a site that was found to be in a wrapper.
    pub fn found(&self) {
        self.state().found.fetch_add(1, Relaxed);
    }

    /// Counts a wrapper's site, found or named, that is no longer one.
    pub fn lost(&self) {
        if self.is_on() {
            self.state().lost.fetch_add(1, Relaxed);
        }
    }

    /// Returns the number of sites that were found to be in wrappers.
    pub fn count(&self) -> usize {
        if self.is_on() { self.state().found.load(Relaxed) as usize } else { 0 }
    }

    /// Completes, in the child of a fork, the mapping that a thread of the parent had begun.
    pub fn repair(&self, os: &impl Memory) {
        if self.is_on() {
            self.state().notes.repair(os, self.base);
        }
    }

    /// Returns the number of bytes of metadata mapped for notes.
    pub fn mapped_bytes(&self) -> usize {
        if self.is_on() { self.state().notes.mapped() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};

    fn fresh() -> Note {
        // SAFETY: all-zero is a `Note`.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn many_classes_make_a_site_suspect_and_many_callers_a_wrapper_s() {
        let note = fresh();
        for class in 0..CLASSES_LEAST as usize - 1 {
            // A class counts once, however often it is noted.
            for _ in 0..10 {
                assert!(!note.came(class));
            }
        }
        assert!(note.came(40) && !note.is_suspect());
        note.suspect(Way::Code(0x8002));
        assert!(note.is_suspect() && note.way() == Way::Code(0x8002));
        assert!(!note.came(41), "it is being looked at");
        for _ in 0..10 {
            assert!(!note.called_by(0x5555_0000_1000), "one caller, however often");
        }
        let callers = (1..).map(|i| 0x5555_0000_1000 + 0x35 * i);
        assert!(callers.take(20).any(|caller| note.called_by(caller)));
    }

    #[test]
    fn a_site_with_one_caller_is_let_go_and_looked_at_again_later_and_later() {
        let note = fresh();
        let mut due = Vec::new();
        for refill in 0..1000 {
            if note.came(refill % 8) {
                due.push(refill);
                note.suspect(Way::Guess);
                let looks = (0..1000).take_while(|_| note.is_suspect());
                assert_eq!(looks.map(|_| assert!(!note.called_by(7))).count(), LOOKS as usize);
            }
        }
        assert!((5..12).contains(&due.len()), "{due:?}");
        note.suspect(Way::Never);
        assert!(!note.is_suspect() && (0..10_000).all(|_| !note.came(9)));
    }

    #[test]
    fn there_is_a_note_for_each_entry_as_far_as_there_is_room() {
        assert!(Watch::none().note(0).is_none() && Watch::none().count() == 0);
        let fake = Fake::new(Machine::LARGE);
        let tables = fake.address_space().start.next_multiple_of(1 << 40);
        fake.map(tables, 4096).unwrap();
        let start = tables + (1 << 30);
        // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
        let watch = unsafe { Watch::new((start, start + (1 << 20)), tables) };
        assert!(watch.note(5).is_none(), "nothing is mapped yet");
        let note = watch.note_for(&fake, 5).unwrap();
        note.suspect(Way::Guess);
        assert!(watch.note(5).unwrap().is_suspect() && !watch.note(6).unwrap().is_suspect());
        let way = |address, way| watch.way_from(Site::at(address), || way);
        for address in 1..100 {
            assert_eq!(way(address, Way::Code(0x8000 + address)), Way::Code(0x8000 + address));
        }
        let kept = (1..100).filter(|&a| way(a, Way::Never) == Way::Code(0x8000 + a)).count();
        assert!(kept > 90, "{kept}: a place has one of them");
        let code = |address, start| {
            let code = Code { text: (start, start + 10), table: start / 2 };
            watch.code_at(address, || Some(code)).unwrap().text.0
        };
        assert_eq!((code(105, 100), code(109, 777), code(110, 110)), (100, 100, 110));
        assert_eq!(watch.code_at(5, || None), None);
        // When a child was forked, another thread had taken a place and not written it yet. Later
        // files are kept.
        watch.state().files.fetch_add(1, Relaxed);
        assert_eq!((code(125, 120), code(125, 777)), (120, 120));
        (0..2 * FILES).for_each(|i| assert_eq!(code(5000 + 10 * i, 5000 + 10 * i), 5000 + 10 * i));
        assert_eq!(code(105, 777), 100);
        assert_eq!(watch.state().files.load(Relaxed) as usize, FILES, "however many come");
        let last = ((1 << 20) - KEPT_BYTES) / size_of::<Note>() - 1;
        assert!(watch.note_for(&fake, last).is_some() && watch.note_for(&fake, last + 1).is_none());
        assert!(watch.note(usize::MAX).is_none() && watch.mapped_bytes() <= 1 << 20);
    }
}
