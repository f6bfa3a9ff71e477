//! Bins: the sources of slots of one heap, one for each (partition, class).
//!
//! A bin has the slab that malloc draws from, the slot that malloc hands out next, and a list of
//! other slabs with free slots.
//!
//! ```text
//! bins[row + class]  slab --> current slab --next--> slab with room --next--> ... 0
//!                    next --> the current slab's lowest claimed slot
//! ```
//!
//! A bin stores its slab as a distance from the sentinel slab, which is before the bins and has no
//! slots. Zeroed memory is therefore a table of empty bins. A bin needs no
//! initialization, and the fast path needs no null check.
//!
//! Each call computes the address of the slot for the next call. Malloc therefore returns an
//! address without waiting for the multiplication, and its caller does not wait either.
//!
//! The secure build hands out any claimed slot. Each call draws the slot number for the next
//! call, and prefetches that slot's memory. Each bin has a generator, which the heap's dice seed at
//! each claim (`draw.rs`).
//!
//! Invariants:
//! - B1 a slab of this heap is on its bin's list exactly when its credit says that it is listed.
//! - B2 a slab leaves the list when it has no free slot, when malloc goes on to another slab and it
//!   has too few to be listed, or when another heap takes it over. Slots that other threads have
//!   freed do not count as free here.
//! - B3 if the current slab has claimed slots, `next` is the address of the lowest. In random
//!   order, `next` is the state of a generator and the number of a claimed slot. The number may
//!   also be that of another slot of the claim's group: then malloc takes no slot before `refill`.
//! - B4 the sentinel slab is never written.
//! - B5 each slab of a list except the first has a link to the slab before it.

use super::BinIndex;
use super::draw::{GENERATOR, Taken, claim_without, draw_from, once, prefetch};
use super::head::BinsHead;
use crate::harden::Dice;
use crate::policy::RANDOM_ORDER;
use crate::slab::{CLASSES, GROUP_SLOTS, Groups, Slab, SlotIndex, Violation};
use crate::sync::{AtomicU32, AtomicUsize, Ordering, own_line};
use Ordering::Relaxed;

/// One bin. A [`BinIndex`] counts words, so that the sum of a row and a class is an index without a
/// shift.
#[repr(C)]
#[derive(Debug)]
struct Bin {
    slab: AtomicUsize,
    next: AtomicUsize,
}

impl Bin {
    /// Returns the state of the generator and the number of the next slot, for random order.
    #[inline(always)]
    fn halves(&self) -> &[AtomicU32; 2] {
        // SAFETY: eight bytes, aligned to eight; a build with random order uses only the halves.
        unsafe { &*(&raw const self.next).cast() }
    }
}

/// The number of words in a bin.
pub const BIN_WORDS: usize = 2;
/// The number of words in a row, which is the bins of one partition.
pub const ROW_WORDS: usize = CLASSES * BIN_WORDS;
const _: () = assert!(size_of::<Bin>() == BIN_WORDS * size_of::<usize>());

/// The bins of one heap.
#[derive(Clone, Copy, Debug)]
pub struct Bins {
    head: *const BinsHead,
}

impl Bins {
    /// Returns the bins that follow `head`.
    ///
    /// # Safety
    /// 1. The bins live for ever, begin as zero, and there is one for each index used.
    /// 2. The caller holds the heap, so only the caller uses its bins while this value is used. Or
    ///    the caller calls only `is_current`.
    /// 3. The bins contain only what this type writes.
    #[inline(always)]
    pub unsafe fn behind(head: &BinsHead) -> Bins {
        // Made from the address, so that the pointer may also access the bins after the head.
        Bins { head: core::ptr::with_exposed_provenance((&raw const *head).expose_provenance()) }
    }

    /// Returns the address of the sentinel slab, with which the head begins.
    #[inline(always)]
    fn sentinel_address(self) -> usize {
        self.head.expose_provenance()
    }

    #[inline(always)]
    fn bin(self, index: BinIndex) -> &'static Bin {
        // SAFETY: `behind` duty 1.
        unsafe { &*self.head.add(1).cast::<usize>().add(index.words()).cast() }
    }

    #[inline(always)]
    fn slab_of(self, bin: &Bin) -> &'static Slab {
        let address = self.sentinel_address().wrapping_add(bin.slab.load(Relaxed));
        // SAFETY: `behind` duty 3: the word is zero or was written by `set_current`, from the
        // address of a slab.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Returns the slab that the next slot comes from, or the sentinel slab if there is none.
    pub fn current(self, index: BinIndex) -> &'static Slab {
        self.slab_of(self.bin(index))
    }

    /// Returns true if a slab is the bin's current one. Any thread; the result is a hint unless the
    /// caller holds the heap.
    pub fn is_current(self, index: BinIndex, slab: &Slab) -> bool {
        self.bin(index).slab.load(Relaxed) == address_of(slab).wrapping_sub(self.sentinel_address())
    }

    fn is_sentinel(self, slab: &Slab) -> bool {
        address_of(slab) == self.sentinel_address()
    }

    /// Makes the slab at `address` the bin's current slab; zero stands for the sentinel slab.
    fn set_current(self, index: BinIndex, address: usize) {
        let bin = self.bin(index);
        let word = if address == 0 { 0 } else { address.wrapping_sub(self.sentinel_address()) };
        if RANDOM_ORDER {
            // The slot number is stored before the slab. A signal handler in between must not take
            // a slot by the number that another slab's claim has left. It takes none, because the
            // new slab or the old one has no claim.
            let [_, next] = bin.halves();
            let first = slab_at(address).map_or(0, Slab::first_of_claim);
            next.store(first, Relaxed);
            crate::sync::compiler_fence(Ordering::SeqCst);
            bin.slab.store(word, Relaxed);
            return self.draw(bin);
        }
        bin.slab.store(word, Relaxed);
        bin.next.store(self.slab_of(bin).next_claimed().unwrap_or(0), Relaxed);
    }

    /// Returns the heap's dice.
    fn dice(self) -> &'static Dice {
        // SAFETY: `behind`: the head is a part of the heap.
        unsafe { (*self.head).dice() }
    }

    /// Seeds the bin's generator for a new claim, and draws the first slot.
    #[inline]
    fn draw(self, bin: &Bin) {
        let seed = self.dice().roll() as u32;
        let [drawn, next] = bin.halves();
        let slab = self.slab_of(bin);
        let first = draw_from(slab.claimed(), seed, slab.first_of_claim());
        next.store(first as u32, Relaxed);
        drawn.store(seed, Relaxed);
    }

    /// Makes this processor the owner of the cache lines of a bin and of its slab's claim. For a
    /// bin from which threads of other processors take slots, before a call takes one. Holder only.
    pub fn own_lines(self, index: BinIndex) {
        let bin = self.bin(index);
        own_line(&bin.slab);
        // The slab of an empty bin is a constant.
        if self.has_slab(index) {
            self.slab_of(bin).own_claim_line();
        }
    }

    /// Hands out the next slot, or returns `None` if no slot is claimed. The fast path of malloc.
    ///
    /// It has 5 loads, 3 stores and 1 multiplication. The address is loaded, so the caller does not
    /// wait for the multiplication.
    #[inline(always)]
    pub fn pop(self, index: BinIndex) -> Option<usize> {
        let bin = self.bin(index);
        let slab = self.slab_of(bin);
        let claim = slab.claimed();
        if claim == 0 {
            return None;
        }
        if RANDOM_ORDER {
            return self.take(index).map(|taken| taken.address);
        }
        let address = bin.next.load(Relaxed);
        bin.next.store(address.wrapping_add(slab.hand_out(claim)), Relaxed);
        Some(address)
    }

    /// Hands out any claimed slot, or returns `None` if no slot is claimed. The fast path of the
    /// secure build's malloc.
    ///
    /// Prefetches the memory of the slot that comes next, because that slot was freed long ago.
    #[inline(always)]
    pub fn take(self, index: BinIndex) -> Option<Taken<'static>> {
        let bin = once(self.bin(index));
        let slab = once(self.slab_of(bin));
        let [drawn, next] = bin.halves();
        let slot = next.load(Relaxed);
        let rest = claim_without(slab.claimed(), slot)?;
        let taken = SlotIndex::new(slot as usize);
        // A signal handler that allocated here may have claimed another group. Then the claim or
        // the slot is of the group before, and the slot may be live.
        if !slab.is_claimable(taken) {
            return None;
        }
        let random = drawn.load(Relaxed).wrapping_mul(GENERATOR).wrapping_add(1);
        drawn.store(random, Relaxed);
        // After the last claimed slot the result may be any slot of the group.
        let following = draw_from(rest, random, slot);
        next.store(following as u32, Relaxed);
        let (address, bytes) = slab.hand_out_any(rest, taken);
        let steps = following.wrapping_sub(slot as usize);
        let next = address.wrapping_add(steps.wrapping_mul(bytes));
        prefetch(next);
        Some(Taken { slab, slot: taken, address, bytes, next })
    }

    /// Claims more slots of the current slab, whose claim is used up. Returns false if the slab has
    /// no free slot.
    #[inline(always)]
    pub fn refill(self, index: BinIndex) -> bool {
        let bin = self.bin(index);
        let slab = self.slab_of(bin);
        if RANDOM_ORDER {
            let [_, next] = bin.halves();
            // `take` found a slot of this claim in use, or the slab has only just become current.
            // The claim is given up, unless the reclaimer holds slots of the slab.
            let keeps_claim = slab.claimed() != 0 && !slab.claim_at_most(0);
            // The slot number is stored before the claim is visible. A signal handler that runs
            // before `draw` then takes a slot of this claim, or none.
            let has_claim = keeps_claim
                || slab.refill(self.dice().roll(), |_| next.store(slab.first_of_claim(), Relaxed));
            if has_claim {
                self.draw(bin);
            }
            return has_claim;
        }
        slab.refill(0, |first| bin.next.store(first, Relaxed))
    }

    /// Claims more slots for a bin whose claim is used up, in few steps, and hands one out. Returns
    /// `None` if that takes more, for example if slots of other threads should be collected first.
    ///
    /// After the last group of the current slab come the groups of the next slab on the list, so
    /// that each slab has time to gather free slots. Not in random order. A bin goes on from an
    /// outgrown slab in `refill.rs`.
    #[inline(always)]
    pub fn take_in_turn(self, index: BinIndex) -> Option<usize> {
        let (bin, slab) = (self.bin(index), self.current(index));
        if slab.should_collect() {
            return None;
        }
        let next = |address| bin.next.store(address, Relaxed);
        if let Some(address) = slab.refill_and_take(Groups::After, next) {
            return Some(address);
        }
        if slab.next() != 0 && slab.is_awake() {
            self.go_on(index, slab);
        }
        let current = self.current(index);
        if current.should_collect() || current.is_outgrown() {
            return None;
        }
        current.refill_and_take(Groups::All, next)
    }

    /// Makes the next slab of the list the current one. The current slab leaves the list if it has
    /// too few free slots to be listed. Replaced slabs come after all others.
    #[inline(never)]
    fn go_on(self, index: BinIndex, slab: &'static Slab) {
        if slab_at(slab.next()).is_some_and(Slab::is_replaced) {
            match self.listed(index).skip(1).find(|slab| !slab.is_replaced()) {
                Some(other) => {
                    self.unlist(other);
                    join(other, slab.next());
                    join(slab, address_of(other));
                }
                None if !slab.is_replaced() => return,
                None => {}
            }
        }
        self.set_current(index, slab.next());
        if !slab.leave_list() {
            let current = self.current(index);
            join(slab, current.next());
            join(current, address_of(slab));
        }
    }

    /// Makes the slot at `address`, which was just freed, the next to be handed out. Does nothing
    /// unless its slab is the current one and the slot is before all claimed slots.
    #[inline(always)]
    pub fn push(self, index: BinIndex, slab: &Slab, slot: SlotIndex, address: usize) {
        if !RANDOM_ORDER && self.is_current(index, slab) {
            slab.claim_freed(slot, || self.bin(index).next.store(address, Relaxed));
        }
    }

    /// Puts a slab that has free slots on the list, after the current slab.
    pub fn list(self, index: BinIndex, slab: &Slab) {
        slab.relist();
        self.join_after_current(index, slab);
    }

    /// Puts such a slab on the list. The caller has counted its live slots.
    pub fn list_counted(self, index: BinIndex, slab: &Slab, live: u32) {
        slab.relist_counted(live);
        self.join_after_current(index, slab);
    }

    fn join_after_current(self, index: BinIndex, slab: &Slab) {
        let current = self.current(index);
        if self.is_sentinel(current) {
            slab.set_next(0);
            self.set_current(index, address_of(slab));
        } else {
            join(slab, current.next());
            join(current, address_of(slab));
        }
    }

    /// Removes a slab from the list. The slab is on the list, and is not the current one.
    pub fn unlist(self, slab: &Slab) {
        if let Some(before) = slab_at(slab.previous()) {
            join(before, slab.next());
            slab.set_next(0);
        }
    }

    /// Claims slots after the current slab's claim is used up: from that slab, or from the next one
    /// with free slots. Slabs without free slots leave the list. Returns false if the bin has no
    /// slab that can be used now.
    ///
    /// `wake` maps the pages of a dormant slab, or resumes a suspended slab. It returns true if the
    /// slab may be used.
    pub fn advance(self, index: BinIndex, mut wake: impl FnMut(&Slab) -> bool) -> bool {
        loop {
            let slab = self.current(index);
            if self.is_sentinel(slab) {
                return false;
            }
            if self.refill(index) {
                return true;
            }
            // Only its owner wakes a slab, so the state that `refill` saw has not changed.
            if !slab.is_awake() {
                if wake(slab) {
                    continue;
                }
                return self.pass_dormant(index, slab, wake);
            }
            self.set_current(index, slab.next());
            slab.unlist();
        }
    }

    /// Claims slots from a later slab of the list, because there is no memory to wake the current
    /// slab. The slab becomes the current one.
    #[cold]
    fn pass_dormant(
        self,
        index: BinIndex,
        current: &'static Slab,
        mut wake: impl FnMut(&Slab) -> bool,
    ) -> bool {
        let mut before = current;
        while let Some(slab) = slab_at(before.next()) {
            if !(slab.is_awake() || slab.limit_count().is_suspended() && wake(slab)) {
                before = slab;
                continue;
            }
            join(before, slab.next());
            join(slab, address_of(current));
            self.set_current(index, address_of(slab));
            if self.refill(index) {
                return true;
            }
            self.set_current(index, address_of(current));
            if slab.is_awake() {
                slab.unlist();
            } else {
                // The slab was suspended again meanwhile. It has free slots, and stays on the list.
                join(slab, current.next());
                join(current, address_of(slab));
                return false;
            }
        }
        false
    }

    /// Removes the first slab for which `choose` returns true from the list, and returns it.
    pub fn remove(
        self,
        index: BinIndex,
        mut choose: impl FnMut(&Slab) -> bool,
    ) -> Option<&'static Slab> {
        let mut before: Option<&Slab> = None;
        for slab in self.listed(index) {
            if choose(slab) {
                self.take_off(index, before, slab);
                return Some(slab);
            }
            before = Some(slab);
        }
        None
    }

    /// Removes each slab for which `choose` returns true from the list, and names it.
    pub fn remove_all(
        self,
        index: BinIndex,
        mut choose: impl FnMut(&Slab) -> bool,
        mut each: impl FnMut(&'static Slab),
    ) {
        let mut before: Option<&Slab> = None;
        let mut following = self.listed(index).next();
        while let Some(slab) = following {
            following = slab_at(slab.next());
            if !choose(slab) {
                before = Some(slab);
                continue;
            }
            self.take_off(index, before, slab);
            each(slab);
        }
    }

    /// Removes a slab from the list. `before` is the one before it; the current slab has none.
    fn take_off(self, index: BinIndex, before: Option<&Slab>, slab: &Slab) {
        match before {
            Some(before) => join(before, slab.next()),
            None => self.set_current(index, slab.next()),
        }
        slab.set_next(0);
    }

    /// Restores B3 of every bin, and I2 of its current slab. A fork may have cut off the heap's
    /// thread in the middle of `pop` or `take`.
    pub fn repair_cut_off(self, partitions: usize) {
        for index in BinIndex::all(partitions) {
            let slab = self.current(index);
            slab.take_back_cut_off();
            if let Some(address) = slab.next_claimed().filter(|_| !RANDOM_ORDER) {
                self.bin(index).next.store(address, Relaxed);
            }
        }
    }

    /// Verifies B3 to B5.
    pub fn check(self, index: BinIndex) -> Result<(), Violation> {
        // SAFETY: `behind`: the head is a part of the heap.
        let sentinel = unsafe { &(*self.head).sentinel };
        if sentinel.claimed() != 0 || sentinel.slots() != 0 || sentinel.next() != 0 {
            return Err(Violation("B4: the sentinel slab"));
        }
        let mut before = self.current(index);
        for slab in self.listed(index).skip(1) {
            if slab.previous() != address_of(before) {
                return Err(Violation("B5: previous"));
            }
            before = slab;
        }
        let current = self.current(index);
        let [_, next] = self.bin(index).halves();
        let group = |slot: u32| slot as usize / GROUP_SLOTS;
        if RANDOM_ORDER
            && current.claimed() != 0
            && group(next.load(Relaxed)) != group(current.first_of_claim())
        {
            return Err(Violation("B3: a slot of another group"));
        }
        match current.next_claimed() {
            Some(address) if !RANDOM_ORDER && address != self.bin(index).next.load(Relaxed) => {
                Err(Violation("B3: next"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a bin has a slab. Holder only.
    pub fn has_slab(self, index: BinIndex) -> bool {
        self.bin(index).slab.load(Relaxed) != 0
    }

    /// Empties a bin, before its list is rebuilt.
    pub fn clear(self, index: BinIndex) {
        self.set_current(index, 0);
    }

    /// Returns the slabs of a bin's list, beginning with the current one.
    pub fn listed(self, index: BinIndex) -> impl Iterator<Item = &'static Slab> {
        let first = Some(self.current(index)).filter(|slab| !self.is_sentinel(slab));
        core::iter::successors(first, |slab| slab_at(slab.next()))
    }
}

/// Links the slab at address `next` after `before`. Zero ends the list at `before`.
fn join(before: &Slab, next: usize) {
    before.set_next(next);
    if let Some(slab) = slab_at(next) {
        slab.set_previous(address_of(before));
    }
}

/// Returns the slab at an address from a list, or `None` for zero.
pub fn slab_at(address: usize) -> Option<&'static Slab> {
    // SAFETY: lists hold addresses of slab descriptors only, which live for ever.
    (address != 0).then(|| unsafe { &*core::ptr::with_exposed_provenance(address) })
}

/// Returns the address of a slab's descriptor.
#[inline]
pub fn address_of(slab: &Slab) -> usize {
    (&raw const *slab).expose_provenance()
}
