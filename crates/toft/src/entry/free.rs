//! free: the fast path, and every way in which a free can be something else.

use super::allocator::Found;
use super::replaced::delete_by_program;
use super::{Allocator, Call};
use crate::large::{Block, BlockState};
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::policy::HARDENED;
use crate::region::Plots;
use crate::remote::{Marked, announce, mark_remote};
use crate::slab::{MEDIUM, Put, SMALL, Slab, Spent, Tier, TierNumber};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Seat};

impl<O: Os> Allocator<O> {
    /// Takes back the block at `address`; names what is wrong with it otherwise.
    #[inline]
    pub fn free(&self, heap: &Heap, address: usize, call: Call) {
        if HARDENED
            && (self.free_own_small(heap, address, call, |_| true)
                || self.free_own_medium(heap, address, call, |_| true))
        {
            return;
        }
        if !self.free_small(|| heap, address, call) && !self.free_medium(|| heap, address, call) {
            self.free_other(address, call);
        }
    }

    /// Frees what begins at a small slot, well or badly; no when `address` is not such a place.
    ///
    /// The usual way, a block of this thread's own: the slab by shifts and one comparison with the
    /// plot's bounds, the slot by one multiplication, the owner by one comparison, the slot's state
    /// by one load and one store. The heap is asked for when it is needed, not before.
    #[inline(always)]
    pub(super) fn free_small<'h>(
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
    pub(super) fn free_medium<'h>(
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
    pub(super) fn free_found(
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
    pub(super) fn free_other(&self, address: usize, call: Call) {
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
    pub(super) fn credit_spent(&self, heap: &Heap, slab: &Slab) {
        // A signal handler that came between the state and the credit may have emptied the slab and
        // let go of it.
        if !heap.owns(slab) {
            return;
        }
        let Some(seat) = heap.sit() else { return slab.postpone() };
        self.credit_follows(heap, &seat, slab);
        self.tend(heap, &seat);
    }

    pub(super) fn credit_follows(&self, heap: &Heap, seat: &Seat, slab: &Slab) {
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
