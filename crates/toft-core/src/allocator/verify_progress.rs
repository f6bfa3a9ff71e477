//! How far a verification by shares has come (`watch/verifier/verify_share.rs`).

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, StoreChanged};

/// The nanoseconds by which readings of two clocks may differ while no other thread runs. An
/// interrupt falls between them, or a virtual machine stops there.
const NOISE: u64 = 50_000;

/// The share of a processor that counts as idle, as a shift: under a 128th of the time. A server
/// that has only a timer is idle, too.
const IDLE_SHIFT: u32 = 7;
/// The nanoseconds of pause for each nanosecond of verifying, while the program is idle.
const PAUSE_FOR_EACH: u64 = 32;

/// A reading of two clocks, in nanoseconds: the time, and the processor time that all other threads
/// have used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The time.
    pub at: u64,
    /// The processor time of all other threads.
    pub others: u64,
}

impl Reading {
    /// Returns true if other threads have run for next to nothing since an earlier reading.
    fn is_idle_since(self, earlier: Reading) -> bool {
        let most = NOISE + (self.at.saturating_sub(earlier.at) >> IDLE_SHIFT);
        self.others <= earlier.others + most
    }
}

/// The place that a verification has reached. It belongs to the thread that verifies.
#[derive(Debug, Default)]
pub struct VerifyProgress {
    /// The nanosecond from which on the next share is due, also if the program runs.
    share: u64,
    /// The nanosecond from which on the next reading is due.
    due: u64,
    /// How far this pass has come: the number of slabs that are done.
    pub slabs: usize,
    /// The number of passes that this thread has completed.
    pub passes: usize,
    /// The number of the last ones that this thread has completed, each begun while the program was
    /// idle.
    idle_passes: usize,
    /// The last reading.
    last: Reading,
    /// The reading when this pass began, and true if this thread has begun it and the program was
    /// idle.
    begun: Reading,
    begun_idle: bool,
    /// The reading when the last completed pass began.
    completed: Reading,
    /// True if other threads had done nothing between the last two readings.
    idle: bool,
    /// True if there was nothing to verify at the last reading.
    settled: bool,
}

/// The place while there is no thread that verifies. The thread writes it before it ends. The next
/// one reads it, and sees it because it begins after that end.
#[derive(Debug)]
pub struct SavedProgress([AtomicU64; 2]);

impl SavedProgress {
    /// Returns the place that the last thread has left.
    pub fn take(&self) -> VerifyProgress {
        let [share, slabs] = self.0.each_ref().map(|word| word.load(Relaxed));
        let slabs = slabs as usize;
        VerifyProgress { share, due: share, slabs, ..VerifyProgress::default() }
    }

    /// Leaves a place for the next thread.
    pub fn leave(&self, progress: &VerifyProgress) {
        let values = [progress.share, progress.slabs as u64];
        self.0.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// In the child of a fork: nothing was verified yet.
    pub fn repair(&self) {
        self.0.iter().for_each(|word| word.store_changed(0, Relaxed));
    }
}

impl VerifyProgress {
    /// The nanoseconds from one share to the next while the program runs. A processor that comes
    /// from sleep reads at half its speed for some milliseconds, so shares are large and rare.
    const PERIOD: u64 = 3_000_000_000;
    /// The least number of nanoseconds between two shares.
    const PERIOD_LEAST: u64 = 300_000_000;
    /// A thread may wake a little early.
    const EARLY: u64 = Self::PERIOD_LEAST / 10;

    /// Returns true if the next reading is due.
    pub fn is_due(&self, now: u64) -> bool {
        now + Self::EARLY >= self.due
    }

    /// Returns the milliseconds until the next reading is due.
    pub fn milliseconds_left(&self, now: u64) -> u32 {
        u32::try_from(self.due.saturating_sub(now) / 1_000_000).unwrap_or(u32::MAX).max(1)
    }

    /// The program's slow paths leave nothing to return: the next reading is due soon, to find out
    /// if all of the program is idle from now on.
    pub fn read_soon(&mut self, now: Reading) {
        self.last = now;
        self.due = self.due.min(now.at + Self::PERIOD_LEAST);
    }

    /// Returns true if there is something to verify now.
    ///
    /// If other threads have not run since the last completed pass began, nothing was overwritten
    /// since. The program must have been idle when that pass began: a slow path of malloc wakes
    /// this thread, so that it may read the clocks just before the program's last step, which takes
    /// less than `NOISE`. After two such passes a program that stays idle also counts as one that
    /// does not run: the thread would never end beside a timer.
    pub fn is_needed(&mut self, now: Reading) -> bool {
        self.idle = self.last.at != 0 && now.is_idle_since(self.last);
        self.last = now;
        if !self.idle && now.at + Self::EARLY < self.share {
            self.due = self.share;
            return false;
        }
        self.share = now.at + Self::PERIOD;
        self.due = self.share;
        if self.slabs != 0 {
            return true;
        }
        self.settled = match self.idle_passes {
            0 => false,
            1 => now.others <= self.completed.others + NOISE,
            _ => now.is_idle_since(self.completed),
        };
        if self.settled {
            return false;
        }
        (self.begun, self.begun_idle) = (now, self.idle);
        true
    }

    /// Returns true if the program was idle between the last two readings.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// Returns true if there was nothing to verify at the last reading.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Notes how many nanoseconds a share has taken. While the program is idle, the pause after it
    /// is 32 times as long: verifying takes 3 % of a processor.
    pub fn took(&mut self, nanoseconds: u64) {
        if self.idle {
            let pause = nanoseconds.saturating_mul(PAUSE_FOR_EACH);
            self.share = self.last.at + pause.clamp(Self::PERIOD_LEAST, Self::PERIOD);
            self.due = self.share;
        }
    }

    /// Ends a pass.
    pub fn complete(&mut self) {
        self.slabs = 0;
        self.passes += 1;
        self.completed = self.begun;
        self.idle_passes = if self.begun_idle { self.idle_passes + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(at: u64, others: u64) -> Reading {
        Reading { at, others }
    }

    #[test]
    fn shares_are_rare_while_the_program_runs_and_soon_come_when_it_is_idle() {
        let mut progress = VerifyProgress::default();
        assert!(progress.is_due(7 * SECOND));
        // Nothing is known at the first reading.
        assert!(progress.is_needed(at(7 * SECOND, 0)) && !progress.is_idle());
        progress.took(1);
        assert!(!progress.is_due(9 * SECOND) && progress.is_due(10 * SECOND));
        assert_eq!(progress.milliseconds_left(9 * SECOND), 1000);
        progress.read_soon(at(8 * SECOND, SECOND));
        assert!(!progress.is_due(8 * SECOND) && progress.is_due(8 * SECOND + SECOND / 3));
        // It runs, so that this is only a reading.
        assert!(!progress.is_needed(at(9 * SECOND, 2 * SECOND)) && !progress.is_settled());
        assert!(!progress.is_due(9 * SECOND) && progress.is_due(10 * SECOND));
        progress.read_soon(at(9 * SECOND, 2 * SECOND));
        assert!(progress.is_needed(at(10 * SECOND - SECOND / 2, 2 * SECOND)) && progress.is_idle());
        let mut progress = VerifyProgress { last: at(9 * SECOND, SECOND / 2), ..progress };
        for (now, others, took, pause) in [
            // A program with a timer.
            (10, 7, 1, 300),
            (11, 14, 25, 800),
            (12, 21, 1000, 3000),
            // It runs.
            (15, 100, 1, 3000),
        ] {
            progress.slabs = 7;
            let milli = SECOND / 1000;
            assert!(progress.is_needed(at(now * SECOND, SECOND / 2 + others * milli)), "{now}");
            progress.took(took * milli);
            assert_eq!(progress.due, now * SECOND + pause * milli, "{now}");
        }
    }

    /// A thread that verifies a program, whose shares are whole passes.
    #[derive(Default)]
    struct Thread(VerifyProgress);

    impl Thread {
        /// Returns true if there was something to verify, and verifies it. `tenths` is the time in
        /// tenths of a second, and `milliseconds` is what other threads have used until then.
        fn verifies(&mut self, tenths: u64, milliseconds: u64) -> bool {
            let now = at(SECOND + tenths * SECOND / 10, SECOND + milliseconds * SECOND / 1000);
            let is_needed = self.0.is_due(now.at) && self.0.is_needed(now);
            if is_needed {
                self.0.complete();
                self.0.took(1);
            }
            is_needed
        }
    }

    #[test]
    fn the_next_thread_goes_on_where_the_last_one_was() {
        let saved = SavedProgress([const { AtomicU64::new(0) }; 2]);
        let mut progress = saved.take();
        assert!(progress.is_due(1 << 40) && progress.is_needed(at(1 << 40, 0)));
        progress.slabs = 7;
        saved.leave(&progress);
        let mut next = saved.take();
        assert!(!next.is_due(1 << 40), "the last share was just now");
        assert_eq!(next.slabs, 7);
        next.complete();
        saved.leave(&next);
        assert_eq!(saved.take().slabs, 0);
        assert!(saved.take().is_needed(at(1 << 41, 0)), "the program has run");
        saved.leave(&progress);
        saved.repair();
        assert_eq!(saved.take().slabs, 0);
    }

    #[test]
    fn after_a_pass_in_which_no_other_thread_ran_there_is_nothing_to_verify() {
        let mut thread = Thread::default();
        assert!(thread.verifies(0, 0), "the first one");
        assert!(thread.verifies(30, 0), "it may have run when that pass began");
        assert!(!thread.verifies(33, 0) && thread.0.is_settled());
        // A thread runs: before a pass, and in the middle of the next.
        assert!(thread.verifies(63, 1000));
        assert!(thread.verifies(93, 2000), "it may have written behind the pass");
        assert!(thread.verifies(123, 2000));
        assert!(!thread.verifies(126, 2000) && thread.0.is_settled());
    }

    /// A slow path has woken the thread, and the program ends its work within the noise.
    #[test]
    fn what_runs_just_after_a_pass_has_begun_is_verified() {
        let mut thread = Thread::default();
        assert!(thread.verifies(0, 100));
        thread.0.read_soon(at(SECOND + 1, SECOND + SECOND / 10));
        assert!(thread.verifies(3, 100), "it may have written behind the pass");
        assert!(!thread.verifies(6, 100) && thread.0.is_settled());
    }

    #[test]
    fn beside_a_timer_two_passes_that_begin_idle_are_enough() {
        let mut thread = Thread::default();
        assert!(thread.verifies(0, 0));
        assert!(thread.verifies(30, 6), "it may have run when that pass began");
        assert!(thread.verifies(33, 7), "it has run since");
        assert!(!thread.verifies(36, 8) && thread.0.is_settled());
        assert!(thread.verifies(66, 500), "it runs");
    }
}
