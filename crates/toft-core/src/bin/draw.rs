//! Which of the claimed slots the secure build takes: any, by a generator of the bin's own; and
//! the memory of the one that comes next is fetched meanwhile.

use crate::slab::{GROUP_SLOTS, Slab, SlotIndex, lowest_bit};

/// A slot that malloc has taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// Its slab.
    pub slab: &'a Slab,
    /// Its number there.
    pub slot: SlotIndex,
    /// Where it begins.
    pub address: usize,
    /// How large it is.
    pub bytes: usize,
    /// Where the one begins that is likely to be taken next, or any address.
    pub next: usize,
}

impl Taken<'_> {
    /// Has more of a large slot fetched ahead: malloc will read all of it.
    #[inline(always)]
    pub fn fetch_ahead(&self) {
        FURTHER_LINES.iter().for_each(|&line| prefetch(self.next.wrapping_add(line)));
    }
}

/// Bytes of a slot of which one line is fetched ahead.
pub const FETCHED_BY_LINES: usize = 128;
/// Of larger slots more lines than the first are fetched ahead; the processor sees by these that
/// more will be read.
const FURTHER_LINES: [usize; 3] = [64, 128, 192];

/// Multiplier of a generator of 32 bits, of which the highest are used; each claim seeds it again.
pub(super) const GENERATOR: u32 = 747796405;

/// The slot of one of the bits that are set, the first from a random place on, in the group of
/// another slot.
#[inline(always)]
pub(super) fn draw_from(bits: u64, random: u32, slot: u32) -> usize {
    let turn = random >> 26;
    in_group_of(slot, (lowest_bit(bits.rotate_right(turn)) as u32).wrapping_add(turn))
}

/// Returns the slot in the group of `slot` whose place there is in the lowest bits of `place`.
#[inline(always)]
fn in_group_of(slot: u32, place: u32) -> usize {
    const LOW: u32 = GROUP_SLOTS as u32 - 1;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut result = place as usize;
        // SAFETY: makes one register from another. The compiler takes two instructions more.
        unsafe {
            core::arch::asm!("xor {0:e}, {1:e}", "and {0:e}, {low}", "xor {0:e}, {1:e}",
                inout(reg) result, in(reg) slot, low = const LOW,
                options(pure, nomem, nostack));
        }
        result
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        (slot & !LOW | place & LOW) as usize
    }
}

/// Returns a claim without a slot, or `None` if it does not have the slot.
#[inline(always)]
pub(super) fn claim_without(claim: u64, slot: u32) -> Option<u64> {
    if claim >> (slot % GROUP_SLOTS as u32) & 1 == 0 {
        return None;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut rest = claim;
        // SAFETY: clears a bit of a register, by the lowest bits of another. The compiler makes the
        // bit before it tests it, by four instructions more.
        unsafe {
            core::arch::asm!("btr {0}, {1:r}", inout(reg) rest, in(reg) slot,
                options(pure, nomem, nostack));
        }
        Some(rest)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    Some(claim & !(1 << (slot % GROUP_SLOTS as u32)))
}

/// `reference`, worked out once: the compiler would work it out again for each of several uses.
#[inline(always)]
pub(super) fn once<T>(reference: &'static T) -> &'static T {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut address = (&raw const *reference).expose_provenance();
        // SAFETY: does nothing; the address is what it was.
        unsafe {
            core::arch::asm!("/* {0} */", inout(reg) address,
                options(pure, nomem, nostack, preserves_flags));
            &*core::ptr::with_exposed_provenance(address)
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    reference
}

/// Has the memory at an address fetched, if there is any.
#[inline(always)]
pub(super) fn prefetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: changes nothing that can be told, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::with_exposed_provenance(address));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
