//! How far a verification by shares has come (`watch/verifier/verify_share.rs`).

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, StoreChanged};

/// The nanoseconds by which readings of two clocks may differ while no other thread runs. An
/// interrupt falls between them, or a virtual machine stops there.
const NOISE: u64 = 50_000;

/// The place that a verification has reached. It belongs to the thread that verifies.
#[derive(Debug, Default)]
pub struct VerifyProgress {
    /// The nanosecond of the last share.
    at: u64,
    /// How far this pass has come: the number of slabs that are done.
    pub slabs: usize,
    /// The number of completed passes.
    pub passes: usize,
    /// The processor time of all other threads when this pass began.
    begun: u64,
    /// What `begun` was in the last completed pass.
    completed: u64,
    /// True if no other thread had run since the last completed pass began, when that was last
    /// checked.
    settled: bool,
}

/// The place while there is no thread that verifies. The thread writes it before it ends. The next
/// one reads it, and sees it because it begins after that end.
#[derive(Debug)]
pub struct SavedProgress([AtomicU64; 5]);

impl SavedProgress {
    /// Returns the place that the last thread has left.
    pub fn take(&self) -> VerifyProgress {
        let [at, slabs, passes, begun, completed] =
            self.0.each_ref().map(|word| word.load(Relaxed));
        let [slabs, passes] = [slabs, passes].map(|number| number as usize);
        VerifyProgress { at, slabs, passes, begun, completed, settled: false }
    }

    /// Leaves a place for the next thread.
    pub fn leave(&self, progress: &VerifyProgress) {
        let [slabs, passes] = [progress.slabs, progress.passes].map(|number| number as u64);
        let values = [progress.at, slabs, passes, progress.begun, progress.completed];
        self.0.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// In the child of a fork: nothing was verified yet.
    pub fn repair(&self) {
        self.0.iter().for_each(|word| word.store_changed(0, Relaxed));
    }
}

impl VerifyProgress {
    /// The milliseconds from one share to the next. A processor that comes from sleep reads at half
    /// its speed for some milliseconds, so shares are large and rare.
    pub const PERIOD: u32 = 3000;

    /// Returns true if a period has passed since this returned true the last time. A part of the
    /// period is enough, because a thread may wake a little early.
    pub fn is_due(&mut self, now: u64) -> bool {
        let due = now.wrapping_sub(self.at) >= u64::from(VerifyProgress::PERIOD) * 900_000;
        if due {
            self.at = now;
        }
        due
    }

    /// Returns true if there is something to verify. `others` is the processor time that all other
    /// threads have used. If they have not run since the last completed pass began, nothing was
    /// overwritten since. What runs for less than `NOISE` is noticed when more has run.
    pub fn is_needed(&mut self, others: u64) -> bool {
        if self.slabs != 0 {
            return true;
        }
        self.settled = self.passes != 0 && others <= self.completed + NOISE;
        if self.settled {
            return false;
        }
        self.begun = others;
        true
    }

    /// Returns true if there was nothing to verify at the last check.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Ends a pass.
    pub fn complete(&mut self) {
        self.slabs = 0;
        self.passes += 1;
        self.completed = self.begun;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_due_after_a_period() {
        let period = u64::from(VerifyProgress::PERIOD) * 1_000_000;
        let mut progress = VerifyProgress::default();
        assert!(progress.is_due(7 * period) && !progress.is_due(7 * period + period / 2));
        assert!(progress.is_due(8 * period - 1000) && !progress.is_due(8 * period));
    }

    #[test]
    fn the_next_thread_goes_on_where_the_last_one_was() {
        let saved = SavedProgress([const { AtomicU64::new(0) }; 5]);
        let mut progress = saved.take();
        assert!(progress.is_due(1 << 40) && progress.is_needed(0));
        progress.slabs = 7;
        saved.leave(&progress);
        let mut next = saved.take();
        assert!(!next.is_due(1 << 40), "the last share was just now");
        assert_eq!(next.slabs, 7);
        next.complete();
        assert!(!next.is_needed(0) && next.is_settled());
        saved.leave(&next);
        assert!(!saved.take().is_settled(), "the program has run");
        assert_eq!(saved.take().passes, 1);
        saved.repair();
        assert_eq!(saved.take().passes, 0);
    }

    #[test]
    fn after_a_pass_in_which_no_other_thread_ran_there_is_nothing_to_verify() {
        let mut progress = VerifyProgress::default();
        let mut pass = |others: [u64; 2]| {
            let begins = progress.is_needed(others[0]);
            if begins {
                progress.slabs = 7;
                assert!(progress.is_needed(others[1]), "a pass is completed");
                progress.complete();
            }
            begins
        };
        assert!(pass([0, 0]), "the first one");
        assert!(!pass([NOISE, NOISE]));
        // A thread has run: before the pass, and in the middle of the next.
        assert!(pass([1_000_000, 1_000_000]));
        assert!(!pass([1_000_000, 1_000_000]));
        assert!(pass([2_000_000, 3_000_000]));
        assert!(pass([3_000_000, 3_000_000]), "it may have written behind the pass");
        assert!(!pass([3_000_000, 3_000_000]));
    }
}
