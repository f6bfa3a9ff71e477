//! The slabs that a heap owns: the heap collects their remote frees, lists them, gives them up and
//! takes them over.

use super::Heap;
use crate::bin::BinIndex;
use crate::slab::{FLAGS, Slab, SlotIndex, Spent};
use crate::sync::{Ordering::Relaxed, ReentrancyGuard};

impl Heap {
    /// Returns the index of the bin that a slab belongs to.
    pub fn bin_of(slab: &Slab) -> BinIndex {
        BinIndex::row(slab.partition()).of_class(slab.class_number())
    }

    /// Collects the slots that other threads have freed in this heap's slabs, and lists the slabs
    /// that have enough free slots again. Passes each slot that was not live to `bad`, and each
    /// empty slab that is on its list to `empty`. Returns true if any slab was collected.
    pub fn collect(
        &self,
        _guard: &ReentrancyGuard,
        mut bad: impl FnMut(&Slab, SlotIndex),
        mut empty: impl FnMut(&Slab),
    ) -> bool {
        let bins = self.bins();
        let mut any = false;
        self.inbox.drain(|slab| {
            match self.collect_slab(slab, |slot| bad(slab, slot)) {
                Spent::Nothing => {}
                Spent::Empty if slab.is_listed() => empty(slab),
                Spent::List(live) => bins.list_counted(Heap::bin_of(slab), slab, live),
                Spent::Empty => bins.list(Heap::bin_of(slab), slab),
            }
            any = true;
        });
        any
    }

    /// Collects the slots that other threads have freed in one slab. Passes each slot that was not
    /// live to `bad`. Returns what to do about the slab's credit. Holder only.
    pub(crate) fn collect_slab(&self, slab: &Slab, bad: impl FnMut(SlotIndex)) -> Spent {
        let (frees, spent) = slab.collect(bad);
        if let Some(counters) = self.counters() {
            counters.freed_by_others(frees as usize * slab.size());
        }
        spent
    }

    /// Gives up an empty slab, and returns true: the slab is unowned then. If the slab is its bin's
    /// current one, or another thread is freeing into it, the slab stays on a list, and the result
    /// is false.
    pub fn detach(&self, guard: &ReentrancyGuard, slab: &Slab) -> bool {
        let index = Heap::bin_of(slab);
        let is_current = core::ptr::eq(self.bins().current(index), slab);
        if is_current || slab.remote.count() != 0 || !slab.change_owner(self.address(), 0) {
            if !slab.is_listed() {
                self.relist(guard, slab);
            }
            return false;
        }
        if slab.is_listed() {
            self.bins().unlist(slab);
        }
        self.retire(slab);
        true
    }

    /// Gives up the empty slabs on all lists of an orphan that the caller holds. Passes each slab,
    /// which is then unowned, to `each`.
    pub fn detach_empty(
        &self,
        _guard: &ReentrancyGuard,
        partitions: usize,
        mut each: impl FnMut(&'static Slab),
    ) {
        let goes = |slab: &Slab| {
            slab.is_empty()
                && slab.remote.count() == 0
                && !slab.is_being_held()
                && slab.change_owner(self.address(), 0)
        };
        for index in BinIndex::all(partitions) {
            self.bins().remove_all(index, goes, |slab| {
                self.retire(slab);
                each(slab);
            });
        }
    }

    /// Prepares an empty slab, which this heap does not own any more, for the pool.
    fn retire(&self, slab: &Slab) {
        if let Some(counters) = self.counters() {
            counters.slab_lost(slab);
        }
        slab.retire();
    }

    /// Lists a slab that has enough free slots again.
    pub fn relist(&self, _guard: &ReentrancyGuard, slab: &Slab) {
        self.bins().list(Heap::bin_of(slab), slab);
    }

    /// Lists such a slab. The caller has counted its live slots.
    pub fn relist_counted(&self, _guard: &ReentrancyGuard, slab: &Slab, live: u32) {
        self.bins().list_counted(Heap::bin_of(slab), slab, live);
    }

    /// Takes over one slab of a bin of heap `orphan`, which the caller holds. Takes only one,
    /// because the next thread adopts the orphan with the rest. Skips a slab that another thread is
    /// freeing into.
    pub fn take_over(&self, _guard: &ReentrancyGuard, orphan: &Heap, index: BinIndex) -> bool {
        let taken = orphan.bins().remove(index, |slab| {
            !slab.is_dormant() && slab.change_owner(orphan.address(), self.address())
        });
        let Some(slab) = taken else { return false };
        if let (Some(before), Some(now)) = (orphan.counters(), self.counters()) {
            before.slab_lost(slab);
            now.slab_got(slab);
        }
        slab.unclaim();
        // The other bin's count of slabs filled in a row does not apply to this bin.
        slab.row.store(0, Relaxed);
        self.bins().list(index, slab);
        true
    }

    /// Returns true if this heap owns the slab, whatever the slab's flags.
    #[inline]
    pub fn owns(&self, slab: &Slab) -> bool {
        slab.owner.load(Relaxed) & !FLAGS == self.address()
    }

    /// Verifies B1, B2, B3, O1, O2 and every listed slab. Holder only.
    pub fn check(&self, partitions: usize) -> Result<(), crate::slab::Violation> {
        use crate::slab::Violation;
        self.outbox().map_or(Ok(()), crate::remote::Outbox::check)?;
        for index in BinIndex::all(partitions) {
            self.bins().check(index)?;
            for slab in self.bins().listed(index) {
                slab.check()?;
                if Heap::bin_of(slab) != index {
                    return Err(Violation("B1: slab in another bin"));
                }
                if !slab.is_listed() {
                    return Err(Violation("B1: in the list without saying so"));
                }
                if !self.owns(slab) {
                    return Err(Violation("B1: listed but not ours"));
                }
            }
        }
        Ok(())
    }
}
