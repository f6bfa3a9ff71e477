//! The states of the fake's pages. They are an ordered map of ranges, so a space of many TiB costs
//! nothing. Neighbours of one kind count as one mapping, as in a kernel.

extern crate std;

use core::ops::Range;
use std::collections::BTreeMap;
use std::vec::Vec;

/// The state of a page. Pages outside all ranges are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Not in use.
    Free,
    /// Mapped by the allocator.
    Mapped,
    /// Mapped by the allocator, and faulting, as a part of the mapping around it.
    Guarded,
    /// Mapped by the allocator, and faulting, as a separate mapping.
    Forbidden,
    /// Mapped by the allocator, and a view of a store.
    Shared,
    /// Mapped by other code.
    Foreign,
}

/// An address space.
#[derive(Debug, Default)]
pub struct Space {
    /// The end and the state of each range, by its first address. Ranges are never empty, never
    /// overlap, and are never `Free`. Adjacent ranges differ in state.
    ranges: BTreeMap<usize, (usize, PageState)>,
}

impl Space {
    /// Returns the ranges that overlap `wanted`, cut to it. Free ranges are left out.
    pub fn within(
        &self,
        wanted: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, PageState)> + '_ {
        let first =
            self.ranges.range(..=wanted.start).next_back().map_or(wanted.start, |(&s, _)| s);
        self.ranges.range(first..wanted.end).filter_map(move |(&start, &(end, state))| {
            let cut = start.max(wanted.start)..end.min(wanted.end);
            (!cut.is_empty()).then_some((cut, state))
        })
    }

    /// Returns true if every page of the range is free.
    pub fn is_free(&self, wanted: Range<usize>) -> bool {
        self.within(wanted).next().is_none()
    }

    /// Returns the highest address of `len` free bytes in a range.
    pub fn highest_hole(&self, all: Range<usize>, len: usize) -> Option<usize> {
        let mut start = all.start;
        let mut highest = None;
        let used = self.within(all.clone()).map(|(range, _)| range);
        for range in used.chain(core::iter::once(all.end..all.end)) {
            if range.start - start >= len {
                highest = Some(range.start - len);
            }
            start = range.end;
        }
        highest
    }

    /// Returns true if every page of the range is the allocator's.
    pub fn is_ours(&self, wanted: Range<usize>) -> bool {
        let len = wanted.len();
        let ours = |state| !matches!(state, PageState::Free | PageState::Foreign);
        let pieces = self.within(wanted).filter(|&(_, state)| ours(state));
        pieces.map(|(range, _)| range.len()).sum::<usize>() == len
    }

    /// Returns true if every page of the range is in a state.
    pub fn is_all(&self, wanted: Range<usize>, state: PageState) -> bool {
        let len = wanted.len();
        let such = self.within(wanted).filter(|&(_, found)| found == state);
        such.map(|(range, _)| range.len()).sum::<usize>() == len
    }

    /// Returns the state of the page that contains an address.
    pub fn at(&self, address: usize) -> PageState {
        self.within(address..address + 1).next().map_or(PageState::Free, |(_, state)| state)
    }

    /// Returns the number of bytes in a state, in the whole space.
    pub fn bytes(&self, wanted: PageState) -> usize {
        let of_state = self.ranges.iter().filter(|(_, (_, state))| *state == wanted);
        of_state.map(|(start, (end, _))| end - start).sum()
    }

    /// Returns the number of separate mappings of the allocator. A guarded range is part of the
    /// mapping around it.
    pub fn mappings(&self) -> usize {
        let mut last = (0, PageState::Free);
        let mut count = 0;
        for (&start, &(end, state)) in &self.ranges {
            let kind = if state == PageState::Guarded { PageState::Mapped } else { state };
            count += usize::from(kind != PageState::Foreign && last != (start, kind));
            last = (end, kind);
        }
        count
    }

    /// Sets the state of a range.
    pub fn set(&mut self, range: Range<usize>, state: PageState) {
        let touched: Vec<_> = self.within(range.clone()).map(|(cut, _)| cut).collect();
        for cut in touched {
            self.cut_out(cut);
        }
        if state == PageState::Free {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &(before_end, before_state))) = self.ranges.range(..start).next_back()
            && (before_end, before_state) == (start, state)
        {
            self.ranges.remove(&before);
            start = before;
        }
        if let Some(&(after_end, after_state)) = self.ranges.get(&end)
            && after_state == state
        {
            self.ranges.remove(&end);
            end = after_end;
        }
        self.ranges.insert(start, (end, state));
    }

    /// Frees a part of one range.
    fn cut_out(&mut self, cut: Range<usize>) {
        let Some((&start, &(end, state))) = self.ranges.range(..=cut.start).next_back() else {
            return;
        };
        self.ranges.remove(&start);
        if start < cut.start {
            self.ranges.insert(start, (cut.start, state));
        }
        if cut.end < end {
            self.ranges.insert(cut.end, (end, state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PageState::{Forbidden, Foreign, Free, Guarded, Mapped};
    use super::std::vec;
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_mapping() {
        let mut space = Space::default();
        space.set(10..20, Mapped);
        space.set(30..40, Mapped);
        assert_eq!(space.mappings(), 2);
        space.set(20..30, Mapped);
        assert_eq!(space.mappings(), 1);
        assert_eq!(space.bytes(Mapped), 30);
        space.set(15..20, Guarded);
        assert_eq!(space.mappings(), 1);
        space.set(15..20, Forbidden);
        assert_eq!(space.mappings(), 3);
        space.set(15..20, Mapped);
        assert!(space.is_ours(10..40) && !space.is_ours(9..40) && !space.is_ours(10..41));
    }

    #[test]
    fn ranges_split_where_they_change() {
        let mut space = Space::default();
        space.set(0..100, Mapped);
        space.set(40..50, Guarded);
        space.set(60..70, Free);
        space.set(95..110, Foreign);
        let all: Vec<_> = space.within(0..200).collect();
        let expected = vec![
            (0..40, Mapped),
            (40..50, Guarded),
            (50..60, Mapped),
            (70..95, Mapped),
            (95..110, Foreign),
        ];
        assert_eq!(all, expected);
        assert!(space.is_free(60..70) && !space.is_free(59..61) && !space.is_free(65..71));
        assert!(space.is_ours(0..60) && !space.is_ours(55..65) && !space.is_ours(90..96));
        assert_eq!((space.at(39), space.at(40), space.at(60)), (Mapped, Guarded, Free));
    }
}
