//! Finds the call site above a wrapper of malloc, such as `xmalloc`.
//!
//! With `TOFT_WRAPPERS=auto` this file also finds out which functions are such wrappers.
//! `site/watch.rs` explains how.

use crate::allocator::{Allocator, handle};
use crate::bin::BinIndex;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::region::{Partition, Site};
use crate::report::{Source, describe, is_return, module_of, table_of};
use crate::site::{
    BY_FRAME, CODE_MOST, Code, LEVELS_MAX, Note, Place, REACH, STEP_FIRST, Way, code_of_frame,
};
use crate::slab::CLASSES;
use crate::thread::Heap;

/// The size class that this file uses for every large block.
pub(crate) const LARGE: usize = CLASSES - 1;

/// The place on the stack of a return address that the heap does not remember.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackPosition {
    place: Place,
    /// The highest address at which return addresses are looked for.
    limit: usize,
}

handle!(CallSites, call_sites);

impl<O: Os> CallSites<'_, O> {
    /// Returns the first return address, from the one at `place` upwards, that is not in a wrapper.
    /// If there is none, returns the last return address that can be reached. `heap`, which the
    /// caller holds, remembers the results for later calls.
    pub(crate) fn site_behind(self, heap: &Heap, mut place: Place) -> Site {
        let limit = place.stack.saturating_add(REACH);
        let mut previous_site = None;
        for _ in 0..LEVELS_MAX {
            // SAFETY: (1) the place of the call, or a place that `above` has returned.
            let site = unsafe { place.site() };
            let code = match heap.known_code(site) {
                0 => {
                    if let Some(wrapper) =
                        previous_site.filter(|_| self.is_not_return_address(site))
                    {
                        self.forget_wrapper(heap, wrapper);
                        return wrapper;
                    }
                    self.learn(heap, site, Some(StackPosition { place, limit }))
                }
                code => code,
            };
            if code < STEP_FIRST {
                return site;
            }
            // SAFETY: (1) the code of the site there; its caller is still in its call.
            match unsafe { place.above(code, limit) } {
                Some(above) => (place, previous_site) = (above, Some(site)),
                None => return site,
            }
        }
        // SAFETY: (1) as above.
        unsafe { place.site() }
    }

    /// Returns true if a site that should be a return address is none: it is unknown, and no call
    /// instruction precedes it. The wrapper that led to it was then recorded for a library that has
    /// been unloaded since.
    #[cold]
    fn is_not_return_address(self, site: Site) -> bool {
        self.sites.find(site).is_none()
            && self.permit(Calls::REPORT).is_some_and(|_permit| !is_return(site.address()))
    }

    /// Turns a site that was recorded as one of a wrapper back into an ordinary site.
    #[cold]
    fn forget_wrapper(self, heap: &Heap, site: Site) {
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

    /// Returns the number or code of a site. `heap` remembers it, except while the next call of the
    /// site must come here again.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn(self, heap: &Heap, site: Site, position: Option<StackPosition>) -> usize {
        let wrapper = || {
            let names = self.options.wrappers.as_ref().filter(|names| names.name_any())?;
            if !self.wrappers.are_there() {
                return None;
            }
            let permit = || self.permit(Calls::REPORT);
            let by_frame = || {
                position.is_some_and(|position| {
                    // SAFETY: (1) the place of the return address; the function there has not
                    // returned.
                    unsafe { position.place.has_frame(position.limit) }
                })
            };
            let above = |code| {
                let position = position?;
                // SAFETY: (1) the code of the site at this place; the function there has not
                // returned.
                let place = unsafe { position.place.above(code, position.limit) }?;
                // SAFETY: (1) a place that `above` has returned.
                Some(unsafe { place.site() })
            };
            self.wrappers.code_of(&self.os, names, site, permit, by_frame, above)
        };
        let number = self
            .sites
            .number(&self.os, site, || wrapper().or_else(|| self.profiler().hinted(site)));
        if self.watch.is_on() && number < STEP_FIRST {
            match self.check_suspect(site, position) {
                SuspectCheck::Ordinary => {}
                // The next call must be checked, too.
                SuspectCheck::Undecided => return number,
                SuspectCheck::Wrapper(code) => {
                    heap.remember(site, code);
                    return code;
                }
            }
        }
        heap.remember(site, number);
        number
    }

    /// Checks a call of a site that may be in a wrapper, and counts the callers above it. The site
    /// becomes one of a wrapper when enough different callers were seen.
    fn check_suspect(self, site: Site, position: Option<StackPosition>) -> SuspectCheck {
        let Some(known) = self.sites.find(site) else { return SuspectCheck::Ordinary };
        let Some(note) = self.watch.note(known.1).filter(|note| note.is_suspect()) else {
            return SuspectCheck::Ordinary;
        };
        let Some(position) = position else { return SuspectCheck::Undecided };
        let code = match note.way() {
            Way::Code(code) => code,
            Way::Guess if self.has_frame(position) => BY_FRAME,
            _ => {
                note.suspect(Way::Never);
                return SuspectCheck::Ordinary;
            }
        };
        // SAFETY: (1) the code of the site at this place; the function there has not returned.
        let Some(above) = (unsafe { position.place.above(code, position.limit) }) else {
            return SuspectCheck::Undecided;
        };
        let callers = self.hash_callers(StackPosition { place: above, ..position });
        if !note.called_by(callers) {
            return SuspectCheck::Undecided;
        }
        if self.sites.turn_into_code(known, site, code) {
            self.watch.found();
        }
        // If false, another thread has done that with the same code.
        SuspectCheck::Wrapper(code)
    }

    /// Returns a hash of the return addresses from `position` upwards. The last one hashed is the
    /// first in a long function, or the last that can be reached.
    fn hash_callers(self, mut position: StackPosition) -> usize {
        let mut hash = 0usize;
        for _ in 0..LEVELS_MAX {
            // SAFETY: (1) a place that `above` has returned.
            let caller = unsafe { position.place.site() };
            hash = (hash ^ caller.address()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let code = match self.sites.find(caller) {
                // The caller is known to be in a wrapper.
                Some((code, _)) if code >= STEP_FIRST => code,
                _ => match self.watch.way_from(caller, || self.way_above(caller, false)) {
                    Way::Code(code) => code,
                    Way::Guess if self.has_frame(position) => BY_FRAME,
                    _ => break,
                },
            };
            // SAFETY: (1) the code of the site at this place; the function there has not returned.
            match unsafe { position.place.above(code, position.limit) } {
                Some(above) => position.place = above,
                None => break,
            }
        }
        hash
    }

    /// Returns true if the frame pointer at `position` leads to another return address.
    fn has_frame(self, position: StackPosition) -> bool {
        // SAFETY: (1) the place of a return address in a call that has not returned.
        self.permit(Calls::REPORT)
            .is_some_and(|_permit| unsafe { position.place.has_frame(position.limit) })
    }

    /// Notes the size class of a site whose bin is empty or that requests a large block. If the
    /// site requests several classes, its calls are checked from now on.
    #[inline]
    pub(crate) fn watch_sizes(self, heap: &Heap, class: usize, site: Site) {
        if self.watch.is_on() {
            self.note_size(heap, class, site);
        }
    }

    /// Does the work of `watch_sizes` if wrappers are searched for.
    #[cold]
    #[inline(never)]
    fn note_size(self, heap: &Heap, class: usize, site: Site) {
        let Some((number, entry)) = self.sites.find(site) else { return };
        if number >= STEP_FIRST {
            // Another thread has found the wrapper, and this heap remembers the old number.
            return heap.forget(site);
        }
        let Some(note) = self.watch.note_for(&self.os, entry) else { return };
        if note.came(class) {
            self.begin_checking(note, site);
        }
        if note.is_suspect() {
            heap.forget(site);
        }
    }

    /// Starts the checks of a site's calls, and looks up once how its callers are found.
    fn begin_checking(self, note: &Note, site: Site) {
        let way = match note.way() {
            Way::Unknown => self.way_above(site, true),
            way => way,
        };
        note.suspect(way);
    }

    /// Returns how to find the caller of the function that contains `site`, or `Never` if that
    /// function cannot be a wrapper. A function of unknown length may be one if
    /// `allow_unknown_length` is set. Returns `Never` without looking anything up if the process
    /// may have a filter of system calls.
    fn way_above(self, site: Site, allow_unknown_length: bool) -> Way {
        let Some(_permit) = self.permit(Calls::REPORT) else { return Way::Never };
        let code = self.watch.code_at(site.address(), || {
            let module = module_of(site.address())?;
            Some(Code { text: module.text, table: table_of(&module).unwrap_or(0) })
        });
        // No file contains the site if it is a token of the program or in code made at run time.
        let Some(Code { table, .. }) = code else { return Way::Never };
        match describe(Source::KERNEL, table, site.address()) {
            Some(function) if function.bytes > CODE_MOST => Way::Never,
            Some(function) => code_of_frame(function.frame).map_or(Way::Guess, Way::Code),
            None if allow_unknown_length => Way::Guess,
            None => Way::Never,
        }
    }

    /// Reads the symbols of the program that contains the allocator, if it names wrappers. For the
    /// start, when the program cannot have installed a filter yet: later there may be no permit.
    pub(crate) fn read_program(self, code: usize) {
        let names = self.options.wrappers.as_ref().filter(|names| names.name_any());
        if let Some(names) = names.filter(|_| self.wrappers.are_there())
            && let Some(_permit) = self.filter().permit_at_start(&self.os, Calls::REPORT)
        {
            // SAFETY: (1) without that file there is no allocator either; a program starts once.
            unsafe { self.wrappers.read_ahead(&self.os, names, code) };
        }
    }

    /// Index of the first bin of a site's row. In exact mode the site gets a partition, if it has
    /// none yet. Remembered in `heap`, which the caller holds.
    #[inline]
    pub(crate) fn row(self, heap: &Heap, site: Site) -> BinIndex {
        if !self.sites.is_exact() {
            return self.heaps.row(heap, site);
        }
        match heap.known_row(site) {
            row if row.is_row_0() => self.unknown_row(heap, site),
            row => row,
        }
    }

    #[cold]
    #[inline(never)]
    fn unknown_row(self, heap: &Heap, site: Site) -> BinIndex {
        let number = match self.learn(heap, site, None) {
            // A caller that knows the call's place has looked through the wrapper already.
            STEP_FIRST.. => self.sites.shared_number(site),
            number => number,
        };
        BinIndex::row(Partition::new(number))
    }
}

/// The result of the check of one call.
enum SuspectCheck {
    /// The site is not suspected to be in a wrapper.
    Ordinary,
    /// The site may be in a wrapper, and its next call must be checked.
    Undecided,
    /// The site is in a wrapper, and this code leads to the caller.
    Wrapper(usize),
}
