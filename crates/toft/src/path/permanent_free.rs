//! Freeing for good: `toft_free_permanently`. The block's address is never handed out again.

use crate::allocator::{Allocator, Found};
use crate::harden::wipe;
use crate::large::BlockState;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::report::Call;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;

impl<O: Os> Allocator<O> {
    /// Takes back the block at `address` for ever, or names what is wrong with it. What it held is
    /// gone when this returns, and so are the pages on which there is nothing else.
    #[cold]
    #[inline(never)]
    pub fn free_for_good(&self, address: usize) {
        let call = Call::FreePermanently;
        self.tell_freed(address);
        let bytes = match self.find(address) {
            Found::Slot(slab, slot) if slab.has_slot_at(slot, address) && slab.bury(slot) => {
                self.wipe_gone(slab, slot, address, call);
                slab.size()
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                let (bytes, missed) =
                    (block.bytes(), |damage| self.missed_large(call, block, damage));
                if !self.large.free_for_good(&self.os, block, missed) {
                    return self.misused(call, address);
                }
                bytes
            }
            Found::Guarded(slot) => {
                let bytes = slot.bytes();
                let permit = self.filter().permit(&self.os, Calls::REPORT, false);
                if !self.guarded.free(address, permit.is_some(), true) {
                    return self.misused(call, address);
                }
                bytes
            }
            // Its addresses are never mapped, and hold nothing.
            Found::Nothing(place) => return self.free_nothing(place, address, call),
            _ => return self.misused(call, address),
        };
        let [blocks, all] = self.gone();
        blocks.fetch_add(1, Relaxed);
        all.fetch_add(bytes, Relaxed);
    }

    /// Wipes a slot that belongs to this call alone from here on, and is never used again.
    fn wipe_gone(&self, slab: &Slab, slot: usize, address: usize, call: Call) {
        self.verify_at_free(slab, slot, address, call);
        // SAFETY: (1) the slot of a block that was live, which the program has given back; (2) the
        // processor was asked.
        unsafe { wipe(address, slab.size(), self.long_vectors) };
        // Where slabs share pages, another slab's blocks may be there.
        if self.options.compact {
            return;
        }
        let (start, len) = slab.pages_gone(slot, self.os.page_size());
        if len != 0 {
            // SAFETY: (1) every slot with bytes there is gone for good. What cannot be given back
            // is zero.
            let _ = unsafe { self.os.discard(slab.base() + start, len) };
        }
    }
}
