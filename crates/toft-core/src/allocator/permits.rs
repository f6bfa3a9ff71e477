//! Permits for system calls that a filter might forbid, and what needs one: the memory barrier, and
//! blocked signals.

use super::Allocator;
use crate::options::Reclaim;
use crate::os::Os;
use crate::os::filter::Permit;
use crate::os::seccomp::Calls;

/// While this lives the calling thread takes no signals.
pub(crate) struct Undisturbed<'a, O: Os> {
    os: &'a O,
    before: u64,
}

impl<O: Os> Drop for Undisturbed<'_, O> {
    fn drop(&mut self) {
        self.os.restore_signals(self.before);
    }
}

impl<O: Os> Allocator<O> {
    /// Returns a permit for calls of this kind, or `None` if a filter may forbid them.
    pub(crate) fn permit(&self, calls: Calls) -> Option<Permit<'_>> {
        self.filter().permit(&self.os, calls, self.options.reclaim == Reclaim::Thread)
    }

    /// Makes every running thread pass a memory barrier. Returns false if that is not possible or
    /// not permitted.
    pub(crate) fn barrier(&self) -> bool {
        self.permit(Calls::BARRIER).is_some_and(|_permit| self.os.barrier())
    }

    /// No signal handler runs in the calling thread while this lives; where that is not usual, one
    /// may.
    pub(crate) fn block_signals(&self) -> Option<Undisturbed<'_, O>> {
        let _permit = self.permit(Calls::SIGNALS)?;
        Some(Undisturbed { os: &self.os, before: self.os.block_signals() })
    }
}
