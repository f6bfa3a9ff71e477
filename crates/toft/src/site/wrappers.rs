//! Functions that only hand on what malloc gives them: `xmalloc`, `g_malloc`, `__rust_alloc`.
//!
//! Their names are given (`TOFT_WRAPPERS`), or they are [found](super::Watch). When a call site is
//! seen for the first time, the symbols of its file are read, once for each file, and the functions
//! that fit are kept here. A site in one of them does not tell who wanted the memory: the caller of
//! that function does. Its return address is a distance from the stack pointer that the file's
//! unwind tables state, so that from then on it is one load.
//!
//! ```text
//! record   (start, end)  a function that is looked through      (start, end | 1)  code whose symbols were read
//! ```
//!
//! Records are only ever added; one that is zero is not written yet. Two threads may both read a
//! file: its records are there twice then, and that is all.

use crate::options::Names;
use crate::os::Os;
use crate::region::{Carve, STEP};
use crate::report::{
    Base, Frame, Module, Pointer, for_each_function, frame_of, is_return, module_of,
};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// What is to be done at a site of a wrapper to reach the return address of its caller: codes after
/// the numbers of partitions.
///
/// ```text
/// 1 | where the caller's frame pointer is, 4 bits | words up to the return address, 11 bits
/// ```
pub const STEP_FIRST: usize = 0x8000;
/// The return address lies where the frame pointer leads.
pub const BY_FRAME: usize = 0xffff;
const DISTANCE_BITS: u32 = 11;
/// The largest distance in words: a frame of 16 KiB.
const WORDS_MOST: usize = (1 << DISTANCE_BITS) - 1;
/// Where the caller's frame pointer is: in its register; that number of words below the end of the
/// frame; or unknown.
const UNTOUCHED: usize = 0;
const UNKNOWN: usize = 15;

/// No return address is looked for further above that of the call, however many levels are between
/// them: what was learnt may be of code that is no more, and then leads to any word.
pub const REACH: usize = 16 << 10;

const WORD: usize = size_of::<usize>();

/// Where a return address lies, and the frame pointer that belongs to it: zero, where it is not
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address of the return address.
    pub stack: usize,
    /// What the frame pointer was at the call.
    pub frame: usize,
}

impl Place {
    /// The place of the return address of the function that the call was in, by a code; not above
    /// `limit`.
    ///
    /// # Safety
    /// 1. The code is of the site at this place, and the call has not returned. (A library that was
    ///    unloaded since, with another at its place, breaks that: then words between the place and
    ///    `limit` are read, and it faults where the thread's stack ends before.)
    #[inline(always)]
    pub unsafe fn above(self, code: usize, limit: usize) -> Option<Place> {
        if code != BY_FRAME {
            let stack = self.stack + (code & WORDS_MOST) * WORD;
            if stack > limit {
                return None;
            }
            let frame = match (code - STEP_FIRST) >> DISTANCE_BITS {
                UNTOUCHED => self.frame,
                UNKNOWN => 0,
                // SAFETY: duty 1: the unwind tables say that the function has saved it there, in
                // its frame.
                below => unsafe {
                    *core::ptr::with_exposed_provenance::<usize>(stack + WORD - below * WORD)
                },
            };
            return Some(Place { stack, frame });
        }
        // Above the word that it points to, which is the frame pointer before it. It never goes
        // down; nor up for long.
        let near = self.stack < self.frame && self.frame < limit;
        if !near || !self.frame.is_multiple_of(WORD) {
            return None;
        }
        // SAFETY: duty 1: the unwind tables say that the function has its frame there.
        let frame = unsafe { *core::ptr::with_exposed_provenance::<usize>(self.frame) };
        Some(Place { stack: self.frame + WORD, frame })
    }

    /// Whether the frame pointer leads to a return address from here, not above `limit`: then
    /// [`BY_FRAME`] is a code for the site, though nothing says so. Makes an unusual system call:
    /// the caller holds a permit.
    ///
    /// # Safety
    /// 1. A place that a call has been given, or that `above` has made of one.
    pub unsafe fn has_frame(self, limit: usize) -> bool {
        // SAFETY: (1) words of the thread's stack between the place and the limit, whatever they
        // are.
        unsafe { self.above(BY_FRAME, limit).is_some_and(|above| is_return(above.site())) }
    }

    /// The return address at this place.
    ///
    /// # Safety
    /// 1. A place that a call has been given, or that `above` has made of one.
    #[inline(always)]
    pub unsafe fn site(self) -> usize {
        // SAFETY: duty 1: a word of the stack.
        unsafe { *core::ptr::with_exposed_provenance(self.stack) }
    }
}

/// A record. Any thread, once.
#[repr(C)]
#[derive(Debug)]
struct Record {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// Records taken. Any thread.
    count: AtomicU32,
    /// Sites in wrappers that could be looked through. Any thread.
    sites: AtomicU32,
    /// One from when a record found no room: nothing is learnt of files that were not read until
    /// then, because it could not be remembered that they were. Any thread.
    full: AtomicU32,
    records: Carve,
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
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// No function is looked through.
    pub const fn none() -> Wrappers {
        Wrappers { base: 0, limit: 0, state: core::ptr::null() }
    }

    /// Records in the address space from `start` to `end`.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `start..end` is address space for this object alone.
    pub unsafe fn new((start, end): (usize, usize), tables: usize) -> Wrappers {
        let limit = (end - start) / size_of::<Record>();
        Wrappers { base: start, limit, state: core::ptr::with_exposed_provenance(tables) }
    }

    /// Whether anything is looked through.
    #[inline(always)]
    pub fn are_there(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read where there are none.
        unsafe { &*self.state }
    }

    /// Sites that are looked through so far.
    pub fn count(&self) -> usize {
        if self.are_there() { self.state().sites.load(Relaxed) as usize } else { 0 }
    }

    fn record(&self, number: usize) -> &Record {
        let address = self.base + number * size_of::<Record>();
        // SAFETY: `new` duty 2; callers stay below what is mapped; all-zero is a `Record`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    fn add(&self, os: &impl Os, start: usize, end: usize) {
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
        // publish record: pairs with the load in `of_site`.
        record.end.store(end, Release);
    }

    /// Whether a site is in a wrapper; `None` if the symbols there have not been read.
    fn of_site(&self, site: usize) -> Option<bool> {
        let state = self.state();
        let mapped = state.records.mapped() / size_of::<Record>();
        let mut known = None;
        for number in 0..mapped.min(state.count.load(Acquire) as usize) {
            let record = self.record(number);
            let end = record.end.load(Acquire);
            let start = record.start.load(Relaxed);
            if !(start..end & !1).contains(&site.wrapping_sub(1)) {
                continue;
            }
            if end & 1 == 0 {
                return Some(true);
            }
            known = Some(false);
        }
        known
    }

    /// The code of a site that is new, if it is in a wrapper that was named and can be looked
    /// through. `by_frame` returns true if the frame pointer leads on, where the unwind tables do
    /// not tell how. Makes unusual system calls: the caller holds a permit.
    #[cold]
    #[inline(never)]
    pub fn code_of(
        &self,
        os: &impl Os,
        names: &Names,
        site: usize,
        by_frame: impl FnOnce() -> bool,
    ) -> Option<usize> {
        let module = match self.of_site(site) {
            Some(false) => return None,
            Some(true) => module_of(site)?,
            None if self.state().full.load(Relaxed) != 0 => return None,
            None => {
                let module = module_of(site)?;
                self.read_symbols(os, names, &module);
                self.of_site(site).filter(|&wraps| wraps)?;
                module
            }
        };
        let code =
            code_of_frame(frame_of(&module, site)).or_else(|| by_frame().then_some(BY_FRAME))?;
        self.state().sites.fetch_add(1, Relaxed);
        Some(code)
    }

    fn read_symbols(&self, os: &impl Os, names: &Names, module: &Module) {
        for_each_function(module, |name, start, end| {
            if names.fit(name) {
                self.add(os, start, (end + 1) & !1);
            }
        });
        // Whether or not they could be read: so that no thread tries again.
        let (start, end) = module.text;
        self.add(os, start, end | 1);
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os) {
        if self.are_there() {
            self.state().records.repair(os, self.base);
        }
    }
}

/// The code of a frame; `None` where there is none, or it is none that can be looked through.
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

    /// A stack that is made up: what lies below is where the callee's frame was.
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
        let site = |place: Place| unsafe { place.site() };
        assert_eq!(site(start), 0x5003);
        // The call has returned at word 4, so that a frame of two words ends behind word 5.
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
        // A register that is no frame pointer any more: nothing is read there.
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
        let site = code_of_frame as *const () as usize + 1;
        let names = options.wrappers.unwrap();
        assert_eq!(full.code_of(&os, &names, site, || true), None);
        let tried = full.state().count.load(Relaxed);
        assert!(tried > 0, "the marker was to be added");
        assert_eq!(full.code_of(&os, &names, site, || true), None);
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
