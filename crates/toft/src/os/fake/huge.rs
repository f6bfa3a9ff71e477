//! Which ranges of the fake's have huge pages, and which it was told to leave small.

extern crate std;

use super::super::{Error, HUGE, Huge, HugeHabit};
use super::{Fake, Request};
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

#[derive(Debug, Default)]
pub(super) struct Pages {
    habit: HugeHabit,
    /// Bytes that were populated.
    pub(super) populated: usize,
    huge: BTreeSet<usize>,
    /// By start, the end.
    small: BTreeMap<usize, usize>,
    /// Ranges that huge pages were allowed in, for however short a time.
    allowed: Vec<Range<usize>>,
}

impl Pages {
    pub(super) fn contains(&self, at: usize) -> bool {
        self.huge.contains(&(at & !(HUGE - 1)))
    }

    /// A range that is mapped again has no advice.
    pub(super) fn forget(&mut self, range: &Range<usize>) {
        let touched = |(&start, &end): (&usize, &usize)| start < range.end && end > range.start;
        let touched: Vec<_> =
            self.small.iter().filter(|&(s, e)| touched((s, e))).map(|(&s, &e)| (s, e)).collect();
        for (start, end) in touched {
            self.small.remove(&start);
            if start < range.start {
                self.small.insert(start, range.start);
            }
            if end > range.end {
                self.small.insert(range.end, end);
            }
        }
    }
}

impl Fake {
    /// What the system does about huge pages from now on.
    pub fn set_huge_habit(&self, habit: HugeHabit) {
        self.state().huge.habit = habit;
    }

    /// Bytes that were populated.
    pub fn populated_bytes(&self) -> usize {
        self.state().huge.populated
    }

    /// Huge pages that were made, by address.
    pub fn huge_pages(&self) -> Vec<usize> {
        self.state().huge.huge.iter().copied().collect()
    }

    /// Ranges that huge pages were allowed in.
    pub fn allowed_huge(&self) -> Vec<Range<usize>> {
        self.state().huge.allowed.clone()
    }

    /// Whether the system would make no huge pages at an address by itself.
    pub fn is_kept_small(&self, at: usize) -> bool {
        self.state().huge.small.range(..=at).next_back().is_some_and(|(_, &end)| at < end)
    }
}

// SAFETY: (1) nothing is changed; (2) as for `Os`.
unsafe impl Huge for Fake {
    fn huge_habit(&self) -> HugeHabit {
        self.state().huge.habit
    }

    fn keep_small(&self, addr: usize, len: usize) {
        if let Ok(mut state) = self.admit(Request::KeepSmall, addr, len) {
            state.huge.forget(&(addr..addr + len));
            state.huge.small.insert(addr, addr + len);
        }
    }

    fn allow_huge(&self, addr: usize, len: usize) -> Result<(), Error> {
        assert!(self.is_kept_small(addr), "it was allowed already");
        let mut state = self.admit(Request::MakeHuge, addr, len)?;
        state.huge.forget(&(addr..addr + len));
        state.huge.allowed.push(addr..addr + len);
        Ok(())
    }

    fn make_huge(&self, addr: usize, len: usize, kept_small: bool) -> Result<(), Error> {
        assert!(addr.is_multiple_of(HUGE) && len.is_multiple_of(HUGE), "not whole huge pages");
        assert_eq!(self.is_kept_small(addr), kept_small, "advised otherwise");
        let mut state = self.admit(Request::MakeHuge, addr, len)?;
        for at in (addr..addr + len).step_by(HUGE) {
            assert!(state.huge.huge.insert(at), "it is huge already");
        }
        Ok(())
    }
}
