//! free: the fast path, and every way in which a free can go.
//!
//! ```text
//! free -> a small block of this thread                                        34 instructions
//!   free_not_small -> a medium block of this thread
//!     free_other -> a large block, a sampled one, none at all
//! each slot -> free_flagged: another thread's slab, or one that has a flag set
//! ```
//!
//! The hardened build tries its own first steps before (`secure/fast.rs`).

use super::caller::Caller;
use crate::allocator::{Allocator, Found, GLOBAL};
use crate::large::{Block, BlockState};
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::policy::HARDENED;
use crate::region::Plots;
use crate::remote::{Marked, announce, mark_remote};
use crate::report::Call;
use crate::slab::{MEDIUM, Put, SMALL, Slab, Spent, Tier, TierNumber};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Seat};
use core::ffi::c_void;

/// Takes back the block at `address`; names what is wrong with it otherwise. Zero is no block.
/// `call` is the call that the program made.
#[inline(always)]
pub fn free<C: Caller>(caller: C, address: usize, call: Call) {
    if HARDENED {
        if !caller.allocator().free_own_small(caller.heap(), address, call, |_| true) {
            free_hardened(caller, address, call);
        }
    } else if !caller.allocator().free_small(|| heap_to_free(&caller), address, call) {
        free_not_small(caller, address, call);
    }
}

/// What the hardened build frees and what is not a small block of this thread's own, with nothing
/// wrong.
#[inline(never)]
fn free_hardened<C: Caller>(caller: C, address: usize, call: Call) {
    if !caller.allocator().free_own_medium(caller.heap(), address, call, |_| true)
        && !caller.allocator().free_small(|| heap_to_free(&caller), address, call)
    {
        free_not_small(caller, address, call);
    }
}

/// In the hardened build a thread that only frees has a quarantine, too, and so a heap.
#[inline(always)]
fn heap_to_free<C: Caller>(caller: &C) -> &Heap {
    if HARDENED { caller.heap_or_start().unwrap_or_else(|| caller.heap()) } else { caller.heap() }
}

#[inline(never)]
fn free_not_small<C: Caller>(caller: C, address: usize, call: Call) {
    if !caller.allocator().free_medium(|| heap_to_free(&caller), address, call) {
        free_not_a_slot(caller, address, call);
    }
}

#[cold]
#[inline(never)]
fn free_not_a_slot<C: Caller>(caller: C, address: usize, call: Call) {
    if address != 0 {
        // The first call of a process may be a bad free: the options must be known to treat it.
        caller.start();
        caller.allocator().free_other(address, call);
    }
}

/// Takes back a block of `size` bytes at a multiple of `align`. Only the hardened build checks
/// those.
#[inline(always)]
pub fn free_sized<C: Caller>(caller: C, address: usize, size: usize, align: usize, call: Call) {
    if !HARDENED {
        return free(caller, address, call);
    }
    let fits = |requested| requested == size;
    if !caller.allocator().free_own_small(caller.heap(), address, call, fits) {
        free_sized_slow(caller, address, size, align, call);
    }
}

/// Frees a block whose size does not match at once, or which is not a small one of this thread.
#[inline(never)]
fn free_sized_slow<C: Caller>(caller: C, address: usize, size: usize, align: usize, call: Call) {
    if address == 0 {
        return;
    }
    caller.start();
    if caller.allocator().size_fits(address, size, align, call) {
        free(caller, address, call);
    }
}

impl<O: Os> Allocator<O> {
    /// Frees what begins at a small slot, well or badly; no when `address` is not such a place.
    ///
    /// The usual way, a block of this thread's own: the slab by shifts and one comparison with the
    /// plot's bounds, the slot by one multiplication, the owner by one comparison, the slot's state
    /// by one load and one store. The heap is asked for when it is needed, not before.
    #[inline(always)]
    pub(crate) fn free_small<'h>(
        &self,
        heap: impl FnOnce() -> &'h Heap,
        address: usize,
        call: Call,
    ) -> bool {
        self.free_in(&self.small, heap, address, call)
    }

    /// Frees what begins at a medium slot, well or badly; no when `address` is not such a place.
    ///
    /// Medium slabs have few slots, so that a claim serves few calls: what is freed is handed out
    /// next without a new claim. That is also the memory that the caches know.
    #[inline(always)]
    pub(crate) fn free_medium<'h>(
        &self,
        heap: impl FnOnce() -> &'h Heap,
        address: usize,
        call: Call,
    ) -> bool {
        self.free_in(&self.medium, heap, address, call)
    }

    #[inline(always)]
    fn free_in<'h, const TIER: TierNumber>(
        &self,
        plots: &Plots<TIER, Slab>,
        heap: impl FnOnce() -> &'h Heap,
        address: usize,
        call: Call,
    ) -> bool {
        let Some(slab) = plots.slab_at(address) else { return false };
        let Some(slot) = slab.slot_at::<TIER>(Tier::of(TIER).offset(address)) else {
            return false;
        };
        self.free_slot::<TIER>(heap(), slab, slot, address, call);
        true
    }

    /// Frees a slot of either tier.
    #[inline]
    pub(crate) fn free_found(
        &self,
        heap: &Heap,
        slab: &Slab,
        slot: usize,
        address: usize,
        call: Call,
    ) {
        if slab.class().is_small() {
            self.free_slot::<SMALL>(heap, slab, slot, address, call);
        } else {
            self.free_slot::<MEDIUM>(heap, slab, slot, address, call);
        }
    }

    #[inline(always)]
    fn free_slot<const TIER: TierNumber>(
        &self,
        heap: &Heap,
        slab: &Slab,
        slot: usize,
        address: usize,
        call: Call,
    ) {
        if HARDENED {
            return self.take_back(heap, slab, slot, address, call);
        }
        if slab.owner.load(Relaxed) == heap.address() {
            return match slab.put(slot) {
                Put::Done if TIER == MEDIUM => heap.push(slab, slot, address),
                Put::Done => {}
                Put::Spent => self.credit_spent(heap, slab),
                Put::NotLive => self.misused(call, address),
            };
        }
        self.free_flagged(heap, slab, slot, address, call);
    }

    /// Frees what is not the start of a slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_other(&self, address: usize, call: Call) {
        match self.find(address) {
            Found::Large(block) => self.free_large(block, address, call),
            Found::Guarded(_) if self.free_guarded(address) => {}
            Found::Nothing(place) => self.free_nothing(place, address, call),
            // SAFETY: (1) the program deletes it, and nothing here has taken it back.
            Found::Foreign if call == Call::Delete && unsafe { delete_by_program(address) } => {}
            _ => self.misused(call, address),
        }
    }

    /// The slab is another heap's, or it is ours and has a flag set.
    #[inline(never)]
    fn free_flagged(&self, heap: &Heap, slab: &Slab, slot: usize, address: usize, call: Call) {
        if heap.owns(slab) {
            return self.free_flagged_mine(heap, slab, slot, address, call);
        }
        // A wild pointer may point into a slab that its owner is just opening. Then the slot was
        // found from incomplete numbers.
        if !slab.has_slot_at(slot, address) {
            return self.misused(call, address);
        }
        if !slab.is_plainly_live(slot) {
            return self.free_not_live(slab, slot, address, call);
        }
        if self.watchful {
            self.before_free(slab, slot);
        }
        match mark_remote(slab, slot) {
            Marked::Done => {}
            Marked::Twice => self.freed_twice(slab, slot, call),
            Marked::Unannounced => {
                // Between setting PENDING and the push, a fork must find this heap torn.
                let _seat = heap.sit();
                announce(slab);
                self.wake_reclaimer();
            }
        }
    }

    fn free_flagged_mine(&self, heap: &Heap, slab: &Slab, slot: usize, address: usize, call: Call) {
        if slab.is_remote(slot) {
            return self.freed_twice(slab, slot, call);
        }
        match slab.put(slot) {
            Put::Done => {}
            Put::Spent => self.credit_spent(heap, slab),
            Put::NotLive => self.free_not_live(slab, slot, address, call),
        }
    }

    /// A slot that is not plainly live was freed already, or a probe knows of it.
    #[cold]
    #[inline(never)]
    fn free_not_live(&self, slab: &Slab, slot: usize, address: usize, call: Call) {
        if !self.free_told(address, call) {
            self.freed_twice(slab, slot, call);
        }
    }

    /// So many slots of a slab were freed that it can be drawn from again, or is empty. Where a
    /// signal handler has interrupted a change of the lists, it waits for its next time.
    #[cold]
    #[inline(never)]
    pub(crate) fn credit_spent(&self, heap: &Heap, slab: &Slab) {
        // A signal handler that came between the state and the credit may have emptied the slab and
        // let go of it.
        if !heap.owns(slab) {
            return;
        }
        let Some(seat) = heap.sit() else { return slab.postpone() };
        self.credit_follows(heap, &seat, slab);
        self.tend(heap, &seat);
    }

    pub(crate) fn credit_follows(&self, heap: &Heap, seat: &Seat, slab: &Slab) {
        let pressure = self.pressure().is_on();
        match slab.credit_spent(pressure) {
            Spent::List => heap.relist(seat, slab),
            Spent::Empty => self.part_with(heap, seat, slab),
            Spent::Nothing => {}
        }
    }

    fn free_large(&self, block: &Block, address: usize, call: Call) {
        self.tell_large_freed(block, address);
        let missed = |damage| self.missed_large(call, block, damage);
        if !self.large.free(&self.os, block, &|| self.permit(Calls::RESIDENT), missed) {
            return self.misused(call, address);
        }
        self.tend_large();
    }

    /// Bytes that the program may use at `address`; names what is wrong with it otherwise.
    pub fn usable_size(&self, address: usize, call: Call) -> Option<usize> {
        match self.find(address) {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => Some(slab.block_bytes(slot)),
            Found::Large(block) if block.state() == BlockState::Live => Some(block.bytes()),
            Found::Guarded(slot) if self.guarded.live_at(address).is_some() => Some(slot.bytes()),
            Found::Nothing(place) if self.has_nothing(place) => Some(0),
            _ => {
                self.misused(call, address);
                None
            }
        }
    }
}

/// Gives a block that is not this allocator's to the program's `operator delete`; returns false if
/// the program has none.
///
/// # Safety
/// 1. The program asked to delete `address`, and it was not taken back.
unsafe fn delete_by_program(address: usize) -> bool {
    let delete = GLOBAL.delete.load(Relaxed);
    if delete.is_null() {
        return false;
    }
    // SAFETY: stored by `program_deletes_by`.
    let delete =
        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(delete) };
    // SAFETY: duty 1.
    unsafe { delete(core::ptr::with_exposed_provenance_mut(address)) };
    true
}
