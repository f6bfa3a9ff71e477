//! Repairs a heap whose thread exited in the middle of a change, by building its lists again from
//! its slabs.
//!
//! A thread exits there by `pthread_exit` in a signal handler that interrupted malloc, or by a
//! cancellation. The change is never finished, and the reentrancy guard stays taken. What the
//! thread was about to move is lost:
//!
//! - an unowned slab on no list;
//! - an orphan that the thread held;
//! - the announcement of one slab on its way through the inbox. Later frees by other threads in
//!   that slab are not announced either.

use super::Heap;
use crate::bin::BinIndex;
use crate::slab::{Slab, SlotIndex};
use crate::sync::ReentrancyGuard;

impl Heap {
    /// Repairs a heap that the caller holds and whose thread has exited. Returns the heap's
    /// reentrancy guard. `for_each_slab` visits every slab. `bad` receives each slot that another
    /// thread has freed and that was not live.
    ///
    /// Other threads may free into the heap meanwhile. To the reclaimer, the heap's thread is in
    /// the middle of a change until the returned guard is dropped.
    pub(crate) fn repair(
        &self,
        partitions: usize,
        for_each_slab: impl FnOnce(&mut dyn FnMut(&Slab)),
        mut bad: impl FnMut(&Slab, SlotIndex),
    ) -> ReentrancyGuard<'_> {
        let guard = self.inherit_guard();
        self.forget_lists(partitions);
        for_each_slab(&mut |slab| {
            if self.owns(slab) {
                // A thread that freed into the slab may have notified the exited thread.
                self.collect_slab(slab, |slot| bad(slab, slot));
                self.list_torn(slab);
            }
        });
        guard
    }

    /// Empties every list. The slabs themselves do not change.
    pub(super) fn forget_lists(&self, partitions: usize) {
        for index in BinIndex::all(partitions) {
            self.bins().clear(index);
        }
    }

    /// Puts a slab on its list, at whatever step of malloc or free its thread exited. A full slab
    /// leaves the list when malloc finds it full.
    pub(super) fn list_torn(&self, slab: &Slab) {
        slab.take_back_cut_off();
        slab.unclaim();
        self.bins().list(Heap::bin_of(slab), slab);
    }
}
