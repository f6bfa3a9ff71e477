//! Repairs a heap that a thread has left in the middle of a change: its lists are built again from
//! its slabs.
//!
//! A thread can be ended there by `pthread_exit` in a handler that has interrupted malloc, or by a
//! cancellation. The change is never finished, and the seat stays taken. What the thread had in
//! hand at that moment is lost. That is an unowned slab on no list, an orphan that it held, or the
//! announcement of one slab on its way through the inbox. Such a slab then tells of no free by
//! another thread any more.

use super::Heap;
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::slab::Slab;
use crate::sync::Seat;

impl Heap {
    /// Makes the heap whole, which the caller holds and whose thread has ended: takes it out of the
    /// hands of the ended thread. `for_each_slab` names every slab, and `bad` is told each slot
    /// that was freed by another thread and not live.
    ///
    /// Other threads may go on freeing into it. To the reclaimer its thread is in the middle of a
    /// change until the seat that this answers goes.
    pub(crate) fn mend(
        &self,
        partitions: usize,
        for_each_slab: impl FnOnce(&mut dyn FnMut(&Slab)),
        mut bad: impl FnMut(&Slab, usize),
    ) -> Seat<'_> {
        let seat = self.inherit_seat();
        self.forget_lists(partitions);
        for_each_slab(&mut |slab| {
            if self.owns(slab) {
                // A thread that freed there may have notified the thread that has exited.
                slab.collect(|slot| bad(slab, slot));
                self.list_torn(slab);
            }
        });
        seat
    }

    /// Empties every list; the slabs know nothing of that.
    pub(super) fn forget_lists(&self, partitions: usize) {
        for index in (0..partitions * ROW_WORDS).step_by(BIN_WORDS) {
            self.bins().clear(index);
        }
    }

    /// Lists a slab, wherever in malloc or free its thread was: every slab goes on a list, and
    /// leaves it when it proves full.
    pub(super) fn list_torn(&self, slab: &Slab) {
        slab.take_back_cut_off();
        slab.unclaim();
        self.bins().list(Heap::bin_of(slab), slab);
    }
}
