//! Keeps threads about as far as they were in the recording.
//!
//! That each object's events come in their order is kept object by object. This keeps the rest
//! roughly: no thread goes more than a window of events ahead of the slowest. Without it, a thread
//! that waited for the others in the program would run off here, and the peak would be another.
//!
//! Nothing can wait for ever. Of all steps that are still to be played, the one with the lowest
//! sequence number waits for no other: its object's steps before it have lower numbers. What the
//! other threads have published is behind it by less than a stride, which is never longer than the
//! window. Threads start in the order of their first steps, so it has been started, or is next.

use super::script::Thread;
use crate::mapped::Mapped;
use crate::threads::Patience;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Sequence numbers between two checks of the others, if the window is not shorter. Not steps: a
/// thread that does little would tell too late that the others are waiting for nothing.
const STRIDE: usize = 64;

/// Nothing left to do.
const DONE: usize = usize::MAX;

pub struct Order {
    /// The sequence number that each thread is about to play, or less by up to a stride; written by
    /// the thread alone, and by the starter before there is one. The last is the starter's own. No
    /// other data hangs on these, so that they need no order.
    reached: Mapped<AtomicUsize>,
    window: usize,
}

impl Order {
    /// No thread has started. A window of 0 is none.
    pub fn new(threads: &[Thread], window: u64) -> Order {
        let reached = Mapped::<AtomicUsize>::new(threads.len() + 1);
        for word in &reached[..threads.len()] {
            word.store(DONE, Relaxed);
        }
        Order { reached, window: if window == 0 { DONE } else { window as usize } }
    }

    /// The thread is about to start with this step.
    pub fn begins(&self, thread: usize, sequence: u64) {
        self.reached[thread].store(sequence as usize, Relaxed);
    }

    pub fn ends(&self, thread: usize) {
        self.reached[thread].store(DONE, Relaxed);
    }

    /// Called by the starter: it waits for nothing now but to start a thread with this first step.
    pub fn will_start(&self, sequence: u64) {
        self.reached[self.reached.len() - 1].store(sequence as usize, Relaxed);
    }

    /// Called by the starter: waits until a thread whose first step this is may start.
    pub fn wait_to_start(&self, sequence: u64) {
        self.reaches(self.reached.len() - 1, sequence);
    }

    /// There are no more threads to start.
    pub fn all_started(&self) {
        self.ends(self.reached.len() - 1);
    }

    /// The thread is about to play this step: waits until the slowest is near enough. Returns the
    /// sequence number from which on this is to be called again.
    pub fn reaches(&self, thread: usize, sequence: u64) -> u64 {
        let sequence = sequence as usize;
        self.reached[thread].store(sequence, Relaxed);
        let least = sequence.saturating_sub(self.window);
        let mut patience = Patience::default();
        while self.reached.iter().any(|word| word.load(Relaxed) < least) {
            patience.wait();
        }
        sequence.saturating_add(STRIDE.min(self.window)) as u64
    }
}
