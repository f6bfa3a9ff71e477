//! The pages of one block that the caller holds: mapping, growing, cutting off, handing on.

use super::Block;
use super::blocks::{Blocks, view};
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::sync::Ordering::{Relaxed, Release};

/// Blocks with a separate mapping. Beyond these, whole extents are mapped so that neighbours
/// share one mapping, and the guards are page-table guards where the kernel has them: the number of
/// mappings that a process may have is limited (65 530 by default).
const SEPARATE_MAX: usize = 8192;
/// The most resident bytes that a block may have after the requested size, as a multiple of that
/// size. To cut them off costs a call now, and faults later (decision 0065).
const SLACK: usize = 2;
/// A mapping that has become too short is made longer than it must be by this share, as a divisor:
/// address space, so that the next time costs no call.
const AHEAD: usize = 4;
/// Mapped bytes that a block may have for each one that it needs before its address space is cut,
/// too.
const CUT_MAPPED: usize = 8;
/// As `SLACK`, of a block that the program itself has made smaller, as a divisor of its size.
const SHRINK_SLACK: usize = 8;

/// The most bytes that a new block of `bytes` may have resident.
pub(super) fn most_resident(bytes: usize) -> usize {
    bytes.saturating_mul(1 + SLACK)
}

/// The most bytes that a block of `bytes` may have resident that was larger, or had room to grow.
pub(super) fn most_after_shrinking(bytes: usize) -> usize {
    bytes.saturating_add(bytes / SHRINK_SLACK)
}

view!(pub Pages, pages, "The pages of blocks.");

impl Pages<'_> {
    /// Whether the block's whole extent is mapped, so that it may share a mapping with neighbours.
    pub(super) fn is_shared(self, block: &Block) -> bool {
        block.mapped.load(Relaxed) == block.extent()
    }

    /// Returns true if the block's extent is outside the window. All of it is always mapped, and
    /// only the program's pages can be accessed. A block that has pages counts as one that shares a
    /// mapping.
    pub(super) fn is_outside(self, block: &Block) -> bool {
        let units = self.0.units();
        units.is_outside(units.of(block))
    }

    fn is_to_be_separate(self, block: &Block) -> bool {
        if SECURE { block.lies_apart() } else { self.may_be_separate() }
    }

    pub(super) fn may_be_separate(self) -> bool {
        self.0.figures().separate_mappings() < SEPARATE_MAX
    }

    /// Writes how much of a block is mapped and may have pages, and keeps the counters with it.
    /// Only for blocks that have, or had, a separate mapping.
    pub(super) fn set_mapped(self, block: &Block, mapped: usize, resident: usize) {
        let before = block.mapped.load(Relaxed);
        // L1 holds between the two stores: what is resident is mapped.
        if mapped < before {
            block.resident.store(resident, Release);
        }
        block.mapped.store(mapped, Release);
        block.resident.store(resident, Release);
        self.0.figures().change_mapping(before, mapped);
    }

    /// Maps a held block for at least `bytes`.
    pub(super) fn map(self, os: &impl Os, block: &Block, bytes: usize) -> Result<(), Error> {
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        let address = self.0.placement().start(block);
        if SECURE && self.is_shared(block) {
            if bytes == 0 {
                return Ok(());
            }
            // It was freed, and has been all guards since; or, where the system knows none and
            // could not unmap it, is as it was or without rights.
            let is_all_guards = !block.is_forbidden() && !self.is_outside(block);
            // SAFETY: (1) the block's own mapping, which is not in use.
            let opened = is_all_guards && unsafe { os.unguard(address, bytes) }.is_ok();
            // SAFETY: (1) as above.
            return if opened { Ok(()) } else { unsafe { os.renew(address, bytes) } };
        }
        if self.is_shared(block) && bytes > block.bytes() {
            // It could not be unmapped, and its guards are where the new one has bytes.
            self.unmap(os, block);
            if block.mapped.load(Relaxed) != 0 {
                return Err(Error::Occupied);
            }
            return self.map(os, block, bytes);
        }
        if mapped >= bytes {
            return Ok(());
        }
        let mut bytes = bytes;
        if mapped != 0 {
            let ahead = (bytes + bytes / AHEAD) & !(self.0.page_size() - 1);
            // Where a block ends against its guard nothing may lie between.
            let exact = SECURE || self.0.kept_blocks().is_short();
            let ahead = if exact { bytes } else { ahead.min(self.0.placement().room(block)) };
            // SAFETY: (1) the block's own mapping, within its extent.
            let more = unsafe { os.extend(address, mapped, ahead) };
            if more.is_ok() {
                bytes = ahead;
            } else {
                // SAFETY: (1) as above.
                unsafe { os.extend(address, mapped, bytes) }?;
            }
        } else if self.is_outside(block) {
            // SAFETY: (1) reserved for the block, and not in use.
            unsafe { os.renew(address, bytes) }?;
            block.mapped.store(block.extent(), Relaxed);
            return Ok(());
        } else if self.is_to_be_separate(block) {
            os.map(address, bytes)?;
        } else {
            let (extent, unit) = (block.extent(), self.0.placement().unit_address(block));
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
        self.set_mapped(block, bytes, resident);
        Ok(())
    }

    /// Gives the pages behind the first `bytes` back, of a held block or of a live one that its
    /// program is making smaller; not always the address space, which costs more to have again.
    pub(super) fn cut(self, os: &impl Os, block: &Block, bytes: usize) {
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        let address = self.0.placement().start(block);
        if resident > bytes && mapped / CUT_MAPPED <= bytes {
            // SAFETY: (1) what follows `bytes` is not needed.
            if unsafe { os.discard(address + bytes, resident - bytes) }.is_ok() {
                return block.resident.store(bytes, Relaxed);
            }
        }
        // Locked pages cannot be discarded, but unmapped.
        self.cut_mapping(os, block, bytes);
    }

    /// As `cut`, with the address space: another block may need it. Leaves a block alone that
    /// shares a mapping.
    pub(super) fn cut_mapping(self, os: &impl Os, block: &Block, bytes: usize) {
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        if mapped <= bytes || self.is_shared(block) {
            return;
        }
        let address = self.0.placement().start(block);
        // SAFETY: (1) what follows `bytes` is not needed.
        if unsafe { os.unmap(address + bytes, mapped - bytes) }.is_ok() {
            self.set_mapped(block, bytes, bytes.min(resident));
        }
    }

    /// As `cut`, unless it is too little to be worth a call, or the reclaimer will do it if the
    /// block does not grow again.
    pub(super) fn shrink(self, os: &impl Os, block: &Block, bytes: usize) {
        if block.resident.load(Relaxed) <= most_after_shrinking(bytes) {
            return;
        }
        let stays = self.0.settlers().stays_for_now(block, bytes);
        if block.resident.load(Relaxed) > stays {
            self.cut(os, block, stays);
        }
    }

    /// Gives the pages of a held, free block back; its address stays with its partition.
    pub(super) fn unmap(self, os: &impl Os, block: &Block) {
        let (address, mapped) = self.mapping(block);
        if mapped == 0 {
            return;
        }
        let shared = self.is_shared(block);
        let gone = if self.is_outside(block) {
            // SAFETY: (1) the block is free and held by the caller, so its contents are not needed.
            unsafe { os.forbid(address, mapped) }
        } else {
            // SAFETY: (1) as above.
            unsafe { os.unmap(address, mapped) }
        };
        if gone.is_ok() {
            if shared {
                block.mapped.store(0, Relaxed);
                block.resident.store(0, Relaxed);
            } else {
                self.set_mapped(block, 0, 0);
            }
            return;
        }
        // At the limit of mappings even giving back can fail; the pages at least can go.
        // SAFETY: (1) as above.
        if unsafe { os.discard(address, mapped) }.is_ok() {
            block.resident.store(0, Relaxed);
        }
    }

    /// Returns the address and the length of a block's mapping.
    pub fn mapping(self, block: &Block) -> (usize, usize) {
        let shared = self.is_shared(block);
        let start = if shared {
            self.0.placement().unit_address(block)
        } else {
            self.0.placement().start(block)
        };
        (start, block.mapped())
    }
}
