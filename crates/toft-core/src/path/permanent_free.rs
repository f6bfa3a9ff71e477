//! `toft_free_permanently`: frees a block whose address is never handed out again.

use crate::allocator::Found;
use crate::harden::wipe;
use crate::large::BlockState;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::path::Requests;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::sync::Ordering::Relaxed;

impl<O: Os> Requests<'_, O> {
    /// Frees the block at `address` permanently, or reports the misuse. The block's contents are
    /// erased when this function returns. Pages without other blocks are returned to the OS.
    #[cold]
    #[inline(never)]
    pub fn free_permanently(self, address: usize) {
        let call = Call::FreePermanently;
        self.profiler().record_free_if_sampled(address);
        let bytes = match self.find(address) {
            Found::Slot(slab, slot)
                if slab.has_slot_at(slot, address) && slab.free_permanently(slot) =>
            {
                self.wipe_freed_slot(slab, slot, address, call);
                slab.size()
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                let (bytes, missed) =
                    (block.bytes(), |damage| self.reports().missed_large(call, block, damage));
                if !self.large.free_permanently(&self.os, block, missed) {
                    return self.misused_unless_sampled(call, address);
                }
                bytes
            }
            Found::Guarded(slot) => {
                let bytes = slot.bytes();
                let permit = self.filter().permit(&self.os, Calls::REPORT, false);
                if !self.guarded.free(address, permit.is_some(), true) {
                    return self.misused_unless_sampled(call, address);
                }
                bytes
            }
            // The address of a zero-size block is never mapped.
            Found::ZeroSize(place) => return self.free_zero_size(place, address, call),
            _ => return self.misused_unless_sampled(call, address),
        };
        let [blocks, total_bytes] = self.permanently_freed();
        blocks.fetch_add(1, Relaxed);
        total_bytes.fetch_add(bytes, Relaxed);
    }

    /// Wipes a slot that was freed permanently, and returns its pages to the OS. No other thread
    /// uses the slot from now on.
    fn wipe_freed_slot(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        self.slot_checks().verify_at_free(slab, slot, address, call);
        // SAFETY: (1) the slot of a block that was live and that the program has freed; (2) the
        // processor was asked.
        unsafe { wipe(address, slab.size(), self.long_vectors) };
        // Compaction may have put another slab's blocks on these pages.
        if self.options.compact {
            return;
        }
        let (start, len) = slab.pages().permanently_freed(slot, self.os.page_size());
        if len != 0 {
            // SAFETY: (1) every slot with bytes there was freed permanently. A page that the OS
            // does not take back is zero.
            let _ = unsafe { self.os.discard(slab.base() + start, len) };
        }
    }
}
