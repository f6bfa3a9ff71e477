//! How long slabs are kept.

use super::Pool;
use super::pool::slot_bytes;
use crate::os::Os;
use crate::slab::CLASSES;
use crate::sync::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::stack;

/// Bytes that one call gives back, so that none takes long.
const DECAY_MOST: usize = 4 << 20;

impl Pool {
    /// Lets kept slabs grow old, if so many ticks have passed since the last time, and gives the pages
    /// of those back that have been old since then, some at a time. Costs a comparison where nothing is
    /// due.
    pub fn decay(&self, os: &impl Os, now: u32, ticks: u32) {
        let state = self.state();
        let due = now.wrapping_sub(state.decayed_at.load(Relaxed)) >= ticks;
        if (!due && state.aged.load(Relaxed) == 0)
            || state.kept.load(Relaxed) == 0
            || state.decaying.compare_exchange(0, 1, AcqRel, Relaxed).is_err()
        {
            return;
        }
        let mut given = 0;
        let mut number = state.aged.load(Relaxed);
        if number == 0 {
            state.decayed_at.store(now, Relaxed);
        }
        while number < self.partitions * CLASSES && given < DECAY_MOST {
            let (word, bit) = self.row(number / CLASSES);
            if word.load(Relaxed) & bit == 0 {
                number = (number / CLASSES + 1) * CLASSES;
                continue;
            }
            let stacks = self.stacks(number);
            while given < DECAY_MOST
                && let Some(slab) = self.pop(&stacks.aging)
            {
                given += slot_bytes(slab);
                self.clean_out(os, slab, false);
            }
            if given < DECAY_MOST {
                // It is empty, and only the thread that holds `decaying` puts anything there.
                stack::take_over(&stacks.kept, &stacks.aging);
                number += 1;
            }
        }
        let rest = if number < self.partitions * CLASSES { number } else { 0 };
        state.aged.store(rest, Relaxed);
        state.decaying.store(0, Release);
    }

    /// The same for all of them, now.
    pub fn decay_all(&self, os: &impl Os) {
        self.decay(os, os.ticks(), 0);
        let state = self.state();
        // Where others have taken what was kept, `decay` has nothing to do, and leaves off where it was.
        while state.aged.load(Relaxed) != 0
            && state.kept.load(Relaxed) != 0
            && state.decaying.load(Relaxed) == 0
        {
            self.decay(os, os.ticks(), u32::MAX);
        }
    }

    /// In the child of a fork: nobody is giving pages back.
    pub fn repair(&self) {
        self.state().decaying.store(0, Relaxed);
    }
}
