//! The state byte of a slot, and reads of 64 states at a time.
//!
//! ```text
//! bit                7  6  5  4  3  2 1  0
//! ZERO_FRESH         .  .  .  .  .  . .  .   free: never handed out, zero
//! DIRTY              .  .  .  .  .  . 1  .   free: freed, perhaps not zero
//! ZERO_CLEAN         .  .  .  .  .  1 .  .   free: freed, zero again
//! DIRTY_FRESH        .  .  .  .  .  1 1  .   free: never handed out, perhaps not zero
//! free | HELD        .  .  .  .  1  x x  1   the reclaimer gives its pages back
//! free | LENT        .  .  1  .  .  x x  1   another slab has its memory
//! LIVE               .  .  .  .  .  . .  1   the program has it
//! SAMPLED            1  .  .  .  .  . .  1   as LIVE; its free is reported
//! REMOTE_HELD        .  .  .  1  .  . .  1   freed by another thread; its pages are given back
//! REMOTE_CLEAN       .  .  .  1  .  . 1  1   freed by another thread, zero
//! PERMANENTLY_FREED  1  .  .  1  .  . 1  1   never handed out again
//! NO_SLOT            .  .  .  .  .  . 1  1   after the last slot
//!                    secure build only
//! BEING_MADE         .  1  .  .  .  . .  1   taken for malloc, and no block yet
//! QUARANTINED        .  1  .  1  .  . 1  1   freed by the program, and not free yet
//! BEING_FREED        1  1  .  1  .  . 1  1   another thread is freeing it
//! GUARD_PAGE         .  .  1  .  .  . .  1   ZERO_FRESH | LENT
//! RESERVED           .  1  1  .  .  . .  1   never handed out
//! ARMED              1  1  1  .  .  . 1  1   never handed out, carries its pattern
//! bit                7  6  5  4  3  2 1  0
//!                          |  |  |    |  TAKEN: not free
//!                          |  |  |    SOILED, if free: its memory may not be zero
//!                          |  |  HELD, with TAKEN
//!                          |  the program has freed it, and it is not free
//!                          LENT, with TAKEN
//! ```

use super::slab::{GROUP_SLOTS, SLOTS_MAX};
use super::slots::SlotIndex;
use crate::policy::SECURE;
use crate::sync::{AtomicU8, Ordering, Settled};

/// The state of a slot, as drawn above, or some of the bits.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct StateByte(u8);

impl StateByte {
    /// Returns any byte as a state, for tests.
    #[cfg(all(test, not(loom)))]
    pub(super) const fn new(bits: u8) -> StateByte {
        StateByte(bits)
    }

    /// Returns the byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns true if all of these bits are set.
    #[inline(always)]
    pub const fn has(self, bits: StateByte) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Returns the state with these bits set.
    #[inline(always)]
    pub const fn with(self, bits: StateByte) -> StateByte {
        StateByte(self.0 | bits.0)
    }

    /// Returns the state with these bits cleared.
    #[inline(always)]
    pub const fn without(self, bits: StateByte) -> StateByte {
        StateByte(self.0 & !bits.0)
    }
}

impl core::fmt::Debug for StateByte {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#010b}", self.0)
    }
}

/// Where the state of a slot is. The operations are those of an atomic byte.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(transparent)]
pub struct StateCell(AtomicU8);

#[allow(missing_docs)]
impl StateCell {
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> StateByte {
        StateByte(self.0.load(order))
    }

    #[inline(always)]
    pub fn store(&self, state: StateByte, order: Ordering) {
        self.0.store(state.0, order);
    }

    /// Changes `from` to `to`. Returns false if the state was another.
    #[inline(always)]
    pub fn exchange(&self, from: StateByte, to: StateByte, done: Ordering, not: Ordering) -> bool {
        self.0.compare_exchange(from.0, to.0, done, not).is_ok()
    }

    /// Stores a state while another thread may exchange it.
    ///
    /// The model checker keeps no total order of the values of one location. It lets an exchange
    /// succeed on a value that a plain store has replaced, and takes the result for newer than the
    /// store. No processor does that, and the language forbids it. The checker orders two
    /// exchanges, so the store is an exchange there.
    #[inline(always)]
    pub fn store_beside_exchanges(&self, state: StateByte) {
        #[cfg(not(loom))]
        self.0.store(state.0, Ordering::Relaxed);
        #[cfg(loom)]
        self.0.swap(state.0, Ordering::Relaxed);
    }

    /// # Safety
    /// 1. As for [`Settled::settled`].
    #[inline(always)]
    pub unsafe fn settled(&self) -> StateByte {
        // SAFETY: duty 1.
        StateByte(unsafe { self.0.settled() })
    }
}

/// The slot was never handed out, and its memory is zero.
pub const ZERO_FRESH: StateByte = StateByte(0);
/// The program has the slot.
pub const LIVE: StateByte = StateByte(1);
/// The program has the slot, and its allocation was sampled. The freeing thread also reports the
/// free, and makes the slot LIVE first. Checks of single bits do not tell it from LIVE.
pub const SAMPLED: StateByte = LIVE.with(SAMPLED_BIT);
/// The bit that is set in SAMPLED and not in LIVE.
pub const SAMPLED_BIT: StateByte = StateByte(0x80);
/// There is no such slot. Odd like LIVE, so one bit separates claimable slots from all others.
pub const NO_SLOT: StateByte = StateByte(3);
/// The slot was freed, and its memory may not be zero.
pub const DIRTY: StateByte = StateByte(2);
/// The slot was never handed out, but its memory may not be zero: its page came from another slab,
/// or was prefaulted.
pub const DIRTY_FRESH: StateByte = StateByte(6);
/// The slot was freed, and its pages were given back since: its memory is zero again.
pub const ZERO_CLEAN: StateByte = StateByte(4);

/// Malloc has taken the slot, and has not written its canary yet; LIVE follows. If malloc never
/// goes on, because its thread exited or a handler jumped out of it, the slot stays so. Checks of
/// single bits do not tell it from LIVE. Secure build only.
pub const BEING_MADE: StateByte = StateByte(0x41);
/// The state of a slot that malloc takes from a claim.
pub const FROM_CLAIM: StateByte = if SECURE { BEING_MADE } else { LIVE };
/// The program has freed the slot, and it is not free yet: it is in a quarantine, or marked in its
/// slab by another thread. Secure build only.
pub const QUARANTINED: StateByte = StateByte(0x53);
/// A thread that is not the owner is freeing the slot; QUARANTINED follows. Secure build only.
pub const BEING_FREED: StateByte = StateByte(0x80 | QUARANTINED.0);
/// The state of a slot that the program has freed, at the moment when it becomes free.
pub const LEFT: StateByte = if SECURE { QUARANTINED } else { LIVE };

/// Set in the state of a free slot whose pages the reclaimer is giving back. No thread may claim
/// the slot.
pub const HELD: StateByte = StateByte(1 << HELD_BIT | TAKEN.0);
const HELD_BIT: u32 = 3;
/// Another thread has freed the slot. The reclaimer has taken the remote bit, and is giving the
/// slot's pages back.
pub const REMOTE_HELD: StateByte = StateByte(0x11);
/// Another thread has freed the slot, and its pages were given back: the owner will find it zero.
pub const REMOTE_CLEAN: StateByte = StateByte(0x13);
const REMOTE_BIT: u32 = 4;

/// The slot was freed permanently, and is never handed out again. Like a slot that another thread
/// has freed and that is never collected, it counts as neither free nor live. Its memory is zero,
/// and its pages are given back together with those around it.
pub const PERMANENTLY_FREED: StateByte = StateByte(0x93);

/// Set in the state of a free slot whose memory another slab uses. No thread may claim the slot.
pub const LENT: StateByte = StateByte(1 << LENT_BIT | TAKEN.0);
const LENT_BIT: u32 = 5;

/// The state of a slot whose place a guard page takes: as if its memory were lent permanently. The
/// secure build has guard pages, and does not compact.
pub const GUARD_PAGE: StateByte = ZERO_FRESH.with(LENT);

/// The state of a slot that is never handed out, in the secure build (`reserved.rs`). It counts as
/// lent, like GUARD_PAGE.
pub const RESERVED: StateByte = StateByte(0x40 | LENT.0);
/// The state of a reserved slot that carries its pattern, so its memory is not zero.
pub const ARMED: StateByte = StateByte(ARMED_BIT | RESERVED.0 | SOILED.0);
/// The bit that separates ARMED from most other states. No frequent state has it.
pub const ARMED_BIT: u8 = 0x80;

/// The number of the bit that is set in a state if the slot is not free.
const TAKEN_BIT: u32 = 0;
pub const TAKEN: StateByte = StateByte(1 << TAKEN_BIT);
/// The number of the bit that is set in a free slot's state if its memory may not be zero.
const DIRTY_BIT: u32 = 1;
pub const SOILED: StateByte = StateByte(1 << DIRTY_BIT);

/// Returns the state of a lent slot without LENT, and any other state unchanged.
pub fn free_state(state: StateByte) -> StateByte {
    if SECURE && state.has(RESERVED) {
        // Reserved: never handed out.
        return ZERO_FRESH;
    }
    if state.has(LENT) { state.without(LENT) } else { state }
}

/// The bits of a state that tell whether the slot is in use: exactly TAKEN is set then.
#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
const KINDS: StateByte = HELD.with(LENT);

/// Returns a vector of 16 equal states.
#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
#[inline(always)]
fn sixteen(state: StateByte) -> core::arch::x86_64::__m128i {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { core::arch::x86_64::_mm_set1_epi8(state.0 as i8) }
}

/// The bits of a group that have states: all, except under the model checker.
const GROUP_BITS: u64 = u64::MAX >> (64 - if SLOTS_MAX < 64 { SLOTS_MAX } else { 64 });

/// The state of each slot of a slab.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct States([StateCell; SLOTS_MAX]);

impl States {
    /// Returns the state of a slot, without code that may panic. Slot numbers come from `slot_at`,
    /// or from a loop over the slots that exist.
    #[inline(always)]
    pub(super) fn of(&self, slot: SlotIndex) -> &StateCell {
        debug_assert!(slot.number() < SLOTS_MAX);
        // SAFETY: no slab has more than SLOTS_MAX slots.
        unsafe { self.0.get_unchecked(slot.number()) }
    }

    /// Returns the state of a slot, if there can be such a slot.
    #[inline(always)]
    pub(super) fn get(&self, slot: SlotIndex) -> Option<&StateCell> {
        self.0.get(slot.number())
    }

    /// Returns the address of the first state.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Changes every state of the first `slots` slots that is `from` to `to`. Holder of the owning
    /// heap only, with no slot live.
    #[inline(never)]
    pub(super) fn change(&self, slots: usize, from: StateByte, to: StateByte) {
        debug_assert!(from != LIVE && to != LIVE);
        for state in self.0.iter().take(slots) {
            if state.load(Ordering::Relaxed) == from {
                state.store(to, Ordering::Relaxed);
            }
        }
    }

    /// Returns a bit for each slot of a group that is free.
    #[inline(always)]
    pub(super) fn free_bits(&self, group: usize) -> u64 {
        !self.bits::<{ TAKEN_BIT }>(group) & GROUP_BITS
    }

    /// Returns a bit for each slot of a group that is free and may not be zero.
    #[inline(always)]
    pub(super) fn dirty_bits(&self, group: usize) -> u64 {
        self.bits::<{ DIRTY_BIT }>(group) & self.free_bits(group)
    }

    /// Returns a bit for each free slot of a group that was never handed out. A slot that is held
    /// or lent does not count.
    pub(super) fn fresh_bits(&self, group: usize) -> u64 {
        const CLEAN_BIT: u32 = ZERO_CLEAN.0.trailing_zeros();
        // Never handed out are the states with both of these bits or none.
        let handed_out = self.bits::<{ DIRTY_BIT }>(group) ^ self.bits::<CLEAN_BIT>(group);
        self.free_bits(group) & !handed_out
    }

    /// Returns a bit for each free slot of a group that may not be zero, whether held or not. The
    /// bits of other slots are meaningless. For slots that were free a moment ago, and may be held
    /// or released meanwhile.
    #[inline(always)]
    pub(super) fn soiled_bits(&self, group: usize) -> u64 {
        self.bits::<{ DIRTY_BIT }>(group)
    }

    /// Returns a bit for each held slot of a group, except those that other threads have freed.
    #[inline(always)]
    pub(super) fn held_bits(&self, group: usize) -> u64 {
        self.bits::<{ HELD_BIT }>(group)
    }

    /// Returns a bit for each slot of a group that another thread has freed and the reclaimer
    /// holds.
    #[inline(always)]
    pub(super) fn remote_held_bits(&self, group: usize) -> u64 {
        self.bits::<{ REMOTE_BIT }>(group) & !self.bits::<{ DIRTY_BIT }>(group)
    }

    /// Returns a bit for each slot of a group that is lent.
    #[inline(always)]
    pub(super) fn lent_bits(&self, group: usize) -> u64 {
        self.bits::<{ LENT_BIT }>(group)
    }

    /// Returns a bit for each slot of a group that the program has, or that another thread has
    /// freed and the reclaimer has not taken. The bits beyond the last slot are set, too.
    #[inline(always)]
    pub(super) fn live_bits(&self, group: usize) -> u64 {
        !self.idle_bits(group) & !self.bits::<{ REMOTE_BIT }>(group)
    }

    /// Returns bit `BIT` of each of a group's states. If another thread changes a state meanwhile,
    /// its bit is that of the old or the new state.
    ///
    /// It reads 16 states at a time: twelve instructions for the 64, and no branch.
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    #[inline(always)]
    fn bits<const BIT: u32>(&self, group: usize) -> u64 {
        debug_assert!(group * GROUP_SLOTS < SLOTS_MAX);
        let states = self.0.as_ptr().wrapping_add(group * GROUP_SLOTS);
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: reads the 64 states of a group, aligned to 64. Rust has no atomic load of a
        // vector. Each byte read here is a value that its state has had, as by a Relaxed load. A
        // state may change meanwhile if the reader is not the owner (statistics), or if the
        // reclaimer holds a slot. The reclaimer waits until the reader has finished. Shifting
        // 16-bit lanes left by 7 - BIT moves bit BIT of each byte to the byte's top, which is what
        // pmovmskb collects.
        unsafe {
            core::arch::asm!(
                "movdqa {x}, xmmword ptr [{p}]",
                "psllw {x}, {shift}",
                "pmovmskb {a:e}, {x}",
                "movdqa {x}, xmmword ptr [{p} + 16]",
                "psllw {x}, {shift}",
                "pmovmskb {b:e}, {x}",
                "movdqa {x}, xmmword ptr [{p} + 32]",
                "psllw {x}, {shift}",
                "pmovmskb {c:e}, {x}",
                "movdqa {x}, xmmword ptr [{p} + 48]",
                "psllw {x}, {shift}",
                "pmovmskb {d:e}, {x}",
                p = in(reg) states,
                x = out(xmm_reg) _,
                a = out(reg) a,
                b = out(reg) b,
                c = out(reg) c,
                d = out(reg) d,
                shift = const 7 - BIT,
                options(nostack, preserves_flags, readonly),
            );
        }
        u64::from(a | b << 16) | u64::from(c | d << 16) << 32
    }

    /// Returns bit `BIT` of each of a group's states, read one state at a time.
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    fn bits<const BIT: u32>(&self, group: usize) -> u64 {
        let states = self.0.iter().skip(group * GROUP_SLOTS).take(GROUP_SLOTS);
        states.rev().fold(0, |bits, state| {
            let bit = state.load(Ordering::Relaxed).bits() >> BIT & 1;
            bits << 1 | u64::from(bit)
        })
    }

    /// Returns a bit for each slot of a group that is free, whether held, lent or neither. Each
    /// state is read once, so a slot that the reclaimer begins to hold or releases meanwhile is not
    /// missed.
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    #[inline(always)]
    pub(super) fn idle_bits(&self, group: usize) -> u64 {
        let in_use = |first: usize| -> u64 {
            debug_assert!(group * GROUP_SLOTS + first < SLOTS_MAX);
            let states = self.0.as_ptr().wrapping_add(group * GROUP_SLOTS + first);
            let bits: u32;
            // SAFETY: as in `bits`, of 16 states.
            unsafe {
                core::arch::asm!(
                    "movdqa {x}, xmmword ptr [{p}]",
                    "pand {x}, {kinds}",
                    "pcmpeqb {x}, {taken}",
                    "pmovmskb {bits:e}, {x}",
                    p = in(reg) states,
                    x = out(xmm_reg) _,
                    bits = out(reg) bits,
                    kinds = in(xmm_reg) sixteen(KINDS),
                    taken = in(xmm_reg) sixteen(TAKEN),
                    options(pure, nostack, preserves_flags, readonly),
                );
            }
            u64::from(bits)
        };
        !(in_use(0) | in_use(16) << 16 | in_use(32) << 32 | in_use(48) << 48)
    }

    /// Returns the number of slots of the first `groups` groups that are neither free, held nor
    /// lent. The slots beyond the last one count, too.
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    #[inline]
    pub(super) fn in_use(&self, groups: usize) -> u32 {
        debug_assert!(0 < groups && groups * GROUP_SLOTS <= SLOTS_MAX);
        let states = self.0.as_ptr();
        let (low, high): (u64, u64);
        // SAFETY: as in `bits`, of `groups` groups. Each byte of the sum is at most 16. `psadbw`
        // adds the bytes of either half.
        unsafe {
            core::arch::asm!(
                "pxor {sum}, {sum}",
                "2:",
                "movdqa {x}, xmmword ptr [{p}]",
                "movdqa {y}, xmmword ptr [{p} + 16]",
                "pand {x}, {kinds}",
                "pand {y}, {kinds}",
                "pcmpeqb {x}, {taken}",
                "pcmpeqb {y}, {taken}",
                "psubb {sum}, {x}",
                "psubb {sum}, {y}",
                "add {p}, 32",
                "cmp {p}, {end}",
                "jne 2b",
                "pxor {x}, {x}",
                "psadbw {sum}, {x}",
                "movq {low}, {sum}",
                "psrldq {sum}, 8",
                "movq {high}, {sum}",
                p = inout(reg) states => _,
                end = in(reg) states.wrapping_add(groups * GROUP_SLOTS),
                sum = out(xmm_reg) _,
                x = out(xmm_reg) _,
                y = out(xmm_reg) _,
                kinds = in(xmm_reg) sixteen(KINDS),
                taken = in(xmm_reg) sixteen(TAKEN),
                low = out(reg) low,
                high = out(reg) high,
                options(pure, nostack, readonly),
            );
        }
        (low + high) as u32
    }

    /// Returns the number of slots in use, read one state at a time.
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    pub(super) fn in_use(&self, groups: usize) -> u32 {
        (0..groups).map(|group| (!self.idle_bits(group) & GROUP_BITS).count_ones()).sum()
    }

    /// Returns the idle bits, read one state at a time.
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    pub(super) fn idle_bits(&self, group: usize) -> u64 {
        let states = self.0.iter().skip(group * GROUP_SLOTS).take(GROUP_SLOTS);
        states.rev().fold(0, |bits, state| {
            let state = state.load(Ordering::Relaxed);
            let idle = !state.has(TAKEN) || state.has(HELD) || state.has(LENT);
            bits << 1 | u64::from(idle)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slab::Slab;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn bits_are_those_of_the_states() {
        let slab = Slab::zeroed();
        for slot in 0..SLOTS_MAX {
            let state = [ZERO_FRESH, LIVE, DIRTY, ZERO_CLEAN, NO_SLOT][slot * slot / 7 % 5];
            slab.states.of(SlotIndex::new(slot)).store(state, Relaxed);
        }
        for slot in 0..SLOTS_MAX {
            let (group, bit) = (slot / GROUP_SLOTS, slot % GROUP_SLOTS);
            let state = slab.states.of(SlotIndex::new(slot)).load(Relaxed);
            let taken = state == LIVE || state == NO_SLOT;
            assert_eq!(slab.states.free_bits(group) >> bit & 1 == 0, taken, "{slot}");
            assert_eq!(slab.states.dirty_bits(group) >> bit & 1 == 1, state == DIRTY, "{slot}");
        }
    }

    #[test]
    fn idle_is_what_is_free_held_or_lent() {
        let free = [ZERO_FRESH, DIRTY, ZERO_CLEAN, DIRTY_FRESH];
        let taken = [LIVE, NO_SLOT, REMOTE_HELD, REMOTE_CLEAN];
        let all = |slot: usize| match (slot % 4, slot / 4 % 4) {
            (0, kind) => (free[kind], true),
            (1, kind) => (free[kind].with(HELD), true),
            (2, kind) => (free[kind].with(LENT), true),
            (_, kind) => (taken[kind], false),
        };
        let slab = Slab::zeroed();
        for shift in 0..16 {
            for slot in 0..SLOTS_MAX {
                slab.states.of(SlotIndex::new(slot)).store(all(slot * 7 + shift).0, Relaxed);
            }
            for slot in 0..SLOTS_MAX {
                let (group, bit) = (slot / GROUP_SLOTS, slot % GROUP_SLOTS);
                let idle = slab.states.idle_bits(group) >> bit & 1 == 1;
                assert_eq!(idle, all(slot * 7 + shift).1, "{slot}");
            }
        }
    }

    /// A slot may become held between two reads of its state, of which the first found it free.
    #[test]
    fn a_slot_that_is_held_is_as_dirty_as_before() {
        let slab = Slab::zeroed();
        let free = [ZERO_FRESH, DIRTY, ZERO_CLEAN, DIRTY_FRESH];
        for slot in 0..SLOTS_MAX {
            slab.states.of(SlotIndex::new(slot)).store(free[slot % free.len()].with(HELD), Relaxed);
        }
        for slot in 0..SLOTS_MAX {
            let (group, bit) = (slot / GROUP_SLOTS, slot % GROUP_SLOTS);
            assert_eq!(slab.states.free_bits(group) >> bit & 1, 0);
            assert_eq!(slab.states.soiled_bits(group) >> bit & 1, slot as u64 % 2, "{slot}");
            assert_eq!(slab.states.held_bits(group) >> bit & 1, 1);
        }
    }
}
