//! Slots that are never handed out, in the hardened build: what is written there was written by
//! mistake.
//!
//! They are chosen when a slab is opened, each with the same chance, and what they carry is written
//! when malloc has come so far in the slab that their pages are in use anyway
//! (`path/secure/reserved.rs`).
//!
//! ```text
//! RESERVED --arm (owner, with its seat)--> ARMED --the slab's pages go--> RESERVED
//!     '------hold------> held <-----hold----'       held --> RESERVED, whether pages went or not
//! ```
//!
//! Both are odd and lent, as a wall is, so malloc, free and lists pass them by. Only what is ARMED
//! is compared. A thread that compares reads the state again before it says that something is
//! wrong, because pages may be going at that moment.

use super::slab::{SLOTS_MAX, Slab};
use super::states::{ARMED, HELD, RESERVED, WALL, ZERO_FRESH};
#[cfg(not(loom))]
use crate::policy::HARDENED;
use crate::policy::{RESERVED_LEAST, RESERVED_SHARE, RESERVED_SIZE_MOST};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

/// Reserved slots of a slab, at most: this many numbers fit beside their count in a word.
pub const RESERVED_MOST: usize = 3;

const _: () = assert!(SLOTS_MAX <= 256 && SLOTS_MAX.div_ceil(RESERVED_SHARE) <= RESERVED_MOST);

impl Slab {
    /// Chooses the reserved slots of a slab that is just being opened, among those that are no
    /// walls. `below` gives a random number below another one.
    pub fn choose_reserved(&self, slots: usize, mut below: impl FnMut(usize) -> usize) {
        let is_left = |slot: &usize| self.state_of(*slot).load(Relaxed) == ZERO_FRESH;
        let left = (0..slots).filter(is_left).count();
        if left < RESERVED_LEAST || self.size() > RESERVED_SIZE_MOST {
            return;
        }
        let count = left.div_ceil(RESERVED_SHARE).min(RESERVED_MOST);
        let mut word = count as u32;
        for number in 0..count {
            // The n-th of those that are left, each as likely as any other.
            let n = below(left - number);
            let Some(slot) = (0..slots).filter(is_left).nth(n) else { return };
            self.state_of(slot).store(RESERVED, Relaxed);
            word |= (slot as u32) << (8 * (number + 1));
        }
        if let Some(reserved) = self.reserved.first() {
            reserved.store(word, Relaxed);
        }
    }

    /// The reserved slots.
    pub fn reserved_slots(&self) -> impl Iterator<Item = usize> + use<> {
        let word = self.reserved.first().map_or(0, |word| word.load(Relaxed));
        let count = (word & 0xFF) as usize;
        (1..=count.min(RESERVED_MOST)).map(move |number| (word >> (8 * number) & 0xFF) as usize)
    }

    /// The reserved slots that should be armed, because malloc has come beyond them. Owner.
    pub fn unarmed_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let fresh = self.fresh.load(Relaxed) as usize;
        let bare = |slot: &usize| self.state_of(*slot).load(Relaxed) == RESERVED;
        self.reserved_slots().filter(move |&slot| slot < fresh).filter(bare)
    }

    /// A reserved slot carries what it must from here on. In vain, where its pages are going.
    pub fn arm(&self, slot: usize) {
        // armed: who finds it so finds what was written.
        let _ = self.state_of(slot).compare_exchange(RESERVED, ARMED, AcqRel, Relaxed);
    }

    /// Whether a reserved slot carries what it must.
    #[inline(always)]
    pub fn is_armed(&self, slot: usize) -> bool {
        // pairs: armed.
        self.states.0.get(slot).is_some_and(|state| state.load(Acquire) == ARMED)
    }

    /// The reserved slots that carry what they must at this moment.
    pub fn armed_slots(&self) -> impl Iterator<Item = usize> + use<> {
        let armed = self.reserved_slots().map(|slot| (slot, self.is_armed(slot)));
        let mut slots = [None; RESERVED_MOST];
        for (place, (slot, is_armed)) in slots.iter_mut().zip(armed) {
            *place = is_armed.then_some(slot);
        }
        slots.into_iter().flatten()
    }

    /// The reserved slots that were armed until they were held. Who holds them.
    pub fn held_armed_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let held = |slot: &usize| self.state_of(*slot).load(Acquire) == ARMED | HELD;
        self.reserved_slots().filter(held)
    }

    /// Which byte of an armed slot is not as it must be, if one is not, by the word that it
    /// carries.
    ///
    /// The slab is not dormant; of a slot that is not armed any more the answer means nothing.
    #[cfg(not(loom))]
    pub fn reserved_damage(&self, slot: usize, carried: u64) -> Option<usize> {
        let begin = self.base() + slot * self.size();
        (begin..begin + self.size()).step_by(size_of::<u64>()).find_map(|address| {
            let word: *const u64 = core::ptr::with_exposed_provenance(address);
            // SAFETY: a word of a slot that is never handed out, of a slab whose pages are mapped;
            // both ends are multiples of 16. A thread that writes there is the mistake that is
            // looked for.
            let wrong = unsafe { word.read_volatile() } ^ carried;
            (wrong != 0).then(|| address - begin + wrong.trailing_zeros() as usize / 8)
        })
    }

    /// Whether an armed slot is not as it must be, by the word that one at an address carries.
    #[cfg(not(loom))]
    pub fn has_reserved_damage(&self, carried: impl Fn(usize) -> u64) -> bool {
        let damaged = |slot: usize| {
            let carried = carried(self.base() + slot * self.size());
            self.is_armed(slot) && self.reserved_damage(slot, carried).is_some()
        };
        HARDENED && self.reserved_slots().any(damaged)
    }

    /// Whether a slot beside this one may be armed. No, where none is; but of some few.
    #[inline(always)]
    pub fn is_beside_armed(&self, slot: usize) -> bool {
        self.may_be_beside_armed(slot) != 0
    }

    /// As `is_beside_armed`, as a number: zero if none is.
    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    pub fn may_be_beside_armed(&self, slot: usize) -> u32 {
        use core::mem::offset_of;
        debug_assert!(slot < SLOTS_MAX);
        let bytes: *const crate::sync::AtomicU8 = (&raw const *self).cast();
        let behind = offset_of!(Slab, states) + slot + 1;
        // SAFETY: bytes of this descriptor: states, or the unused byte before the first, or the one
        // after the last, which is `dense`. All are used as single bytes. pairs: armed.
        let state = |at: usize| u32::from(unsafe { (*bytes.add(at)).load(Acquire) });
        (state(behind) | state(behind - 2)) & u32::from(super::states::ARMED_BIT)
    }

    /// As `is_beside_armed`, where states are no bytes of the descriptor, or that is not checked.
    #[cfg(any(loom, miri))]
    pub fn may_be_beside_armed(&self, slot: usize) -> u32 {
        u32::from(self.is_armed(slot + 1) || self.is_armed(slot.wrapping_sub(1)))
    }

    /// Whether the slot is never handed out, and not held: it is reserved, or a wall takes its
    /// place.
    pub fn is_nobodys_slot(&self, slot: usize) -> bool {
        matches!(self.state_of(slot).load(Relaxed), WALL | RESERVED | ARMED)
    }

    /// Pages between two offsets are about to go: what is on them is compared no more. Holder, with
    /// its seat.
    ///
    /// The reclaimer may have held a slot since the holder has found it free, and may read it when
    /// the holder has left its seat.
    pub(super) fn disarm_within(&self, start: usize, stop: usize) {
        let size = self.size();
        let within = |slot: &usize| slot * size < stop && (slot + 1) * size > start;
        for slot in self.reserved_slots().filter(within) {
            // It is held once at most meanwhile: who lets go of it disarms it.
            for (armed, bare) in [(ARMED, RESERVED), (ARMED | HELD, RESERVED | HELD)] {
                let _ = self.state_of(slot).compare_exchange(armed, bare, AcqRel, Relaxed);
            }
        }
    }

    /// I11: reserved slots are what was chosen, and no others.
    pub(super) fn has_its_reserved(&self) -> bool {
        let is_reserved = |slot: usize| {
            matches!(self.state_of(slot).load(Relaxed) & !(HELD & !1), RESERVED | ARMED)
        };
        let all = (0..self.slots()).filter(|&slot| is_reserved(slot)).count();
        self.reserved_slots().all(is_reserved) && all == self.reserved_slots().count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The holder finds a slot free, the reclaimer holds it, the holder gives its pages back and
    /// leaves its seat, and the reclaimer reads what it holds.
    #[test]
    #[cfg_attr(not(feature = "hardened"), ignore = "only the hardened build has reserved slots")]
    fn what_has_lost_its_pages_is_not_looked_at_where_it_is_held() {
        let slab = Slab::nothing();
        slab.open(1 << 30, 64 << 10, crate::slab::Class::of(256).unwrap(), 0, 0);
        slab.publish(1 << 20, 256);
        slab.choose_reserved(256, |_| 7);
        let slots: std::vec::Vec<usize> = slab.reserved_slots().collect();
        slots.iter().for_each(|&slot| slab.arm(slot));
        assert!(slots.len() > 1 && slots.iter().all(|&slot| slab.hold_slot(slot)));
        assert_eq!(slab.held_armed_slots().count(), slots.len());
        let begin = slots[0] * slab.size();
        slab.disarm_within(begin, begin + 1);
        let held: std::vec::Vec<usize> = slab.held_armed_slots().collect();
        assert!(!held.contains(&slots[0]) && held.len() == slots.len() - 1, "{held:?}");
        slots.iter().for_each(|&slot| slab.let_go_free(slot, false));
        assert!(slab.has_its_reserved() && slab.armed_slots().count() == 0);
    }

    #[test]
    fn the_slots_beside_an_armed_one_are_known() {
        for armed in 0..SLOTS_MAX {
            let slab = Slab::nothing();
            slab.state_of(armed).store(ARMED, Relaxed);
            for slot in 0..SLOTS_MAX {
                assert_eq!(
                    slab.is_beside_armed(slot),
                    slot.abs_diff(armed) == 1,
                    "{slot}, {armed}"
                );
            }
        }
    }
}
