//! A run of metadata address space that is mapped from its start on demand.

use super::run::up;
use crate::os::{Error, Memory};
use crate::sync::{AtomicUsize, Ordering, StoreChanged, spin_until};
use Ordering::{AcqRel, Acquire, Release};

/// The number of bytes that are usually mapped at a time, which is whole pages on every kernel.
pub const STEP: usize = 64 << 10;

/// Maps `[start, start + bytes)` piece by piece.
///
/// `mapped` only grows. A thread claims the next piece before it maps the piece. A mapping that is
/// found there is therefore foreign, and no thread waits to find out.
#[derive(Debug)]
pub struct Carve {
    /// The number of bytes mapped from the start. The thread that has claimed the last piece writes
    /// it.
    mapped: AtomicUsize,
    /// The number of bytes mapped or claimed. It is more than `mapped` while a thread maps the
    /// piece between the two. That thread has raised it, by compare and exchange, and makes both
    /// equal again. In the child of a fork, the piece may be that of a thread that no longer
    /// exists.
    claimed: AtomicUsize,
}

impl Carve {
    /// Returns the number of bytes mapped from the start.
    #[inline]
    pub fn mapped(&self) -> usize {
        self.mapped.load(Acquire)
    }

    /// Returns the address of the number of bytes mapped, for readers outside the process.
    pub fn mapped_at(&self) -> usize {
        (&raw const self.mapped).addr()
    }

    /// Notes that the first `bytes` bytes were mapped together with something else. Call it before
    /// any other thread uses the run.
    pub fn begin_with(&self, bytes: usize) {
        self.claimed.store(bytes, Release);
        self.mapped.store(bytes, Release);
    }

    /// Makes everything from `start` to `end` usable. If it maps anything, it maps a multiple of
    /// `step` bytes, which is whole pages.
    ///
    /// All calls for one run pass the same `start`. Zeroed memory is a run with nothing mapped.
    /// `Occupied` means that something foreign is there, and `Busy` that another thread was stopped
    /// while it maps the piece. The caller then does without the memory.
    pub fn reach(
        &self,
        os: &impl Memory,
        start: usize,
        end: usize,
        step: usize,
    ) -> Result<(), Error> {
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
                    // What is after `mapped` is foreign, and a child must not take it for ours.
                    self.claimed.store(mapped, Release);
                }
                return done;
            }
            let is_over = || self.claimed.load(Acquire) == self.mapped.load(Acquire);
            if !spin_until(|| self.mapped.load(Acquire) != mapped || is_over()) {
                return Err(Error::Busy);
            }
        }
    }

    /// Makes the first `bytes` bytes from `start` on usable, and twice as many if possible: a
    /// thread that is stopped while it maps more is then in the way of another only after as much
    /// again is needed. `space` is the number of bytes of address space for the run. It is mapped
    /// in steps of `step` bytes, a power of two, or of whole pages if the system has no more.
    pub fn reach_ahead(
        &self,
        os: &impl Memory,
        (start, space): (usize, usize),
        bytes: usize,
        step: usize,
        page: usize,
    ) -> Result<(), Error> {
        let space = up(space, page);
        if bytes > space {
            return Err(Error::NoMemory);
        }
        let mapped = self.mapped();
        if 2 * bytes <= mapped {
            return Ok(());
        }
        let ahead = up(2 * bytes, step).min(space);
        match self.reach(os, start, start + ahead, page) {
            Err(_) if bytes <= mapped => Ok(()),
            Err(Error::NoMemory) => self.reach(os, start, start + bytes, page),
            Err(Error::Occupied) => Err(Error::NoMemory),
            done => done,
        }
    }

    /// Acts like a thread that stops for ever while it maps the next `bytes`.
    #[cfg(test)]
    pub(super) fn begin(&self, bytes: usize) {
        self.claimed.fetch_add(bytes, AcqRel);
    }

    /// Finishes, in the child of a fork, the mapping that a thread of the parent had begun.
    pub fn repair(&self, os: &impl Memory, start: usize) {
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
