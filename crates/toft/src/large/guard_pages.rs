//! Large blocks of the hardened build: freed ones are inaccessible at once, and those whose size
//! changes keep their walls.

use super::Block;
use super::blocks::Blocks;
use super::canary::Damage;
use super::resize::Resize;
use crate::os::{Error, Os};
use crate::sync::Ordering::Relaxed;

impl Blocks {
    /// Gives back the pages of a held, free block, so that every access faults.
    pub(super) fn wall_off(&self, os: &impl Os, block: &Block) {
        let (start, mapped) = self.mapping(block);
        // What shares a mapping stays in it: with a new mapping, it would not be put together with
        // both of its neighbours.
        // SAFETY: (1) mapped by `map_to`; the block is free, so what is there is not needed.
        if self.is_shared(block) && unsafe { os.guard(start, mapped) }.is_ok() {
            return block.resident.store(0, Relaxed);
        }
        self.drop_pages(os, block);
        if block.mapped() != 0 {
            // At the limit of mappings a range cannot be taken out of one. Guards take no mapping.
            // SAFETY: (1) as above.
            let walled = unsafe { os.guard(start, mapped) }.is_ok();
            // SAFETY: (1) as above. Without guards nothing else is left to do.
            if !walled && unsafe { os.forbid(start, mapped) }.is_ok() {
                block.set_forbidden(true);
            }
        }
    }

    /// Changes the size of a live block, where it can be done without copying. On its first page it
    /// stays where it is, so that pages can be moved; so it ends against its guard only where the
    /// sizes differ by whole pages, and otherwise less than a page before it. What is left is
    /// watched.
    pub(super) fn resize_walled(
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
            self.cut_walled(os, block, span, old_span);
            done = Resize::InPlace;
        } else if !self.is_shared(block) && admit(span) {
            self.make_room(os, span);
            let opened = self.open_walled(os, block, span).is_ok();
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

    /// Takes the pages behind the first `span` bytes away, of a held block that had more.
    fn cut_walled(&self, os: &impl Os, block: &Block, span: usize, old_span: usize) {
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
        let walled = unsafe { os.guard(end, rest) }.is_ok();
        // SAFETY: (1) as above. At the limit of mappings, without guards, it stays as it is.
        if !walled && unsafe { os.discard(end, rest) }.is_err() {
            return;
        }
        block.resident.store(span, Relaxed);
    }

    /// Lets a held, live block with a separate mapping have its pages again up to `bytes`, as far
    /// as they are mapped. What could not be unmapped when it was made smaller has guards. They
    /// would be within the block when it grows, or go with it when it moves.
    pub(super) fn open_walled(
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
        // SAFETY: (1) the block's own mapping, whose end is not needed; without guards there are
        // none.
        match unsafe { os.unguard(start + first, end - first) } {
            Ok(()) | Err(Error::Unsupported) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The address and the length of a block's mapping.
    pub fn mapping(&self, block: &Block) -> (usize, usize) {
        let shared = self.is_shared(block);
        let start = if shared { self.unit_address(block) } else { self.start(block) };
        (start, block.mapped())
    }
}
