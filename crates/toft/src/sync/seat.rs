//! The word by which a thread says that it is in the middle of something, and what another, behind
//! a barrier that every thread has passed, concludes from it.

use super::{AtomicU32, Ordering, light_barrier};
use Ordering::{Acquire, Relaxed, Release};

/// Not zero while its thread is in the middle of something.
#[derive(Debug)]
pub struct Busy(AtomicU32);

/// The right to change what the word is about, while it lasts.
#[derive(Debug)]
pub struct Seat<'a>(&'a Busy);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        light_barrier();
        // leave seat: pairs with `is_taken`. Who sees it empty again sees what was done there,
        // although that came after the barrier. Costs nothing on x86-64.
        self.0.0.store(0, Release);
    }
}

impl Busy {
    /// An empty seat.
    #[cfg(not(loom))]
    pub const fn new() -> Busy {
        Busy(AtomicU32::new(0))
    }

    /// An empty seat.
    #[cfg(loom)]
    pub fn new() -> Busy {
        Busy(AtomicU32::new(0))
    }

    /// One on which no thread may ever sit.
    #[cfg(not(loom))]
    pub const fn never() -> Busy {
        Busy(AtomicU32::new(1))
    }

    /// Takes the seat; `None` when this very thread already has it, in a call that a signal handler
    /// has interrupted. Its thread only.
    #[inline]
    pub fn sit(&self) -> Option<Seat<'_>> {
        if self.0.load(Relaxed) != 0 {
            return None;
        }
        self.0.store(1, Relaxed);
        light_barrier();
        Some(Seat(self))
    }

    /// The seat of a thread that exited in the middle of something. The caller holds by other means
    /// what the word protects.
    pub fn inherit(&self) -> Seat<'_> {
        self.0.store(1, Relaxed);
        light_barrier();
        Seat(self)
    }

    /// Whether the seat is taken: for another thread, behind a barrier, and for the child of a
    /// fork.
    pub fn is_taken(&self) -> bool {
        // pairs: leave seat.
        self.0.load(Acquire) != 0
    }

    /// Empties the seat of a thread that is gone.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Default for Busy {
    fn default() -> Busy {
        Busy::new()
    }
}
