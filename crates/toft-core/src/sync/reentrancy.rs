//! The reentrancy guard: a thread holds it while it changes its heap's lists. Meanwhile a word is
//! set, and a signal handler that interrupts the change finds it set.
//!
//! Another thread makes every thread pass a barrier (`Os::barrier`), and reads the word after it.
//! If the word is zero, no change that began before the barrier is in progress. A later change sees
//! what that other thread wrote before the barrier.

use super::{AtomicU32, Ordering, light_barrier};
use Ordering::{Acquire, Relaxed, Release};

/// The word: not zero while its thread is in the middle of a change.
#[derive(Debug)]
pub struct Busy(AtomicU32);

/// The right to change what the word protects, until it is dropped.
#[derive(Debug)]
pub struct ReentrancyGuard<'a>(&'a Busy);

impl Drop for ReentrancyGuard<'_> {
    fn drop(&mut self) {
        light_barrier();
        // drop guard: pairs with `is_taken`. A thread that then reads zero sees what was done
        // under the guard, even after the barrier. Costs nothing on x86-64.
        self.0.0.store(0, Release);
    }
}

impl Busy {
    /// Returns the word of a guard that no thread holds.
    #[cfg(not(loom))]
    pub const fn new() -> Busy {
        Busy(AtomicU32::new(0))
    }

    /// Returns the word of a guard that no thread holds.
    #[cfg(loom)]
    pub fn new() -> Busy {
        Busy(AtomicU32::new(0))
    }

    /// Returns the word of a guard that no thread can ever take.
    #[cfg(not(loom))]
    pub const fn never() -> Busy {
        Busy(AtomicU32::new(1))
    }

    /// Takes the guard. Returns `None` if this thread already has it, in a call that a signal
    /// handler interrupted. Only the word's thread calls this.
    #[inline]
    pub fn enter(&self) -> Option<ReentrancyGuard<'_>> {
        if self.0.load(Relaxed) != 0 {
            return None;
        }
        self.0.store(1, Relaxed);
        light_barrier();
        Some(ReentrancyGuard(self))
    }

    /// Takes over the guard of a thread that exited in the middle of a change. The caller holds by
    /// other means what the word protects.
    pub fn inherit(&self) -> ReentrancyGuard<'_> {
        self.0.store(1, Relaxed);
        light_barrier();
        ReentrancyGuard(self)
    }

    /// Returns true if the guard is taken. For another thread after a barrier, and for the child of
    /// a fork.
    pub fn is_taken(&self) -> bool {
        // pairs: drop guard.
        self.0.load(Acquire) != 0
    }

    /// Clears the word of a thread that does not exist any more.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Default for Busy {
    fn default() -> Busy {
        Busy::new()
    }
}
