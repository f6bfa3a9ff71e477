//! The pages of one block that the caller holds: mapping, growing, cutting off, handing on.

use super::Block;
use super::blocks::{Blocks, Need};
use super::kept::Kept;
use super::room::MOVE_LEAST;
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::sync::Ordering::{Relaxed, Release};

/// Blocks with a separate mapping. Beyond these, whole extents are mapped so that neighbours
/// share one mapping, and the guards are page-table guards where the kernel has them: the number of
/// mappings that a process may have is limited (65 530 by default).
const SEPARATE_MAX: usize = 8192;
/// A block may have resident bytes after the requested size, up to this share of that, as a
/// divisor: cutting them off costs a call now, and faults later. With 2 in place of 1, blocks of
/// 256 KiB to 4 MiB that are touched take 1.3 times as long.
const SLACK: usize = 1;
/// A mapping that has become too short is made longer than it must be by this share, as a divisor:
/// address space, so that the next time costs no call.
const AHEAD: usize = 4;
/// Mapped bytes that a block may have for each one that it needs before its address space is cut,
/// too.
const CUT_MAPPED: usize = 8;
/// As `SLACK`, of a block that the program itself has made smaller.
const SHRINK_SLACK: usize = 8;

impl Blocks {
    /// Whether the block's whole extent is mapped, so that it may share a mapping with neighbours.
    pub(super) fn is_shared(&self, block: &Block) -> bool {
        block.mapped.load(Relaxed) == block.extent()
    }

    fn is_to_be_separate(&self, block: &Block) -> bool {
        if SECURE { block.lies_apart() } else { self.may_be_separate() }
    }

    pub(super) fn may_be_separate(&self) -> bool {
        self.state().separate.load(Relaxed) < SEPARATE_MAX
    }

    /// Writes how much of a block is mapped and may have pages, and keeps the counters with it.
    /// Only for blocks that have, or had, a separate mapping.
    pub(super) fn set_extent_of_pages(&self, block: &Block, mapped: usize, resident: usize) {
        let (state, before) = (self.state(), block.mapped.load(Relaxed));
        // L1 holds between the two stores: what is resident is mapped.
        if mapped < before {
            block.resident.store(resident, Release);
        }
        block.mapped.store(mapped, Release);
        block.resident.store(resident, Release);
        if mapped > before {
            state.mapped.fetch_add(mapped - before, Relaxed);
        } else {
            state.mapped.fetch_sub(before - mapped, Relaxed);
        }
        match (before, mapped) {
            (0, 0) => 0,
            (0, _) => state.separate.fetch_add(1, Relaxed),
            (_, 0) => state.separate.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// Maps a held, free block for `bytes` from whatever it has now, and gives back what it has far
    /// too much of.
    pub(super) fn adapt(
        &self,
        os: &impl Os,
        block: &Block,
        bytes: usize,
        admit: &impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let resident = block.resident.load(Relaxed);
        if resident > bytes + bytes / SLACK {
            self.cut(os, block, bytes);
        }
        if !admit(block.resident.load(Relaxed).max(bytes)) {
            return Err(Error::NoMemory);
        }
        self.map_to(os, block, bytes)?;
        if resident < bytes {
            // Not before: a request that is refused takes nothing from what is kept.
            self.make_room(os, bytes);
        }
        Ok(())
    }

    /// Maps a held block for at least `bytes`.
    pub(super) fn map_to(&self, os: &impl Os, block: &Block, bytes: usize) -> Result<(), Error> {
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        let address = self.start(block);
        if SECURE && self.is_shared(block) {
            if bytes == 0 {
                return Ok(());
            }
            // It was freed, and has been all guards since; or, where the system knows none and
            // could not unmap it, is as it was or without rights. SAFETY: (1) the block's own
            // mapping, which is not in use.
            let opened = !block.is_forbidden() && unsafe { os.unguard(address, bytes) }.is_ok();
            // SAFETY: (1) as above.
            return if opened { Ok(()) } else { unsafe { os.renew(address, bytes) } };
        }
        if self.is_shared(block) && bytes > block.bytes() {
            // It could not be unmapped, and its guards are where the new one has bytes.
            self.drop_pages(os, block);
            if block.mapped.load(Relaxed) != 0 {
                return Err(Error::Occupied);
            }
            return self.map_to(os, block, bytes);
        }
        if mapped >= bytes {
            return Ok(());
        }
        let mut bytes = bytes;
        if mapped != 0 {
            let ahead = (bytes + bytes / AHEAD) & !(self.page_size - 1);
            // Where a block ends against its guard nothing may lie between.
            let ahead = if SECURE { bytes } else { ahead.min(self.room(block)) };
            // SAFETY: (1) the block's own mapping, within its extent.
            let more = unsafe { os.extend(address, mapped, ahead) };
            if more.is_ok() {
                bytes = ahead;
            } else {
                // SAFETY: (1) as above.
                unsafe { os.extend(address, mapped, bytes) }?;
            }
        } else if self.is_to_be_separate(block) {
            os.map(address, bytes)?;
        } else {
            let (extent, unit) = (block.extent(), self.unit_address(block));
            os.map(unit, extent)?;
            if SECURE {
                block.set_forbidden(false);
            }
            let (before, behind) = (address - unit, unit + extent - address - bytes);
            // SAFETY: (1) the tail of what the line above mapped; it is not in use.
            let _ = unsafe { os.guard(address + bytes, behind) };
            if before != 0 {
                // SAFETY: (1) as above, of its beginning.
                let _ = unsafe { os.guard(unit, before) };
            }
            block.mapped.store(extent, Relaxed);
            return Ok(());
        }
        self.set_extent_of_pages(block, bytes, resident);
        Ok(())
    }

    /// Gives the pages behind the first `bytes` back, of a held block or of a live one that its
    /// program is making smaller; not always the address space, which costs more to have again.
    pub(super) fn cut(&self, os: &impl Os, block: &Block, bytes: usize) {
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        let address = self.start(block);
        if resident > bytes && mapped / CUT_MAPPED <= bytes {
            // SAFETY: (1) what follows `bytes` is not needed.
            if unsafe { os.discard(address + bytes, resident - bytes) }.is_ok() {
                return block.resident.store(bytes, Relaxed);
            }
        }
        // Locked pages cannot be discarded, but unmapped.
        // SAFETY: (1) as above.
        if mapped > bytes && unsafe { os.unmap(address + bytes, mapped - bytes) }.is_ok() {
            self.set_extent_of_pages(block, bytes, bytes.min(resident));
        }
    }

    /// As `cut`, unless it is too little to be worth a call.
    pub(super) fn shrink(&self, os: &impl Os, block: &Block, bytes: usize) {
        if block.resident.load(Relaxed) > bytes + bytes / SHRINK_SLACK {
            self.cut(os, block, bytes);
        }
    }

    /// Gives the pages of a held, free block back; its address stays with its partition.
    pub(super) fn drop_pages(&self, os: &impl Os, block: &Block) {
        let (address, mapped) = self.mapping(block);
        if mapped == 0 {
            return;
        }
        let shared = self.is_shared(block);
        // SAFETY: (1) the block is free and held by the caller, so its contents are not needed.
        if unsafe { os.unmap(address, mapped) }.is_ok() {
            if shared {
                block.mapped.store(0, Relaxed);
                block.resident.store(0, Relaxed);
            } else {
                self.set_extent_of_pages(block, 0, 0);
            }
            return;
        }
        // At the limit of mappings even giving back can fail; the pages at least can go.
        // SAFETY: (1) as above.
        if unsafe { os.discard(address, mapped) }.is_ok() {
            block.resident.store(0, Relaxed);
        }
    }

    /// A block that gets the last pages of another free one, of any call site: moving page tables
    /// costs a hundredth of having the kernel clear pages. Returns the number of bytes that came
    /// along.
    pub(super) fn take_over(
        &self,
        os: &impl Os,
        donor: Kept,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
    ) -> Option<(&Block, usize)> {
        if !self.may_be_separate() {
            return None;
        }
        let donor = self.take_kept(donor)?;
        let Ok(block) = self.vacant(os, need) else {
            self.put_kept(os, donor);
            return None;
        };
        if block.mapped.load(Relaxed) != 0 || SECURE && !block.lies_apart() {
            // Its pages could not be given back once, or it shares a mapping; it is as good as any.
            self.put_vacant(block);
            self.put_kept(os, donor);
            return None;
        }
        let (mapped, resident) = (donor.mapped.load(Relaxed), donor.resident.load(Relaxed));
        // What would be left is taken along, if it is little; but not where a block ends against
        // its guard.
        let slack = if SECURE { 0 } else { need.bytes / SLACK };
        let most = (need.bytes + slack).min(block.extent() - self.page_size);
        let moved = if resident <= most { resident } else { need.bytes };
        let growth = need.bytes.saturating_sub(moved);
        self.make_room(os, resident + growth);
        if !admit(resident + growth) {
            self.put_vacant(block);
            self.put_kept(os, donor);
            return None;
        }
        let (left, len) = (resident - moved, moved.max(need.bytes));
        // What is not worth moving is given back on the way.
        let left = if SECURE && left < MOVE_LEAST { 0 } else { left };
        self.choose_place(block, need);
        let (from, to) = (self.start(donor) + left, self.start(block));
        // SAFETY: (1) the donor is free and held, and what lies before `left` stays with it; (2)
        // the extent is the caller's.
        if let Err(error) = unsafe { os.relocate(from, mapped - left, to, len) } {
            // How much of the donor is still there is not known.
            self.drop_pages(os, donor);
            self.push_free(donor);
            if error != Error::Occupied {
                self.put_vacant(block);
            }
            return None;
        }
        self.set_extent_of_pages(donor, left, left);
        self.set_extent_of_pages(block, len, moved);
        if left == 0 {
            self.push_free(donor);
        } else {
            self.put_kept(os, donor);
        }
        // In the secure build what is kept was cleared.
        Some((block, if SECURE { 0 } else { moved }))
    }
}
