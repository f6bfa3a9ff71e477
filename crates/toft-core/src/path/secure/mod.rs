//! Where the secure build does more: when a block comes, when it goes, when it is resized.
//!
//! ```text
//! hand_over   a slot was taken for malloc: is it still zero?  remember the size, arm the canary
//! take_back   a block is freed: claim it, check its canary and the byte before it, clear it
//! wait        it goes into the quarantine of the thread that frees it, and another leaves that
//! release     what leaves becomes free: in its slab, or as a mark for the thread that owns the slab
//!
//! Beside reserved slots (`reserved.rs`) take_back and release check those, too.
//! ```
//!
//! Each free goes this way, from any caller: there is no cache in front of it. In the light build
//! only the last byte of a free slot is zero. In the other one every byte of a free slot is zero;
//! `hand_over` relies on that. A thread that gives pages back leaves those that are not zero
//! (`slab/written.rs`). The fast path is in `fast.rs`.

mod fast;
mod zero_size;

use crate::allocator::{Allocator, Found};
use crate::bin::Taken;
use crate::harden::{Canary, TOUCHED_MAX, first_nonzero, is_zero, touch, wipe};
use crate::large::BlockState;
use crate::os::Os;
use crate::path::malloc::bytes_with_slack;
use crate::policy::{CANARY, CHECK_SIZES, WIPE};
use crate::report::Call;
use crate::slab::{Class, Slab};
use crate::thread::Heap;
use crate::watch::reports::damage::Damage;

impl<O: Os> Allocator<O> {
    /// A slot was just handed out for `size` bytes, on a path that knows its address only.
    pub(crate) fn prepare(&self, heap: &Heap, address: usize, size: usize) {
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
    pub(crate) fn check_contents(&self, heap: &Heap, slab: &Slab, slot: usize, address: usize) {
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
        self.find_writes(slab, slot, address);
    }

    /// The program gives a block back.
    #[inline]
    pub(crate) fn take_back(
        &self,
        heap: &Heap,
        slab: &Slab,
        slot: usize,
        address: usize,
        call: Call,
    ) {
        // From here on the slot is this call's alone. A wild pointer may point into a slab that its
        // owner is just opening. Then the slot was found from incomplete numbers.
        let own = heap.owns(slab);
        let taken = if own {
            slab.take_own(slot)
        } else {
            slab.has_slot_at(slot, address) && slab.take_from_any_thread(slot)
        };
        if !taken {
            return self.misused_unless_sampled(call, address);
        }
        self.slot_checks().verify_at_free(slab, slot, address, call);
        // SAFETY: (1) the slot of a live block, which the program has given back.
        unsafe { self.erase_canary(slab, slot, address) };
        if !own && !slab.has_taken(slot) {
            // Its owner has freed it at the same moment, and has put it into a quarantine.
            return self.misused_unless_sampled(call, address);
        }
        self.quarantines().wait(heap, slab, slot);
    }

    /// Clears a block that was freed, or its canary where blocks are not cleared.
    ///
    /// # Safety
    /// 1. Nothing but this call uses the slot at this address, which is mapped.
    #[inline(always)]
    pub(crate) unsafe fn erase_canary(&self, slab: &Slab, slot: usize, address: usize) {
        let bytes = slab.size();
        if WIPE {
            // SAFETY: (1) duty 1.
            unsafe { wipe(address, bytes, self.long_vectors) };
        } else if CANARY {
            // SAFETY: (1) duty 1.
            unsafe { Canary::erase(address + bytes, bytes - slab.block_bytes(slot)) };
        }
    }

    /// Names a byte of a slot that was written to since it was cleared, and clears it again.
    #[inline(always)]
    fn find_writes(&self, slab: &Slab, slot: usize, address: usize) {
        let bytes = slab.size();
        // SAFETY: (1) malloc has taken the slot and not handed it out. A write to it by the program
        // is the mistake that is looked for.
        unsafe {
            if is_zero(address, bytes, self.long_vectors) {
                return;
            }
            if let Some(place) = first_nonzero(address, bytes) {
                self.reports().damaged(Call::Malloc, slab, slot, Damage::AfterFree(place));
                wipe(address, bytes, self.long_vectors);
            }
        }
    }

    /// A block was resized where it is.
    pub(crate) fn resize_slot(&self, slab: &Slab, slot: usize, address: usize, size: usize) {
        let (before, bytes) = (slab.block_bytes(slot), slab.size());
        let canary = self.slot_checks().canary(slab, slot);
        if CANARY {
            // SAFETY: (1) the slot of a live block that is the caller's to resize.
            unsafe { canary.disarm(address, before, bytes) };
        }
        if size < before && WIPE {
            let rest: *mut u8 = core::ptr::with_exposed_provenance_mut(address + size);
            // SAFETY: bytes of the block that its owner has given back.
            unsafe { rest.write_bytes(0, before - size) };
        }
        let slack = slab.slack_for(size);
        slab.set_slack(slot, slack);
        if CANARY {
            // SAFETY: (1) as above.
            unsafe { canary.arm(address, bytes - slack, bytes) };
        }
    }

    /// Checks a block that is about to be freed as one of `size` bytes at a multiple of `align`.
    /// Names it if such a request has another class, or, for a large block, another size. Returns
    /// true if it may be freed.
    pub fn size_fits(&self, address: usize, size: usize, align: usize, call: Call) -> bool {
        if !CHECK_SIZES {
            return true;
        }
        let align = if align.is_power_of_two() { align } else { 1 };
        let class = |size| Class::of_aligned(bytes_with_slack(size), align);
        match self.find(address) {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => {
                let asked = slab.block_bytes(slot);
                if size == asked || class(size) == class(asked) {
                    return true;
                }
                self.reports().damaged(call, slab, slot, Damage::Size(size));
                false
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                if size == block.bytes() {
                    return true;
                }
                self.reports().large_size_differs(block, address, size, call);
                false
            }
            Found::ZeroSize(place) if self.has_zero_size(place) => {
                if size == 0 {
                    return true;
                }
                self.reports().report_zero_size_mismatch(address, size, call);
                false
            }
            // Freeing it names it.
            _ => true,
        }
    }
}

/// Whether a medium slot was never handed out, and its memory is as the system has given it. Such a
/// slot needs no check, which would touch its pages.
#[inline(always)]
fn is_untouched(heap: &Heap, slab: &Slab, slot: usize, address: usize) -> bool {
    !slab.class().is_small()
        && !slab.was_handed_out(slot)
        && heap.owns(slab)
        && slab.handed_out_zero(address)
}
