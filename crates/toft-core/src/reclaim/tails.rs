//! Limits the number of slabs without a tail.

use super::Pool;
use crate::os::Os;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;

/// The most slabs without a tail. Each is a separate mapping, and a process may have 65 530. Slabs
/// that receive pages may use a quarter of them (`room.rs`). The rest is for the program.
const TAILS_MAX: usize = 32 << 10;

impl Pool {
    /// Unmaps the pages after the slab's last slot, because address space has run out. Returns the
    /// number of bytes, or `None` if no further slab can lose its tail. For the slab's holder.
    pub fn unmap_tail(&self, os: &impl Os, slab: &Slab) -> Option<usize> {
        if slab.is_dormant() || slab.pages().is_without_tail() {
            return Some(0);
        }
        let tails = &self.state().tails;
        if tails.load(Relaxed) >= TAILS_MAX {
            return None;
        }
        // The system refuses only at the limit of mappings.
        let bytes = slab.pages().give_up_tail(os.page_size(), |start, len| {
            // SAFETY: (1) mapped with the slab. The caller holds the slab, the tail has no slots,
            // and the reclaimer does not use its pages.
            unsafe { os.unmap(start, len) }.is_ok()
        })?;
        tails.fetch_add(usize::from(bytes != 0), Relaxed);
        Some(bytes)
    }
}
