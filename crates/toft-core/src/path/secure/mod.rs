//! Where the secure build does more: when a block comes, when it goes, when it is resized.
//!
//! ```text
//! hand_over   a slot was taken for malloc: is it still zero?  remember the size, arm the canary
//! take_back   a block is freed: claim it, check its canary and the byte before it, clear it
//! wait        it goes into the quarantine of the thread that frees it, and another leaves that
//! release     what leaves becomes free: in its slab, or as a mark for the thread that owns the slab
//!
//! `take_back` is in `path/free.rs`; wait and release are in `keeper/quarantines.rs`. Release checks
//! first that both ends of the slot are still zero, in the full build. Beside reserved slots
//! (`watch/slot_checks/reserved.rs`) take_back and release check those, too.
//! ```
//!
//! Each free goes this way, from any caller: there is no cache in front of it. In the light build
//! only the last byte of a free slot is zero. In the other one every byte of a free slot is zero;
//! `hand_over` relies on that. A thread that gives pages back leaves those that are not zero
//! (`slab/written.rs`). The fast path is in `fast.rs`.

mod fast;

use crate::allocator::{Allocator, Found, handle};
use crate::bin::Taken;
use crate::harden::{Canary, TOUCHED_MAX, touch, wipe};
use crate::os::Os;
use crate::policy::{CANARY, WIPE};
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::sync::Ordering::SeqCst;
use crate::sync::compiler_fence;
use crate::thread::Heap;

handle!(SecureSlots, secure_slots);

impl<O: Os> SecureSlots<'_, O> {
    /// A slot was just handed out for `size` bytes, on a path that knows its address only.
    pub(crate) fn prepare(self, heap: &Heap, address: usize, size: usize) {
        if let Found::Slot(slab, slot) = self.find(address) {
            let bytes = slab.bytes();
            self.hand_over(
                heap,
                Taken { slab, slot, address, bytes, next: address },
                slab.slack_for(size),
            );
        }
    }

    /// Checks a slot that malloc has taken if it is new, not zero, or its pages may have gone.
    #[inline(never)]
    pub(crate) fn check_contents(self, heap: &Heap, slab: &Slab, slot: SlotIndex, address: usize) {
        if is_untouched(heap, slab, slot, address) {
            return;
        }
        let bytes = slab.size();
        if bytes <= TOUCHED_MAX {
            // SAFETY: (1) a slot that malloc has taken and not given to anybody yet.
            unsafe { touch(address, bytes) };
        } else if self.mapper().is_zero_or_non_resident(address, bytes) {
            return;
        }
        self.slot_checks().find_writes(slab, slot, address, Call::Malloc);
    }

    /// Clears a block that was freed, or its canary where blocks are not cleared.
    ///
    /// # Safety
    /// 1. Nothing but this call uses the slot at this address, which is mapped.
    #[inline(always)]
    pub(crate) unsafe fn erase_canary(self, slab: &Slab, slot: SlotIndex, address: usize) {
        let bytes = slab.size();
        if WIPE {
            // SAFETY: (1) duty 1.
            unsafe { wipe(address, bytes, self.long_vectors) };
        } else if CANARY {
            // SAFETY: (1) duty 1.
            unsafe { Canary::erase(address + bytes, bytes - slab.block_bytes(slot)) };
        }
    }

    /// A block was resized where it is.
    pub(crate) fn resize_slot(self, slab: &Slab, slot: SlotIndex, address: usize, size: usize) {
        let (before, bytes) = (slab.block_bytes(slot), slab.size());
        let canary = self.slot_checks().canary(slab, slot);
        if CANARY {
            // Until the new canary is written, the slot looks as if it was never handed out. No
            // thread checks its canary then, wherever this thread is stopped.
            slab.slacks.set(slot, 0);
            compiler_fence(SeqCst);
            // SAFETY: (1) the slot of a live block that is the caller's to resize.
            unsafe { Canary::disarm(address, before, bytes) };
        }
        if size < before && WIPE {
            let rest: *mut u8 = core::ptr::with_exposed_provenance_mut(address + size);
            // SAFETY: bytes of the block that its owner has given back.
            unsafe { rest.write_bytes(0, before - size) };
        }
        let slack = slab.slack_for(size);
        if CANARY {
            // SAFETY: (1) as above.
            unsafe { canary.arm(address, bytes - slack, bytes) };
            compiler_fence(SeqCst);
        }
        slab.slacks.set(slot, slack);
    }
}

/// Whether a medium slot was never handed out, and its memory is as the system has given it. Such a
/// slot needs no check, which would touch its pages.
#[inline(always)]
fn is_untouched(heap: &Heap, slab: &Slab, slot: SlotIndex, address: usize) -> bool {
    !slab.class().is_small()
        && !slab.slacks.was_handed_out(slot)
        && heap.owns(slab)
        && slab.handed_out_zero(address)
}
