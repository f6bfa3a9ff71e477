//! Permits for system calls that a filter might forbid, and the memory barrier, which needs one.

use super::Allocator;
use crate::options::Reclaim;
use crate::os::Os;
use crate::os::filter::Permit;
use crate::os::seccomp::Calls;

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
}
