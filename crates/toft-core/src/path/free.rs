//! free: the fast path, and the steps after it.
//!
//! ```text
//! free -> a block of this thread                                              28 instructions
//!   free_not_a_slot, free_other -> a large, guarded or zero-size block, or an invalid free
//! each slot -> free_flagged: another thread's slab, or a slab with a flag set
//! ```
//!
//! The secure build has separate first steps before these (`secure/fast.rs`).

use super::caller::Caller;
use crate::allocator::Found;
use crate::large::{Block, BlockState};
use crate::os::seccomp::Calls;
use crate::os::{Os, probes};
use crate::path::Requests;
use crate::path::malloc::{aligned_class, bytes_with_slack};
use crate::policy::{CHECK_SIZES, SECURE};
use crate::remote::{Marked, announce, mark_remote};
use crate::report::Call;
use crate::slab::{MEDIUM_SLOTS, Offered, Put, Slab, SlotIndex};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, current_heap};
use crate::watch::reports::damage::Damage;
use crate::zero_size::ALIGN;

/// Frees the block at `address`, or reports the misuse if no live block begins there. Does nothing
/// if `address` is zero. `call` names the function that the program called.
#[inline(always)]
pub fn free<C: Caller>(caller: C, address: usize, call: Call) {
    if SECURE {
        if !caller.allocator().secure_slots().free_own_small(
            caller.heap(),
            address,
            call,
            |_, _| true,
        ) {
            free_secure(caller, address, call);
        }
    } else if !caller.allocator().requests().free_slot_at(|| caller.heap(), address, call) {
        free_not_a_slot(caller, address, call);
    }
}

/// Frees any block except an intact small block of this thread, which `free_own_small` frees.
/// Secure build only.
#[inline(never)]
fn free_secure<C: Caller>(caller: C, address: usize, call: Call) {
    if !caller.allocator().secure_slots().free_own_medium(caller.heap(), address, call, |_, _| true)
        && !caller.allocator().requests().free_slot_at(|| heap_to_free(&caller), address, call)
    {
        free_not_a_slot(caller, address, call);
    }
}

/// Returns the heap that a free uses. The secure build creates it if the thread has none, because
/// a thread that only frees needs a quarantine.
#[inline(always)]
fn heap_to_free<C: Caller>(caller: &C) -> &Heap {
    if SECURE { caller.heap_or_start().unwrap_or_else(|| caller.heap()) } else { caller.heap() }
}

/// Frees any block except a slot. Does nothing if `address` is zero.
#[cold]
#[inline(never)]
fn free_not_a_slot<C: Caller>(caller: C, address: usize, call: Call) {
    if address != 0 {
        // The first call of a process may be an invalid free. The options say how to treat it.
        caller.start();
        caller.allocator().requests().free_other(caller.heap(), address, call);
    }
}

/// Frees a block that was requested with `size` bytes at a multiple of `align`. Only the secure
/// build checks both numbers.
#[inline(always)]
pub fn free_sized<C: Caller>(caller: C, address: usize, size: usize, align: usize, call: Call) {
    if !SECURE {
        return free(caller, address, call);
    }
    let fits = |slab: &Slab, requested| {
        requested == size && (!names_alignment(call) || slab.is_of_small(bytes_with_slack(size)))
    };
    if align > ALIGN
        || !caller.allocator().secure_slots().free_own_small(caller.heap(), address, call, fits)
    {
        free_sized_slow(caller, address, size, align, call);
    }
}

/// Returns true if a call of this kind is for blocks whose alignment it names, or that have the
/// usual one, and that were never resized. A block may have been resized before `free_sized` and
/// Rust's `dealloc`.
#[inline(always)]
fn names_alignment(call: Call) -> bool {
    matches!(call, Call::Delete | Call::FreeAlignedSized)
}

/// Frees a block if `size` and `align` match it. Handles the blocks that the fast path refuses:
/// those that are not small, not of this thread, or of another recorded size, and requests at a
/// larger alignment than the usual one.
#[inline(never)]
fn free_sized_slow<C: Caller>(caller: C, address: usize, size: usize, align: usize, call: Call) {
    if address == 0 {
        return;
    }
    caller.start();
    if caller.allocator().requests().layout_fits(address, size, align, call) {
        free(caller, address, call);
    }
}

impl<O: Os> Requests<'_, O> {
    /// Frees the slot that begins at `address`, or reports the misuse. Returns false if no slot
    /// begins there.
    ///
    /// The fast path frees a block of this thread. It finds the slab by a shift, a comparison and
    /// the page map, and the slot by one multiplication. One comparison verifies the owner. One
    /// load and one store change the slot's state. `heap` is called only after the slot is found.
    #[inline(always)]
    pub(crate) fn free_slot_at<'h>(
        self,
        heap: impl FnOnce() -> &'h Heap,
        address: usize,
        call: Call,
    ) -> bool {
        let Some(slab) = self.slabs.slab_at(address) else { return false };
        let Some(slot) = slab.slot_of(address) else { return false };
        self.free_slot(heap(), slab, slot, address, call);
        true
    }

    /// Frees a slot: here if this heap owns the slab and no flag is set, else in `free_flagged`.
    #[inline(always)]
    pub(crate) fn free_slot(
        self,
        heap: &Heap,
        slab: &Slab,
        slot: SlotIndex,
        address: usize,
        call: Call,
    ) {
        if SECURE {
            return self.take_back(heap, slab, slot, address, call);
        }
        let owner = slab.owner.load(Relaxed);
        if owner == heap.address() {
            return match slab.put(slot) {
                Put::Done => {}
                Put::Spent => self.held_heaps().credit_spent(heap, slab),
                Put::NotLive => self.misused_unless_sampled(call, address),
            };
        }
        if owner == heap.address() | MEDIUM_SLOTS {
            return self.free_medium(heap, slab, slot, address, call);
        }
        self.free_flagged(heap, slab, slot, address, call);
    }

    /// Frees a medium slot of a slab that this heap owns.
    ///
    /// A medium slab has few slots, so a claim serves few calls. Malloc therefore hands out a freed
    /// slot next, without a new claim. The slot's memory is also likely to be in the cache.
    #[inline(always)]
    fn free_medium(self, heap: &Heap, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        match slab.put(slot) {
            Put::Done => heap.push(slab, slot, address),
            Put::Spent => self.held_heaps().credit_spent(heap, slab),
            Put::NotLive => self.misused_unless_sampled(call, address),
        }
    }

    /// Frees a large, guarded or zero-size block, or reports the misuse.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_other(self, heap: &Heap, address: usize, call: Call) {
        match self.find(address) {
            Found::Large(block) => self.free_large(heap, block, address, call),
            Found::Guarded(_) if self.free_guarded(address) => {}
            Found::ZeroSize(place) => self.free_zero_size(place, address, call),
            _ => self.misused_unless_sampled(call, address),
        }
    }

    /// Frees a slot if another heap owns the slab, or this heap owns it and a flag is set.
    #[inline(never)]
    fn free_flagged(self, heap: &Heap, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        if heap.owns(slab) {
            return self.free_flagged_own(heap, slab, slot, address, call);
        }
        // A wild pointer may point into a slab that its owner thread is opening. The slot number
        // was then computed from incomplete metadata.
        if !slab.has_slot_at(slot, address) {
            return self.misused_unless_sampled(call, address);
        }
        if !slab.is_plainly_live(slot) {
            return self.free_not_live(slab, slot, address, call);
        }
        if self.watchful {
            self.before_free(slab, slot);
        }
        let heap = self.held_heaps().heap_to_mark_in(heap, slot);
        match self.held_heaps().offer(heap, slab, slot) {
            Offered::Marked | Offered::Full => return,
            Offered::Twice => return self.reports().freed_twice(slab, slot, call),
            Offered::Refused => {}
        }
        match mark_remote(slab, slot) {
            Marked::Done => {}
            Marked::Twice => self.reports().freed_twice(slab, slot, call),
            Marked::Unannounced => {
                // A fork between the setting of PENDING and the push must find that this heap is in
                // the middle of a change.
                let _guard = heap.enter();
                announce(slab);
                self.maintenance().wake_reclaimer_for(slab);
            }
        }
    }

    /// Frees a slot of a slab that this heap owns and that has a flag set.
    fn free_flagged_own(
        self,
        heap: &Heap,
        slab: &Slab,
        slot: SlotIndex,
        address: usize,
        call: Call,
    ) {
        if slab.remote_frees().has(slot) {
            return self.reports().freed_twice(slab, slot, call);
        }
        match slab.put(slot) {
            Put::Done => {}
            Put::Spent => self.held_heaps().credit_spent(heap, slab),
            Put::NotLive => self.free_not_live(slab, slot, address, call),
        }
    }

    /// Frees a slot that was reported to a probe. Any other slot that is not live was freed
    /// already, and the double free is reported.
    #[cold]
    #[inline(never)]
    fn free_not_live(self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        if !self.free_sampled(address, call) {
            self.reports().freed_twice(slab, slot, call);
        }
    }

    /// Frees a large block, or reports the misuse.
    fn free_large(self, heap: &Heap, block: &Block, address: usize, call: Call) {
        self.profiler().record_large_free_if_sampled(block, address);
        let (missed, bytes) =
            (|damage| self.reports().missed_large(call, block, damage), block.bytes());
        if !self.large.free(&self.os, block, &|| self.permit(Calls::RESIDENT), missed) {
            return self.misused_unless_sampled(call, address);
        }
        if let Some(counters) = heap.counters() {
            counters.freed_apart(bytes);
        }
        self.maintenance().maintain_large();
    }

    /// Returns the number of bytes that the program may use at `address`. Reports the misuse and
    /// returns `None` if no live block begins there.
    pub fn usable_size(self, address: usize, call: Call) -> Option<usize> {
        match self.find(address) {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => Some(slab.block_bytes(slot)),
            Found::Large(block) if block.state() == BlockState::Live => Some(block.bytes()),
            Found::Guarded(slot) if self.guarded.live_at(address).is_some() => Some(slot.bytes()),
            Found::ZeroSize(place) if self.has_zero_size(place) => Some(0),
            _ => {
                self.misused_unless_sampled(call, address);
                None
            }
        }
    }

    /// Frees a sampled slot, and reports that it is freed. Returns false if the slot was not
    /// sampled. `free` calls this for any slot that is not plainly live.
    pub(crate) fn free_sampled(self, address: usize, call: Call) -> bool {
        if !probes::THERE {
            return false;
        }
        let Found::Slot(slab, slot) = self.find(address) else { return false };
        if !slab.has_slot_at(slot, address)
            || slab.remote_frees().has(slot)
            || !slab.states.take_sampled(slot)
        {
            return false;
        }
        self.profiler().record_sampled_free(address);
        self.free_slot(current_heap(), slab, slot, address, call);
        true
    }

    /// Frees a sampled slot, which is a live block after all, or reports a call with an address
    /// that is not a live block.
    #[cold]
    #[inline(never)]
    pub(crate) fn misused_unless_sampled(self, call: Call, address: usize) {
        if !self.free_sampled(address, call) {
            self.reports().misused(call, address);
        }
    }

    /// The program gives a block back.
    #[inline]
    pub(crate) fn take_back(
        self,
        heap: &Heap,
        slab: &Slab,
        slot: SlotIndex,
        address: usize,
        call: Call,
    ) {
        // From here on the slot is this call's alone. A wild pointer may point into a slab that its
        // owner is just opening. Then the slot was found from incomplete numbers.
        let own = heap.owns(slab);
        let taken = if own {
            slab.states.take_own(slot)
        } else {
            slab.has_slot_at(slot, address) && slab.states.take_from_any_thread(slot)
        };
        if !taken {
            return self.misused_unless_sampled(call, address);
        }
        self.slot_checks().verify_at_free(slab, slot, address, call);
        // SAFETY: (1) the slot of a live block, which the program has given back.
        unsafe { self.secure_slots().erase_canary(slab, slot, address) };
        if !own && !slab.states.has_taken(slot) {
            // Its owner has freed it at the same moment, and has put it into a quarantine.
            return self.misused_unless_sampled(call, address);
        }
        self.quarantines().wait(heap, slab, slot);
    }

    /// Checks a block that is about to be freed as one of `size` bytes at a multiple of `align`.
    /// Reports it if another size was requested, or certainly another alignment. Returns true if it
    /// may be freed.
    ///
    /// The alignment of a request is not kept. But it decides the class, together with the size.
    pub fn layout_fits(self, address: usize, size: usize, align: usize, call: Call) -> bool {
        if !CHECK_SIZES {
            return true;
        }
        let align = if align.is_power_of_two() { align } else { 1 };
        // The C++ library's `operator new` requests a byte at least, and a multiple of the
        // alignment. Most processes never call it, so there a rounded size is wrong.
        let rounded = match call {
            Call::Delete if self.may_round_sizes() => {
                size.max(1).saturating_add(align - 1) & !(align - 1)
            }
            _ => size,
        };
        let is_aligned = |class, requested| {
            // A block of `sdallocx` may have been resized, also at a larger alignment.
            let is_known = align > ALIGN && call != Call::Sdallocx || names_alignment(call);
            address & (align - 1) == 0 && (!is_known || aligned_class(requested, align) == class)
        };
        let wrong = |has_size, is_aligned| match (has_size, is_aligned) {
            (false, _) => Some(Damage::Size(size)),
            (_, false) => Some(Damage::Alignment(align)),
            _ => None,
        };
        match self.find(address) {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => {
                let requested = if slab.block_bytes(slot) == rounded { rounded } else { size };
                let has_size = slab.may_have_requested(slot, requested);
                let wrong = wrong(has_size, is_aligned(Some(slab.class()), requested));
                wrong.inspect(|&wrong| self.reports().damaged(call, slab, slot, wrong))
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                let bytes = block.bytes();
                // A zero-size block is large if it is aligned, or if there was no other place. A
                // block of any size is large if there was no slot for it.
                let any_size = bytes == 0 || block.replaces_slot();
                let is_aligned = is_aligned(None, if any_size { usize::MAX } else { bytes });
                let wrong = wrong([size, rounded].contains(&bytes), is_aligned);
                wrong.inspect(|&wrong| self.reports().large_differs(block, address, wrong, call))
            }
            Found::ZeroSize(place) if self.has_zero_size(place) => {
                let wrong = wrong(size == 0, align <= ALIGN);
                wrong.inspect(|&wrong| self.reports().zero_size_differs(address, wrong, call))
            }
            // Freeing it names it.
            _ => None,
        }
        .is_none()
    }
}
