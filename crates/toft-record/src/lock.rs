//! A short lock that never allocates and that a forked child can be given open.

use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

/// A lock by itself. It is held for the length of a few instructions, or of one `write`.
pub struct Lock(AtomicBool);

impl Lock {
    /// An open one.
    pub const fn new() -> Lock {
        Lock(AtomicBool::new(false))
    }

    /// Waits until it is ours. The Acquire sees what was written before the Release in `open`.
    pub fn close(&self) {
        let mut looks = 0u32;
        while self.0.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            looks += 1;
            if looks.is_multiple_of(64) {
                // The holder may be waiting for our processor.
                // SAFETY: gives the processor away; no duties.
                unsafe { libc::sched_yield() };
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Gives it back; also in a forked child what the parent's thread held.
    pub fn open(&self) {
        self.0.store(false, Release);
    }

    /// Runs `work` with the lock held.
    pub fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        self.close();
        let result = work();
        self.open();
        result
    }
}
