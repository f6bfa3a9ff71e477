//! A run of metadata address space that is mapped from its start as it is asked for.

use crate::os::{Error, Os};
use crate::sync::{AtomicUsize, Ordering, SPIN_LIMIT, pause};
use Ordering::{Acquire, Release};

/// Bytes that are usually mapped at a time: whole pages on every kernel.
pub const STEP: usize = 64 << 10;

/// Maps `[start, start + bytes)` piece by piece. Any thread may ask; none waits.
///
/// `mapped` only grows. The thread whose `map` of the next piece succeeds is the only one that may
/// advance it, because a mapping at the same place can succeed but once.
#[derive(Debug)]
pub struct Carve {
    /// Bytes mapped from the start. Written by whoever mapped the last piece.
    mapped: AtomicUsize,
}

impl Carve {
    /// Bytes mapped from the start on.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Acquire)
    }

    /// Makes everything from `start` to `end` usable, mapping a multiple of `step` bytes (whole pages)
    /// if anything. All calls for one run name the same `start`; zeroed memory is a run with nothing mapped.
    pub fn reach(&self, os: &impl Os, start: usize, end: usize, step: usize) -> Result<(), Error> {
        let mut spins = 0;
        loop {
            let mapped = self.mapped.load(Acquire);
            if end <= start + mapped {
                return Ok(());
            }
            let len = (end - start - mapped).next_multiple_of(step.max(1));
            match os.map(start + mapped, len) {
                Ok(()) => {
                    // publish piece: pairs with the load above.
                    self.mapped.store(mapped + len, Release);
                    return Ok(());
                }
                // Another thread is between its `map` and its store, or something foreign is there.
                Err(Error::Occupied) if spins < SPIN_LIMIT => {
                    spins += 1;
                    pause();
                }
                Err(error) => return Err(error),
            }
        }
    }
}
