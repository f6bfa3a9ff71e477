//! Growing and shrinking a block without copying it.

use super::blocks::Blocks;
use super::{Block, Damage};
use crate::os::Os;
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;

/// What `resize` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The block has its new size where it is.
    InPlace,
    /// The block's pages are now at this address.
    Moved(usize),
    /// Nothing happened: copy instead.
    No,
}

impl Blocks {
    /// Changes the size of a live block without copying, where that can be done. `admit` is asked
    /// as in `allocate`, and never where the block becomes smaller. In the secure build `damaged`
    /// is told where the block was missed before, if it was.
    ///
    /// A block that moves is another one to those who count; one that grows in place is the same,
    /// with more bytes.
    pub fn resize(
        &self,
        os: &impl Os,
        block: &Block,
        size: usize,
        admit: &impl Fn(usize) -> bool,
        damaged: &impl Fn(Damage),
    ) -> Resize {
        let (site, partition, old) = (block.site(), block.partition(), block.bytes());
        let done = self.resize_uncounted(os, block, size, admit, damaged);
        match done {
            Resize::InPlace => {
                self.count(os, site, partition, [0, block.bytes().saturating_sub(old)])
            }
            Resize::Moved(to) => {
                let bytes = self.units().block_at(to).map_or(size, Block::bytes);
                self.count(os, site, partition, [1, bytes]);
            }
            Resize::No => {}
        }
        done
    }

    fn resize_uncounted(
        &self,
        os: &impl Os,
        block: &Block,
        size: usize,
        admit: &impl Fn(usize) -> bool,
        damaged: &impl Fn(Damage),
    ) -> Resize {
        if SECURE {
            return self.resize_with_guards(os, block, size, admit, damaged);
        }
        let Some(bytes) = size.checked_next_multiple_of(self.page_size()) else {
            return Resize::No;
        };
        let old = block.bytes();
        if self.pages().is_shared(block) {
            return if bytes <= old && bytes >= old / 2 { Resize::InPlace } else { Resize::No };
        }
        if bytes == old {
            return Resize::InPlace;
        }
        // Held from here on: a free at the same time is named.
        if !block.take() {
            return Resize::No;
        }
        if self.settlers().is_trimmed(block) {
            block.untake();
            return Resize::No;
        }
        self.end(block);
        let done = if bytes < old {
            self.pages().shrink(os, block, bytes);
            Resize::InPlace
        } else if bytes > block.resident.load(Relaxed)
            && let Some(to) = self.settlers().settle(os, block, bytes, admit)
        {
            return Resize::Moved(to);
        } else if !admit(block.resident.load(Relaxed).max(bytes)) {
            Resize::No
        } else if bytes <= block.extent() - self.page_size() {
            self.kept_blocks().make_room(os, block.resident.load(Relaxed).max(bytes));
            match self.pages().map(os, block, bytes) {
                Ok(()) => Resize::InPlace,
                Err(_) => Resize::No,
            }
        } else if let Some(to) = self.moves().relocate(os, block, bytes) {
            return Resize::Moved(to);
        } else {
            Resize::No
        };
        self.begin_bytes(block, if done == Resize::No { old } else { bytes });
        block.untake();
        done
    }

    /// Changes the size of a live block if that needs no copy. The block keeps its place on its
    /// first page, so that its pages can be moved.
    ///
    /// The block therefore ends at its guard page only if the two sizes differ by whole pages.
    /// Otherwise it ends less than a page before, and the canary covers the rest.
    fn resize_with_guards(
        &self,
        os: &impl Os,
        block: &Block,
        bytes: usize,
        admit: &impl Fn(usize) -> bool,
        damaged: &impl Fn(Damage),
    ) -> Resize {
        let most = isize::MAX as usize - self.page_size();
        // A zero-size block has no pages.
        if bytes > most || bytes == 0 || block.bytes() == 0 || !block.take() {
            return Resize::No;
        }
        if let Some(damage) = self.canaries().damage(block) {
            damaged(damage);
        }
        let old = block.bytes();
        let (pages, placement) = (self.pages(), self.placement());
        let (span, old_span) = (placement.span(block, bytes), placement.span(block, old));
        self.end(block);
        let mut done = Resize::No;
        if span == old_span {
            done = Resize::InPlace;
        } else if span < old_span {
            self.guard_pages().shrink(os, block, span, old_span);
            done = Resize::InPlace;
        } else if !pages.is_shared(block) && admit(span) {
            self.kept_blocks().make_room(os, span);
            let opened = self.guard_pages().remove(os, block, span).is_ok();
            if opened && span <= placement.room(block) && pages.map(os, block, span).is_ok() {
                done = Resize::InPlace;
            } else if opened && let Some(to) = self.moves().relocate(os, block, bytes) {
                return Resize::Moved(to);
            }
        }
        if done == Resize::InPlace {
            if bytes > old {
                self.canaries().clear_tail(block);
            }
            self.begin_bytes(block, bytes);
            self.canaries().write_tail(block, bytes);
        } else {
            self.begin_bytes(block, old);
        }
        block.untake();
        done
    }
}
