//! The checks of a slab's invariants.

use super::slab::{BATCHED, GROUP_SLOTS, GROUPS, PENDING, SLOTS_MAX, Slab};
use super::slots::{SlotIndex, valid_bits};
use super::states::DIRTY_FRESH;
#[cfg(not(loom))]
use super::states::{
    ARMED, BEING_FREED, BEING_MADE, DIRTY, HELD, LEFT, LENT, LIVE, NO_SLOT, PERMANENTLY_FREED,
    REMOTE_CLEAN, REMOTE_HELD, RESERVED, SAMPLED, StateByte, TAKEN, ZERO_CLEAN, ZERO_FRESH,
};
#[cfg(not(loom))]
use super::{CLASSES, SizeClass};
use crate::policy::{RANDOM_ORDER, SECURE};
#[cfg(not(loom))]
use crate::sync::Ordering::Acquire;
use crate::sync::Ordering::Relaxed;

/// Returns true if an existing slot can have this state (I10).
#[cfg(not(loom))]
fn is_state(state: StateByte) -> bool {
    let (held, lent) = (HELD.without(TAKEN), LENT.without(TAKEN));
    let free = state.without(HELD).without(LENT);
    let idle = matches!(free, ZERO_FRESH | DIRTY | DIRTY_FRESH | ZERO_CLEAN);
    // Held and lent slots also have TAKEN set, and other free slots do not.
    let idle = idle && (state.has(held) || state.has(lent)) == state.has(TAKEN);
    let reserved = SECURE && matches!(state.without(held), RESERVED | ARMED);
    let changes = state == LEFT || SECURE && matches!(state, BEING_FREED | BEING_MADE);
    idle || reserved
        || changes
        || matches!(state, LIVE | SAMPLED | REMOTE_HELD | REMOTE_CLEAN | PERMANENTLY_FREED)
}

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl Slab {
    /// Verifies I1 to I11, except I10. Holder of the owning heap only, while no other thread frees.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_where(false)
    }

    /// Verifies like `check` in the child of a fork, where the slab's thread may have stopped
    /// between two steps that take no reentrancy guard. In malloc, a slot may then be both claimed
    /// and live. In free, a free slot may be uncounted.
    pub fn check_cut_off(&self) -> Result<(), Violation> {
        self.check_where(true)
    }

    fn check_where(&self, cut_off: bool) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let slots = self.slots();
        ensure(slots <= SLOTS_MAX && slots > 0, "I1: slots")?;
        let claim = self.claimed();
        ensure(claim == 0 || self.claimed_group() < GROUPS, "I5: claimed group")?;
        ensure(
            self.limit_count().uncounted() == 0 || !self.is_awake(),
            "I9: awake but not counted",
        )?;
        let fresh = self.fresh.load(Relaxed) as usize;
        for group in 0..GROUPS {
            let lent = self.states.lent_bits(group);
            let live = !self.states.free_bits(group) & valid_bits(slots, group) & !lent;
            ensure(lent & !valid_bits(slots, group) == 0, "I1: lent beyond the end")?;
            ensure(lent == 0 || self.is_shared() || SECURE, "I8: lent, but not shared")?;
            let remote = self.remote_frees().of_group(group);
            let claimed = if claim != 0 && self.claimed_group() == group { claim } else { 0 };
            let dirty = self.states.dirty_bits(group);
            let in_use = live | claimed | dirty;
            // Never handed-out slots on prefaulted pages count as not zero.
            let prefaulted = dirty & !claimed & self.fresh_bits(group);
            let free = self.states.free_bits(group) | remote;
            ensure((in_use | free) & !valid_bits(slots, group) == 0, "I1: beyond the end")?;
            let both = claimed & (live | remote);
            let lowest = claimed & claimed.wrapping_neg();
            let next = if RANDOM_ORDER { both.is_power_of_two() } else { both == lowest };
            let handed_out = both == 0 || cut_off && next && both & remote == 0;
            ensure(handed_out, "I2: claimed and in use")?;
            ensure(remote & !live == 0, "I3: remote but not live")?;
            let in_use = if self.is_shared() { live | claimed } else { in_use & !prefaulted };
            ensure(in_use & !valid_bits(fresh, group) == 0, "I4: in use but fresh")?;
        }
        ensure(fresh <= GROUPS * GROUP_SLOTS, "I4: fresh")?;
        ensure(!SECURE || self.reserved().are_as_chosen(), "I11: reserved slots")?;
        if !self.has_owner() {
            return self.check_unowned();
        }
        let batched = self.owner.load(Relaxed) & BATCHED != 0;
        ensure(batched == (self.remote_frees().batch_address() != 0), "O1: batch and the flag")?;
        let shares = self.scans.shares.iter().any(|share| share.load(Relaxed) != 0);
        ensure(shares == self.is_shared(), "I8: shares and the flag")?;
        let pending = self.owner.load(Relaxed) & PENDING != 0;
        ensure(self.disturbed.load(Relaxed) == 0 || pending, "I6: disturbed and not announced")?;
        if !self.is_listed() {
            ensure(claim == 0, "I6: claim without a list")?;
            let announced = self.disturbed.load(Relaxed) != 0 || self.is_shared();
            let uncounted = self.credit.load(Relaxed).wrapping_sub(self.missing());
            ensure(announced || uncounted == 0 || cut_off && uncounted == 1, "I6: credit")?;
        }
        Ok(())
    }

    /// Verifies what holds at every moment, while threads use the slab. That is I10, the part of I1
    /// that is written once, and the parts of I2, I3 and I5 that no step of malloc, free or the
    /// reclaimer breaks. Any thread. Two words that are read one after the other may be of two
    /// moments, so a check that fails once may succeed the next time.
    #[cfg(not(loom))]
    pub fn check_from_outside(&self, partitions: usize) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let class = self.class.load(Relaxed) as usize;
        ensure(class < CLASSES, "I1: class")?;
        let class = SizeClass::new(class);
        ensure(self.size() == class.size(), "I1: size")?;
        ensure(self.slot_size.load(Relaxed) as usize == class.size(), "I1: size, for malloc")?;
        ensure(self.multiplier.load(Relaxed) == class.multiplier(), "I1: multiplier")?;
        ensure(self.partition().number() < partitions, "I1: partition")?;
        let slots = self.slots();
        let is_short = !SECURE && 0 < slots && slots < class.slots();
        ensure(slots == class.slots() || is_short, "I1: slots")?;
        for slot in SlotIndex::range(0..SLOTS_MAX) {
            let remote = self.remote_frees().has(slot);
            let state = self.states.of(slot).load(Acquire);
            if slot.number() >= slots {
                ensure(state == NO_SLOT && !remote, "I1: beyond the end")?;
                continue;
            }
            ensure(is_state(state), "I10: no state")?;
            // The thread that collects takes the bit before it changes the state.
            let freed = state == LEFT || state == LIVE || state == REMOTE_CLEAN;
            ensure(!remote || freed || !self.remote_frees().has(slot), "I3: remote but not live")?;
        }
        let states = self.states.address();
        let (claim, at) = (self.claimed(), self.claim_states.load(Relaxed).wrapping_sub(states));
        if claim != 0 && claim == self.claimed() {
            let group = at / GROUP_SLOTS;
            ensure(at % GROUP_SLOTS == 0 && group < GROUPS, "I5: claimed group")?;
            ensure(claim & !valid_bits(slots, group) == 0, "I1: claimed beyond the end")?;
            let remote = self.remote_frees().of_group(group);
            // A claimed slot is handed out before any thread can free it.
            let both = claim & remote & self.claimed();
            ensure(both == 0 || group != self.claimed_group(), "I2: claimed and remote")?;
        }
        Ok(())
    }

    /// Verifies I7 of a slab that no heap owns.
    fn check_unowned(&self) -> Result<(), Violation> {
        if self.is_listed() || self.claimed() != 0 || !self.is_empty() {
            return Err(Violation("I7: nobody's, but in use"));
        }
        Ok(())
    }

    /// Returns a bit for each slot of a group that was never handed out, but may not be zero.
    fn fresh_bits(&self, group: usize) -> u64 {
        (0..GROUP_SLOTS.min(SLOTS_MAX)).fold(0, |bits, bit| {
            let state = self.states.of(SlotIndex::in_group(group, bit as u32)).load(Relaxed);
            bits | u64::from(state == DIRTY_FRESH) << bit
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::states::{FROM_CLAIM, GUARD_PAGE};
    use std::boxed::Box;
    extern crate std;

    #[test]
    fn states_that_there_are_and_no_others() {
        let free = [ZERO_FRESH, DIRTY, DIRTY_FRESH, ZERO_CLEAN];
        for state in (0..=u8::MAX).map(StateByte::new) {
            let plain = free.contains(&state);
            let lent = state.has(LENT) && free.contains(&state.without(LENT));
            let held = state.has(HELD) && free.contains(&state.without(HELD));
            let both = free.map(|free| free.with(HELD).with(LENT)).contains(&state);
            let other = [LIVE, SAMPLED, LEFT, REMOTE_HELD, REMOTE_CLEAN, PERMANENTLY_FREED]
                .contains(&state);
            let reserved =
                [RESERVED, ARMED].into_iter().flat_map(|state| [state, state.with(HELD)]);
            let other = other || SECURE && [BEING_FREED, BEING_MADE].contains(&state);
            let other = other || SECURE && reserved.into_iter().any(|there_is| there_is == state);
            assert_eq!(is_state(state), plain || lent || held || both || other, "{state:?}");
        }
        assert!(is_state(GUARD_PAGE) && !is_state(NO_SLOT));
    }

    /// The check finds each change that a stray write can make.
    #[test]
    fn what_is_written_once_is_verified() {
        let slab = || {
            let slab = Box::new(Slab::zeroed());
            let slots = slab.open_for_test(1 << 30, 512);
            slab.publish(1 << 20, slots);
            slab
        };
        slab().check_from_outside(64).unwrap();
        type Harm = fn(&Slab);
        let damage: [(&str, Harm); 10] = [
            ("I1: class", |slab| slab.class.store(77, Relaxed)),
            ("I1: size", |slab| slab.size.store(513, Relaxed)),
            ("I1: size, for malloc", |slab| slab.slot_size.store(16, Relaxed)),
            ("I1: multiplier", |slab| slab.multiplier.store(1, Relaxed)),
            ("I1: partition", |slab| slab.partition.store(64, Relaxed)),
            ("I1: slots", |slab| slab.slots.store(129, Relaxed)),
            ("I1: beyond the end", |slab| slab.states.of(SlotIndex::new(200)).store(LIVE, Relaxed)),
            ("I10: no state", |slab| {
                slab.states.of(SlotIndex::new(7)).store(StateByte::new(0x42), Relaxed)
            }),
            ("I3: remote but not live", |slab| assert!(slab.remote.set(SlotIndex::new(9)))),
            ("I5: claimed group", |slab| slab.claim.store(1, Relaxed)),
        ];
        for (what, harm) in damage {
            let slab = slab();
            harm(&slab);
            assert_eq!(slab.check_from_outside(64), Err(Violation(what)));
        }
    }

    /// After a fork has stopped a thread, one slot may be claimed and live, and one free may be
    /// uncounted, but not two. The slot that is claimed and live is repaired.
    #[test]
    fn what_a_fork_cut_off_is_known_and_put_right() {
        let slab = Slab::zeroed();
        let slots = slab.open_for_test(1 << 30, 512);
        slab.publish(1 << 20, slots);
        slab.relist();
        assert!(slab.refill(0, |_| ()));
        slab.check().unwrap();
        let claim = slab.claimed();
        let first = SlotIndex::in_group(0, claim.trailing_zeros());
        slab.states.of(first).store(FROM_CLAIM, Relaxed);
        assert_eq!(slab.check(), Err(Violation("I2: claimed and in use")));
        slab.check_cut_off().unwrap();
        let second = SlotIndex::in_group(0, (claim & (claim - 1)).trailing_zeros());
        slab.states.of(second).store(FROM_CLAIM, Relaxed);
        assert_eq!(slab.check_cut_off(), Err(Violation("I2: claimed and in use")));
        slab.take_back_cut_off();
        slab.check().unwrap();
        assert_eq!(slab.claimed(), claim);

        slab.unclaim();
        slab.fresh.store(slots as u16, Relaxed);
        let is_reserved = |slot: &SlotIndex| slab.states.of(*slot).load(Relaxed) == RESERVED;
        let mut every = slab.all_slots().filter(|slot| !is_reserved(slot));
        every.clone().for_each(|slot| slab.states.of(slot).store(LIVE, Relaxed));
        slab.unlist();
        slab.check().unwrap();
        let mut free = || slab.states.of(every.next().unwrap()).store(DIRTY, Relaxed);
        free();
        assert_eq!(slab.check(), Err(Violation("I6: credit")));
        slab.check_cut_off().unwrap();
        free();
        assert_eq!(slab.check_cut_off(), Err(Violation("I6: credit")));
    }
}
