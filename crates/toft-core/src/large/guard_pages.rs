//! Guard pages of large blocks in the secure build.
//!
//! A freed block becomes inaccessible at once. A block whose size changes keeps its guard pages.

use super::Block;
use super::blocks::{Blocks, view};
use crate::os::{Error, Os};
use crate::sync::Ordering::Relaxed;

view!(pub(super) GuardPages, guard_pages, "The guard pages of blocks.");

impl GuardPages<'_> {
    /// Returns the pages of a held, free block to the OS, so that every access faults.
    pub(super) fn make_inaccessible(self, os: &impl Os, block: &Block) {
        let (start, mapped) = self.0.pages().mapping(block);
        // A block that shares a mapping stays in it. The kernel would not merge a new mapping with
        // those of both neighbours.
        let is_in_mapping = self.0.pages().is_shared(block) && !self.0.pages().is_outside(block);
        // SAFETY: (1) mapped by `Pages::map`; the block is free, so its contents are not needed.
        if is_in_mapping && unsafe { os.guard(start, mapped) }.is_ok() {
            return block.resident.store(0, Relaxed);
        }
        self.0.pages().unmap(os, block);
        if block.mapped() != 0 {
            // At the limit of mappings the kernel cannot split one. A guard needs no mapping.
            // SAFETY: (1) as above.
            let guarded = unsafe { os.guard(start, mapped) }.is_ok();
            // SAFETY: (1) as above. This is the last means on a kernel without guards.
            if !guarded && unsafe { os.forbid(start, mapped) }.is_ok() {
                block.set_forbidden(true);
            }
        }
    }

    /// Removes the pages after the first `span` bytes of a held block that has `old_span` bytes.
    pub(super) fn shrink(self, os: &impl Os, block: &Block, span: usize, old_span: usize) {
        let start = self.0.placement().start(block);
        let mapped = block.mapped();
        if !self.0.pages().is_shared(block) {
            // SAFETY: (1) the block's own mapping, whose end is not needed.
            if unsafe { os.unmap(start + span, mapped - span) }.is_ok() {
                return self.0.pages().set_mapped(block, span, span);
            }
        }
        let (end, rest) = (start + span, old_span - span);
        // SAFETY: (1) as above.
        let guarded = unsafe { os.guard(end, rest) }.is_ok();
        // SAFETY: (1) as above. If this fails, too, the block keeps its pages.
        if !guarded && unsafe { os.discard(end, rest) }.is_err() {
            return;
        }
        block.resident.store(span, Relaxed);
    }

    /// Removes the guards within the first `bytes` bytes of a held, live block with a separate
    /// mapping.
    ///
    /// A shrink leaves guards on the pages that it could not unmap. They would be inside the block
    /// when it grows, and would move with it.
    pub(super) fn remove(self, os: &impl Os, block: &Block, bytes: usize) -> Result<(), Error> {
        let (start, first) = (self.0.placement().start(block), block.resident.load(Relaxed));
        let end = block.mapped().min(bytes);
        if first == 0 || first >= end {
            return Ok(());
        }
        // SAFETY: (1) the block's own mapping, whose end is not needed. A kernel without guards has
        // none to remove.
        match unsafe { os.unguard(start + first, end - first) } {
            Ok(()) | Err(Error::Unsupported) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
