//! Optional work on blocks in slow paths: sampling, fill patterns and verification.

use crate::allocator::Found;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::path::Requests;
use crate::policy::SECURE;
use crate::region::Site;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::sync::Ordering::Relaxed;
use crate::thread::Heap;
use crate::watch::guarded::fault;
use crate::watch::verifier::STALE;

/// The byte of `TOFT_FILL` for blocks that `malloc` hands out; freed ones get `STALE`.
const FRESH: u8 = 0xA5;

/// The number of allocations that one chance of sampling stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SamplingScope {
    /// One allocation.
    OneBlock,
    /// The claim that the block begins. The fast paths serve the claim's other slots without a
    /// check.
    Claim,
    /// From `calloc`: the claim if the block is small, else one allocation. The zeros must stay.
    Zeroed,
}

fn fill(address: usize, bytes: usize, byte: u8) {
    let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: callers own the block: it was allocated a moment ago, or is live and about to be
    // freed.
    unsafe { target.write_bytes(byte, bytes) };
}

impl<O: Os> Requests<'_, O> {
    /// Returns the block that a slow path has allocated, or by chance a replacement between guard
    /// pages. The replacement is as large as the first block, zero, and aligned to `align`. If
    /// requested, also fills the block, verifies the heap, or searches for dangling pointers.
    #[inline]
    pub(crate) fn sample(
        self,
        heap: &Heap,
        address: usize,
        align: usize,
        site: Site,
        scope: SamplingScope,
    ) -> usize {
        if self.watchful { self.watched(heap, address, align, site, scope) } else { address }
    }

    #[cold]
    #[inline(never)]
    fn watched(
        self,
        heap: &Heap,
        address: usize,
        align: usize,
        site: Site,
        scope: SamplingScope,
    ) -> usize {
        self.now_and_then(heap);
        let address = self.sampled(heap, address, align, site, scope);
        let filled = self.options.fill.of_fresh() && scope != SamplingScope::Zeroed;
        // A fill would count as the first write of a watched block.
        if filled && !self.guarded.is_watched(address) {
            self.fill(address, FRESH);
        }
        address
    }

    /// Runs the checks that are due after a number of allocations.
    fn now_and_then(self, heap: &Heap) {
        let number = self.looked_at().fetch_add(1, Relaxed) + 1;
        self.verifier().verify_now_and_then(heap, number);
        (self.hook.allocated)(number);
    }

    /// Fills a slot that is about to be freed, if requested. The slot is another thread's, or every
    /// call is checked.
    #[cold]
    #[inline(never)]
    pub(crate) fn before_free(self, slab: &Slab, slot: SlotIndex) {
        if self.options.fill.of_stale() {
            fill(slab.slot_address(slot), slab.size(), STALE);
        }
    }

    fn fill(self, address: usize, byte: u8) {
        match self.find(address) {
            Found::Slot(slab, _) => fill(address, slab.size(), byte),
            Found::Guarded(slot) => fill(address, slot.bytes(), byte),
            _ => {}
        }
    }

    fn sampled(
        self,
        heap: &Heap,
        address: usize,
        align: usize,
        site: Site,
        scope: SamplingScope,
    ) -> usize {
        if !self.guarded.is_on() {
            return address;
        }
        let Found::Slot(slab, slot) = self.find(address) else { return address };
        // If every call is checked, a block does not stand for its claim.
        let for_its_claim = match scope {
            SamplingScope::OneBlock => false,
            SamplingScope::Claim => true,
            // In the secure build every `calloc` reaches this function.
            SamplingScope::Zeroed => !SECURE && slab.class().is_small(),
        };
        // A slot of a shared heap was taken alone, without a claim.
        let of = if for_its_claim && heap.owns(slab) && !self.options.is_careful() {
            slab.claimed().count_ones() as usize + 1
        } else {
            1
        };
        if !self.guarded.chooses(of) {
            return address;
        }
        // The secure build knows the requested size, so the fault is closer to the block's end.
        let bytes = if SECURE { slab.block_bytes(slot).next_multiple_of(16) } else { slab.size() };
        let permit = self.filter().permit(&self.os, Calls::REPORT, false);
        let watcher = if scope == SamplingScope::Zeroed {
            None
        } else {
            self.uninitialized_reads().watcher()
        };
        let shape = (bytes, align.max(16));
        match self.guarded.allocate(shape, site, permit.is_some(), watcher) {
            Some(guarded) => {
                fault::stay_in_place(&self.guarded);
                self.free_slot(heap, slab, slot, address, Call::Free);
                guarded
            }
            None => address,
        }
    }

    /// Frees a guarded block. Returns false if none begins at `address`.
    pub(crate) fn free_guarded(self, address: usize) -> bool {
        let permit = self.filter().permit(&self.os, Calls::REPORT, false);
        self.guarded.free(address, permit.is_some(), false)
    }
}
