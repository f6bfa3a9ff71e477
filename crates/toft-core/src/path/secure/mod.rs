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
mod guard_pages;
mod reserved;
mod zero_size;

use crate::allocator::{Allocator, Found};
use crate::bin::{Taken, address_of};
use crate::harden::{Canary, TOUCHED_MAX, first_nonzero, is_zero, touch, wipe};
use crate::large::BlockState;
use crate::os::Os;
use crate::path::malloc::bytes_with_slack;
use crate::policy::{CANARY, CHECK_SIZES, QUARANTINE, QUARANTINE_SMALL, SLAB_BYTES, WIPE};
use crate::remote::{Marked, announce, mark_remote};
use crate::report::Call;
use crate::slab::{Put, SLOTS_MAX, SizeClass, Slab, SlotIndex};
use crate::sync::Ordering::Relaxed;
use crate::sync::spin_until;
use crate::thread::{Heap, HeapState, Leaving, Quarantine, Seat};
use crate::watch::damage::Damage;

const _: () = assert!(SLOTS_MAX <= SLAB_BYTES);

/// The most bytes of blocks for which quarantines of threads that share may get places: `OWN_MOST`,
/// or this part of the bytes of slabs in use if that is more.
const OWN_MOST: usize = 8 << 20;
const OWN_SHARE: usize = 32;

/// Quarantines that are emptied behind one barrier.
const BATCH: u32 = 64;

impl<O: Os> Allocator<O> {
    #[inline(always)]
    pub(crate) fn canary(&self, slab: &Slab, slot: SlotIndex) -> Canary {
        Canary::new(slab.word(slot))
    }

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
    pub(crate) fn check_contents(&self, heap: &Heap, slab: &Slab, slot: SlotIndex, address: usize) {
        if is_untouched(heap, slab, slot, address) {
            return;
        }
        let bytes = slab.size();
        if bytes <= TOUCHED_MAX {
            // SAFETY: (1) a slot that malloc has taken and not given to anybody yet.
            unsafe { touch(address, bytes) };
        } else if self.keeper().is_zero_or_non_resident(address, bytes) {
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
        slot: SlotIndex,
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
            return self.observer().misused(call, address);
        }
        self.verify_at_free(slab, slot, address, call);
        // SAFETY: (1) the slot of a live block, which the program has given back.
        unsafe { self.erase_canary(slab, slot, address) };
        if !own && !slab.has_taken(slot) {
            // Its owner has freed it at the same moment, and has put it into a quarantine.
            return self.observer().misused(call, address);
        }
        self.wait(heap, slab, slot);
    }

    /// Clears a block that was freed, or its canary where blocks are not cleared.
    ///
    /// # Safety
    /// 1. Nothing but this call uses the slot at this address, which is mapped.
    #[inline(always)]
    pub(crate) unsafe fn erase_canary(&self, slab: &Slab, slot: SlotIndex, address: usize) {
        let bytes = slab.size();
        if WIPE {
            // SAFETY: (1) duty 1.
            unsafe { wipe(address, bytes, self.long_vectors) };
        } else if CANARY {
            // SAFETY: (1) duty 1.
            unsafe { Canary::erase(address + bytes, bytes - slab.block_bytes(slot)) };
        }
    }

    /// Checks the canary of a live block.
    #[inline(always)]
    pub(crate) fn verify_canary(&self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        let (asked, bytes) = (slab.block_bytes(slot), slab.size());
        if asked < bytes {
            // SAFETY: (1) the slot of a live block that is the caller's to free or to resize.
            let damage = unsafe { self.canary(slab, slot).damage(address, asked, bytes) };
            if let Some(place) = damage {
                self.observer().damaged(call, slab, slot, Damage::Behind(place));
            }
        }
    }

    /// Checks what is kept beside a live block that its program gives back.
    #[inline(always)]
    pub(crate) fn verify_at_free(&self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        if CANARY {
            self.verify_canary(slab, slot, address, call);
            self.verify_before(slab, slot, address, call);
        }
        self.check_neighbours(slab, slot, call);
    }

    /// Checks the last byte of the slot before a live block's: it belongs to no block.
    #[inline(always)]
    pub(crate) fn verify_before(&self, slab: &Slab, slot: SlotIndex, address: usize, call: Call) {
        let Some(before) = slot.before().filter(|&before| slab.was_handed_out(before)) else {
            return;
        };
        // SAFETY: (1) the end of a slot of the same slab, whose pages are mapped as it has a live
        // block.
        if !unsafe { self.canary(slab, before).fits_last_byte(address) } {
            self.observer().damaged(call, slab, slot, Damage::Before);
        }
    }

    /// Puts a freed slot into the quarantine of the freeing thread. A thread without a heap borrows
    /// one, and so does a signal handler that has interrupted a change of its heap. Where no heap
    /// can be had, there is no memory, and what is in quarantine would be released anyway.
    #[inline(never)]
    pub(crate) fn wait(&self, heap: &Heap, slab: &Slab, slot: SlotIndex) {
        if !QUARANTINE || !QUARANTINE_SMALL && slab.class().is_small() {
            return self.release(heap, None, slab, slot);
        }
        let (class, entry) = (slab.class_number(), address_of(slab) | slot.number());
        let mut leaving = Leaving::nothing();
        let owner = heap.address();
        let leaves = move |entry| {
            let slab = slab_of(entry);
            // SAFETY: (1) `wait` makes entries, of a slab's address and a slot.
            slab.is_owned_plainly(owner) && unsafe { slab.put_plainly(entry) }
        };
        let mut put = |holder: &Heap| {
            holder.exchange((class, entry), self.quarantine_share, &mut leaving, leaves)
        };
        let shares = heap.may_wait_elsewhere(class);
        let waits = shares && self.wait_shared(heap, class, &mut put)
            || put(heap)
            || self.wait_elsewhere(&mut put);
        if !waits {
            leaving.set(entry);
        }
        if shares && heap.has_line(class) {
            // The heap's own quarantine has got places for the class.
            let bytes = Quarantine::bytes_of(class, self.quarantine_share);
            heap.count_places(bytes);
            self.own_quarantines().fetch_add(bytes, Relaxed);
        }
        leaving.each(|entry| self.release_entry(heap, None, entry));
    }

    /// `wait` in a shared heap, if the thread of `heap` rarely frees blocks of this class, or the
    /// quarantines of threads have places enough. Returns false otherwise, and if the shared heaps
    /// are in use; then the heap's own quarantine gets places for the class.
    #[cold]
    #[inline(never)]
    fn wait_shared(&self, heap: &Heap, class: usize, put: &mut dyn FnMut(&Heap) -> bool) -> bool {
        let bytes = Quarantine::bytes_of(class, self.quarantine_share);
        if bytes == 0 {
            return false;
        }
        // A fork must find this heap torn meanwhile.
        let Some(_seat) = heap.sit() else { return false };
        let in_use = self.pool.bytes().saturating_sub(self.pool.kept_bytes());
        let most = OWN_MOST.max(in_use / OWN_SHARE);
        let shares = heap.rarely_frees(class, self.os.ticks())
            || self.own_quarantines().load(Relaxed).saturating_add(bytes) > most;
        if shares && let Some(guard) = self.heaps.acquire_shared(&self.os, class, Some(heap.number))
        {
            drop(self.seat_left(guard.heap));
            return put(guard.heap);
        }
        false
    }

    /// `wait` in another heap.
    #[cold]
    #[inline(never)]
    fn wait_elsewhere(&self, put: &mut dyn FnMut(&Heap) -> bool) -> bool {
        self.with_borrowed_heap(put).unwrap_or(false)
    }

    /// The slot that an entry of a quarantine stands for.
    #[inline(always)]
    pub(crate) fn entry_slot(&self, entry: usize) -> (&'static Slab, SlotIndex) {
        (slab_of(entry), SlotIndex::new(entry & (SLAB_BYTES - 1)))
    }

    #[inline(always)]
    pub(crate) fn release_entry(&self, heap: &Heap, seat: Option<&Seat>, entry: usize) {
        let (slab, slot) = self.entry_slot(entry);
        self.check_neighbours(slab, slot, Call::Free);
        self.release(heap, seat, slab, slot);
    }

    /// Names a byte of a slot that was written to since it was cleared, and clears it again.
    #[inline(always)]
    fn find_writes(&self, slab: &Slab, slot: SlotIndex, address: usize) {
        let bytes = slab.size();
        // SAFETY: (1) malloc has taken the slot and not handed it out. A write to it by the program
        // is the mistake that is looked for.
        unsafe {
            if is_zero(address, bytes, self.long_vectors) {
                return;
            }
            if let Some(place) = first_nonzero(address, bytes) {
                self.observer().damaged(Call::Malloc, slab, slot, Damage::AfterFree(place));
                wipe(address, bytes, self.long_vectors);
            }
        }
    }

    /// What the program has freed becomes free. With the seat, where the caller has it.
    #[inline(always)]
    pub(crate) fn release(&self, heap: &Heap, seat: Option<&Seat>, slab: &Slab, slot: SlotIndex) {
        if !heap.owns(slab) {
            return self.release_remote(heap, slab, slot);
        }
        self.release_owned(heap, seat, slab, slot);
    }

    /// Frees a slot of a slab of the heap.
    #[inline(always)]
    fn release_owned(&self, heap: &Heap, seat: Option<&Seat>, slab: &Slab, slot: SlotIndex) {
        match (slab.put(slot), seat) {
            (Put::Done, _) => {}
            (Put::Spent, None) => self.credit_spent(heap, slab),
            (Put::Spent, Some(seat)) => self.credit_follows(heap, seat, slab),
            (Put::NotLive, _) => self.observer().freed_twice(slab, slot, Call::RemoteFree),
        }
    }

    /// Frees a slot of another thread's slab.
    #[inline(never)]
    fn release_remote(&self, heap: &Heap, slab: &Slab, slot: SlotIndex) {
        match mark_remote(slab, slot) {
            Marked::Done => {}
            Marked::Twice => self.observer().freed_twice(slab, slot, Call::RemoteFree),
            Marked::Unannounced => {
                // Between setting PENDING and the push, a fork must find this heap torn.
                let _seat = heap.sit();
                announce(slab);
                self.keeper().wake_reclaimer_for(slab);
            }
        }
    }

    /// A block was resized where it is.
    pub(crate) fn resize_slot(&self, slab: &Slab, slot: SlotIndex, address: usize, size: usize) {
        let (before, bytes) = (slab.block_bytes(slot), slab.size());
        let canary = self.canary(slab, slot);
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
        let class = |size| SizeClass::of_aligned(bytes_with_slack(size), align);
        match self.find(address) {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => {
                let asked = slab.block_bytes(slot);
                if size == asked || class(size) == class(asked) {
                    return true;
                }
                self.observer().damaged(call, slab, slot, Damage::Size(size));
                false
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                if size == block.bytes() {
                    return true;
                }
                self.observer().large_size_differs(block, address, size, call);
                false
            }
            Found::ZeroSize(place) if self.has_zero_size(place) => {
                if size == 0 {
                    return true;
                }
                self.observer().report_zero_size_mismatch(address, size, call);
                false
            }
            // Freeing it names it.
            _ => true,
        }
    }

    /// Lets everything leave the quarantines: of `heap`, with the seat where the caller has it, of
    /// threads that have ended, and of running ones.
    pub(crate) fn empty_quarantines(&self, heap: Option<&Heap>, seat: Option<&Seat>) {
        if !QUARANTINE {
            return;
        }
        let mine = heap.filter(|heap| !heap.is_sentinel());
        let mut late = false;
        if let Some(heap) = mine {
            let own = if seat.is_none() { heap.sit() } else { None };
            if let Some(seat) = seat.or(own.as_ref()) {
                late = !self.empty_own(heap, seat);
            }
        }
        for number in 0..self.heaps.count() {
            self.with_threadless(number, |orphan, seat| _ = self.empty_own(orphan, seat));
        }
        let releaser = mine.unwrap_or_else(|| crate::thread::EXITED_HEAP.heap());
        for first in (0..self.heaps.count()).step_by(BATCH as usize) {
            self.empty_live_quarantines(releaser, seat, first);
        }
        // Another thread was at it, and may have given it up because this one sits: as two do that
        // run out of memory at the same moment.
        if late && let Some(heap) = mine {
            let own = if seat.is_none() { heap.sit() } else { None };
            if let Some(seat) = seat.or(own.as_ref()) {
                spin_until(|| self.empty_own(heap, seat));
            }
        }
    }

    /// Moves what waits in the quarantine of an orphan to those of the shared heaps, which are
    /// fewer. The blocks go on waiting there. Who holds the orphan.
    pub(crate) fn move_quarantine(&self, orphan: &Heap, seat: &Seat) {
        if !QUARANTINE {
            return;
        }
        let quarantine = orphan.quarantine();
        if !quarantine.is_used() || !quarantine.shut() {
            return;
        }
        quarantine.empty(|entry| self.wait_on(orphan, seat, entry));
        quarantine.close();
        self.own_quarantines().fetch_sub(orphan.uncount_places(), Relaxed);
        quarantine.open();
    }

    /// Lets an entry of a quarantine wait in that of a shared heap.
    fn wait_on(&self, orphan: &Heap, seat: &Seat, entry: usize) {
        let class = slab_of(entry).class_number();
        let mut leaving = Leaving::nothing();
        let waits = self.heaps.acquire_shared(&self.os, class, None).is_some_and(|guard| {
            drop(self.seat_left(guard.heap));
            let share = self.quarantine_share;
            guard.heap.exchange((class, entry), share, &mut leaving, |_| false)
        });
        if !waits {
            leaving.set(entry);
        }
        leaving.each(|entry| self.release_entry(orphan, Some(seat), entry));
    }

    /// The quarantines of running threads, of some numbers: shut, a barrier, and then those are
    /// emptied whose holder is not in the middle of something.
    fn empty_live_quarantines(&self, releaser: &Heap, seat: Option<&Seat>, first: u32) {
        let mut shut = 0u64;
        let numbers = || first..self.heaps.count().min(first + BATCH);
        for number in numbers() {
            if self.heaps.heap_state(number) != HeapState::Live {
                continue;
            }
            let heap = self.heaps.heap(number);
            if !core::ptr::eq(heap, releaser) && heap.quarantine().shut() {
                shut |= 1 << (number - first);
            }
        }
        if shut == 0 {
            return;
        }
        let can = self.barrier();
        for number in numbers().filter(|number| shut >> (number - first) & 1 != 0) {
            let heap = self.heaps.heap(number);
            if can && spin_until(|| !heap.is_torn()) {
                self.empty_quarantine(heap, releaser, seat);
            }
            heap.quarantine().open();
        }
    }

    /// Empties the quarantine of a heap that the caller holds. Not where another thread is emptying
    /// it: that thread may have begun before the caller sat down, and both would release the same
    /// slots. Returns true if it was done.
    fn empty_own(&self, heap: &Heap, seat: &Seat) -> bool {
        let mine = heap.quarantine().shut();
        if mine {
            self.empty_quarantine(heap, heap, Some(seat));
            heap.quarantine().open();
        }
        mine
    }

    fn empty_quarantine(&self, heap: &Heap, releaser: &Heap, seat: Option<&Seat>) {
        heap.quarantine().empty(|entry| self.release_entry(releaser, seat, entry));
    }

    /// Lets everything leave the quarantine of a heap that the caller holds, and does nothing else.
    /// For tests.
    #[cfg(feature = "fake-os")]
    pub fn release_quarantine(&self, heap: &Heap) {
        if let Some(seat) = heap.sit() {
            self.empty_own(heap, &seat);
        }
    }

    /// In the child of a fork no thread is emptying a quarantine.
    pub(crate) fn reopen_quarantines(&self) {
        if QUARANTINE {
            self.heaps.all().for_each(|heap| heap.quarantine().open());
        }
    }
}

/// The slab of an entry of a quarantine.
#[inline(always)]
fn slab_of(entry: usize) -> &'static Slab {
    debug_assert!(entry >= SLAB_BYTES);
    // SAFETY: `wait` makes entries, from a slab and a slot, of which the number is less than a
    // descriptor has bytes; descriptors live for ever.
    unsafe { &*core::ptr::with_exposed_provenance(entry & !(SLAB_BYTES - 1)) }
}

/// Whether a medium slot was never handed out, and its memory is as the system has given it. Such a
/// slot needs no check, which would touch its pages.
#[inline(always)]
fn is_untouched(heap: &Heap, slab: &Slab, slot: SlotIndex, address: usize) -> bool {
    !slab.class().is_small()
        && !slab.was_handed_out(slot)
        && heap.owns(slab)
        && slab.handed_out_zero(address)
}

#[cfg(all(test, feature = "fake-os", feature = "secure"))]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use crate::thread::SHARE_FROM;

    const SITE: usize = 0x5000;

    /// Threads get separate places up to the budget, and give them back when they are cleared
    /// out. What is freed beyond it waits in shared heaps.
    #[test]
    fn quarantines_of_many_threads_stay_within_their_budget() {
        let options = Options { warn_only: true, ..Options::DEFAULT };
        let allocator = Allocator::new(Fake::new(Machine::LARGE), options, false).unwrap();
        allocator.filter().watch();
        let own = || allocator.own_quarantines().load(Relaxed);
        let work = |heap: &Heap| {
            for size in (100..1000).step_by(50) {
                for _ in 0..100 {
                    let block = allocator.allocate(heap, size, SITE).unwrap();
                    allocator.free(heap, block, Call::Free);
                }
            }
            assert_eq!(allocator.check(), Ok(()));
        };
        for _ in 0..SHARE_FROM {
            work(allocator.acquire_heap().unwrap());
        }
        assert_eq!(own(), 0, "the first threads do not count");
        let threads: Vec<_> = (0..40).map(|_| allocator.acquire_heap().unwrap()).collect();
        work(threads[0]);
        let one = own();
        assert!(one > 0, "a thread that frees much has its own places");
        threads[1..].iter().for_each(|heap| work(heap));
        assert!(threads.len() * one > 2 * OWN_MOST, "this drives nothing");
        assert!(own() <= OWN_MOST && own() > OWN_MOST / 2, "{} of {OWN_MOST}", own());
        threads.iter().for_each(|heap| allocator.heaps.orphan(heap));
        allocator.keeper().clear_out_exited();
        allocator.keeper().clear_out_exited();
        assert_eq!(own(), 0);
        assert_eq!(allocator.check(), Ok(()));
    }
}
