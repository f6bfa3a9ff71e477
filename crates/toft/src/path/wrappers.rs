//! Who called the wrapper of malloc that called; and which functions are such wrappers, where that
//! is to be found out (`TOFT_WRAPPERS=auto`).

use crate::allocator::Allocator;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::report::{describe, is_return, module_of, table_of};
use crate::site::{BY_FRAME, CODE_MOST, Code, Note, Place, REACH, STEP_FIRST, Way, code_of_frame};
use crate::slab::CLASSES;
use crate::thread::Heap;

/// Wrappers of wrappers that are looked through: a `Vec` that grows in a debug build has seven.
const LEVELS: usize = 12;

/// The class that large blocks count for here.
pub(crate) const LARGE: usize = CLASSES - 1;

/// Where a return address was met that is not remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    place: Place,
    /// No return address is looked for further up.
    limit: usize,
}

impl<O: Os> Allocator<O> {
    /// The first return address, from the one at `place` upwards, that is not in a wrapper; or the
    /// last that can be reached. What is learnt is remembered in `heap`, which the caller holds.
    pub(crate) fn site_behind(&self, heap: &Heap, mut place: Place) -> usize {
        let limit = place.stack.saturating_add(REACH);
        let mut below = None;
        for _ in 0..LEVELS {
            // SAFETY: (1) the call's own place, or what was made of it below.
            let site = unsafe { place.site() };
            let code = match heap.known_code(site) {
                0 => {
                    if let Some(wrapper) = below.filter(|_| self.is_nothing(site)) {
                        self.unlearn(heap, wrapper);
                        return wrapper;
                    }
                    self.learn(heap, site, Some(Met { place, limit }))
                }
                code => code,
            };
            if code < STEP_FIRST {
                return site;
            }
            // SAFETY: (1) the code of the site there; its caller is still in its call.
            match unsafe { place.above(code, limit) } {
                Some(above) => (place, below) = (above, Some(site)),
                None => return site,
            }
        }
        // SAFETY: (1) as above.
        unsafe { place.site() }
    }

    /// Whether a word that should be a return address is none: it is new, and no call instruction
    /// stands before it. Then what led to it was learnt of code that is no more.
    #[cold]
    fn is_nothing(&self, word: usize) -> bool {
        self.sites.find(word).is_none()
            && self.permit(Calls::REPORT).is_some_and(|_permit| !is_return(word))
    }

    /// What was learnt of a site in a wrapper does not hold. From now on it is a site as any other.
    #[cold]
    fn unlearn(&self, heap: &Heap, site: usize) {
        heap.forget(site);
        let Some(known) = self.sites.find(site).filter(|known| known.0 >= STEP_FIRST) else {
            return;
        };
        if let Some(note) = self.watch.note_for(&self.os, known.1) {
            note.suspect(Way::Never);
        }
        if self.sites.turn_back(known, site) {
            self.watch.lost();
        }
    }

    /// The number or code of a site, which is remembered in `heap`, where it can be.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn(&self, heap: &Heap, site: usize, met: Option<Met>) -> usize {
        let wrapper = || {
            let names = self.options.wrappers.as_ref().filter(|names| names.name_any())?;
            if !self.wrappers.are_there() {
                return None;
            }
            let _permit = self.permit(Calls::REPORT)?;
            // SAFETY: (1) the place where it was met: its caller is still in its call.
            let by_frame = || met.is_some_and(|met| unsafe { met.place.has_frame(met.limit) });
            self.wrappers.code_of(&self.os, names, site, by_frame)
        };
        let number = self.sites.number(&self.os, site, || wrapper().or_else(|| self.hinted(site)));
        if self.watch.is_on() && number < STEP_FIRST {
            match self.look(site, met) {
                Look::Nothing => {}
                // The next call is to come here, too.
                Look::Again => return number,
                Look::Wrapper(code) => {
                    heap.remember(site, code);
                    return code;
                }
            }
        }
        heap.remember(site, number);
        number
    }

    /// A call of a site that may be one of a wrapper: who stands above it.
    fn look(&self, site: usize, met: Option<Met>) -> Look {
        let Some(known) = self.sites.find(site) else { return Look::Nothing };
        let Some(note) = self.watch.note(known.1).filter(|note| note.is_suspect()) else {
            return Look::Nothing;
        };
        let Some(met) = met else { return Look::Again };
        let code = match note.way() {
            Way::Code(code) => code,
            Way::Guess if self.has_frame(met) => BY_FRAME,
            _ => {
                note.suspect(Way::Never);
                return Look::Nothing;
            }
        };
        // SAFETY: (1) the code of the site there; its caller is still in its call.
        let Some(above) = (unsafe { met.place.above(code, met.limit) }) else { return Look::Again };
        let callers = self.those_above(Met { place: above, ..met });
        if !note.called_by(callers) {
            return Look::Again;
        }
        if self.sites.turn_into_code(known, site, code) {
            self.watch.found();
        }
        // Or another thread has done that, with the same code.
        Look::Wrapper(code)
    }

    /// The callers above a call, in one word: the return addresses from where one was met upwards
    /// to the first in a long function, or to the last that can be reached.
    fn those_above(&self, mut met: Met) -> usize {
        let mut all = 0usize;
        for _ in 0..LEVELS {
            // SAFETY: (1) a place that `above` has made.
            let caller = unsafe { met.place.site() };
            all = (all ^ caller).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let code = match self.sites.find(caller) {
                // One that is looked through already.
                Some((code, _)) if code >= STEP_FIRST => code,
                _ => match self.watch.way_from(caller, || self.way_above(caller, false)) {
                    Way::Code(code) => code,
                    Way::Guess if self.has_frame(met) => BY_FRAME,
                    _ => break,
                },
            };
            // SAFETY: (1) the code of the site there; its caller is still in its call.
            match unsafe { met.place.above(code, met.limit) } {
                Some(above) => met.place = above,
                None => break,
            }
        }
        all
    }

    /// Whether the frame pointer leads on from where a return address was met.
    fn has_frame(&self, met: Met) -> bool {
        // SAFETY: (1) where it was met, in a call that has not returned.
        self.permit(Calls::REPORT).is_some_and(|_permit| unsafe { met.place.has_frame(met.limit) })
    }

    /// A site's bin is empty, or the site requests a large block. If the site has many sizes, its
    /// calls are watched from now on.
    #[inline]
    pub(crate) fn watch_sizes(&self, heap: &Heap, class: usize, site: usize) {
        if self.watch.is_on() {
            self.note_size(heap, class, site);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_size(&self, heap: &Heap, class: usize, site: usize) {
        let Some((number, entry)) = self.sites.find(site) else { return };
        if number >= STEP_FIRST {
            // Another thread has found it out, and this one remembers what it was.
            return heap.forget(site);
        }
        let Some(note) = self.watch.note_for(&self.os, entry) else { return };
        if note.came(class) {
            self.suspect(note, site);
        }
        if note.is_suspect() {
            heap.forget(site);
        }
    }

    /// Finds out how the callers of a site are come by, once.
    fn suspect(&self, note: &Note, site: usize) {
        let way = match note.way() {
            Way::Unknown => self.way_above(site, true),
            way => way,
        };
        note.suspect(way);
    }

    /// How to find the caller above a call of a function, if the function may be a wrapper; with
    /// `blind`, also if its length is unknown. `Never` where there may be a filter of system calls:
    /// nothing is looked up then.
    fn way_above(&self, site: usize, blind: bool) -> Way {
        let Some(_permit) = self.permit(Calls::REPORT) else { return Way::Never };
        let code = self.watch.code_at(site, || {
            let module = module_of(site)?;
            Some(Code { text: module.text, table: table_of(&module).unwrap_or(0) })
        });
        // A token that the program chose is the code of no file; nor is code made at run time.
        let Some(Code { table, .. }) = code else { return Way::Never };
        match describe(table, site) {
            Some(function) if function.bytes > CODE_MOST => Way::Never,
            Some(function) => code_of_frame(function.frame).map_or(Way::Guess, Way::Code),
            None if blind => Way::Guess,
            None => Way::Never,
        }
    }
}

/// The result of one check.
enum Look {
    /// The site is as any other, as far as is known.
    Nothing,
    /// It is not known yet.
    Again,
    /// It is one of a wrapper, with this code.
    Wrapper(usize),
}
