//! The fast path of the secure build's malloc and free: a slot that this thread has at hand, and
//! a block of this thread, in one piece of straight code for each. `mod.rs` does the same for
//! everything else, and explains each step. Unusual cases go there, by a last call, so that the
//! fast path saves no registers. A check here may raise false alarms, but misses nothing:
//! `mod.rs` checks again.

use crate::bin::{BinIndex, FETCHED_BY_LINES, Taken, address_of};
use crate::harden::{Canary, PAGE_LEAST, fetch_to_write, is_zero, is_zero_small, wipe, wipe_small};
use crate::os::Os;
use crate::path::secure::SecureSlots;
use crate::policy::{CANARY, QUARANTINE, QUARANTINE_SMALL, SLACK_MIN, WIPE};
use crate::region::Site;
use crate::report::Call;
use crate::slab::{MediumSize, SMALL_MAX, Slab, SlotIndex, SmallSize};
use crate::thread::Heap;

impl<O: Os> SecureSlots<'_, O> {
    /// A small slot that is claimed already, for one byte or more. `None`: there is another way.
    #[inline(always)]
    pub(crate) fn malloc_small(self, heap: &Heap, size: usize, site: Site) -> Option<*mut u8> {
        let taken = heap.take(heap.remembered_small_bin(small_with_slack(size)?, site)?)?;
        Some(self.hand_over_in::<true>(heap, taken, taken.bytes - size))
    }

    /// Takes a claimed slot of any class.
    #[inline]
    pub(crate) fn malloc_slot(self, heap: &Heap, size: usize, site: Site) -> Option<usize> {
        let taken = heap.take(slot_bin(heap, size, site)?)?;
        Some(self.hand_over(heap, taken, taken.bytes - size))
    }

    /// Takes a slot of any class after claiming more.
    #[inline]
    pub(crate) fn malloc_refill(self, heap: &Heap, size: usize, site: Site) -> Option<usize> {
        let taken = self.take_after_refill(heap, slot_bin(heap, size, site)?)?;
        Some(self.hand_over(heap, taken, taken.bytes - size))
    }

    /// Claims more slots from a bin's current slab, arms what is reserved among them, and takes
    /// one.
    #[inline]
    pub(crate) fn take_after_refill(self, heap: &Heap, index: BinIndex) -> Option<Taken<'static>> {
        let taken = heap.take_after_refill(index)?;
        if let Some(guard) = heap.enter() {
            self.slot_checks().arm_reserved(taken.slab);
            if WIPE {
                let slots = taken.slab.claimed().count_ones() as usize + 1;
                self.slot_checks().patrol(heap, &guard, slots * taken.bytes);
            }
        }
        Some(taken)
    }

    /// Turns a taken slot of any class into a block with `slack` bytes less; returns its address.
    #[inline]
    pub(crate) fn hand_over(self, heap: &Heap, taken: Taken<'_>, slack: usize) -> usize {
        self.hand_over_in::<false>(heap, taken, slack).expose_provenance()
    }

    /// As [`Self::hand_over`], for small slots only if `SMALL`. Pointers, so that the slow path is
    /// a last call.
    #[inline(always)]
    fn hand_over_in<const SMALL: bool>(
        self,
        heap: &Heap,
        taken: Taken<'_>,
        slack: usize,
    ) -> *mut u8 {
        let Taken { slab, slot, address, bytes, .. } = taken;
        if WIPE {
            let long = self.long_vectors;
            if !SMALL && slab.may_be_non_resident(slot) {
                return self.hand_over_checked(heap, slab, slot, slack);
            }
            // SAFETY: (1) a slot that malloc has taken and not given to anybody; (2) the processor
            // was asked.
            let look = || unsafe {
                if SMALL {
                    is_zero_small(address, bytes, long)
                } else {
                    is_zero(address, bytes, long)
                }
            };
            // A slot that was never handed out may have no page yet, and a discarded one has none:
            // such slots are checked in another way.
            let zero = slab.slacks.is_there(slot)
                && if bytes <= FETCHED_BY_LINES {
                    look()
                } else {
                    taken.fetch_ahead();
                    look()
                };
            if !zero {
                return self.hand_over_checked(heap, slab, slot, slack);
            }
        }
        self.make_block(slab, slot, address, (bytes, slack));
        core::ptr::with_exposed_provenance_mut(address)
    }

    /// Hands over a slot that was never handed out, or is not zero.
    #[inline(never)]
    fn hand_over_checked(self, heap: &Heap, slab: &Slab, slot: SlotIndex, slack: usize) -> *mut u8 {
        let address = slab.base() + slot.begin(slab.bytes());
        self.check_contents(heap, slab, slot, address);
        self.make_block(slab, slot, address, (slab.bytes(), slack));
        core::ptr::with_exposed_provenance_mut(address)
    }

    /// Remembers the requested size, arms the canary, and makes the slot live.
    #[inline(always)]
    fn make_block(
        self,
        slab: &Slab,
        slot: SlotIndex,
        address: usize,
        (bytes, slack): (usize, usize),
    ) {
        slab.slacks.set(slot, slack);
        if CANARY {
            // SAFETY: (1) a slot that malloc has taken and not given to anybody yet. Where blocks
            // are cleared it is zero, and elsewhere its bytes do not matter.
            unsafe { Canary::arm_zeroed(slab.canary_seeds.word(slot), address + bytes, slack) };
        }
        slab.make_live(slot);
    }

    /// Frees a small block of this thread if `fits` accepts its slab and its requested size. False:
    /// nothing was done, and there is another way.
    #[inline(always)]
    pub(crate) fn free_own_small(
        self,
        heap: &Heap,
        address: usize,
        call: Call,
        fits: impl FnOnce(&Slab, usize) -> bool,
    ) -> bool {
        self.free_own::<true>(heap, address, call, fits)
    }

    /// Frees a medium block of this thread under these conditions.
    #[inline(always)]
    pub(crate) fn free_own_medium(
        self,
        heap: &Heap,
        address: usize,
        call: Call,
        fits: impl FnOnce(&Slab, usize) -> bool,
    ) -> bool {
        self.free_own::<false>(heap, address, call, fits)
    }

    #[inline(always)]
    fn free_own<const SMALL: bool>(
        self,
        heap: &Heap,
        address: usize,
        call: Call,
        fits: impl FnOnce(&Slab, usize) -> bool,
    ) -> bool {
        if WIPE {
            fetch_to_write(address);
        }
        let Some(slab) = self.slabs.slab_at(address) else { return false };
        let Some(slot) = slab.slot_of(address) else { return false };
        let (bytes, slack) = (slab.bytes(), slab.slacks.of(slot));
        // A slab that has a flag set takes the other way.
        if (bytes <= SMALL_MAX) != SMALL
            || !slab.is_owned_plainly(heap.address())
            || !fits(slab, bytes.wrapping_sub(slack))
            || !slab.states.take_own(slot)
        {
            return false;
        }
        if CANARY {
            // The byte before a page may be on a guard page, or its page may not be in memory.
            let at_page = (address as u32).is_multiple_of(PAGE_LEAST as u32);
            if at_page && slot.before().is_none_or(|before| !slab.slacks.was_handed_out(before)) {
                return self.free_closely(heap, slab, slot, address, call);
            }
            let word = slab.canary_seeds.word(slot);
            let beside = slab.reserved().beside(slot);
            // SAFETY: (1) the byte before the slot of a live block that the program has given back.
            // It is on the same page, or in a slot of a slab that has a live block. The pages of
            // that slab are mapped but for guard pages.
            let before = unsafe {
                Canary::last_byte_differs(
                    slab.canary_seeds.word_before(word),
                    beside.has_no_canary_before(),
                    address,
                )
            };
            if before | beside.may_be_armed() != 0 {
                return self.free_closely(heap, slab, slot, address, call);
            }
            let (end, slack) = (address + slab.bytes(), slab.slacks.of_own(slot));
            // SAFETY: (1) that slot.
            if !unsafe { Canary::is_whole(word, end, slack) } {
                return self.free_closely(heap, slab, slot, address, call);
            }
            if !WIPE {
                // SAFETY: (1) that slot.
                unsafe { Canary::erase(end, slack) };
            }
        }
        if WIPE {
            let bytes = slab.bytes();
            // SAFETY: (1) as above; (2) the processor was asked.
            unsafe {
                if SMALL {
                    wipe_small(address, bytes, self.long_vectors);
                } else {
                    wipe(address, bytes, self.long_vectors);
                }
            }
        }
        if !QUARANTINE || SMALL && !QUARANTINE_SMALL {
            self.quarantines().release_owned(heap, None, slab, slot);
        } else if !heap.enqueue(slab.class_number(), address_of(slab) | slot.number()) {
            self.quarantines().wait(heap, slab, slot);
        }
        true
    }

    /// Frees a block that was taken back and of which something may be wrong: with the bytes behind
    /// it, or before it; or there is a reserved slot beside it. Each is looked at, and what is
    /// wrong is named. Yes: it is done.
    #[inline(never)]
    fn free_closely(
        self,
        heap: &Heap,
        slab: &Slab,
        slot: SlotIndex,
        address: usize,
        call: Call,
    ) -> bool {
        self.slot_checks().verify_at_free(slab, slot, address, call);
        // SAFETY: (1) a block that the program has given back.
        unsafe { self.erase_canary(slab, slot, address) };
        self.quarantines().wait(heap, slab, slot);
        true
    }
}

/// The bin that a request is met from, if it is of a byte or more and not large.
#[inline(always)]
fn slot_bin(heap: &Heap, size: usize, site: Site) -> Option<BinIndex> {
    match small_with_slack(size) {
        Some(small) => Some(heap.known_small_bin(small, site)),
        None if size == 0 => None,
        None => Some(heap.known_bin(MediumSize::of(size.saturating_add(SLACK_MIN))?.class(), site)),
    }
}

/// The bytes of a slot for a request of a byte or more, with the least slack, if they are a small
/// size.
#[inline(always)]
fn small_with_slack(size: usize) -> Option<SmallSize> {
    // Zero wraps round.
    let fits = size.wrapping_sub(1) < SMALL_MAX - SLACK_MIN;
    // SAFETY: (1) the size is at most SMALL_MAX - SLACK_MIN.
    fits.then(|| unsafe { SmallSize::compared(size + SLACK_MIN) })
}
