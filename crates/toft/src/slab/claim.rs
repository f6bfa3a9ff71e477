//! Claiming slots, handing them out, taking them back: what malloc and free do to a slab of their
//! own thread.

use super::SMALL_MAX;
use super::slab::{GROUP_SLOTS, GROUPS, PENDING, SLOTS_MAX, Slab};
use super::slots::valid_bits;
use super::states::{DIRTY, LEFT, LIVE};
#[cfg(not(loom))]
use crate::os::probes::wants_allocations;
use crate::policy::RANDOM_ORDER;
use crate::sync::Ordering::{Relaxed, Release, SeqCst};
use crate::sync::{AtomicU8, Settled, store_beside_exchanges};

/// Bytes of slots that a claim may span, so that a rarely used site touches few pages.
const CLAIM_SPAN: usize = 4096;
/// How many doublings a hot slab's claims may grow by.
const HEAT_MAX: u8 = 2;
/// Claims after which a slab is hot: it gets fresh slots on top of few used ones, because a claim
/// costs as much as several calls of malloc.
const HOT: u8 = 16;

/// The model checker has no system underneath, and no probe.
#[cfg(loom)]
fn wants_allocations() -> bool {
    false
}

/// The result of taking a slot back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The slot is free.
    Done,
    /// The slot is free, and the slab's credit is spent: `Slab::credit_spent` says what follows.
    Spent,
    /// The slot was not live.
    NotLive,
}

impl Slab {
    /// The slots that malloc hands out next, of one group. Owner only.
    #[inline(always)]
    pub fn claimed(&self) -> u64 {
        self.claim.load(Relaxed)
    }

    /// Hands out the lowest slot of `claim`, which is `claimed()` and not zero; returns the
    /// distance to the next one in bytes, if there is one. Owner only.
    ///
    /// 2 loads, 2 stores and 1 multiplication, on which the caller does not wait: it knows the
    /// address of the slot already.
    #[inline(always)]
    pub fn hand_out(&self, claim: u64) -> usize {
        let rest = claim & claim.wrapping_sub(1);
        let slot = claim.trailing_zeros() as usize;
        // In this order, so that at no moment the slot looks free and unclaimed: see `pinning.rs`.
        store_beside_exchanges(self.claimed_state(slot), LIVE);
        // hand out: pairs with `claim_and_group` of `pinning.rs`. Costs nothing on x86-64.
        self.claim.store(rest, Release);
        // The highest bit stands for "none": what comes of it is not used.
        let following = (rest | 1 << 63).trailing_zeros() as usize;
        (following - slot).wrapping_mul(self.slot_size.load(Relaxed) as usize)
    }

    /// Hands out a slot of the claim, whichever it is, which leaves `rest`; says where it lies, and
    /// how large it is. Owner only.
    #[inline(always)]
    pub fn hand_out_any(&self, rest: u64, slot: usize) -> (usize, usize) {
        debug_assert!(self.claimed() == rest | 1 << (slot % GROUP_SLOTS));
        debug_assert!(slot / GROUP_SLOTS == self.claimed_group());
        // In this order, as in `hand_out`.
        store_beside_exchanges(self.state_of(slot), LIVE);
        // hand out.
        self.claim.store(rest, Release);
        let size = self.slot_size.load(Relaxed) as usize;
        (self.base().wrapping_add(slot.wrapping_mul(size)), size)
    }

    /// The first slot of the group that the claim is of.
    pub fn first_of_claim(&self) -> u32 {
        (self.claimed_group().wrapping_mul(GROUP_SLOTS) % SLOTS_MAX) as u32
    }

    #[inline(always)]
    fn claimed_state(&self, slot: usize) -> &AtomicU8 {
        self.state_in_group(self.claim_states.load(Relaxed), slot)
    }

    /// The state of a slot of the group whose states are at an address, which is `claim_states`.
    #[cfg(not(loom))]
    #[inline(always)]
    fn state_in_group(&self, states: usize, slot: usize) -> &AtomicU8 {
        // SAFETY: I5: `claim_states` is the address of 64 states of this descriptor, and a bit of
        // the claim is one of them.
        unsafe { &*core::ptr::with_exposed_provenance(states + slot) }
    }

    /// The model checker's states are no bytes, and there is but one group.
    #[cfg(loom)]
    fn state_in_group(&self, _states: usize, slot: usize) -> &AtomicU8 {
        self.state_of(slot)
    }

    /// Address of the lowest claimed slot, if there is one.
    pub fn next_claimed(&self) -> Option<usize> {
        let claim = self.claimed();
        let slot = self.claimed_group() * GROUP_SLOTS + claim.trailing_zeros() as usize;
        (claim != 0).then(|| self.base() + slot * self.slot_size.load(Relaxed) as usize)
    }

    /// Which group the claim is of.
    pub(super) fn claimed_group(&self) -> usize {
        let first = self.states.0.as_ptr().expose_provenance();
        self.claim_states.load(Relaxed).wrapping_sub(first) / GROUP_SLOTS
    }

    /// Whether the memory of the slot that was just handed out from the claim is zero. Medium slabs
    /// only, and owner only. No, where in doubt.
    #[inline(always)]
    pub fn handed_out_zero(&self, address: usize) -> bool {
        // In this order: a signal handler that claims another group in between makes the answer no.
        let zero = self.claim_zero.load(Relaxed);
        crate::sync::compiler_fence(SeqCst);
        let slot = address.wrapping_sub(self.base()) / self.size();
        slot / GROUP_SLOTS == self.claimed_group() && zero >> (slot % GROUP_SLOTS) & 1 != 0
    }

    /// Whether the pages of a slot that was just handed out from the claim may not be there. Medium
    /// slabs only, and owner only. Where a signal handler has claimed another group in between it
    /// may be either.
    #[inline(always)]
    pub fn may_be_away(&self, slot: usize) -> bool {
        self.claim_zero.load(Relaxed) >> (slot % GROUP_SLOTS) & 1 != 0
    }

    /// Takes a slot back. Owner only.
    ///
    /// 1 load and 1 store, and the credit in place.
    #[inline(always)]
    pub fn put(&self, slot: usize) -> Put {
        debug_assert!(slot < SLOTS_MAX);
        let state = self.state_of(slot);
        // SAFETY: (1) only the owner writes states, and the caller is the owner.
        if unsafe { state.settled() } != LEFT {
            return Put::NotLive;
        }
        state.store(DIRTY, Relaxed);
        // SAFETY: (1) only the owner touches the credit, and the caller is the owner.
        let credit = unsafe { crate::sync::decrement(&self.credit) };
        if credit == 0 { Put::Spent } else { Put::Done }
    }

    /// Claims free slots: those of the next group that has any, behind the one claimed last. Going
    /// round leaves each group the time to gather free slots, so that claims are large, and finds
    /// the next at the first scan. Groups that were never used come last. Owner only, with the
    /// claim used up. `first` gets the address of the first, before it can be handed out. False
    /// when there is no free slot.
    ///
    /// Where slots are handed out in random order, the groups are gone through from a `random` one
    /// on. In turn, a slot would come back about as many claims later as there are groups, or twice
    /// as many, and so on.
    #[inline(always)]
    pub fn refill(&self, random: u64, first: impl FnOnce(usize)) -> bool {
        debug_assert_eq!(self.claimed(), 0);
        let found = if self.owner.load(Relaxed) & PENDING == 0 {
            self.next_free(random)
        } else {
            self.next_free_and_not_remote(random)
        };
        let Some((group, free)) = found else { return false };
        let size = self.slot_size.load(Relaxed) as usize;
        let mut claim = free;
        if (self.fresh.load(Relaxed) as usize) < self.slots() {
            claim = self.claim_less(group, free, size);
        }
        if size > SMALL_MAX {
            self.claim_zero.store(claim & !self.soiled_bits(group), Relaxed);
        } else {
            self.note_away(group, claim);
        }
        let states = self.states.0.as_ptr().expose_provenance();
        self.claim_states.store(states + group * GROUP_SLOTS, Relaxed);
        let slot = group * GROUP_SLOTS + claim.trailing_zeros() as usize;
        first(self.base() + slot * size);
        // The claim comes last, so that a signal handler that interrupts here finds the bin empty
        // rather than half made.
        crate::sync::compiler_fence(Release);
        self.claim.store(claim, Relaxed);
        true
    }

    #[inline(always)]
    fn next_free(&self, random: u64) -> Option<(usize, u64)> {
        let (after, used) = self.groups_to_search(random);
        let found = self.first_free(after, used).or_else(|| self.first_free(0, GROUPS))?;
        // The pages of a slab without live slots may be unmapped.
        self.is_awake().then_some(found)
    }

    /// The group at which a search begins, and the end of those that were used.
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
            let free = self.free_bits(group);
            if free != 0 {
                return Some((group, free));
            }
            group += 1;
        }
        None
    }

    /// A free slot with its remote bit set was freed twice by racing threads. It must not be handed
    /// out again before `collect` has named it.
    #[cold]
    #[inline(never)]
    fn next_free_and_not_remote(&self, random: u64) -> Option<(usize, u64)> {
        let (after, used) = self.groups_to_search(random);
        let found = (after..used).chain(0..GROUPS).find_map(|group| {
            // Looked at once: what is free now may be held a moment later.
            let free = self.free_bits(group) & !self.remote_bits(group);
            (free != 0).then_some((group, free))
        })?;
        self.is_awake().then_some(found)
    }

    /// A slab with slots that were never used is touched with care: of those a claim has what lies
    /// within a page or little more, so that what is freed is used again before what is fresh. A
    /// hot slab's claims reach four pages from its lowest free slot.
    #[cold]
    fn claim_less(&self, group: usize, free: u64, size: usize) -> u64 {
        let heat = self.heat.load(Relaxed);
        if heat < HOT {
            self.heat.store(heat + 1, Relaxed);
        }
        let span = ((CLAIM_SPAN << heat.min(HEAT_MAX)) / size.max(1)).max(1);
        let fresh = self.fresh.load(Relaxed);
        let used = free & valid_bits(fresh as usize, group);
        let near = free & valid_bits(free.trailing_zeros() as usize + span, 0);
        let claim = if used == 0 || heat == HOT { used | near } else { used };
        let end = (group + 1) * GROUP_SLOTS - claim.leading_zeros() as usize;
        self.fresh.store(fresh.max(end as u16), Relaxed);
        claim
    }

    /// Puts a slot that was just freed in front of the claim, where it belongs there: it is of the
    /// same group and lies before all others. Owner only. `first` is told, before the slot can be
    /// handed out, that its address is the next.
    ///
    /// The claim is taken away meanwhile, and the caller holds the heap's seat, so that a signal
    /// handler neither uses it half made nor makes another. Where the reclaimer is at the slab the
    /// slot is left to it, as it may be held. The claim is left alone, because the reclaimer may
    /// have held what is claimed, and must find it there to let go of it. If a probe wants to know
    /// of allocations, it is left alone, too: they are counted where claims begin.
    #[inline(always)]
    pub fn claim_freed(&self, slot: usize, first: impl FnOnce()) {
        let claim = self.claimed();
        let bit = 1u64 << (slot % GROUP_SLOTS);
        if slot / GROUP_SLOTS != self.claimed_group()
            || claim & (bit - 1) != 0
            || self.is_being_held()
            || self.state_of(slot).load(Relaxed) != DIRTY
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

    /// Frees the slot that is claimed and live, if one is. A fork has stopped its thread between
    /// the two steps of handing it out, and the program never got it. It stays claimed. Holder of
    /// the owning heap only, in the child.
    pub fn take_back_cut_off(&self) {
        let first = self.claimed_group() * GROUP_SLOTS;
        let mut claim = self.claimed();
        while claim != 0 {
            let state = self.state_of(first + claim.trailing_zeros() as usize);
            if state.load(Relaxed) == LIVE {
                state.store(DIRTY, Relaxed);
            }
            claim &= claim - 1;
        }
    }

    /// Gives an unused claim back. Holder of the owning heap only.
    pub fn unclaim(&self) {
        if self.claimed() != 0 {
            // The last look has passed those slots by.
            self.tidy_at.store(0, Relaxed);
            self.is_not_counted();
            self.claim.store(0, Relaxed);
        }
    }
}
