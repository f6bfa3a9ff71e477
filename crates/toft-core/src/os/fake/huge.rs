//! The ranges of the fake in which huge pages were allowed, and the ranges that must stay small.

extern crate std;

use super::super::{Error, Huge, HugeHabit};
use super::faults::Verdict;
use super::{Fake, Request};
use core::ops::Range;
use std::collections::BTreeMap;
use std::vec::Vec;

#[derive(Debug, Default)]
pub(super) struct Pages {
    habit: HugeHabit,
    /// The number of bytes that were populated.
    pub(super) populated: usize,
    /// The end of each range that must stay small, by its start.
    small: BTreeMap<usize, usize>,
    /// The ranges in which huge pages were allowed, for however short a time.
    allowed: Vec<Range<usize>>,
}

impl Pages {
    /// Removes the advice of a range, which is mapped again.
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
    /// Sets the system's behaviour with huge pages.
    pub fn set_huge_habit(&self, habit: HugeHabit) {
        self.state().huge.habit = habit;
    }

    /// Returns the number of bytes that were populated.
    pub fn populated_bytes(&self) -> usize {
        self.state().huge.populated
    }

    /// Returns the ranges in which huge pages were allowed.
    pub fn allowed_huge(&self) -> Vec<Range<usize>> {
        self.state().huge.allowed.clone()
    }

    /// Returns true if the system would make no huge pages at an address by itself.
    pub fn is_kept_small(&self, at: usize) -> bool {
        self.state().huge.small.range(..=at).next_back().is_some_and(|(_, &end)| at < end)
    }
}

// SAFETY: (1) nothing is changed; (2) as for `Os`.
unsafe impl Huge for Fake {
    fn huge_habit(&self) -> Option<HugeHabit> {
        let mut state = self.state();
        match state.faults.judge(Request::HugeHabit) {
            Verdict::Fail(_) => None,
            _ => Some(state.huge.habit),
        }
    }

    fn keep_small(&self, addr: usize, len: usize) {
        if let Ok(mut state) = self.admit(Request::KeepSmall, addr, len) {
            state.huge.forget(&(addr..addr + len));
            state.huge.small.insert(addr, addr + len);
        }
    }

    fn allow_huge(&self, addr: usize, len: usize) -> Result<(), Error> {
        assert!(self.is_kept_small(addr), "it was allowed already");
        let mut state = self.admit(Request::AllowHuge, addr, len)?;
        state.huge.forget(&(addr..addr + len));
        state.huge.allowed.push(addr..addr + len);
        Ok(())
    }
}
