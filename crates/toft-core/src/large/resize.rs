//! Growing and shrinking a block without copying it.

use super::Block;
use super::Damage;
use super::blocks::{Blocks, Need, UNIT};
use super::class::{CLASS_BASE, large_class};
use crate::os::{Error, Os};
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
                self.tally.grown(os, site, partition, block.bytes().saturating_sub(old))
            }
            Resize::Moved(to) => {
                let bytes = self.block_at(to).map_or(size, Block::bytes);
                self.tally.made(os, site, partition, bytes);
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
        let Some(bytes) = size.checked_next_multiple_of(self.page_size) else { return Resize::No };
        let old = block.bytes();
        if self.is_shared(block) {
            return if bytes <= old && bytes >= old / 2 { Resize::InPlace } else { Resize::No };
        }
        if bytes == old {
            return Resize::InPlace;
        }
        // Held from here on: a free at the same time is named.
        if !block.take() {
            return Resize::No;
        }
        self.end(block);
        let done = if bytes < old {
            self.shrink(os, block, bytes);
            Resize::InPlace
        } else if !admit(block.resident.load(Relaxed).max(bytes)) {
            Resize::No
        } else if bytes <= block.extent() - self.page_size {
            self.make_room(os, block.resident.load(Relaxed).max(bytes));
            match self.map_to(os, block, bytes) {
                Ok(()) => Resize::InPlace,
                Err(_) => Resize::No,
            }
        } else if let Some(to) = self.relocate(os, block, bytes) {
            return Resize::Moved(to);
        } else {
            Resize::No
        };
        self.begin_bytes(block, if done == Resize::No { old } else { bytes });
        block.untake();
        done
    }

    /// Moves the pages of a held block to a larger extent of the same partition; says where the
    /// block is then.
    pub(super) fn relocate(&self, os: &impl Os, block: &Block, bytes: usize) -> Option<usize> {
        let span = self.span(block, bytes);
        let class = large_class(span.max(1 << CLASS_BASE | 1));
        let need =
            Need { partition: block.partition(), class, size: bytes, bytes: span, align: UNIT };
        let target = self.vacant(os, &need).ok()?;
        self.choose_place_like(target, block);
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        let (from, to) = (self.start(block), self.start(target));
        self.make_room(os, resident.max(span));
        let moved = match target.mapped.load(Relaxed) {
            // SAFETY: (1) the program gives the old address up; (2) the new extent is the caller's.
            0 => unsafe { os.relocate(from, mapped, to, span) },
            // What could not be given back once.
            _ => Err(Error::NoMemory),
        };
        if moved.is_err() {
            self.put_vacant(target);
            return None;
        }
        self.set_extent_of_pages(block, 0, 0);
        self.set_extent_of_pages(target, span, resident);
        target.site.store(block.site(), Relaxed);
        if SECURE {
            target.bytes.store(block.bytes(), Relaxed);
            self.clear_tail(target);
            self.write_canaries(target, bytes);
        }
        self.begin_bytes(target, bytes);
        target.publish();
        // The old extent keeps its address and has no pages.
        if SECURE {
            self.wait(block);
        } else {
            self.push_free(block);
        }
        Some(self.address(target))
    }
}
