//! Growing and shrinking a block without copying it.

use super::Block;
use super::blocks::{Blocks, UNIT, UNIT_SHIFT, class_bytes, large_class};
use crate::os::Os;
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
    /// Changes the size of a live block without copying, where that can be done.
    pub fn resize(&self, os: &impl Os, block: &Block, size: usize) -> Resize {
        let Some(bytes) = size.checked_next_multiple_of(self.page_size) else { return Resize::No };
        let (old, address) = (block.bytes(), self.address(block));
        if self.is_shared(block) {
            return if bytes <= old && bytes >= old / 2 { Resize::InPlace } else { Resize::No };
        }
        if bytes <= old {
            if bytes < old {
                // SAFETY: (1) the tail that the program has just given up.
                if unsafe { os.unmap(address + bytes, old - bytes) }.is_err() {
                    return Resize::InPlace;
                }
                self.change_size(block, bytes);
            }
            return Resize::InPlace;
        }
        if bytes <= block.extent() - self.page_size {
            // SAFETY: (1) the block's own mapping, within its extent.
            if unsafe { os.extend(address, old, bytes) }.is_err() {
                return Resize::No;
            }
            self.change_size(block, bytes);
            return Resize::InPlace;
        }
        self.relocate(os, block, bytes)
    }

    pub(super) fn change_size(&self, block: &Block, bytes: usize) {
        self.uncount(block.bytes());
        block.mapped.store(bytes, Relaxed);
        block.bytes.store(bytes, Relaxed);
        self.count_bytes(bytes);
    }

    /// Moves a block's pages to a larger extent of the same partition.
    pub(super) fn relocate(&self, os: &impl Os, block: &Block, bytes: usize) -> Resize {
        let (old, address) = (block.bytes(), self.address(block));
        let class = large_class(bytes);
        let Some(extent) = class_bytes(class)
            .checked_add(self.page_size)
            .and_then(|extent| extent.checked_next_multiple_of(UNIT))
        else {
            return Resize::No;
        };
        let Ok(unit) = self.take_units(extent >> UNIT_SHIFT, UNIT) else { return Resize::No };
        let Ok(target) = self.prepare(os, unit, block.partition(), class, extent) else {
            self.return_units(unit, extent >> UNIT_SHIFT);
            return Resize::No;
        };
        target.site.store(block.site(), Relaxed);
        let to = self.address(target);
        // SAFETY: (1) the program gives the old address up; (2) the new extent is the caller's.
        if unsafe { os.relocate(address, old, to, bytes) }.is_err() {
            self.give_up(unit, target);
            return Resize::No;
        }
        target.mapped.store(bytes, Relaxed);
        target.bytes.store(bytes, Relaxed);
        target.publish();
        self.uncount(old);
        self.count_bytes(bytes);
        // The old extent keeps its address and has no pages.
        block.mapped.store(0, Relaxed);
        if block.take() {
            self.push_free(block);
        }
        Resize::Moved(to)
    }
}
