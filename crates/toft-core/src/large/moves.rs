//! Pages that move from one extent to another: page tables, never bytes.

use super::Block;
use super::blocks::{Blocks, Need, view};
use super::class::{CLASS_BASE, large_class};
use super::kept::Kept;
use super::pages::most_resident;
use super::units::UNIT;
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;

/// Bytes of pages that are worth moving: it costs about as much as ten faults. A page that is not
/// touched costs no fault either, so it is done only where there is much to be had.
pub(super) const MOVE_LEAST: usize = 64 << 10;

view!(pub(super) Moves, moves, "The moves of pages between extents.");

impl<'a> Moves<'a> {
    /// A block that gets the last pages of another free one, of any call site: moving page tables
    /// costs a hundredth of having the kernel clear pages. Returns the number of bytes that came
    /// along.
    pub(super) fn take_over(
        self,
        os: &impl Os,
        donor: Kept,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
    ) -> Option<(&'a Block, usize)> {
        let (kept, extents) = (self.0.kept_blocks(), self.0.extents());
        let (pages, placement) = (self.0.pages(), self.0.placement());
        if !pages.may_be_separate() {
            return None;
        }
        let donor = kept.take(donor)?;
        let Ok(block) = extents.take(os, need) else {
            kept.put(os, donor);
            return None;
        };
        let stays = pages.is_outside(block) || block.mapped.load(Relaxed) != 0;
        if stays || SECURE && !block.lies_apart() {
            // Its pages could not be given back once, or it shares a mapping, or is reserved; it is
            // as good as any.
            extents.put_back(block);
            kept.put(os, donor);
            return None;
        }
        let (mapped, resident) = (donor.mapped.load(Relaxed), donor.resident.load(Relaxed));
        // What would be left is taken along, if it is little; but not where a block ends against
        // its guard.
        let most = if SECURE { need.bytes } else { most_resident(need.bytes) };
        let most = most.min(block.extent() - self.0.page_size());
        let moved = if resident <= most { resident } else { need.bytes };
        let growth = need.bytes.saturating_sub(moved);
        kept.make_room(os, resident + growth);
        if !admit(resident + growth) {
            extents.put_back(block);
            kept.put(os, donor);
            return None;
        }
        let (left, len) = (resident - moved, moved.max(need.bytes));
        // What is not worth moving is given back on the way.
        let left = if SECURE && left < MOVE_LEAST { 0 } else { left };
        placement.choose(block, need);
        let (from, to) = (placement.start(donor) + left, placement.start(block));
        // SAFETY: (1) the donor is free and held, and what lies before `left` stays with it; (2)
        // the extent is the caller's.
        if let Err(error) = unsafe { os.relocate(from, mapped - left, to, len) } {
            // How much of the donor is still there is not known.
            pages.unmap(os, donor);
            extents.push(donor);
            if error != Error::Occupied {
                extents.put_back(block);
            }
            return None;
        }
        pages.set_mapped(donor, left, left);
        pages.set_mapped(block, len, moved);
        if left == 0 {
            extents.push(donor);
        } else {
            kept.put(os, donor);
        }
        // In the secure build what is kept was cleared.
        Some((block, if SECURE { 0 } else { moved }))
    }

    /// Moves the pages of a held block to a larger extent of the same partition; says where the
    /// block is then. Nothing for a block without pages.
    pub(super) fn relocate(self, os: &impl Os, block: &Block, bytes: usize) -> Option<usize> {
        // A zero-size block has no pages, and the system refuses to move none.
        if block.mapped.load(Relaxed) == 0 {
            return None;
        }
        let (extents, pages) = (self.0.extents(), self.0.pages());
        let placement = self.0.placement();
        let span = placement.span(block, bytes);
        let class = large_class(span.max(1 << CLASS_BASE | 1));
        let need =
            Need { partition: block.partition(), class, size: bytes, bytes: span, align: UNIT };
        let target = extents.take(os, &need).ok()?;
        placement.choose_like(target, block);
        let (mapped, resident) = (block.mapped.load(Relaxed), block.resident.load(Relaxed));
        let (from, to) = (placement.start(block), placement.start(target));
        self.0.kept_blocks().make_room(os, resident.max(span));
        let moved = match target.mapped.load(Relaxed) {
            // SAFETY: (1) the program gives the old address up; (2) the new extent is the caller's.
            0 if !pages.is_outside(target) => unsafe { os.relocate(from, mapped, to, span) },
            // What could not be given back once, or is reserved.
            _ => Err(Error::NoMemory),
        };
        if moved.is_err() {
            extents.put_back(target);
            return None;
        }
        pages.set_mapped(block, 0, 0);
        pages.set_mapped(target, span, resident);
        target.site.store(block.site().address(), Relaxed);
        target.set_replaces_slot(false);
        if SECURE {
            target.bytes.store(block.bytes(), Relaxed);
            self.0.canaries().clear_tail(target);
            self.0.canaries().write(target, bytes);
        }
        self.0.begin_bytes(target, bytes);
        target.publish();
        // The old extent keeps its address and has no pages.
        if SECURE {
            self.0.waiting().put(block);
        } else {
            extents.push(block);
        }
        Some(placement.address(target))
    }
}
