//! The call site of a request and its partition: above a wrapper of malloc, such as `xmalloc`, and
//! as hints have it.

use crate::allocator::{Allocator, handle};
use crate::bin::BinIndex;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::region::{Partition, Site};
use crate::report::{Line, is_return};
use crate::site::{LEVELS_MAX, Place, REACH, Rule, STEP_FIRST};
use crate::thread::Heap;

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
        self.sites.turn_back(known, site);
    }

    /// Returns the number or code of a site, which `heap` remembers.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn(self, heap: &Heap, site: Site, position: Option<StackPosition>) -> usize {
        let wrapper = || {
            let names = self.options.wrappers.as_ref()?;
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
        let number = self.sites.number(&self.os, site, || wrapper().or_else(|| self.hinted(site)));
        heap.remember(site, number);
        number
    }

    /// Returns the partition that a new site shares with others, or `None` if the hints put it in
    /// no group.
    #[inline]
    fn hinted(self, site: Site) -> Option<usize> {
        if !self.hints.are_there() {
            return None;
        }
        let other_build = |file: &[u8]| {
            let mut line = Line::new(false);
            line.text("toft: TOFT_HINTS: ").raw(file);
            line.text(" is not the build that the hints are of; what they say of it is skipped");
            self.os.report(line.end());
        };
        match self.hints.rule_of(site, || self.permit(Calls::REPORT), other_build) {
            Rule::Own => None,
            Rule::Group(group) => Some(self.sites.group_number(usize::from(group), site)),
        }
    }

    /// Reads the symbols of the program that contains the allocator, if it names wrappers. For the
    /// start, when the program cannot have installed a filter yet: later there may be no permit.
    pub(crate) fn read_program(self, code: usize) {
        if let Some(names) = self.options.wrappers.as_ref().filter(|_| self.wrappers.are_there())
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
