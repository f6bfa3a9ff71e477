//! A run of metadata address space that is mapped from its start as it is asked for.

use crate::os::{Error, Os};
use crate::sync::{AtomicUsize, Ordering, StoreChanged, spin_until};
use Ordering::{AcqRel, Acquire, Release};

/// Bytes that are usually mapped at a time: whole pages on every kernel.
pub const STEP: usize = 64 << 10;

/// Maps `[start, start + bytes)` piece by piece.
///
/// `mapped` only grows. A thread claims the next piece before it maps it, so a mapping that is
/// found there is foreign, and no thread waits to find out.
#[derive(Debug)]
pub struct Carve {
    /// Bytes mapped from the start. Written by the thread that has claimed the last piece.
    mapped: AtomicUsize,
    /// Bytes mapped or claimed. More than `mapped` while one thread maps the piece between the two:
    /// that thread has raised it, by compare and exchange, and makes both equal again. In the child
    /// of a fork the piece may be that of a thread that is no more.
    claimed: AtomicUsize,
}

impl Carve {
    /// Bytes mapped from the start on.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Acquire)
    }

    /// Address of the number of bytes mapped, for those who look from outside.
    pub fn mapped_at(&self) -> usize {
        (&raw const self.mapped).addr()
    }

    /// Makes everything from `start` to `end` usable, mapping a multiple of `step` bytes (whole
    /// pages) if anything. All calls for one run name the same `start`; zeroed memory is a run with
    /// nothing mapped. `Occupied` means that something foreign is there, or that another thread has
    /// been stopped while it maps the piece: the caller does without.
    pub fn reach(&self, os: &impl Os, start: usize, end: usize, step: usize) -> Result<(), Error> {
        loop {
            let mapped = self.mapped.load(Acquire);
            if end <= start + mapped {
                return Ok(());
            }
            let len = (end - start - mapped).next_multiple_of(step.max(1));
            // claim piece: pairs with the stores that end a claim.
            if self.claimed.compare_exchange(mapped, mapped + len, AcqRel, Acquire).is_ok() {
                let done = os.map(start + mapped, len);
                if done.is_ok() {
                    // publish piece: pairs with the load above.
                    self.mapped.store(mapped + len, Release);
                } else {
                    // What is after `mapped` is not ours, and a child must not take it for ours.
                    self.claimed.store(mapped, Release);
                }
                return done;
            }
            let is_over = || self.claimed.load(Acquire) == self.mapped.load(Acquire);
            if !spin_until(|| self.mapped.load(Acquire) != mapped || is_over()) {
                return Err(Error::Occupied);
            }
        }
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os, start: usize) {
        let claimed = self.claimed.load(Acquire);
        let mut mapped = self.mapped.load(Acquire);
        while mapped < claimed {
            match os.map(start + mapped, os.page_size()) {
                Ok(()) | Err(Error::Occupied) => mapped += os.page_size(),
                Err(_) => break,
            }
        }
        self.mapped.store_changed(mapped, Release);
        self.claimed.store_changed(mapped, Release);
    }
}
