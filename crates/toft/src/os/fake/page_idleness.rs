//! What the fake knows of how warm pages are: what they held when they were last scanned for
//! writes, and which are out. A page that is out can be read and written all the same, because it
//! is memory of this process; a test must report its own reads ([`Fake::touch`]).

extern crate std;

use super::super::{Error, Pages, Scan, Warmth};
use super::{Fake, PageState, Request};
use core::ops::Range;
use std::collections::BTreeMap;

/// What is known of pages, by address.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The descriptor that notes writes, and the ranges that it is for: by start, the end.
    watch: u32,
    watches: u32,
    watched: BTreeMap<usize, usize>,
    /// What a page held when it was found written last, if writes to it are noted.
    armed: BTreeMap<usize, u64>,
    /// What a page holds that is out.
    out: BTreeMap<usize, u64>,
    no_swap: bool,
    stuck: bool,
    opened: u32,
    closed: u32,
}

impl Fake {
    /// There is no swap from now on.
    pub fn take_swap_away(&self) {
        self.state().warmth.no_swap = true;
    }

    /// The program closes every descriptor.
    pub fn close_all(&self) {
        let mut state = self.state();
        // Never one of ours.
        state.warmth.watch += 1;
        state.warmth.watched.clear();
        state.warmth.armed.clear();
    }

    /// The program reads a range: pages that are out come back.
    pub fn touch(&self, range: Range<usize>) {
        let page = self.machine.page_size;
        let start = range.start & !(page - 1);
        self.state().warmth.out.retain(|&at, _| at < start || at >= range.end);
    }

    /// Bytes of pages that are out.
    pub fn swapped_bytes(&self) -> usize {
        let mut state = self.state();
        let still = |(&at, &mut hash): (&usize, &mut u64)| {
            self.host.resident(at..at + self.machine.page_size) != 0 && self.hash(at) == hash
        };
        state.warmth.out.retain(|at, hash| still((at, hash)));
        state.warmth.out.len() * self.machine.page_size
    }

    /// Descriptors that are open.
    pub fn descriptors(&self) -> u32 {
        let state = self.state();
        state.warmth.opened - state.warmth.closed
    }

    /// Scans say that they have come nowhere from now on.
    pub fn stop_scans(&self) {
        self.state().warmth.stuck = true;
    }

    /// How often what tells of pages was opened.
    pub fn pages_opened(&self) -> u32 {
        self.state().warmth.opened
    }

    /// Descriptors that were opened to note writes.
    pub fn watches(&self) -> u32 {
        self.state().warmth.watches
    }

    fn hash(&self, address: usize) -> u64 {
        let start: *const u64 = core::ptr::with_exposed_provenance(address);
        (0..self.machine.page_size / 8).fold(0, |hash: u64, word| {
            // SAFETY: callers name resident pages of the host's.
            let value = unsafe { start.add(word).read_volatile() };
            (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
        })
    }

    fn is(&self, wanted: Pages, at: usize) -> bool {
        if self.host.resident(at..at + self.machine.page_size) == 0 {
            return false;
        }
        let hash = self.hash(at);
        let mut state = self.state();
        let known = &mut state.warmth;
        if known.out.get(&at) == Some(&hash) {
            return false;
        }
        known.out.remove(&at);
        let watched = known.watched.range(..=at).next_back().is_some_and(|(_, &end)| at < end);
        let still = watched && known.armed.get(&at) == Some(&hash);
        match wanted {
            Pages::Resident => true,
            Pages::Small => !state.huge.contains(at),
            Pages::Still => still,
            Pages::Written if watched && !still => {
                known.armed.insert(at, hash);
                true
            }
            Pages::Written => false,
        }
    }
}

// SAFETY: (1) pages of the host are only read; (2) as for `Os`.
unsafe impl Warmth for Fake {
    fn open_pages(&self) -> Result<u32, Error> {
        self.state().warmth.opened += 1;
        Ok(1)
    }

    fn close_pages(&self, _: u32) {
        self.state().warmth.closed += 1;
    }

    fn open_watch(&self) -> Result<u32, Error> {
        let mut state = self.state();
        state.warmth.watch += 7;
        state.warmth.watches += 1;
        Ok(state.warmth.watch)
    }

    fn is_watch(&self, watch: u32) -> bool {
        self.state().warmth.watch == watch
    }

    fn watch(&self, watch: u32, addr: usize, len: usize) -> Result<(), Error> {
        self.check_range(addr, len);
        let mut state = self.state();
        if let super::faults::Verdict::Fail(_) = state.faults.judge(Request::Watch) {
            return Err(Error::Unsupported);
        }
        // Walls may be among it, as the kernel allows.
        let fits =
            |state| matches!(state, PageState::Mapped | PageState::Guarded | PageState::Forbidden);
        let such = state.space.within(addr..addr + len).filter(|&(_, state)| fits(state));
        let bytes: usize = such.map(|(range, _)| range.len()).sum();
        assert!(bytes == len, "not mapped, or shared");
        if watch != state.warmth.watch {
            return Err(Error::Unsupported);
        }
        state.warmth.watched.insert(addr, addr + len);
        Ok(())
    }

    fn scan(
        &self,
        _: u32,
        wanted: Pages,
        (addr, len): (usize, usize),
        found: &mut [(usize, usize)],
    ) -> Result<Scan, Error> {
        self.check_range(addr, len);
        if let super::faults::Verdict::Fail(_) = self.state().faults.judge(Request::Scan) {
            return Err(Error::Unsupported);
        }
        {
            let state = self.state();
            assert!(state.space.is_ours(addr..addr + len), "Scan of what is not mapped");
            if state.warmth.stuck {
                return Ok(Scan { ranges: 0, end: addr });
            }
        }
        let page = self.machine.page_size;
        let mut ranges = 0usize;
        for at in (addr..addr + len).step_by(page) {
            if !self.is(wanted, at) {
                continue;
            }
            match ranges.checked_sub(1).and_then(|last| found.get_mut(last)) {
                Some(last) if last.0 + last.1 == at => last.1 += page,
                _ => match found.get_mut(ranges) {
                    Some(range) => {
                        *range = (at, page);
                        ranges += 1;
                    }
                    // A page of the next range is looked at again.
                    None => {
                        if wanted == Pages::Written {
                            self.state().warmth.armed.remove(&at);
                        }
                        return Ok(Scan { ranges, end: at });
                    }
                },
            }
        }
        Ok(Scan { ranges, end: addr + len })
    }

    fn has_swap(&self) -> bool {
        !self.state().warmth.no_swap
    }

    fn page_out(&self, addr: usize, len: usize, swap: bool) -> Result<(), Error> {
        drop(self.admit(Request::PageOut, addr, len)?);
        let page = self.machine.page_size;
        for at in (addr..addr + len).step_by(page).filter(|_| swap) {
            if self.host.resident(at..at + page) != 0 {
                let hash = self.hash(at);
                self.state().warmth.out.insert(at, hash);
            }
        }
        Ok(())
    }
}
