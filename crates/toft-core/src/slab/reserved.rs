//! Reserved slots, which are never handed out, in the secure build. Each write to one is a
//! mistake.
//!
//! The slots are chosen when a slab is opened, each with the same chance. Their pattern is written
//! when malloc has passed them, because their pages are then in use anyway
//! (`watch/slot_checks/reserved.rs`).
//!
//! ```text
//! RESERVED -----------arm-----------> ARMED --the slab's pages go--> RESERVED
//!     '----hold----> held <-----hold----'     held --> RESERVED, whether pages went or not
//! ```
//!
//! The owner arms a slot while it holds its heap's reentrancy guard.
//!
//! Both states are odd and lent, like that of a guard page, so malloc, free and the lists skip
//! these slots. Only ARMED slots are compared. A thread that compares reads the state again before
//! it reports damage, because pages may be given back at that moment.

use super::slab::{SLOTS_MAX, Slab, view};
use super::slots::SlotIndex;
use super::states::{ARMED, ARMED_BIT, GUARD_PAGE, HELD, LENT, RESERVED, TAKEN, ZERO_FRESH};
#[cfg(not(loom))]
use crate::policy::SECURE;
use crate::policy::{RESERVED_LEAST, RESERVED_SHARE, RESERVED_SIZE_MOST};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

/// The maximum number of reserved slots in a slab: their numbers fit beside their count in a word.
pub const RESERVED_MOST: usize = 3;

const _: () = assert!(SLOTS_MAX <= 256 && SLOTS_MAX.div_ceil(RESERVED_SHARE) <= RESERVED_MOST);

/// The states of the slots before and after a slot. The byte beside the states stands for a slot
/// that the slab does not have.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    before: u32,
    after: u32,
}

impl Beside {
    /// Returns a number that is not zero if one of the slots may be armed. A few results are not
    /// zero although none is.
    #[inline(always)]
    pub fn may_be_armed(self) -> u32 {
        (self.before | self.after) & u32::from(ARMED_BIT)
    }

    /// Returns zero if the slot before may have a canary, and another number below 2^8 if it is
    /// free or reserved, or a guard page takes its place. Held slots may have one.
    #[inline(always)]
    pub fn has_no_canary_before(self) -> u32 {
        // LENT contains TAKEN.
        self.before & u32::from(LENT.bits()) ^ u32::from(TAKEN.bits())
    }
}

view! {
    /// The reserved slots of a slab.
    ReservedSlots, reserved
}

impl ReservedSlots<'_> {
    /// Chooses the reserved slots of a slab that is being opened, among those that are not guard
    /// pages. `below` returns a random number below its argument.
    pub fn choose(&self, slots: usize, mut below: impl FnMut(usize) -> usize) {
        let is_left = |slot: &SlotIndex| self.states.of(*slot).load(Relaxed) == ZERO_FRESH;
        let left = SlotIndex::range(0..slots).filter(is_left).count();
        if left < RESERVED_LEAST || self.size() > RESERVED_SIZE_MOST {
            return;
        }
        let count = left.div_ceil(RESERVED_SHARE).min(RESERVED_MOST);
        let mut word = count as u32;
        for number in 0..count {
            // The n-th of the slots that are left, each with the same chance.
            let n = below(left - number);
            let Some(slot) = SlotIndex::range(0..slots).filter(is_left).nth(n) else { return };
            self.states.of(slot).store(RESERVED, Relaxed);
            word |= (slot.number() as u32) << (8 * (number + 1));
        }
        if let Some(reserved) = self.reserved.first() {
            reserved.store(word, Relaxed);
        }
    }

    /// Returns the reserved slots.
    pub fn all(&self) -> impl Iterator<Item = SlotIndex> + use<> {
        let word = self.reserved.first().map_or(0, |word| word.load(Relaxed));
        let count = (word & 0xFF) as usize;
        (1..=count.min(RESERVED_MOST))
            .map(move |number| SlotIndex::new((word >> (8 * number) & 0xFF) as usize))
    }

    /// Returns the reserved slots that must be armed, because malloc has passed them. Owner only.
    pub fn unarmed(self) -> impl Iterator<Item = SlotIndex> {
        let fresh = self.fresh.load(Relaxed) as usize;
        let bare = move |slot: &SlotIndex| self.states.of(*slot).load(Relaxed) == RESERVED;
        self.all().filter(move |slot| slot.number() < fresh).filter(bare)
    }

    /// Marks a reserved slot as armed: it carries its pattern. Has no effect if its pages are being
    /// given back.
    pub fn arm(&self, slot: SlotIndex) {
        // armed: a thread that reads ARMED sees the pattern that was written.
        let _ = self.states.of(slot).exchange(RESERVED, ARMED, AcqRel, Relaxed);
    }

    /// Returns true if a reserved slot carries its pattern.
    #[inline(always)]
    pub fn is_armed(&self, slot: SlotIndex) -> bool {
        // pairs: armed.
        self.states.get(slot).is_some_and(|state| state.load(Acquire) == ARMED)
    }

    /// Returns the reserved slots that carry their pattern at this moment.
    pub fn armed(&self) -> impl Iterator<Item = SlotIndex> + use<> {
        let armed = self.all().map(|slot| (slot, self.is_armed(slot)));
        let mut slots = [None; RESERVED_MOST];
        for (place, (slot, is_armed)) in slots.iter_mut().zip(armed) {
            *place = is_armed.then_some(slot);
        }
        slots.into_iter().flatten()
    }

    /// Returns the reserved slots that were armed until they were held. Called by the holding
    /// thread.
    pub fn held_armed(self) -> impl Iterator<Item = SlotIndex> {
        let held = move |slot: &SlotIndex| self.states.of(*slot).load(Acquire) == ARMED.with(HELD);
        self.all().filter(held)
    }

    /// Returns the offset of the first byte of an armed slot that is damaged, if one is. `carried`
    /// is the word that the slot's pattern repeats.
    ///
    /// The slab is not dormant. If the slot is not armed any more, the result is meaningless.
    #[cfg(not(loom))]
    pub fn damage(&self, slot: SlotIndex, carried: u64) -> Option<usize> {
        let begin = self.slot_address(slot);
        (begin..begin + self.size()).step_by(size_of::<u64>()).find_map(|address| {
            let word: *const u64 = core::ptr::with_exposed_provenance(address);
            // SAFETY: a word of a slot that is never handed out, of a slab whose pages are mapped;
            // both ends are multiples of 16. A write by another thread is the mistake that this
            // function looks for.
            let wrong = unsafe { word.read_volatile() } ^ carried;
            (wrong != 0).then(|| address - begin + wrong.trailing_zeros() as usize / 8)
        })
    }

    /// Returns true if an armed slot is damaged. `carried` returns the word that the pattern of the
    /// slot at an address repeats.
    #[cfg(not(loom))]
    pub fn has_damage(&self, carried: impl Fn(usize) -> u64) -> bool {
        let damaged = |slot: SlotIndex| {
            let carried = carried(self.slot_address(slot));
            self.is_armed(slot) && self.damage(slot, carried).is_some()
        };
        SECURE && self.all().any(damaged)
    }

    /// Returns the states of the slots beside this one.
    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    pub fn beside(&self, slot: SlotIndex) -> Beside {
        use core::mem::offset_of;
        debug_assert!(slot.number() < SLOTS_MAX);
        let bytes: *const crate::sync::AtomicU8 = (&raw const *self.0).cast();
        let after = offset_of!(Slab, states) + slot.number() + 1;
        // SAFETY: bytes of this descriptor: states, or the unused byte before the first or after
        // the last. All are used as single bytes. pairs: armed.
        let state = |at: usize| u32::from(unsafe { (*bytes.add(at)).load(Acquire) });
        Beside { before: state(after - 2), after: state(after) }
    }

    /// Returns the states of the slots beside this one. States are not bytes of the descriptor
    /// here, or that is not checked.
    #[cfg(any(loom, miri))]
    pub fn beside(&self, slot: SlotIndex) -> Beside {
        // pairs: armed.
        let state = |slot| self.states.get(slot).map_or(0, |state| state.load(Acquire).bits());
        let [before, after] = slot.beside().map(|slot| u32::from(state(slot)));
        Beside { before, after }
    }

    /// Returns true if the slot is never handed out and not held: it is reserved, or a guard page
    /// takes its place.
    pub fn is_never_handed_out(&self, slot: SlotIndex) -> bool {
        matches!(self.states.of(slot).load(Relaxed), GUARD_PAGE | RESERVED | ARMED)
    }

    /// Disarms the reserved slots on the pages between two offsets, which are about to be given
    /// back. The slots are not compared any more. Holder, with its reentrancy guard.
    ///
    /// The reclaimer may have held a slot since the holder found it free, and may read it after the
    /// holder has dropped the reentrancy guard.
    pub(super) fn disarm_within(&self, start: usize, stop: usize) {
        let size = self.size();
        let within = |slot: &SlotIndex| slot.begin(size) < stop && slot.end(size) > start;
        for slot in self.all().filter(within) {
            // The slot is held at most once meanwhile, and the thread that releases it disarms it.
            for (armed, bare) in [(ARMED, RESERVED), (ARMED.with(HELD), RESERVED.with(HELD))] {
                let _ = self.states.of(slot).exchange(armed, bare, AcqRel, Relaxed);
            }
        }
    }

    /// Returns true if the reserved slots are exactly those that were chosen (I11).
    pub(super) fn are_as_chosen(&self) -> bool {
        let is_reserved = |slot: SlotIndex| {
            let state = self.states.of(slot).load(Relaxed);
            matches!(state.without(HELD.without(TAKEN)), RESERVED | ARMED)
        };
        let all = self.all_slots().filter(|&slot| is_reserved(slot)).count();
        self.all().all(is_reserved) && all == self.all().count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The holder finds a slot free, and the reclaimer holds it. The holder gives the slot's pages
    /// back and drops its reentrancy guard, and then the reclaimer reads what it holds.
    #[test]
    #[cfg_attr(not(feature = "secure-light"), ignore = "only the secure build has reserved slots")]
    fn what_has_lost_its_pages_is_not_looked_at_where_it_is_held() {
        let slab = Slab::zeroed();
        slab.open_for_test(1 << 30, 256);
        slab.publish(1 << 20, 256);
        slab.reserved().choose(256, |_| 7);
        let slots: std::vec::Vec<_> = slab.reserved().all().collect();
        slots.iter().for_each(|&slot| slab.reserved().arm(slot));
        assert!(slots.len() > 1 && slots.iter().all(|&slot| slab.pinning().hold_slot(slot)));
        assert_eq!(slab.reserved().held_armed().count(), slots.len());
        let begin = slots[0].begin(slab.size());
        slab.reserved().disarm_within(begin, begin + 1);
        let held: std::vec::Vec<_> = slab.reserved().held_armed().collect();
        assert!(!held.contains(&slots[0]) && held.len() == slots.len() - 1, "{held:?}");
        slots.iter().for_each(|&slot| slab.pinning().unhold_free(slot, false));
        assert!(slab.reserved().are_as_chosen() && slab.reserved().armed().count() == 0);
    }

    #[test]
    fn the_slots_beside_an_armed_one_are_known() {
        for armed in 0..SLOTS_MAX {
            let slab = Slab::zeroed();
            slab.states.of(SlotIndex::new(armed)).store(ARMED, Relaxed);
            for slot in 0..SLOTS_MAX {
                assert_eq!(
                    slab.reserved().beside(SlotIndex::new(slot)).may_be_armed() != 0,
                    slot.abs_diff(armed) == 1,
                    "{slot}, {armed}"
                );
            }
        }
    }

    /// A canary may be before a slot if the program has the slot before it, or had it and the slot
    /// is not free yet.
    #[test]
    fn a_canary_is_before_a_slot_only_if_that_one_may_be_in_use() {
        use crate::slab::states::{
            BEING_FREED, BEING_MADE, DIRTY, DIRTY_FRESH, LIVE, PERMANENTLY_FREED, QUARANTINED,
            REMOTE_CLEAN, REMOTE_HELD, SAMPLED, ZERO_CLEAN,
        };
        let slab = Slab::zeroed();
        let has_canary = |state| {
            slab.states.of(SlotIndex::new(6)).store(state, Relaxed);
            slab.reserved().beside(SlotIndex::new(7)).has_no_canary_before() == 0
        };
        for state in [ZERO_FRESH, DIRTY, DIRTY_FRESH, ZERO_CLEAN, GUARD_PAGE, RESERVED, ARMED] {
            assert!(!has_canary(state), "{state:?}");
        }
        let freed = [QUARANTINED, BEING_FREED, REMOTE_HELD, REMOTE_CLEAN, PERMANENTLY_FREED];
        for state in [LIVE, SAMPLED, BEING_MADE].into_iter().chain(freed) {
            assert!(has_canary(state), "{state:?}");
        }
    }
}
