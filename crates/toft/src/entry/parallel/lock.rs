//! A lock that spins a little and then sleeps.

use super::threads::{Counts, is_unrepaired};
use crate::os::futex;
use crate::sync::{AtomicU32, Ordering, pause};
use Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and another thread may sleep.
const AWAITED: u32 = 2;

/// How often a thread looks again before it sleeps: some microseconds, as long as a refill takes.
const SPINS: u32 = 100;

/// Guards one heap.
#[derive(Debug)]
pub(super) struct Lock {
    /// FREE, HELD or AWAITED. Any thread; Acquire when it is taken, Release when it is let go, so
    /// that each holder sees what the one before has done.
    word: AtomicU32,
}

/// The lock, for as long as this lives.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a Lock);

impl Lock {
    pub(super) const fn new() -> Lock {
        Lock { word: AtomicU32::new(FREE) }
    }

    /// Takes it. Counts the acquisition, and whether another thread had it. `None` if it will never
    /// be released: in the child of a fork whose holder is no more, before the repair.
    #[inline]
    pub(super) fn take(&self, counts: &Counts) -> Option<Held<'_>> {
        counts.lock_acquisitions.add_one();
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            counts.contended_acquisitions.add_one();
            if !self.wait() {
                return None;
            }
        }
        Some(Held(self))
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> bool {
        for _ in 0..SPINS {
            pause();
            let free = self.word.load(Relaxed) == FREE;
            if free && self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
                return true;
            }
        }
        // A thread that has slept does not know whether others still do.
        while self.word.swap(AWAITED, Acquire) != FREE {
            if is_unrepaired() {
                return false;
            }
            futex::wait(&self.word, AWAITED);
        }
        true
    }

    /// No thread holds it any more: the child of a fork has but one thread.
    pub(super) fn reset(&self) {
        self.word.store(FREE, Relaxed);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.word.swap(FREE, Release) == AWAITED {
            futex::wake_one(&self.0.word);
        }
    }
}
