//! Whether the reclaimer's thread exists: who starts it, wakes it, ends it and stops it.
//!
//! ```text
//! None, Ended,    a slow path     v------- a slow path, or a sweep that finds something ------.
//! Stopped,     -----------------> Awake ------------- a sweep finds nothing ----------> Asleep
//! Refused                          |  |                                                |    |
//!    Refused <---- clone fails ----'  '--- held, or other credentials ---> Stopped <---'    |
//!    Ended   <------------------ a sweep that began in Asleep finds nothing ----------------'
//!
//! word   | holds : 24 | Life : 8 |
//! ```
//!
//! Invariants:
//! - L1 At most one thread of Toft's is between [`LifeCycle::begin`] and [`LifeCycle::leave`]. The
//!   state is Awake or Asleep exactly then.
//! - L2 No thread begins while the word has a hold. The thread that there is leaves when it sees
//!   one.
//! - L3 The thread ends by itself only out of Asleep, after a sweep that it began in Asleep. A slow
//!   path that finds Asleep makes it Awake. So that sweep finds what became idle before, and what
//!   becomes idle later starts a thread.
//! - L4 `number` is the thread of L1, or the last one. `previous` is the one before it. All earlier
//!   ones have left the process.
//! - L5 At most [`BURST`] starts, and one more for each [`APART`] ticks that pass.

#[cfg(not(loom))]
use crate::os::SECOND;
use crate::sync::{AtomicU32, Ordering, StoreChanged};
use Ordering::{AcqRel, Acquire, Relaxed};

/// The model checker has no system.
#[cfg(loom)]
const SECOND: u32 = 40;

/// The state of the reclaimer's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Life {
    /// There was no thread yet.
    None = 0,
    /// The thread sweeps from time to time.
    Awake = 1,
    /// The thread has found nothing to do, and sleeps. It ends unless it is woken.
    Asleep = 2,
    /// The thread could not be started, or it must not return memory (`hooks.rs` in [`crate::os`]).
    Refused = 3,
    /// The thread has returned what was idle, and has ended.
    Ended = 4,
    /// The thread was stopped before it had done so.
    Stopped = 5,
}

/// One hold, and the bits of the state below it.
const HOLD: u32 = 1 << 8;
const LIFE: u32 = HOLD - 1;

/// L5: ticks for each start, on average.
pub const APART: u32 = SECOND / 2;
/// L5: the number of starts that may come at once.
pub const BURST: u32 = 16;

/// The state of the reclaimer's thread, and who holds it back. Zero at first.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct LifeCycle {
    /// The drawing above. Changed by read-modify-write only. `begin`, `wake` and `hold` are for any
    /// thread, the other changes for the thread of L1 or the one that starts it. Each change is a
    /// Release, and each read an Acquire: a thread that sees that another one has left sees all
    /// that it did.
    word: AtomicU32,
    /// L4. The kernel writes it before the new thread runs.
    number: AtomicU32,
    /// L4. Written by the thread that starts the next one, between `begin` and `clone`.
    previous: AtomicU32,
    /// L5: the tick up to which starts are paid for. Written by the thread that has begun.
    paid: AtomicU32,
}

impl LifeCycle {
    /// Returns the state.
    pub fn state(&self) -> Life {
        life(self.word.load(Acquire))
    }

    /// Returns true if the thread sleeps, or has ended because nothing was idle.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state(), Life::Asleep | Life::Ended)
    }

    /// Returns true if the thread must leave.
    pub fn is_held(&self) -> bool {
        self.word.load(Acquire) >= HOLD
    }

    /// Returns the word, on which a thread sleeps that waits until the reclaimer has left, and the
    /// value for which it must sleep. Returns `None` if there is no thread.
    pub fn to_wait_for(&self) -> Option<(&AtomicU32, u32)> {
        let now = self.word.load(Acquire);
        exists(now).then_some((&self.word, now))
    }

    /// Returns the word on which other threads may wait.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Returns the numbers of the last two threads, where a thread may still be on its way out of
    /// the process. Zero stands for none.
    pub fn numbers(&self) -> [u32; 2] {
        [self.previous.load(Acquire), self.number.load(Acquire)]
    }

    /// The word to which the kernel writes the number of a new thread.
    pub fn number(&self) -> &AtomicU32 {
        &self.number
    }

    /// Changes the state. Returns false if the state is not `from`.
    pub fn change(&self, from: Life, to: Life) -> bool {
        self.update(|now| (life(now) == from).then_some(with(now, to)))
    }

    /// Takes the state for a new thread (L1, L2). Returns false if there is a thread, if it is held
    /// back, if starts are too frequent (L5), or if `is_gone` says that the thread before the last
    /// one is still in the process (L4).
    pub fn begin(&self, now: u32, is_gone: impl Fn(u32) -> bool) -> bool {
        if !self.may_begin(now) {
            return false;
        }
        let from = |word: u32| (word < HOLD && !exists(word)).then_some(with(word, Life::Awake));
        let previous = self.previous.load(Relaxed);
        if previous != 0 && !is_gone(previous) || !self.update(from) {
            return false;
        }
        self.previous.store(self.number.load(Relaxed), Relaxed);
        let paid = self.paid.load(Relaxed);
        let late = paid.wrapping_sub(now) > BURST * APART;
        self.paid.store(if late { now } else { paid }.wrapping_add(APART), Relaxed);
        true
    }

    /// Returns true if starts are not too frequent (L5).
    pub fn may_begin(&self, now: u32) -> bool {
        let ahead = self.paid.load(Relaxed).wrapping_sub(now);
        // More than this is a tick in the past.
        ahead <= (BURST - 1) * APART || ahead > BURST * APART
    }

    /// Ends the thread's part, which is the last thing that it does with this. `idle` means that it
    /// has found nothing to do: this succeeds only if no slow path has come since it became Asleep
    /// (L3). Otherwise it succeeds always.
    pub fn leave(&self, idle: bool) -> bool {
        let to = |word: u32| match life(word) {
            Life::Asleep if idle && word < HOLD => Some(with(word, Life::Ended)),
            Life::Awake | Life::Asleep if !idle => Some(with(word, Life::Stopped)),
            _ => None,
        };
        self.update(to)
    }

    /// Adds a hold.
    pub fn hold(&self) {
        self.word.fetch_add(HOLD, AcqRel);
    }

    /// Ends a hold. Returns true if there is none left and the thread was stopped. Does nothing in
    /// the child of a fork, which has none of its parent's holds.
    pub fn release(&self) -> bool {
        let mut last = false;
        self.update(|word| {
            last = word / HOLD == 1;
            word.checked_sub(HOLD)
        }) && last
            && self.state() == Life::Stopped
    }

    /// In the child of a fork: no thread, and no hold.
    pub fn repair(&self) {
        let life = if self.state() == Life::Refused { Life::Refused } else { Life::None };
        self.word.store_changed(life as u32, Relaxed);
        self.number.store_changed(0, Relaxed);
        self.previous.store_changed(0, Relaxed);
        self.paid.store_changed(0, Relaxed);
    }

    /// Changes the word as `to` says, until that succeeds or `to` returns `None`.
    fn update(&self, mut to: impl FnMut(u32) -> Option<u32>) -> bool {
        let mut now = self.word.load(Acquire);
        while let Some(next) = to(now) {
            match self.word.compare_exchange(now, next, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }
}

fn life(word: u32) -> Life {
    match word & LIFE {
        0 => Life::None,
        1 => Life::Awake,
        2 => Life::Asleep,
        4 => Life::Ended,
        5 => Life::Stopped,
        _ => Life::Refused,
    }
}

fn with(word: u32, life: Life) -> u32 {
    word & !LIFE | life as u32
}

fn exists(word: u32) -> bool {
    matches!(life(word), Life::Awake | Life::Asleep)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn new() -> LifeCycle {
        let zero = || AtomicU32::new(0);
        LifeCycle { word: zero(), number: zero(), previous: zero(), paid: zero() }
    }

    const GONE: fn(u32) -> bool = |_| true;

    /// Checks L1 and L2 after each of all sequences of seven steps, and L3 at each end.
    #[test]
    fn every_sequence_of_steps_keeps_the_invariants() {
        const STEPS: u32 = 8;
        for sequence in 0..STEPS.pow(7) {
            let cycle = new();
            let (mut threads, mut holds, mut asleep) = (0, 0, false);
            let mut steps = sequence;
            for tick in 0..7 {
                match steps % STEPS {
                    0 => {
                        let began = cycle.begin(tick * APART, GONE);
                        assert!(!began || holds == 0, "L2");
                        threads += u32::from(began);
                        asleep &= !began;
                    }
                    1 => asleep |= threads == 1 && cycle.change(Life::Awake, Life::Asleep),
                    2 => asleep &= !cycle.change(Life::Asleep, Life::Awake),
                    3 if threads == 1 => {
                        let left = cycle.leave(true);
                        assert_eq!(left, asleep && holds == 0, "L3");
                        threads -= u32::from(left);
                    }
                    4 if threads == 1 => {
                        assert!(cycle.leave(false));
                        threads -= 1;
                    }
                    5 => {
                        cycle.hold();
                        holds += 1;
                    }
                    6 => {
                        let again = cycle.release();
                        assert!(!again || holds == 1 && cycle.state() == Life::Stopped);
                        holds -= u32::from(holds != 0);
                    }
                    7 => {
                        cycle.repair();
                        (threads, holds) = (0, 0);
                        assert_eq!(cycle.state(), Life::None);
                    }
                    _ => {}
                }
                assert!(threads <= 1, "L1");
                let exists = matches!(cycle.state(), Life::Awake | Life::Asleep);
                assert_eq!(exists, threads == 1, "L1");
                assert_eq!(cycle.is_held(), holds != 0);
                steps /= STEPS;
            }
        }
    }

    #[test]
    fn a_slow_path_keeps_the_thread() {
        let cycle = new();
        assert!(cycle.begin(0, GONE) && !cycle.leave(true), "it has looked once");
        assert!(cycle.change(Life::Awake, Life::Asleep));
        assert!(cycle.change(Life::Asleep, Life::Awake), "a slow path");
        assert!(!cycle.leave(true));
        assert!(cycle.change(Life::Awake, Life::Asleep) && cycle.leave(true));
        assert_eq!(cycle.state(), Life::Ended);
        assert!(!cycle.change(Life::Asleep, Life::Awake), "a slow path that comes too late");
        assert!(cycle.begin(0, GONE));
    }

    #[test]
    fn a_thread_that_leaves_the_process_is_waited_for() {
        let cycle = new();
        let start = |number, is_gone: fn(u32) -> bool| {
            let began = cycle.begin(100, is_gone);
            if began {
                cycle.number().store(number, Relaxed);
                cycle.change(Life::Awake, Life::Asleep);
                assert!(cycle.leave(true));
            }
            began
        };
        assert!(start(7, |_| false), "there was none");
        assert!(start(8, |_| false), "one may be on its way out");
        assert_eq!(cycle.numbers(), [7, 8]);
        assert!(!start(9, |number| number != 7), "L4");
        assert!(start(9, |number| number == 7));
        assert_eq!(cycle.numbers(), [8, 9]);
    }

    /// L5, over any time: a quick one after another, then one for each pause.
    #[test]
    fn starts_are_bounded() {
        for first in [0, 5, 1 << 31, u32::MAX - 500 * APART] {
            let cycle = new();
            let starts = |at: u32| {
                (0..100)
                    .filter(|_| {
                        let began = cycle.begin(first.wrapping_add(at), GONE);
                        assert!(!began || cycle.leave(false));
                        began
                    })
                    .count() as u32
            };
            let counts: Vec<u32> = [0, 1, APART, 3 * APART].map(starts).to_vec();
            assert_eq!(counts, [BURST, 0, 1, 2], "from {first}");
            assert_eq!(starts(1000 * APART), BURST);
        }
    }
}
