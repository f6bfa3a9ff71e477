//! Functions that only pass on what malloc returns: `xmalloc`, `g_malloc`, `__rust_alloc`.
//!
//! The user names them (`TOFT_WRAPPERS`). When a call site is first seen, the symbols of its file
//! are read, once for each file. The functions that match are recorded here. A site in such a
//! function does not tell which code wanted the memory. The function's caller does. The file's
//! unwind tables state the distance from the stack pointer to that caller's return address. From
//! then on, one load finds it.
//!
//! ```text
//! record   (start, end, 0)            a function that is looked through
//!          (start, end | 1, table)    code whose symbols were read, and its unwind table
//! ```
//!
//! Records are only added. A record of zeros is not written yet. If two threads read the same file,
//! its records are there twice, which does no harm.

use crate::options::Names;
use crate::os::Memory;
use crate::region::{Carve, STEP, Site};
use crate::report::{
    Base, Frame, Module, Pointer, Source, describe, for_each_function, frame_of, is_return,
    module_of, table_of,
};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// The first code. A code tells how to get from a site in a wrapper to the return address of its
/// caller. Codes are above the numbers of partitions.
///
/// ```text
/// 1 | where the caller's frame pointer is, 4 bits | words up to the return address, 11 bits
/// ```
pub const STEP_FIRST: usize = 0x8000;
/// The code for a return address that the frame pointer leads to.
pub const BY_FRAME: usize = 0xffff;
const DISTANCE_BITS: u32 = 11;
/// The largest distance in words: a frame of 16 KiB.
const WORDS_MOST: usize = (1 << DISTANCE_BITS) - 1;
/// Where the caller's frame pointer is: in its register (`UNTOUCHED`), unknown (`UNKNOWN`), or else
/// that number of words below the end of the frame.
const UNTOUCHED: usize = 0;
const UNKNOWN: usize = 15;

/// The largest distance in bytes from a call's return address up to any that is looked for, at any
/// level. A code may be for a library that was unloaded since, and then leads to any word.
pub const REACH: usize = 16 << 10;

/// The most nested wrappers that are looked through. A `Vec` that grows in a debug build has seven.
pub const LEVELS_MAX: usize = 12;

/// The number of words between the stack pointer and the program's return address when a form of
/// `operator new` has called malloc. Three are words that `operator new` pushed; one is the return
/// address of its call. `toft-preload` checks its count of pushes against this constant.
pub const NEW_WORDS: usize = 4;

const WORD: usize = size_of::<usize>();

/// The place of a return address, and the frame pointer that belongs to it, or zero if that is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address of the return address.
    pub stack: usize,
    /// The frame pointer at the call.
    pub frame: usize,
}

impl Place {
    /// Returns the place of the return address of the function that contains the call, by a code.
    /// Returns `None` if that place is above `limit`.
    ///
    /// # Safety
    /// 1. The code is of the site at this place, and the call has not returned. (A library that was
    ///    unloaded since, with another at its place, breaks that. Words between the place and
    ///    `limit` are then read. The read faults if the thread's stack ends before `limit`.)
    #[inline(always)]
    pub unsafe fn above(self, code: usize, limit: usize) -> Option<Place> {
        // SAFETY: duty 1: the unwind tables say that the function has its frame there.
        let read = |address| unsafe { *core::ptr::with_exposed_provenance::<usize>(address) };
        self.above_by(code, limit, |address| Some(read(address)))
    }

    /// Returns the place that [`Place::above`] returns, but reads words of the stack by `read`, so
    /// that a call which has returned does no harm.
    #[inline(always)]
    pub fn above_by(
        self,
        code: usize,
        limit: usize,
        mut read: impl FnMut(usize) -> Option<usize>,
    ) -> Option<Place> {
        if code != BY_FRAME {
            let stack = self.stack + (code & WORDS_MOST) * WORD;
            if stack > limit {
                return None;
            }
            let frame = match (code - STEP_FIRST) >> DISTANCE_BITS {
                UNTOUCHED => self.frame,
                UNKNOWN => 0,
                below => read(stack.wrapping_add(WORD).wrapping_sub(below * WORD))?,
            };
            return Some(Place { stack, frame });
        }
        // The frame pointer leads to the caller's frame pointer, and the return address is above
        // that. Frame pointers lead up, and not far.
        let near = self.stack < self.frame && self.frame < limit;
        if !near || !self.frame.is_multiple_of(WORD) {
            return None;
        }
        Some(Place { stack: self.frame + WORD, frame: read(self.frame)? })
    }

    /// Returns true if the frame pointer leads from here to a return address that is not above
    /// `limit`. [`BY_FRAME`] is then a code for the site, though no table says so. Makes an unusual
    /// system call: the caller holds a permit.
    ///
    /// # Safety
    /// 1. A call has been given this place, or `above` has returned it.
    pub unsafe fn has_frame(self, limit: usize) -> bool {
        // SAFETY: (1) words of the thread's stack between the place and the limit, whatever they
        // are.
        unsafe {
            self.above(BY_FRAME, limit).is_some_and(|above| is_return(above.site().address()))
        }
    }

    /// Returns the site of the return address at this place.
    ///
    /// # Safety
    /// 1. A call has been given this place, or `above` has returned it.
    #[inline(always)]
    pub unsafe fn site(self) -> Site {
        // SAFETY: duty 1: a word of the stack.
        Site::at(unsafe { *core::ptr::with_exposed_provenance(self.stack) })
    }
}

/// A record. Any thread writes it, once.
#[repr(C)]
#[derive(Debug)]
struct Record {
    start: AtomicUsize,
    end: AtomicUsize,
    table: AtomicUsize,
}

/// What the records tell of a site in code whose symbols were read.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// True if the site is in a wrapper.
    wraps: bool,
    /// The unwind table of the code, or zero if it is unknown or has none.
    table: usize,
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// The number of records taken. Any thread.
    count: AtomicU32,
    /// The number of sites in wrappers that could be looked through. Any thread.
    sites: AtomicU32,
    /// One after a record found no room. No further file is then read, because that could not be
    /// recorded. Any thread.
    full: AtomicU32,
    records: Carve,
    /// What stays mapped of the file that was read ahead, from the first address to the last, and
    /// its unwind table. Written once, before the record of that file.
    stays: [AtomicUsize; 2],
    stays_table: AtomicUsize,
}

/// All wrappers of a process.
#[derive(Clone, Copy, Debug)]
pub struct Wrappers {
    base: usize,
    limit: usize,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Wrappers {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Wrappers {}

impl Wrappers {
    /// The number of zeroed bytes that `new` needs for its tables.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns an object that looks through no function.
    pub const fn none() -> Wrappers {
        Wrappers { base: 0, limit: 0, state: core::ptr::null() }
    }

    /// Returns an object with records in the address space from `start` to `end`.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `start..end` is address space for this object alone.
    pub unsafe fn new((start, end): (usize, usize), tables: usize) -> Wrappers {
        let limit = (end - start) / size_of::<Record>();
        Wrappers { base: start, limit, state: core::ptr::with_exposed_provenance(tables) }
    }

    /// Returns true if functions are looked through.
    #[inline(always)]
    pub fn are_there(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read if there is none.
        unsafe { &*self.state }
    }

    /// Returns the number of sites that are looked through so far.
    pub fn count(&self) -> usize {
        if self.are_there() { self.state().sites.load(Relaxed) as usize } else { 0 }
    }

    fn record(&self, number: usize) -> &Record {
        let address = self.base + number * size_of::<Record>();
        // SAFETY: `new` duty 2; callers stay below what is mapped; all-zero is a `Record`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    fn add(&self, os: &impl Memory, start: usize, end: usize, table: usize) {
        let state = self.state();
        let number = state.count.fetch_add(1, Relaxed) as usize;
        let bytes = (number + 1) * size_of::<Record>();
        if number >= self.limit
            || state.records.reach(os, self.base, self.base + bytes, STEP).is_err()
        {
            state.full.store(1, Relaxed);
            return;
        }
        let record = self.record(number);
        record.start.store(start, Relaxed);
        record.table.store(table, Relaxed);
        // publish record: pairs with the load in `of_site`.
        record.end.store(end, Release);
    }

    /// Returns the start, the end and the table of each record. Those that are not written yet are
    /// empty.
    fn records(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let state = self.state();
        let mapped = state.records.mapped() / size_of::<Record>();
        (0..mapped.min(state.count.load(Acquire) as usize)).map(|number| {
            let record = self.record(number);
            let end = record.end.load(Acquire);
            (record.start.load(Relaxed), end, record.table.load(Relaxed))
        })
    }

    /// Returns what is known of a site, or `None` if the symbols there were not read.
    fn of_site(&self, site: Site) -> Option<Known> {
        let (mut wraps, mut read) = (false, None);
        for (start, end, table) in self.records() {
            if !(start..end & !1).contains(&site.address().wrapping_sub(1)) {
                continue;
            }
            if end & 1 == 0 {
                wraps = true;
            } else {
                read = Some(table);
            }
        }
        // While another thread reads the symbols, the function may be there and its code not yet.
        (wraps || read.is_some()).then(|| Known { wraps, table: read.unwrap_or(0) })
    }

    /// Returns the code of a new site, if it is in a wrapper that was named and can be looked
    /// through, or in a function without a name that such a wrapper has called. If the unwind
    /// tables do not help, `by_frame` returns true if the frame pointer leads on. `above` returns
    /// the site of the function's caller, by a code. Makes unusual system calls only with a permit.
    /// For a wrapper in the file that was read ahead it needs none.
    #[cold]
    #[inline(never)]
    pub fn code_of<P>(
        &self,
        os: &impl Memory,
        names: &Names,
        site: Site,
        permit: impl FnOnce() -> Option<P>,
        by_frame: impl FnOnce() -> bool,
        above: impl FnOnce(usize) -> Option<Site>,
    ) -> Option<usize> {
        let known = self.of_site(site);
        let code = match self.code_ahead(known, site) {
            Some(code) if known.is_some_and(|known| known.wraps) => code,
            _ if known.is_some_and(|known| !known.wraps) => {
                if !self.has_wrapper_beside(site) {
                    return None;
                }
                let _permit = permit()?;
                self.code_of_nameless(site, above)?
            }
            _ => {
                let _permit = permit()?;
                let code = self.look_up(os, names, site, by_frame);
                code.or_else(|| self.code_of_nameless(site, above))?
            }
        };
        self.state().sites.fetch_add(1, Relaxed);
        Some(code)
    }

    /// Returns the code of a site in a wrapper of the file that was read ahead.
    fn code_ahead(&self, known: Option<Known>, site: Site) -> Option<usize> {
        let state = self.state();
        let table = known.map_or(0, |known| known.table);
        if table == 0 || table != state.stays_table.load(Relaxed) {
            return None;
        }
        let [start, end] = &state.stays;
        // SAFETY: (1) `read_ahead` duty 1.
        let source = unsafe { Source::mapped((start.load(Relaxed), end.load(Relaxed))) };
        code_of_frame(describe(source, table, site.address())?.frame)
    }

    /// Returns the range of the code around a site whose symbols were read, and its unwind table.
    fn file_around(&self, site: Site) -> Option<(core::ops::Range<usize>, usize)> {
        self.records().find_map(|(start, end, table)| {
            let range = start..end & !1;
            let is_file = end & 1 != 0 && range.contains(&site.address().wrapping_sub(1));
            is_file.then_some((range, table))
        })
    }

    /// Returns true if the file around a site has a function that is looked through.
    fn has_wrapper_beside(&self, site: Site) -> bool {
        self.file_around(site).is_some_and(|(file, _)| {
            self.records().any(|(start, end, _)| end & 1 == 0 && file.contains(&start))
        })
    }

    /// Returns the code of a site in a function without a symbol, if a wrapper of the same file has
    /// called it: a static function of a stripped file, which does the work of several wrappers.
    /// The caller holds a permit.
    fn code_of_nameless(
        &self,
        site: Site,
        above: impl FnOnce(usize) -> Option<Site>,
    ) -> Option<usize> {
        let (file, table) = self.file_around(site)?;
        let frame = describe(Source::KERNEL, table, site.address())?.frame;
        let code = code_of_frame(frame)?;
        let caller = above(code)?;
        if !file.contains(&caller.address()) || !self.of_site(caller)?.wraps {
            return None;
        }
        let mut is_named = false;
        for_each_function(&module_of(site.address())?, |_, start, end| {
            is_named |= (start..end).contains(&site.address().wrapping_sub(1));
        });
        (!is_named).then_some(code)
    }

    fn look_up(
        &self,
        os: &impl Memory,
        names: &Names,
        site: Site,
        by_frame: impl FnOnce() -> bool,
    ) -> Option<usize> {
        let known = match self.of_site(site) {
            Some(known) => known,
            None if self.state().full.load(Relaxed) != 0 => return None,
            None => {
                self.read_symbols(os, names, &module_of(site.address())?);
                self.of_site(site)?
            }
        };
        if !known.wraps {
            return None;
        }
        // To find the file of each site would take longer than all else.
        let frame = match known.table {
            0 => frame_of(&module_of(site.address())?, site.address()),
            table => describe(Source::KERNEL, table, site.address()).and_then(|it| it.frame),
        };
        code_of_frame(frame).or_else(|| by_frame().then_some(BY_FRAME))
    }

    /// Reads the symbols of the file around an address of code, so that its sites need no system
    /// call later. Makes unusual system calls: the caller holds a permit.
    ///
    /// # Safety
    /// 1. The file is never unmapped, and this is called once.
    pub unsafe fn read_ahead(&self, os: &impl Memory, names: &Names, code: usize) {
        let Some(module) = module_of(code) else { return };
        if let Some(table) = table_of(&module)
            && let Some((start, end)) = module.loaded_around(table)
        {
            let state = self.state();
            state.stays[0].store(start, Relaxed);
            state.stays[1].store(end, Relaxed);
            // A thread that finds the file's record, which is written below, sees all three.
            state.stays_table.store(table, Relaxed);
        }
        self.read_symbols(os, names, &module);
    }

    fn read_symbols(&self, os: &impl Memory, names: &Names, module: &Module) {
        let (start, end) = module.text;
        if names.pass_libc() && module.is_libc() {
            // Few of its functions have a symbol.
            self.add(os, start, (end + 1) & !1, 0);
        } else {
            for_each_function(module, |name, start, end| {
                if names.fit(name) {
                    self.add(os, start, (end + 1) & !1, 0);
                }
            });
        }
        // Added even if the symbols could not be read, so that no thread tries again.
        self.add(os, start, end | 1, table_of(module).unwrap_or(0));
    }

    /// Completes, in the child of a fork, the mapping that a thread of the parent had begun.
    pub fn repair(&self, os: &impl Memory) {
        if self.are_there() {
            self.state().records.repair(os, self.base);
        }
    }
}

/// Returns the code of a frame, or `None` if there is no frame or it cannot be looked through.
pub fn code_of_frame(frame: Option<Frame>) -> Option<usize> {
    let frame = frame?;
    let bytes = match frame.base {
        Base::AboveFrame(16) if frame.pointer == Pointer::Below(16) => return Some(BY_FRAME),
        Base::AboveFrame(_) => return None,
        Base::AboveStack(bytes) => bytes,
    };
    let pointer = match frame.pointer {
        Pointer::Untouched => UNTOUCHED,
        Pointer::Below(below) if below % WORD == 0 && (2..UNKNOWN).contains(&(below / WORD)) => {
            below / WORD
        }
        _ => UNKNOWN,
    };
    let words = Some(bytes / WORD).filter(|words| (1..=WORDS_MOST).contains(words))?;
    let saved = matches!(pointer, UNTOUCHED | UNKNOWN) || pointer <= words;
    let code = STEP_FIRST | pointer << DISTANCE_BITS | words;
    (saved && code != BY_FRAME).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stack is made up. The words below a place are where the callee's frame was.
    #[test]
    fn codes_lead_from_frame_to_frame() {
        let stack: Vec<usize> = (0..100).map(|i| 0x5000 + i).collect();
        let at = |word: usize| (&raw const stack[word]).expose_provenance();
        let start = Place { stack: at(3), frame: 77 };
        let step = |place: Place, base, pointer| {
            let code = code_of_frame(Some(Frame { base, pointer })).unwrap();
            assert!((STEP_FIRST..=BY_FRAME).contains(&code));
            // SAFETY: (1) a made-up stack that is all there.
            unsafe { place.above(code, place.stack + REACH) }
        };
        // SAFETY: (1) as above.
        let site = |place: Place| unsafe { place.site() }.address();
        assert_eq!(site(start), 0x5003);
        // After the return the stack pointer is at word 4, so a frame of two words ends after word
        // 5.
        let one = step(start, Base::AboveStack(16), Pointer::Untouched).unwrap();
        assert_eq!((one, site(one)), (Place { stack: at(5), frame: 77 }, 0x5005));
        let two = step(start, Base::AboveStack(32), Pointer::Below(16)).unwrap();
        assert_eq!(two, Place { stack: at(7), frame: 0x5006 });
        let lost = step(start, Base::AboveStack(32), Pointer::Unknown).unwrap();
        assert_eq!(lost, Place { stack: at(7), frame: 0 });
        let framed = Place { stack: at(3), frame: at(40) };
        let above = step(framed, Base::AboveFrame(16), Pointer::Below(16)).unwrap();
        assert_eq!(above, Place { stack: at(41), frame: 0x5028 });
        assert_eq!(step(lost, Base::AboveFrame(16), Pointer::Below(16)), None, "it is not known");
        assert_eq!(step(start, Base::AboveFrame(16), Pointer::Below(16)), None, "it leads down");
        // The register is no longer a frame pointer. Nothing is read there.
        let wild = Place { stack: at(3), frame: at(3) + REACH };
        assert_eq!(step(wild, Base::AboveFrame(16), Pointer::Below(16)), None, "it leads away");
        // SAFETY: (1) as above; nothing is read beyond the limit.
        let beyond = |place: Place, base, pointer, limit| unsafe {
            place.above(code_of_frame(Some(Frame { base, pointer })).unwrap(), limit)
        };
        assert_eq!(beyond(start, Base::AboveStack(32), Pointer::Untouched, at(6)), None);
        assert!(beyond(start, Base::AboveStack(32), Pointer::Untouched, at(7)).is_some());
        assert_eq!(beyond(framed, Base::AboveFrame(16), Pointer::Below(16), at(40)), None);
        assert!(beyond(framed, Base::AboveFrame(16), Pointer::Below(16), at(41)).is_some());
    }

    /// Without room for the marker, the next caller would read all symbols of the file again.
    #[test]
    fn what_could_not_be_remembered_is_not_read_again() {
        let os = crate::os::Linux::detect();
        let mut options = crate::options::Options::DEFAULT;
        options.take(b"TOFT_WRAPPERS=*no_function_is_called_so*").unwrap();
        let tables: Vec<usize> = vec![0; Wrappers::TABLE_BYTES / WORD + 1];
        // SAFETY: (1) zeros, for as long as the test takes. (2) No addresses at all.
        let full = unsafe { Wrappers::new((4096, 4096), tables.as_ptr().expose_provenance()) };
        let site = Site::at(code_of_frame as *const () as usize + 1);
        let names = options.wrappers.unwrap();
        assert_eq!(full.code_of(&os, &names, site, || Some(()), || true, |_| None), None);
        let tried = full.state().count.load(Relaxed);
        assert!(tried > 0, "the marker was to be added");
        assert_eq!(full.code_of(&os, &names, site, || Some(()), || true, |_| None), None);
        assert_eq!(full.state().count.load(Relaxed), tried);
    }

    #[test]
    fn frames_that_do_not_fit_have_no_code() {
        let code = |base, pointer| code_of_frame(Some(Frame { base, pointer }));
        assert!(code(Base::AboveStack(WORDS_MOST * WORD), Pointer::Untouched).is_some());
        assert!(code(Base::AboveStack(WORDS_MOST * WORD), Pointer::Unknown).is_none(), "BY_FRAME");
        assert!(code(Base::AboveStack((WORDS_MOST + 1) * WORD), Pointer::Untouched).is_none());
        assert!(code(Base::AboveStack(0), Pointer::Untouched).is_none());
        assert!(code(Base::AboveStack(16), Pointer::Below(24)).is_none(), "below the frame");
        assert!(code(Base::AboveFrame(24), Pointer::Below(16)).is_none());
        assert!(code(Base::AboveFrame(16), Pointer::Untouched).is_none());
    }
}
