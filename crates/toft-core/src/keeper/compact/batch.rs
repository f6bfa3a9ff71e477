//! Slabs whose free slots are held while they are compacted: how they are taken, what they are
//! asked, and how they are let go of.

use crate::keeper::compact::Compactor;
use crate::os::{Os, Sharing};
use crate::reclaim::{BATCH, Entry, Turn};
use crate::remote::announce;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex, SlotSet, are_disjoint, has_slot};

/// Slabs whose free slots are held.
pub(crate) struct Batch<'a> {
    pub(crate) turn: &'a Turn<'a>,
    pub(crate) entry: &'a Entry<'a>,
    pub(crate) sharing: &'a Sharing,
    pub(crate) slabs: [Option<&'static Slab>; BATCH],
    pub(crate) page: usize,
    pub(crate) bytes: usize,
    pub(crate) full: bool,
}

impl<O: Os> Compactor<'_, O> {
    pub(crate) fn hold_batch(self, batch: &mut Batch, slabs: impl Iterator<Item = &'static Slab>) {
        let mut places = batch.slabs.iter_mut();
        for slab in slabs {
            batch.turn.add(slab);
            if !slab.pinning().hold_all() {
                batch.turn.take_back();
            } else if let Some(place) = places.next() {
                *place = Some(slab);
            }
        }
        let can = self.barrier();
        for place in &mut batch.slabs {
            let Some(slab) = *place else { continue };
            let quiet = can && self.heaps.is_quiet(slab);
            slab.pinning().settle(quiet);
            // What its owner is just changing is left alone: `turn` remembers to leave it.
            if !quiet || slab.is_dormant() || slab.pages().is_without_tail() {
                self.unhold_slab(slab);
                *place = None;
            }
        }
    }

    pub(crate) fn unhold_batch(self, batch: &mut Batch) {
        batch.slabs.iter().flatten().for_each(|slab| self.unhold_slab(slab));
        let can = self.barrier();
        for slab in batch.turn.slabs() {
            if slab.pinning().is_overlooked(!can || !self.heaps.is_quiet(slab)) {
                announce(slab);
            }
            slab.pinning().leave();
        }
        batch.turn.clear();
    }

    pub(crate) fn unhold_slab(self, slab: &Slab) {
        if let Some(slot) = slab.pinning().let_go_all() {
            self.reports().freed_twice(slab, slot, Call::RemoteFree);
        }
    }
}

impl<'a> Batch<'a> {
    pub(crate) fn new(
        turn: &'a Turn<'a>,
        entry: &'a Entry<'a>,
        sharing: &'a Sharing,
        page: usize,
    ) -> Self {
        Batch { turn, entry, sharing, slabs: [None; BATCH], page, bytes: 0, full: false }
    }

    pub(crate) fn slots(&self, slab: &Slab, unit: usize) -> (usize, usize) {
        let bytes = slab.units().unit_bytes(self.page);
        slab.units().slots_within(unit * bytes, (unit + 1) * bytes)
    }

    pub(crate) fn range(&self, slab: &Slab, unit: usize) -> (usize, usize) {
        let (start, bytes) = slab.units().range(unit, self.page);
        (slab.base() + start, bytes)
    }

    pub(crate) fn holds(&self, slab: &Slab) -> bool {
        self.slabs.iter().flatten().any(|held| core::ptr::eq(*held, slab))
    }

    /// Bytes of pages that are saved where two sets of slots share them; none where they cannot.
    pub(crate) fn gain(&self, slab: &Slab, unit: usize, a: &SlotSet, b: &SlotSet) -> usize {
        if !are_disjoint(a, b) {
            return 0;
        }
        let bytes = slab.units().unit_bytes(self.page);
        let both = pages(bytes, self.page).filter(|offset| {
            let start = unit * bytes + offset;
            let (first, end) = slab.units().slots_within(start, start + self.page);
            let uses = |set| SlotIndex::range(first..end).any(|slot| has_slot(set, slot));
            uses(a) && uses(b)
        });
        both.count() * self.page
    }
}

/// The offsets of the pages in `bytes` bytes. Not `step_by`, which may panic.
pub(crate) fn pages(bytes: usize, page: usize) -> impl Iterator<Item = usize> {
    (0..bytes / page.max(1)).map(move |number| number * page)
}

pub(crate) fn is_empty(set: &SlotSet) -> bool {
    set.iter().all(|&bits| bits == 0)
}

pub(crate) fn put<T>(places: &mut [T], number: usize, value: T) {
    if let Some(place) = places.get_mut(number) {
        *place = value;
    }
}
