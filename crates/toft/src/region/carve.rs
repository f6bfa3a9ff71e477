//! A run of metadata address space that is mapped from its start as it is asked for.

use crate::os::{Error, Os, wait_for};
use crate::sync::{AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Release};

/// Bytes that are usually mapped at a time: whole pages on every kernel.
pub const STEP: usize = 64 << 10;

/// Maps `[start, start + bytes)` piece by piece.
///
/// `mapped` only grows. The thread whose `map` of the next piece succeeds is the only one that may
/// advance it, because a mapping at the same place can succeed but once.
#[derive(Debug)]
pub struct Carve {
    /// Bytes mapped from the start. Written by whoever mapped the last piece.
    mapped: AtomicUsize,
    /// Bytes that some thread has set out to map. In the child of a fork, what is mapped between
    /// the two is ours, left behind by a thread that is no more.
    intended: AtomicUsize,
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
    /// nothing mapped. `Occupied` means that something foreign is there.
    pub fn reach(&self, os: &impl Os, start: usize, end: usize, step: usize) -> Result<(), Error> {
        loop {
            let mapped = self.mapped.load(Acquire);
            if end <= start + mapped {
                return Ok(());
            }
            let len = (end - start - mapped).next_multiple_of(step.max(1));
            self.intended.fetch_max(mapped + len, AcqRel);
            match os.map(start + mapped, len) {
                Ok(()) => {
                    // publish piece: pairs with the load above.
                    self.mapped.store(mapped + len, Release);
                    return Ok(());
                }
                // Another thread is between its `map` and its store, or something foreign is there.
                Err(Error::Occupied) => {
                    if !wait_for(os, || self.mapped.load(Acquire) != mapped) {
                        return Err(self.given_up(mapped, Error::Occupied));
                    }
                }
                Err(error) => return Err(self.given_up(mapped, error)),
            }
        }
    }

    /// Whatever lies behind `mapped` is not ours, and a child must not take it for ours.
    fn given_up(&self, mapped: usize, error: Error) -> Error {
        self.intended.store(mapped, Release);
        error
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os, start: usize) {
        let intended = self.intended.load(Acquire);
        let mut mapped = self.mapped.load(Acquire);
        while mapped < intended {
            match os.map(start + mapped, os.page_size()) {
                Ok(()) | Err(Error::Occupied) => mapped += os.page_size(),
                Err(_) => break,
            }
        }
        self.mapped.store(mapped, Release);
        self.intended.store(mapped, Release);
    }
}
