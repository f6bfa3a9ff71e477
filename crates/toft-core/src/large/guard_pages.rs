//! Guard pages of large blocks in the secure build.
//!
//! A freed block becomes inaccessible at once. A block whose size changes keeps its guard pages.

use super::Block;
use super::blocks::Blocks;
use super::canary::Damage;
use super::resize::Resize;
use crate::os::{Error, Os};
use crate::sync::Ordering::Relaxed;

impl Blocks {
    /// Returns the pages of a held, free block to the OS, so that every access faults.
    pub(super) fn make_inaccessible(&self, os: &impl Os, block: &Block) {
        let (start, mapped) = self.mapping(block);
        // A block that shares a mapping stays in it. The kernel would not merge a new mapping with
        // those of both neighbours.
        // SAFETY: (1) mapped by `map_to`; the block is free, so its contents are not needed.
        if self.is_shared(block) && unsafe { os.guard(start, mapped) }.is_ok() {
            return block.resident.store(0, Relaxed);
        }
        self.drop_pages(os, block);
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

    /// Changes the size of a live block if that needs no copy. The block keeps its place on its
    /// first page, so that its pages can be moved.
    ///
    /// The block therefore ends at its guard page only if the two sizes differ by whole pages.
    /// Otherwise it ends less than a page before, and the canary covers the rest.
    pub(super) fn resize_with_guards(
        &self,
        os: &impl Os,
        block: &Block,
        bytes: usize,
        admit: &impl Fn(usize) -> bool,
        damaged: &impl Fn(Damage),
    ) -> Resize {
        let most = isize::MAX as usize - self.page_size;
        // A zero-size block has no pages.
        if bytes > most || bytes == 0 || block.bytes() == 0 || !block.take() {
            return Resize::No;
        }
        if let Some(damage) = self.damage(block) {
            damaged(damage);
        }
        let old = block.bytes();
        let (span, old_span) = (self.span(block, bytes), self.span(block, old));
        self.end(block);
        let mut done = Resize::No;
        if span == old_span {
            done = Resize::InPlace;
        } else if span < old_span {
            self.shrink_with_guards(os, block, span, old_span);
            done = Resize::InPlace;
        } else if !self.is_shared(block) && admit(span) {
            self.make_room(os, span);
            let opened = self.remove_guards(os, block, span).is_ok();
            if opened && span <= self.room(block) && self.map_to(os, block, span).is_ok() {
                done = Resize::InPlace;
            } else if opened && let Some(to) = self.relocate(os, block, bytes) {
                return Resize::Moved(to);
            }
        }
        if done == Resize::InPlace {
            if bytes > old {
                self.clear_tail(block);
            }
            self.begin_bytes(block, bytes);
            self.write_tail(block, bytes);
        } else {
            self.begin_bytes(block, old);
        }
        block.untake();
        done
    }

    /// Removes the pages after the first `span` bytes of a held block that has `old_span` bytes.
    fn shrink_with_guards(&self, os: &impl Os, block: &Block, span: usize, old_span: usize) {
        let start = self.start(block);
        let mapped = block.mapped();
        if !self.is_shared(block) {
            // SAFETY: (1) the block's own mapping, whose end is not needed.
            if unsafe { os.unmap(start + span, mapped - span) }.is_ok() {
                return self.set_extent_of_pages(block, span, span);
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
    pub(super) fn remove_guards(
        &self,
        os: &impl Os,
        block: &Block,
        bytes: usize,
    ) -> Result<(), Error> {
        let (start, first) = (self.start(block), block.resident.load(Relaxed));
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

    /// Returns the address and the length of a block's mapping.
    pub fn mapping(&self, block: &Block) -> (usize, usize) {
        let shared = self.is_shared(block);
        let start = if shared { self.unit_address(block) } else { self.start(block) };
        (start, block.mapped())
    }
}
