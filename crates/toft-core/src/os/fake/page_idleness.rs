//! Page idleness in the fake: the contents of pages at the last scan for writes, and the pages that
//! are swapped out. A swapped-out page can still be read and written, because it is memory of this
//! process. A test must therefore report its own reads ([`Fake::touch`]).

extern crate std;

use super::super::{Error, PageIdleness, Pages, Scan};
use super::{Fake, PageState, Request};
use core::ops::Range;
use std::collections::BTreeMap;

/// The fake's record of pages, by address.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The descriptor that records writes, and its ranges: the end of each by its start.
    watch: u32,
    watches: u32,
    watched: BTreeMap<usize, usize>,
    /// The hash of a page's contents when a scan last found it written, if writes to it are
    /// recorded.
    armed: BTreeMap<usize, u64>,
    /// The hash of the contents of each page that is swapped out.
    out: BTreeMap<usize, u64>,
    no_swap: bool,
    stuck: bool,
    opened: u32,
    closed: u32,
}

impl Fake {
    /// Removes the swap.
    pub fn take_swap_away(&self) {
        self.state().idleness.no_swap = true;
    }

    /// Makes the program close every descriptor.
    pub fn close_all(&self) {
        let mut state = self.state();
        // The new number is never one that `open_watch` returned.
        state.idleness.watch += 1;
        state.idleness.watched.clear();
        state.idleness.armed.clear();
    }

    /// Notes that the program reads a range, so that its pages come back from swap.
    pub fn touch(&self, range: Range<usize>) {
        let page = self.machine.page_size;
        let start = range.start & !(page - 1);
        self.state().idleness.out.retain(|&at, _| at < start || at >= range.end);
    }

    /// Returns the number of bytes of pages that are swapped out.
    pub fn swapped_bytes(&self) -> usize {
        let mut state = self.state();
        let still = |(&at, &mut hash): (&usize, &mut u64)| {
            self.host.resident(at..at + self.machine.page_size) != 0 && self.hash(at) == hash
        };
        state.idleness.out.retain(|at, hash| still((at, hash)));
        state.idleness.out.len() * self.machine.page_size
    }

    /// Returns the number of open descriptors.
    pub fn descriptors(&self) -> u32 {
        let state = self.state();
        state.idleness.opened - state.idleness.closed
    }

    /// Makes scans report that they made no progress.
    pub fn stop_scans(&self) {
        self.state().idleness.stuck = true;
    }

    /// Returns the number of times that a descriptor for scans was opened.
    pub fn pages_opened(&self) -> u32 {
        self.state().idleness.opened
    }

    /// Returns the number of descriptors that were opened to record writes.
    pub fn watches(&self) -> u32 {
        self.state().idleness.watches
    }

    fn hash(&self, address: usize) -> u64 {
        let start: *const u64 = core::ptr::with_exposed_provenance(address);
        (0..self.machine.page_size / 8).fold(0, |hash: u64, word| {
            // SAFETY: callers pass resident pages of the host.
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
        let known = &mut state.idleness;
        if known.out.get(&at) == Some(&hash) {
            return false;
        }
        known.out.remove(&at);
        let watched = known.watched.range(..=at).next_back().is_some_and(|(_, &end)| at < end);
        let still = watched && known.armed.get(&at) == Some(&hash);
        match wanted {
            Pages::Resident => true,
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
unsafe impl PageIdleness for Fake {
    fn open_pages(&self) -> Result<u32, Error> {
        self.state().idleness.opened += 1;
        Ok(1)
    }

    fn close_pages(&self, _: u32) {
        self.state().idleness.closed += 1;
    }

    fn open_watch(&self) -> Result<u32, Error> {
        let mut state = self.state();
        state.idleness.watch += 7;
        state.idleness.watches += 1;
        Ok(state.idleness.watch)
    }

    fn is_watch(&self, watch: u32) -> bool {
        self.state().idleness.watch == watch
    }

    fn watch(&self, watch: u32, addr: usize, len: usize) -> Result<(), Error> {
        self.check_range(addr, len);
        let mut state = self.state();
        if let super::faults::Verdict::Fail(_) = state.faults.judge(Request::Watch) {
            return Err(Error::Unsupported);
        }
        // The range may contain guard pages, which the kernel allows.
        let fits =
            |state| matches!(state, PageState::Mapped | PageState::Guarded | PageState::Forbidden);
        let such = state.space.within(addr..addr + len).filter(|&(_, state)| fits(state));
        let bytes: usize = such.map(|(range, _)| range.len()).sum();
        assert!(bytes == len, "not mapped, or shared");
        if watch != state.idleness.watch {
            return Err(Error::Unsupported);
        }
        state.idleness.watched.insert(addr, addr + len);
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
            if state.idleness.stuck {
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
                    // The page belongs to the next range, so the next scan must find it again.
                    None => {
                        if wanted == Pages::Written {
                            self.state().idleness.armed.remove(&at);
                        }
                        return Ok(Scan { ranges, end: at });
                    }
                },
            }
        }
        Ok(Scan { ranges, end: addr + len })
    }

    fn has_swap(&self) -> bool {
        !self.state().idleness.no_swap
    }

    fn page_out(&self, addr: usize, len: usize, swap: bool) -> Result<(), Error> {
        drop(self.admit(Request::PageOut, addr, len)?);
        let page = self.machine.page_size;
        for at in (addr..addr + len).step_by(page).filter(|_| swap) {
            if self.host.resident(at..at + page) != 0 {
                let hash = self.hash(at);
                self.state().idleness.out.insert(at, hash);
            }
        }
        Ok(())
    }
}
