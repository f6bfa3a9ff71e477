//! The word that is set while its thread is in the middle of a change.
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
pub struct Seat<'a>(&'a Busy);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        light_barrier();
        // leave seat: pairs with `is_taken`. A thread that sees the seat empty again sees what was
        // done there, even after the barrier. Costs nothing on x86-64.
        self.0.0.store(0, Release);
    }
}

impl Busy {
    /// Returns the word of an empty seat.
    #[cfg(not(loom))]
    pub const fn new() -> Busy {
        Busy(AtomicU32::new(0))
    }

    /// Returns the word of an empty seat.
    #[cfg(loom)]
    pub fn new() -> Busy {
        Busy(AtomicU32::new(0))
    }

    /// Returns the word of a seat that no thread can ever take.
    #[cfg(not(loom))]
    pub const fn never() -> Busy {
        Busy(AtomicU32::new(1))
    }

    /// Takes the seat. Returns `None` if this thread already has it, in a call that a signal
    /// handler interrupted. Only the word's thread calls this.
    #[inline]
    pub fn sit(&self) -> Option<Seat<'_>> {
        if self.0.load(Relaxed) != 0 {
            return None;
        }
        self.0.store(1, Relaxed);
        light_barrier();
        Some(Seat(self))
    }

    /// Takes over the seat of a thread that exited in the middle of a change. The caller holds by
    /// other means what the word protects.
    pub fn inherit(&self) -> Seat<'_> {
        self.0.store(1, Relaxed);
        light_barrier();
        Seat(self)
    }

    /// Returns true if the seat is taken. For another thread after a barrier, and for the child of
    /// a fork.
    pub fn is_taken(&self) -> bool {
        // pairs: leave seat.
        self.0.load(Acquire) != 0
    }

    /// Empties the seat of a thread that does not exist any more.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Default for Busy {
    fn default() -> Busy {
        Busy::new()
    }
}
