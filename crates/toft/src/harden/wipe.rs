//! Clearing a slot, and finding what was written to it since.
//!
//! Slots are multiples of 16 bytes. Those of 64 and more are walked in steps of 64 bytes, and the last step ends
//! where the slot ends, over what the one before it may have done already: so there is one loop, whose
//! number of turns follows from the size class alone, and nothing left over. Shorter ones take
//! three steps of 16, which may be the same.

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Bytes that are looked at together: what is zero already is not written, so that a page that
/// nobody has touched stays away.
const CHUNK: usize = 4096;
/// Bytes of a step.
const STEP: usize = 64;
/// Bytes of the steps of a short slot.
const SHORT: usize = 16;

/// Makes `len` bytes zero.
///
/// # Safety
/// 1. The range is mapped, nobody else uses it, and both ends are multiples of 16; it is not empty.
#[inline(always)]
pub unsafe fn wipe(address: usize, len: usize) {
    // SAFETY: duty 1.
    unsafe {
        if len < STEP {
            clear_short(address, len);
        } else if len <= CHUNK {
            clear(address, len);
        } else {
            wipe_long(address, len);
        }
    }
}

/// # Safety
/// 1. As for `wipe`, of more than a chunk.
#[inline(never)]
unsafe fn wipe_long(address: usize, len: usize) {
    let mut at = address;
    let end = address + len;
    while at < end {
        // Not less than a step is left for the last.
        let bytes = if end - at < CHUNK + STEP { end - at } else { CHUNK };
        // SAFETY: duty 1, of a part of the range.
        unsafe {
            if !is_zero_long(at, bytes) {
                clear(at, bytes);
            }
        }
        at += bytes;
    }
}

/// Whether so many bytes are zero.
///
/// # Safety
/// 1. As for `wipe`, but others may write to it: then it may be either.
#[inline(always)]
pub unsafe fn is_zero(address: usize, len: usize) -> bool {
    // SAFETY: duty 1.
    unsafe { if len < STEP { is_zero_short(address, len) } else { is_zero_long(address, len) } }
}

/// Offset of the first byte that is not zero, if there is one.
///
/// # Safety
/// 1. As for `is_zero`.
#[inline(always)]
pub unsafe fn first_nonzero(address: usize, len: usize) -> Option<usize> {
    // SAFETY: duty 1.
    unsafe { if is_zero(address, len) { None } else { find_nonzero(address, len) } }
}

/// # Safety
/// 1. As for `is_zero`.
#[cold]
#[inline(never)]
unsafe fn find_nonzero(address: usize, len: usize) -> Option<usize> {
    let start: *const u8 = core::ptr::with_exposed_provenance(address);
    // SAFETY: duty 1. Volatile: whoever writes there by mistake may be doing so now.
    (0..len).find(|&at| unsafe { start.add(at).read_volatile() } != 0)
}

/// Clears at least a step. In assembly, or the compiler makes a call of `memset` of it.
///
/// # Safety
/// 1. As for `wipe`, of at least a step.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn clear(address: usize, len: usize) {
    // SAFETY: duty 1: every store lies within the range, and is aligned to 16.
    unsafe {
        core::arch::asm!(
            "pxor {zero}, {zero}",
            "cmp {at}, {last}",
            "jae 3f",
            "2:",
            "movaps xmmword ptr [{at}], {zero}",
            "movaps xmmword ptr [{at} + 16], {zero}",
            "movaps xmmword ptr [{at} + 32], {zero}",
            "movaps xmmword ptr [{at} + 48], {zero}",
            "add {at}, 64",
            "cmp {at}, {last}",
            "jb 2b",
            "3:",
            "movaps xmmword ptr [{last}], {zero}",
            "movaps xmmword ptr [{last} + 16], {zero}",
            "movaps xmmword ptr [{last} + 32], {zero}",
            "movaps xmmword ptr [{last} + 48], {zero}",
            at = inout(reg) address => _,
            last = in(reg) address + len - STEP,
            zero = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
/// 1. As for `wipe`, of less than a step.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn clear_short(address: usize, len: usize) {
    // SAFETY: duty 1, as in `clear`.
    unsafe {
        core::arch::asm!(
            "pxor {zero}, {zero}",
            "movaps xmmword ptr [{first}], {zero}",
            "movaps xmmword ptr [{middle}], {zero}",
            "movaps xmmword ptr [{last}], {zero}",
            first = in(reg) address,
            middle = in(reg) address + middle_of(len),
            last = in(reg) address + len - SHORT,
            zero = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Whether at least a step is zero.
///
/// # Safety
/// 1. As for `is_zero`, of at least a step.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn is_zero_long(address: usize, len: usize) -> bool {
    let bytes: u32;
    // SAFETY: duty 1: every load lies within the range, and is aligned to 16. Rust has no atomic load of a
    // vector; each byte read is one that the memory has held.
    unsafe {
        core::arch::asm!(
            "movdqa {any}, xmmword ptr [{last}]",
            "por {any}, xmmword ptr [{last} + 16]",
            "por {any}, xmmword ptr [{last} + 32]",
            "por {any}, xmmword ptr [{last} + 48]",
            "cmp {at}, {last}",
            "jae 3f",
            "2:",
            "por {any}, xmmword ptr [{at}]",
            "por {any}, xmmword ptr [{at} + 16]",
            "por {any}, xmmword ptr [{at} + 32]",
            "por {any}, xmmword ptr [{at} + 48]",
            "add {at}, 64",
            "cmp {at}, {last}",
            "jb 2b",
            "3:",
            "pxor {zero}, {zero}",
            "pcmpeqb {any}, {zero}",
            "pmovmskb {bytes:e}, {any}",
            at = inout(reg) address => _,
            last = in(reg) address + len - STEP,
            any = out(xmm_reg) _,
            zero = out(xmm_reg) _,
            bytes = lateout(reg) bytes,
            options(nostack, readonly),
        );
    }
    bytes == 0xFFFF
}

/// # Safety
/// 1. As for `is_zero`, of less than a step.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn is_zero_short(address: usize, len: usize) -> bool {
    let bytes: u32;
    // SAFETY: duty 1, as in `is_zero_long`.
    unsafe {
        core::arch::asm!(
            "movdqa {any}, xmmword ptr [{first}]",
            "por {any}, xmmword ptr [{middle}]",
            "por {any}, xmmword ptr [{last}]",
            "pxor {zero}, {zero}",
            "pcmpeqb {any}, {zero}",
            "pmovmskb {bytes:e}, {any}",
            first = in(reg) address,
            middle = in(reg) address + middle_of(len),
            last = in(reg) address + len - SHORT,
            any = out(xmm_reg) _,
            zero = out(xmm_reg) _,
            bytes = lateout(reg) bytes,
            options(nostack, readonly, preserves_flags),
        );
    }
    bytes == 0xFFFF
}

/// Offset of the step in the middle of a short slot of one to three steps.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn middle_of(len: usize) -> usize {
    len >> 1 & !(SHORT - 1)
}

/// # Safety
/// 1. As for `wipe`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn clear(address: usize, len: usize) {
    let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: duty 1.
    unsafe { target.write_bytes(0, len) };
}

/// # Safety
/// 1. As for `wipe`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn clear_short(address: usize, len: usize) {
    const { assert!(SHORT < STEP) };
    // SAFETY: duty 1.
    unsafe { clear(address, len) };
}

/// # Safety
/// 1. As for `is_zero`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
unsafe fn is_zero_long(address: usize, len: usize) -> bool {
    let start: *const u64 = core::ptr::with_exposed_provenance(address);
    let mut any = 0;
    for at in (0..len / 8).step_by(2) {
        // SAFETY: duty 1: so many words, aligned to 16.
        any |= unsafe { start.add(at).read_volatile() | start.add(at + 1).read_volatile() };
    }
    any == 0
}

/// # Safety
/// 1. As for `is_zero`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn is_zero_short(address: usize, len: usize) -> bool {
    // SAFETY: duty 1.
    unsafe { is_zero_long(address, len) }
}

/// Gets the page of an address for writing and changes nothing, so that what is read there first does not
/// cost two faults.
///
/// # Safety
/// 1. Eight bytes there are mapped, and nobody else uses them; the address is a multiple of 16.
#[inline]
pub unsafe fn touch(address: usize) {
    // One instruction that reads and writes, so that the first fault is the one of a write.
    // SAFETY: duty 1.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("or qword ptr [{0}], 0", in(reg) address, options(nostack));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let word: *mut u64 = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: duty 1.
        unsafe { AtomicU64::from_ptr(word) }.fetch_or(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Memory([u8; 9 * 1024]);

    #[test]
    fn every_byte_is_found_and_cleared() {
        let mut memory = Memory([0; 9 * 1024]);
        for len in [16, 32, 48, 64, 80, 112, 128, 144, 4096, 4112, 4160, 8240, 9 * 1024] {
            for place in (0..len).step_by(if len > 512 { 97 } else { 1 }).chain([len - 1]) {
                let address = memory.0.as_mut_ptr().expose_provenance();
                // SAFETY: (1) our own memory, aligned.
                unsafe {
                    assert_eq!(first_nonzero(address, len), None);
                    core::ptr::with_exposed_provenance_mut::<u8>(address + place).write(1);
                    assert_eq!(first_nonzero(address, len), Some(place));
                    wipe(address, len);
                }
            }
        }
        assert!(memory.0.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nothing_behind_the_end_is_touched() {
        let mut memory = Memory([0xEE; 9 * 1024]);
        let address = memory.0.as_mut_ptr().expose_provenance();
        // SAFETY: (1) a part of our own memory, aligned.
        unsafe { wipe(address + 16, 32) };
        let zeros = (0..memory.0.len()).filter(|&place| memory.0[place] == 0);
        assert_eq!(zeros.collect::<Vec<_>>(), (16..48).collect::<Vec<_>>());
    }
}
