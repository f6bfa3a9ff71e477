//! Claims slots, hands them out and takes them back: the operations of malloc and free on a slab of
//! their own thread.

use super::SMALL_MAX;
use super::slab::{BATCHED, GROUP_SLOTS, GROUPS, PENDING, SLOTS_MAX, Slab};
use super::slots::{SlotIndex, valid_bits};
#[cfg(not(any(loom, miri)))]
use super::states::{ARMED_BIT, QUARANTINED};
use super::states::{DIRTY, FROM_CLAIM, HELD, LEFT, LIVE, StateCell, TAKEN};
#[cfg(not(loom))]
use crate::os::probes::wants_allocations;
use crate::policy::{RANDOM_ORDER, SECURE};
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
#[cfg(not(any(loom, miri)))]
use crate::sync::Settled;

/// The number of bytes that a claim may span, so that a rarely used site touches few pages.
const CLAIM_SPAN: usize = 4096;
/// The maximum number of doublings of the span. Each claim of a slab doubles the span of the next.
const HEAT_MAX: u8 = 2;
/// The number of claims after which a slab is hot. A claim of a hot slab gets fresh slots in
/// addition to few used ones, because a claim costs as much as several calls of malloc.
const HOT: u8 = 16;

/// A claim of fewer slots serves so few calls of malloc that a hot slab gets fresh slots instead.
const FEW: u32 = 8;

/// Returns false, because the model checker has no operating system and no probe.
#[cfg(loom)]
fn wants_allocations() -> bool {
    false
}

/// The least number of slots freed by other threads that are collected before fresh slots are
/// claimed.
const COLLECT_LEAST: usize = 8;

/// The result of taking a slot back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The slot is free.
    Done,
    /// The slot is free, and the slab's credit is spent. `Slab::credit_spent` returns what to do.
    Spent,
    /// The slot was not live.
    NotLive,
}

/// The groups that a refill searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// The used groups after the one claimed last.
    After,
    /// Those, then all groups from the first on.
    All,
}

/// Returns the number of the lowest bit that is set, or any number if there is none.
#[inline(always)]
pub fn lowest_bit(word: u64) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let lowest: usize;
        // SAFETY: reads one register and writes another. An old processor leaves it as it is if no
        // bit is set. `trailing_zeros` takes two instructions more, because it is defined for zero.
        unsafe {
            core::arch::asm!("tzcnt {}, {}", lateout(reg) lowest, in(reg) word,
                options(pure, nomem, nostack));
        }
        lowest
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        word.trailing_zeros() as usize
    }
}

impl Slab {
    /// Returns the slots of one group that malloc hands out next. Owner only.
    #[inline(always)]
    pub fn claimed(&self) -> u64 {
        self.claim.load(Relaxed)
    }

    /// Makes this processor the owner of the cache line of the claim. Owner only, of a slab from
    /// which threads of other processors have taken slots.
    pub fn own_claim_line(&self) {
        crate::sync::own_line(&self.claim_states);
    }

    /// Hands out the lowest slot of `claim`, which is `claimed()` and not zero. Returns the
    /// distance in bytes to the next claimed slot, if there is one. Owner only.
    ///
    /// It has 2 loads, 2 stores and 1 multiplication. The caller already knows the slot's address,
    /// so it does not wait for the multiplication.
    #[inline(always)]
    pub fn hand_out(&self, claim: u64) -> usize {
        let rest = claim & claim.wrapping_sub(1);
        let slot = claim.trailing_zeros() as usize;
        // In this order, so that the slot never looks free and unclaimed (`pinning.rs`).
        self.claimed_state(slot).store_beside_exchanges(LIVE);
        // hand out: pairs with `claim_and_group`. Costs nothing on x86-64.
        self.claim.store(rest, Release);
        // The caller does not use the result if there is no other slot.
        let following = lowest_bit(rest);
        following.wrapping_sub(slot).wrapping_mul(self.slot_size.load(Relaxed) as usize)
    }

    /// Returns true if a slot is free. It may be held by the reclaimer. Owner only.
    #[inline(always)]
    pub fn is_claimable(&self, slot: SlotIndex) -> bool {
        let state = self.states.of(slot).load(Relaxed);
        !state.has(TAKEN) || state.has(HELD)
    }

    /// Takes any slot of the claim for malloc, and leaves `rest`. `make_live` follows. Returns the
    /// slot's address and its size in bytes. Owner only.
    #[inline(always)]
    pub fn hand_out_any(&self, rest: u64, slot: SlotIndex) -> (usize, usize) {
        debug_assert!(self.claimed() == rest | slot.bit());
        debug_assert!(slot.group() == self.claimed_group());
        // In this order, as in `hand_out`.
        self.states.of(slot).store_beside_exchanges(FROM_CLAIM);
        // hand out.
        self.claim.store(rest, Release);
        let size = self.slot_size.load(Relaxed) as usize;
        (self.base().wrapping_add(slot.number().wrapping_mul(size)), size)
    }

    /// Makes a slot that malloc has taken live, after its canary was written. Called by the thread
    /// that has taken the slot.
    #[inline(always)]
    pub fn make_live(&self, slot: SlotIndex) {
        // made: a thread that reads LIVE sees the canary. Costs nothing on x86-64.
        self.states.of(slot).store(LIVE, Release);
    }

    /// Returns the first slot of the claimed group.
    pub fn first_of_claim(&self) -> u32 {
        (self.claimed_group().wrapping_mul(GROUP_SLOTS) % SLOTS_MAX) as u32
    }

    #[inline(always)]
    fn claimed_state(&self, bit: usize) -> &StateCell {
        self.state_in_group(self.claim_states.load(Relaxed), bit)
    }

    /// Returns the state of a slot of the group whose states are at `states`, which is
    /// `claim_states`.
    #[cfg(not(loom))]
    #[inline(always)]
    fn state_in_group(&self, states: usize, bit: usize) -> &StateCell {
        // SAFETY: I5: `claim_states` is the address of 64 states of this descriptor, and a bit of
        // the claim is one of them.
        unsafe { &*core::ptr::with_exposed_provenance(states + bit) }
    }

    /// Returns the state of a slot. The model checker's states are not bytes, and it has only one
    /// group.
    #[cfg(loom)]
    fn state_in_group(&self, _states: usize, bit: usize) -> &StateCell {
        self.states.of(SlotIndex::new(bit))
    }

    /// Returns the address of the lowest claimed slot, if there is one.
    pub fn next_claimed(&self) -> Option<usize> {
        let claim = self.claimed();
        let slot = SlotIndex::in_group(self.claimed_group(), claim.trailing_zeros());
        (claim != 0).then(|| self.base() + slot.begin(self.slot_size.load(Relaxed) as usize))
    }

    /// Returns the number of the claimed group.
    pub(super) fn claimed_group(&self) -> usize {
        let first = self.states.address();
        self.claim_states.load(Relaxed).wrapping_sub(first) / GROUP_SLOTS
    }

    pub(super) fn claim_and_group(&self) -> (usize, u64) {
        // In this order. A claim that changes in between is not relied on, because its owner is
        // busy or will be seen to have claimed.
        let group = self.claimed_group();
        // pairs: hand out. A thread that does not see a slot on the claim any more sees that it is
        // live.
        (group, self.claim.load(Acquire))
    }

    /// Returns true if the memory of a slot that was just handed out from the claim is zero.
    /// Returns false in doubt. Medium slabs only, and owner only.
    #[inline(always)]
    pub fn handed_out_zero(&self, address: usize) -> bool {
        // In this order: if a signal handler claims another group in between, the result is false.
        let zero = self.claim_zero.load(Relaxed);
        crate::sync::compiler_fence(SeqCst);
        let slot = SlotIndex::new(address.wrapping_sub(self.base()) / self.size());
        slot.group() == self.claimed_group() && zero & slot.bit() != 0
    }

    /// Returns true if the pages of a slot that was just handed out from the claim may be
    /// non-resident. Medium slabs only, and owner only. If a signal handler has claimed another
    /// group in between, the result may be wrong.
    #[inline(always)]
    pub fn may_be_non_resident(&self, slot: SlotIndex) -> bool {
        self.claim_zero.load(Relaxed) & slot.bit() != 0
    }

    /// Takes a slot back. Owner only.
    ///
    /// It has 1 load and 1 store, and decrements the credit in place.
    #[inline(always)]
    pub fn put(&self, slot: SlotIndex) -> Put {
        let state = self.states.of(slot);
        // SAFETY: (1) other threads change the state of a slot that is free, or that another thread
        // frees. The slot is neither, unless the program frees it twice. It is not live then, or
        // the free is the first to be seen.
        if unsafe { state.settled() } != LEFT {
            return Put::NotLive;
        }
        state.store(DIRTY, Relaxed);
        // SAFETY: (1) only the owner writes the credit, and the caller is the owner.
        let credit = unsafe { crate::sync::decrement(&self.credit) };
        if credit == 0 { Put::Spent } else { Put::Done }
    }

    /// Takes a slot back like `put`, if nothing else must be done, no slot beside it may be armed,
    /// and `is_sound` returns true of the slot. Otherwise it does nothing, and returns false. Owner
    /// only. The slot is named by the sum of its number and the descriptor's address, because its
    /// state is at a fixed distance from there.
    ///
    /// # Safety
    /// 1. `entry` is the sum of this descriptor's address and of the number of a slot.
    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    pub unsafe fn put_plainly(&self, entry: usize, is_sound: impl FnOnce() -> bool) -> bool {
        let states = entry + core::mem::offset_of!(Slab, states);
        // SAFETY: duty 1: the slot's state, and the bytes beside it, as in `may_be_beside_armed`.
        let state = |at: usize| unsafe {
            &*core::ptr::with_exposed_provenance::<crate::sync::AtomicU8>(at)
        };
        // pairs: armed.
        let beside = state(states + 1).load(Acquire) | state(states - 1).load(Acquire);
        // SAFETY: (1) only the owner writes the credit and the state of a slot in its quarantine,
        // and the caller is the owner.
        unsafe {
            if beside & ARMED_BIT != 0
                || state(states).settled() != QUARANTINED.bits()
                || self.credit.settled() <= 1
                || !is_sound()
            {
                return false;
            }
            state(states).store(DIRTY.bits(), Relaxed);
            // A signal handler may have spent credit since. Then the next free finds the credit
            // spent.
            if crate::sync::decrement(&self.credit) == 0 {
                self.postpone();
            }
        }
        true
    }

    /// Returns false: states are not bytes of the descriptor here, or that is not checked.
    #[cfg(any(loom, miri))]
    pub unsafe fn put_plainly(&self, _entry: usize, _is_sound: impl FnOnce() -> bool) -> bool {
        false
    }

    /// Claims the free slots of the next group that has any, after the group claimed last. Returns
    /// false if no slot is free, or the slab is not awake. Owner only, with the claim used up.
    /// `first` gets the address of the first claimed slot before the slot can be handed out.
    ///
    /// Going round gives each group time to gather free slots. Claims are then large, and the first
    /// scan usually finds the next group. Groups that were never used come last.
    ///
    /// If slots are handed out in random order, the search begins at a group chosen by `random`.
    /// Going round would return a slot after about as many claims as there are groups, or a
    /// multiple of that.
    #[inline(always)]
    pub fn refill(&self, random: u64, first: impl FnOnce(usize)) -> bool {
        let Some((group, claim)) = self.choose_claim(random, Groups::All) else { return false };
        let slot = SlotIndex::in_group(group, claim.trailing_zeros());
        first(self.base() + slot.begin(self.slot_size.load(Relaxed) as usize));
        // The claim is stored last. A signal handler that interrupts here then finds the bin empty,
        // not half made.
        crate::sync::compiler_fence(Release);
        self.claim.store(claim, Relaxed);
        true
    }

    /// Claims free slots like `refill`, of these groups, and hands out the lowest. Returns its
    /// address. `next` gets the address of the slot after it, or any address if there is none.
    /// Owner only, with the claim used up.
    ///
    /// The claim is never without its `next`, so a signal handler that interrupts here gets another
    /// slot or finds the bin empty, and not the same slot as in `hand_out`. The slot is live after
    /// the claim is stored: in the child of a fork in between it is free.
    #[inline(always)]
    pub fn refill_and_take(&self, groups: Groups, next: impl FnOnce(usize)) -> Option<usize> {
        let (group, claim) = self.choose_claim(0, groups)?;
        let size = self.slot_size.load(Relaxed) as usize;
        let (lowest, rest) = (claim.trailing_zeros() as usize, claim & claim.wrapping_sub(1));
        let slot = SlotIndex::in_group(group, lowest as u32);
        let address = self.base() + slot.begin(size);
        next(address.wrapping_add(lowest_bit(rest).wrapping_sub(lowest).wrapping_mul(size)));
        crate::sync::compiler_fence(Release);
        self.claim.store(rest, Relaxed);
        crate::sync::compiler_fence(Release);
        self.states.of(slot).store_beside_exchanges(LIVE);
        Some(address)
    }

    /// Returns the group and the slots to claim, after all of the slab but the claim itself was
    /// made ready for them.
    #[inline(always)]
    fn choose_claim(&self, random: u64, groups: Groups) -> Option<(usize, u64)> {
        debug_assert_eq!(self.claimed(), 0);
        let (mut group, mut claim) = if self.owner.load(Relaxed) & (PENDING | BATCHED) == 0 {
            self.next_free(random, groups)?
        } else {
            self.next_free_and_not_remote(random)?
        };
        let size = self.slot_size.load(Relaxed) as usize;
        if (self.fresh.load(Relaxed) as usize) < self.slots() {
            (group, claim) = self.claim_beside_fresh(group, claim, size);
        }
        if size > SMALL_MAX {
            self.claim_zero.store(claim & !self.states.soiled_bits(group), Relaxed);
        } else if SECURE {
            let clean = claim & !self.states.soiled_bits(group);
            if clean != 0 {
                self.slacks.note_non_resident(group, clean);
            }
        }
        let states = self.states.address();
        self.claim_states.store(states + group * GROUP_SLOTS, Relaxed);
        Some((group, claim))
    }

    /// Returns true if no used slot is free, although other threads have freed half of them and
    /// there are fresh slots. They should be collected before those are claimed, so that fewer
    /// pages are touched. A few are left for later: to collect them costs as much, and both threads
    /// then write to the same cache lines. Owner only.
    #[inline(always)]
    pub fn should_collect(&self) -> bool {
        self.owner.load(Relaxed) & PENDING != 0 && self.is_half_remote()
    }

    #[inline(never)]
    fn is_half_remote(&self) -> bool {
        let fresh = self.fresh.load(Relaxed) as usize;
        let is_used_up = |group| self.states.free_bits(group) & valid_bits(fresh, group) == 0;
        fresh < self.slots()
            && (0..fresh.div_ceil(GROUP_SLOTS)).all(is_used_up)
            && self.remote.count() >= (fresh / 2).max(COLLECT_LEAST)
    }

    #[inline(always)]
    fn next_free(&self, random: u64, groups: Groups) -> Option<(usize, u64)> {
        let (after, used) = self.groups_to_search(random);
        let found = match (self.first_free(after, used), groups) {
            (None, Groups::All) => self.first_free(0, GROUPS)?,
            (found, _) => found?,
        };
        // The pages of a slab without live slots may be unmapped.
        self.is_awake().then_some(found)
    }

    /// Returns the group at which a search begins, and the end of the used groups.
    #[inline(always)]
    fn groups_to_search(&self, random: u64) -> (usize, usize) {
        let used = (self.fresh.load(Relaxed) as usize).div_ceil(GROUP_SLOTS);
        let after = if RANDOM_ORDER {
            (used * (random >> 32) as usize) >> 32
        } else {
            self.claimed_group() + 1
        };
        (after, used)
    }

    #[inline(always)]
    fn first_free(&self, mut group: usize, end: usize) -> Option<(usize, u64)> {
        while group < end {
            let free = self.states.free_bits(group);
            if free != 0 {
                return Some((group, free));
            }
            group += 1;
        }
        None
    }

    /// Returns the next group with free slots whose remote bits are clear, and those slots. A free
    /// slot with its remote bit set was freed twice by racing threads. It must not be handed out
    /// again before `collect` has reported it.
    #[cold]
    #[inline(never)]
    fn next_free_and_not_remote(&self, random: u64) -> Option<(usize, u64)> {
        let (after, used) = self.groups_to_search(random);
        let found = (after..used).chain(0..GROUPS).find_map(|group| {
            // Read once: a slot that is free now may be held a moment later.
            let free = self.states.free_bits(group);
            // Marks are in a cache line to which another thread writes.
            let free = if free == 0 { 0 } else { free & !self.remote_frees().of_group(group) };
            (free != 0).then_some((group, free))
        })?;
        self.is_awake().then_some(found)
    }

    /// Returns the group and the slots to claim in a slab that has fresh slots, if the slots `free`
    /// of `group` were found. If used slots are free, only these are claimed, so that freed slots
    /// are used again before fresh ones. Otherwise, or if the slab is hot, the claim also has the
    /// slots within the span after the lowest free slot. The span is one page at first, and four
    /// pages from the third claim on. A hot slab with only a few such slots gets fresh slots of the
    /// next group instead.
    #[cold]
    fn claim_beside_fresh(&self, group: usize, free: u64, size: usize) -> (usize, u64) {
        let heat = self.heat.load(Relaxed);
        if heat < HOT {
            self.heat.store(heat + 1, Relaxed);
        }
        let span = ((CLAIM_SPAN << heat.min(HEAT_MAX)) / size.max(1)).max(1);
        let near = |free: u64| free & valid_bits(free.trailing_zeros() as usize + span, 0);
        let fresh = self.fresh.load(Relaxed);
        let used = free & valid_bits(fresh as usize, group);
        let mut found = (group, if used == 0 || heat == HOT { used | near(free) } else { used });
        if heat == HOT && found.1.count_ones() < FEW.min(span as u32 / 2) {
            let next = fresh as usize / GROUP_SLOTS;
            let unused = self.states.free_bits(next) & !valid_bits(fresh as usize, next);
            if unused != 0 {
                found = (next, near(unused));
            }
        }
        let end = (found.0 + 1) * GROUP_SLOTS - found.1.leading_zeros() as usize;
        self.fresh.store(fresh.max(end as u16), Relaxed);
        found
    }

    /// Adds a slot that was just freed to the claim, if it is of the claimed group and before all
    /// claimed slots. Owner only. `first` is called before the slot can be handed out, because its
    /// address becomes the next.
    ///
    /// The claim is empty during the change, and the caller holds the heap's reentrancy guard. A
    /// signal handler then neither uses a half-made claim nor makes another.
    ///
    /// The slot is left alone if the reclaimer holds slots of the slab, because the slot may be
    /// held. The claim is left alone then, because the reclaimer may have held claimed slots, and
    /// must find them there to release them. The claim is also left alone if a probe follows
    /// allocations, because they are counted where claims begin.
    #[inline(always)]
    pub fn claim_freed(&self, slot: SlotIndex, first: impl FnOnce()) {
        let claim = self.claimed();
        let bit = slot.bit();
        if slot.group() != self.claimed_group()
            || claim & (bit - 1) != 0
            || self.is_being_held()
            || self.states.of(slot).load(Relaxed) != DIRTY
            || wants_allocations()
        {
            return;
        }
        self.claim.store(0, Relaxed);
        crate::sync::compiler_fence(SeqCst);
        self.claim_zero.store(self.claim_zero.load(Relaxed) & !bit, Relaxed);
        first();
        crate::sync::compiler_fence(Release);
        self.claim.store(claim | bit, Relaxed);
    }

    /// Records that the slot that is claimed next has a sampled byte at `place`. Owner only.
    pub fn set_due(&self, place: u64) {
        self.due.store(place as u32, Relaxed);
    }

    /// Returns the place of the sampled byte in the slot that was just claimed, if the claim before
    /// was shortened for it. Clears the record. Owner only.
    pub fn take_due(&self) -> Option<usize> {
        let place = self.due.load(Relaxed);
        self.due.store(0, Relaxed);
        (place != 0).then_some(place as usize)
    }

    /// Leaves only the lowest `count` slots in the claim; the others are free as before. Owner
    /// only, with the heap's reentrancy guard, as in `claim_freed`. Returns false if slots must be
    /// left out while the reclaimer holds slots of the slab, and then does nothing.
    pub fn claim_at_most(&self, count: usize) -> bool {
        let claim = self.claimed();
        let rest = (0..count.min(GROUP_SLOTS)).fold(claim, |rest, _| rest & rest.wrapping_sub(1));
        if rest == 0 || self.is_being_held() {
            return rest == 0;
        }
        // The last scan skipped those slots.
        self.scan_again();
        self.claim.store(0, Relaxed);
        crate::sync::compiler_fence(SeqCst);
        self.claim.store(claim & !rest, Release);
        true
    }

    /// Frees the slot that is both claimed and taken by malloc, if there is one. A fork has stopped
    /// its thread between the two steps of handing it out, so the program never got it. The slot
    /// stays claimed. Holder of the owning heap only, in the child.
    pub fn take_back_cut_off(&self) {
        let group = self.claimed_group();
        let mut claim = self.claimed();
        while claim != 0 {
            let state = self.states.of(SlotIndex::in_group(group, claim.trailing_zeros()));
            if state.load(Relaxed) == FROM_CLAIM {
                state.store(DIRTY, Relaxed);
            }
            claim &= claim - 1;
        }
    }

    /// Drops an unused claim, so that its slots are only free. Holder of the owning heap only.
    pub fn unclaim(&self) {
        if self.claimed() != 0 {
            // The last scan skipped those slots.
            self.scan_again();
            self.claim.store(0, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_claim_keeps_its_lowest_slots() {
        let slab = Slab::zeroed();
        slab.claim.store(0b1011_0100, Relaxed);
        assert!(slab.claim_at_most(9) && slab.claimed() == 0b1011_0100);
        assert!(slab.claim_at_most(2) && slab.claimed() == 0b0001_0100);
        assert!(slab.claim_at_most(0) && slab.claimed() == 0);
    }

    #[test]
    fn what_is_in_use_is_not_claimable() {
        let slab = Slab::zeroed();
        let slots = slab.open_for_test(1 << 30, 64);
        slab.publish(1 << 20, slots);
        slab.relist();
        assert!(slab.refill(0, |_| ()));
        let first = SlotIndex::in_group(slab.claimed_group(), slab.claimed().trailing_zeros());
        for (state, claimable) in [(DIRTY, true), (HELD, true), (LIVE, false), (QUARANTINED, false)]
        {
            slab.states.of(first).store(state, Relaxed);
            assert_eq!(slab.is_claimable(first), claimable, "{state:?}");
        }
    }
}
