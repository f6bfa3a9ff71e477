//! The return of the pages of slabs that the pool has kept for some time.

use super::{BATCH, Pool};
use crate::os::Os;
use crate::os::filter::Filter;
use crate::os::release::{Piece, Release as Way};
use crate::os::seccomp::Calls;
use crate::slab::{CLASSES, Slab};
use crate::sync::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::StoreChanged;
use crate::sync::stack;

/// The most bytes of pages that one call returns to the OS, so that no call takes long.
const DECAY_MOST: usize = 4 << 20;

impl Pool {
    /// Moves kept slabs to the aging stacks, if `ticks` have passed since the last time. Gives the
    /// pages of slabs that were aging since then back to the OS, a part of them at each call. Costs
    /// a comparison if nothing is due.
    pub fn decay(&self, os: &impl Os, now: u32, ticks: u32) {
        self.age(now, ticks, DECAY_MOST, |slab| _ = self.clean_out(os, slab, false));
    }

    /// Does all steps of `decay` at once, with one system call for a batch of slabs. For a thread
    /// that has the time. Returns the number of bytes of the slots.
    pub fn decay_all(&self, os: &impl Os, filter: &Filter) -> usize {
        let mut way = Way::new();
        let mut batch = [None; BATCH];
        let mut count = 0;
        let given = self.age(os.ticks(), 0, usize::MAX, |slab| {
            if let Some(place) = batch.get_mut(count) {
                *place = Some(slab);
                count += 1;
            }
            if count == BATCH {
                self.clean_batch(os, &mut way, filter, &batch);
                (batch, count) = ([None; BATCH], 0);
            }
        });
        self.clean_batch(os, &mut way, filter, &batch);
        given
    }

    /// Gives the pages of a batch of kept slabs back to the OS. If a fork stops the thread here,
    /// the slabs are lost to the child.
    fn clean_batch(
        &self,
        os: &impl Os,
        way: &mut Way,
        filter: &Filter,
        batch: &[Option<&Slab>; BATCH],
    ) {
        let mut pieces = [Piece::default(); BATCH];
        let mut count = 0;
        let mut batch = *batch;
        for place in &mut batch {
            if let Some(slab) = place
                && !slab.is_dormant()
                && slab.pages().has_been_written()
            {
                // Treated as if the system had refused to take the pages.
                slab.make_dormant();
                slab.wake(false);
                self.push_clean(slab);
                *place = None;
            }
        }
        let awake = || batch.iter().flatten().filter(|slab| !slab.is_dormant());
        for (slab, piece) in awake().zip(&mut pieces) {
            slab.make_dormant();
            *piece = Piece::new(slab.base(), slab.pages().mapped_bytes(os.page_size()));
            count += 1;
        }
        let Some(pieces) = pieces.get_mut(..count) else { return };
        // The permit is for one batch, because a thread that installs a filter waits for it.
        let permit = filter.permit(os, Calls::BATCH, false);
        // SAFETY: (1) no slot of the slabs is live, and none can be claimed while they are dormant.
        unsafe { os.discard_all(way, pieces, permit.as_ref()) };
        drop(permit);
        let mut done = pieces.iter();
        for slab in batch.iter().flatten() {
            // A slab that was dormant before has no piece.
            let piece = done.as_slice().first().filter(|piece| piece.address == slab.base());
            if let Some(piece) = piece {
                slab.wake(piece.done);
                done.next();
            }
            self.push_clean(slab);
        }
    }

    /// Passes slabs that were aging for a period to `clean`, until it has had `most` bytes. If a
    /// period of `ticks` is over, moves the kept slabs to the aging stacks. Returns the number of
    /// bytes that it has passed.
    fn age(
        &self,
        now: u32,
        ticks: u32,
        most: usize,
        mut clean: impl FnMut(&'static Slab),
    ) -> usize {
        let state = self.state();
        let due = now.wrapping_sub(state.decayed_at.load(Relaxed)) >= ticks;
        if (!due && state.aged.load(Relaxed) == 0)
            || state.kept.load(Relaxed) == 0
            || state.decaying.compare_exchange(0, 1, AcqRel, Relaxed).is_err()
        {
            return 0;
        }
        let mut given = 0;
        let mut number = state.aged.load(Relaxed);
        if number == 0 {
            state.decayed_at.store(now, Relaxed);
        }
        while number < self.partitions * CLASSES && given < most {
            let (word, bit) = self.row(number / CLASSES);
            if word.load(Relaxed) & bit == 0 {
                number = (number / CLASSES + 1) * CLASSES;
                continue;
            }
            let stacks = self.stacks(number);
            while given < most
                && let Some(slab) = self.pop(&stacks.aging)
            {
                given += slab.pages().slot_bytes();
                clean(slab);
            }
            if given < most {
                // The aging stack is empty, and only the thread that has set `decaying` fills it.
                stack::take_over(&stacks.kept, &stacks.aging);
                number += 1;
            }
        }
        let rest = if number < self.partitions * CLASSES { number } else { 0 };
        state.aged.store(rest, Relaxed);
        state.decaying.store(0, Release);
        given
    }

    /// In the child of a fork: notes that no thread is returning pages.
    pub fn repair(&self) {
        self.state().decaying.store_changed(0, Relaxed);
    }
}
