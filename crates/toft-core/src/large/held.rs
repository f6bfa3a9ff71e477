//! Where the pages of freed large blocks wait for the next ones, in the secure build.
//!
//! ```text
//! freed block | pages ..... | not mapped from here on: faults
//!                   | moved, then cleared
//! holder            | pages ..... |      in a place of `kept.rs`
//!                         | moved
//! new block               | pages ..... |
//! ```
//!
//! A holder is an extent of a separate partition, which no request is ever for: no pointer of the
//! program has led there, and none will, so that a stale one faults as if nothing were kept. What
//! is kept is cleared after it has moved, when the program can no longer write there. So it holds
//! nothing old, and need not be cleared for its next owner.
//!
//! Only what is in memory is kept, up to the first page that is not: an untouched block is
//! unmapped, and nothing is cleared that has no page. Pages that were only read, all of which are
//! the kernel's one page of zeros, count as in memory: what is zero is not written, so that a free
//! brings nothing there.
//!
//! What the program has done to the rights of the pages (`mprotect`) moves with them, and is undone
//! before they are cleared.

use super::Block;
use super::blocks::{Blocks, Need, view};
use super::class::{CLASS_BASE, large_class};
use super::moves::MOVE_LEAST;
use crate::harden::{Long, PAGE_LEAST, is_zero};
use crate::os::filter::Permit;
use crate::os::{Error, Os};
use crate::sync::Ordering::Relaxed;

/// Bytes that are cleared together, or left alone together because all are zero.
const LOOKED_AT_ONCE: usize = 4 * PAGE_LEAST;

view!(pub(super) Holders, holders, "The extents that hold the pages of freed blocks.");

impl Holders<'_> {
    /// Moves what a held, free block has in memory to a holder, and unmaps the rest: every access
    /// to it faults then. No, where that cannot be, or is not worth it; then the block is to be
    /// walled off, whatever is left of it.
    pub(super) fn take_pages<'p>(
        self,
        os: &impl Os,
        block: &Block,
        permit: &dyn Fn() -> Option<Permit<'p>>,
    ) -> bool {
        let (kept, extents) = (self.0.kept_blocks(), self.0.extents());
        let (pages, placement) = (self.0.pages(), self.0.placement());
        let (mapped, resident) = (block.mapped(), block.resident.load(Relaxed));
        if pages.is_shared(block) || resident < MOVE_LEAST || !pages.may_be_separate() {
            return false;
        }
        let start = placement.start(block);
        let present = permit().map_or(0, |_permit| os.resident_prefix(start, resident));
        if present < MOVE_LEAST {
            return false;
        }
        if present > kept.budget() {
            self.0.figures().refuse(present);
            return false;
        }
        let class = large_class(present.max(1 << CLASS_BASE | 1));
        let partition = self.0.stacks().held_partition();
        let need = Need { partition, class, size: present, bytes: present, align: 1 };
        let Ok(holder) = extents.take(os, &need) else { return false };
        if holder.mapped() != 0 || !holder.lies_apart() {
            // It could not be unmapped once, or would share a mapping.
            extents.put_back(holder);
            return false;
        }
        placement.choose(holder, &need);
        let to = placement.start(holder);
        // SAFETY: (1) the block's own mapping, which is free and held; (2) the holder is the
        // caller's, and has no mapping.
        if let Err(error) = unsafe { os.relocate(start, mapped, to, present) } {
            // Where something foreign lies the extent is left alone for ever.
            if error != Error::Occupied {
                extents.put_back(holder);
            }
            return false;
        }
        pages.set_mapped(block, 0, 0);
        pages.set_mapped(holder, present, present);
        holder.publish_free();
        // SAFETY: (1) pages of the holder's, moved there a moment ago.
        if permit().is_none_or(|_permit| unsafe { os.allow(to, present) }.is_err()) {
            // Who knows who may do what there.
            pages.unmap(os, holder);
            extents.push(holder);
            return true;
        }
        clear(to, present);
        kept.note_free(holder);
        kept.put(os, holder);
        true
    }
}

/// Makes pages zero, but for pieces that are.
fn clear(address: usize, bytes: usize) {
    /// Looked at first: what was written most often shows it there.
    const HEAD: usize = 64;
    let end = address + bytes;
    for at in (address..end).step_by(LOOKED_AT_ONCE) {
        let len = (end - at).min(LOOKED_AT_ONCE);
        // SAFETY: (1) the caller has just moved `bytes` of whole pages there, to an extent that it
        // holds; (2) none are said to be there.
        let is_zero = |from, len| unsafe { is_zero(at + from, len, Long::NONE) };
        if !is_zero(0, HEAD) || !is_zero(HEAD, len - HEAD) {
            let piece: *mut u8 = core::ptr::with_exposed_provenance_mut(at);
            // SAFETY: as above.
            unsafe { piece.write_bytes(0, len) };
        }
    }
}
