//! The usual way of the hardened build's malloc and free: a slot that this thread has at hand, and a block of its
//! own, in one piece of straight code for each. `harden.rs` does the same for everything else, and
//! says what each step is for; whatever is unusual here goes there.

use super::{Allocator, Call};
use crate::bin::Taken;
use crate::harden::{is_zero, wipe};
use crate::os::Os;
use crate::policy::{CANARY, QUARANTINE, SLACK_MIN, WIPE};
use crate::region::Plots;
use crate::slab::{MEDIUM, MEDIUM_MAX, SMALL, SMALL_MAX, Slab, Tier, TierNumber, class_of_medium};
use crate::sync::Ordering::Relaxed;
use crate::thread::Heap;

impl<O: Os> Allocator<O> {
    /// A small slot that is claimed already, for one byte or more. `None`: there is another way.
    #[inline(always)]
    pub(super) fn malloc_small(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        // Of no bytes there are none here: zero wraps round.
        if size.wrapping_sub(1) >= SMALL_MAX - SLACK_MIN {
            return None;
        }
        let taken = heap.take(heap.known_small_bin(size + SLACK_MIN, site))?;
        Some(self.hand_over(heap, taken, size))
    }

    /// The same of either tier.
    #[inline]
    pub(super) fn malloc_slot(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        let taken = heap.take(slot_bin(heap, size, site)?)?;
        Some(self.hand_over(heap, taken, size))
    }

    /// The same, where more have to be claimed first.
    #[inline]
    pub(super) fn malloc_refill(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        let taken = heap.take_after_refill(slot_bin(heap, size, site)?)?;
        Some(self.hand_over(heap, taken, size))
    }

    /// Makes a slot that was taken a block of `size` bytes, which leave a byte at least; says where it is.
    #[inline(always)]
    pub(super) fn hand_over(&self, heap: &Heap, taken: Taken<'_>, size: usize) -> usize {
        let Taken { slab, slot } = taken;
        let (address, bytes) = (slab.address_of(slot), slab.bytes());
        // SAFETY: (1) a slot that malloc has taken and not given to anybody; it is looked at by address only
        // where it was handed out before, so that its pages have been there.
        if WIPE && (!slab.was_handed_out(slot) || !unsafe { is_zero(address, bytes) }) {
            self.look_closely(heap, slab, slot, address);
        }
        let asked = slab.note_asked(slot, size);
        if CANARY {
            // SAFETY: (1) as above, and all zero.
            unsafe { self.canary(address).arm_zeroed(address + bytes, bytes - asked) };
        }
        address
    }

    /// Frees a small block of this thread's own of which `fits` says yes, told what was asked for. No: there is
    /// another way, and nothing was done.
    #[inline(always)]
    pub(super) fn free_own_small(
        &self,
        heap: &Heap,
        address: usize,
        call: Call,
        fits: impl FnOnce(usize) -> bool,
    ) -> bool {
        self.free_own::<SMALL>(&self.small, heap, address, call, fits)
    }

    /// The same of a medium block.
    #[inline(always)]
    pub(super) fn free_own_medium(
        &self,
        heap: &Heap,
        address: usize,
        call: Call,
        fits: impl FnOnce(usize) -> bool,
    ) -> bool {
        self.free_own::<MEDIUM>(&self.medium, heap, address, call, fits)
    }

    #[inline(always)]
    fn free_own<const TIER: TierNumber>(
        &self,
        plots: &Plots<TIER, Slab>,
        heap: &Heap,
        address: usize,
        call: Call,
        fits: impl FnOnce(usize) -> bool,
    ) -> bool {
        let Some(slab) = plots.slab_at(address) else { return false };
        let Some(slot) = slab.slot_at::<TIER>(Tier::of(TIER).offset(address)) else {
            return false;
        };
        let (bytes, slack) = (slab.bytes(), slab.slack(slot));
        // A slab that has a flag set takes the other way.
        if slab.owner.load(Relaxed) != heap.address()
            || !fits(bytes - slack)
            || !slab.take_own(slot)
        {
            return false;
        }
        if CANARY {
            // SAFETY: (1) the slot of a live block that the program has given back, and the end of the slot before
            // it; pages of a slab with a live block are mapped.
            let sound = unsafe {
                self.canary(address).is_whole(address + bytes, slack)
                    && (slot == 0
                        || !slab.was_handed_out(slot - 1)
                        || self.canary(address - bytes).fits_last_byte(address))
            };
            if !sound {
                self.name_damage(slab, slot, address, call);
            }
        }
        self.look_beside(slab, slot, call);
        if WIPE {
            // SAFETY: (1) as above.
            unsafe { wipe(address, bytes) };
        }
        if QUARANTINE {
            self.wait(heap, slab, slot);
        } else {
            self.release(heap, None, slab, slot);
        }
        true
    }

    /// Something is wrong with the bytes behind a block, or before it.
    #[cold]
    #[inline(never)]
    fn name_damage(&self, slab: &Slab, slot: usize, address: usize, call: Call) {
        self.verify_canary(slab, slot, address, call);
        self.verify_before(slab, slot, address, call);
    }
}

/// The bin that a request is met from, if it is of a byte or more and not large.
#[inline(always)]
fn slot_bin(heap: &Heap, size: usize, site: usize) -> Option<usize> {
    if size.wrapping_sub(1) < SMALL_MAX - SLACK_MIN {
        Some(heap.known_small_bin(size + SLACK_MIN, site))
    } else if size.wrapping_sub(1) < MEDIUM_MAX - SLACK_MIN {
        Some(heap.known_bin(class_of_medium(size + SLACK_MIN), site))
    } else {
        None
    }
}
