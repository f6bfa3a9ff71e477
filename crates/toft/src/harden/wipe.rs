//! Clearing a slot, and finding what was written to it since.
//!
//! Slots are multiples of 16 bytes, and are walked in steps of a power of two of which the last ends where the slot
//! ends, over what the one before it may have done already: nothing is left over. Up to 1 KiB there is no loop,
//! because nobody can guess how often one of many sizes goes round: half of the steps go from the
//! beginning on, and half to the end, as many as half of the next power of two needs.

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Bytes that are looked at together: what is zero already is not written, so that a page that
/// nobody has touched stays away.
pub const CLEARED_AT_ONCE: usize = 4096;
/// Bytes of a step.
const STEP: usize = 64;
/// Bytes of the steps of a short slot.
const SHORT: usize = 16;
/// Bytes for which two steps are enough.
const TWO_STEPS: usize = 2 * STEP;
/// Bytes for which there is no loop, where the processor has long vectors.
const STRAIGHT: usize = 1024;

/// Whether the processor has vectors of 32 bytes, and the system keeps them.
pub fn has_long_vectors() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
        const AVX2: u32 = 1 << 5;
        if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
            return false;
        }
        let kept: u32;
        // SAFETY: the system has said that the instruction is there.
        unsafe {
            core::arch::asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _,
                options(nomem, nostack, preserves_flags));
        }
        kept & 6 == 6 && __cpuid_count(7, 0).ebx & AVX2 != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Makes `len` bytes zero. With `long`, by long vectors.
///
/// # Safety
/// 1. The range is mapped, nobody else uses it, and both ends are multiples of 16; it is not empty.
/// 2. There are long vectors, if `long` says so.
#[inline(always)]
pub unsafe fn wipe(address: usize, len: usize, long: bool) {
    // SAFETY: duties 1 and 2.
    unsafe {
        if len <= STRAIGHT {
            wipe_small(address, len, long)
        } else {
            wipe_large(address, len, long)
        }
    }
}

/// The same, of 1 KiB at most.
///
/// # Safety
/// 1. As for `wipe`.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn wipe_small(address: usize, len: usize, long: bool) {
    debug_assert!(len <= STRAIGHT);
    // SAFETY: duties 1 and 2.
    unsafe {
        if len < STEP {
            clear_short(address, len);
        } else if len <= TWO_STEPS {
            clear_two_steps(address, len);
        } else if !long {
            clear(address, len);
        } else {
            clear_straight(address, len);
        }
    }
}

/// # Safety
/// 1. As for `wipe`, of more than 1 KiB.
/// 2. As for `wipe`.
#[inline(never)]
unsafe fn wipe_large(address: usize, len: usize, long: bool) {
    let mut at = address;
    let end = address + len;
    while at < end {
        // No less than two steps is left for the last.
        let bytes = if end - at < CLEARED_AT_ONCE + TWO_STEPS { end - at } else { CLEARED_AT_ONCE };
        // SAFETY: duties 1 and 2, of a part of the range.
        unsafe {
            if len <= CLEARED_AT_ONCE || !is_zero_loop(at, bytes, long) {
                if long { clear_long(at, bytes) } else { clear(at, bytes) }
            }
        }
        at += bytes;
    }
}

/// Whether so many bytes are zero.
///
/// # Safety
/// 1. As for `wipe`, but others may write to it: then it may be either.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn is_zero(address: usize, len: usize, long: bool) -> bool {
    // SAFETY: duties 1 and 2.
    unsafe {
        if len <= STRAIGHT {
            is_zero_small(address, len, long)
        } else {
            is_zero_loop(address, len, long)
        }
    }
}

/// The same, of 1 KiB at most.
///
/// # Safety
/// 1. As for `is_zero`.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn is_zero_small(address: usize, len: usize, long: bool) -> bool {
    debug_assert!(len <= STRAIGHT);
    // SAFETY: duties 1 and 2.
    unsafe {
        if len < STEP {
            is_zero_short(address, len)
        } else if len <= TWO_STEPS {
            is_zero_two_steps(address, len)
        } else if !long {
            is_zero_steps(address, len)
        } else {
            is_zero_straight(address, len)
        }
    }
}

/// # Safety
/// 1. As for `is_zero`, of two steps at least.
/// 2. As for `wipe`.
#[inline(never)]
unsafe fn is_zero_loop(address: usize, len: usize, long: bool) -> bool {
    // SAFETY: duties 1 and 2.
    unsafe { if long { is_zero_long(address, len) } else { is_zero_steps(address, len) } }
}

/// Offset of the first byte that is not zero, if there is one.
///
/// # Safety
/// 1. As for `is_zero`.
#[cold]
#[inline(never)]
pub unsafe fn first_nonzero(address: usize, len: usize) -> Option<usize> {
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
unsafe fn is_zero_steps(address: usize, len: usize) -> bool {
    let bytes: u32;
    // SAFETY: duty 1: every load lies within the range, and is aligned to 16. Rust has no atomic load of a
    // vector; each byte read is one that the memory has held.
    unsafe {
        core::arch::asm!(
            "movdqa {a}, xmmword ptr [{last}]",
            "movdqa {b}, xmmword ptr [{last} + 16]",
            "por {a}, xmmword ptr [{last} + 32]",
            "por {b}, xmmword ptr [{last} + 48]",
            "cmp {at}, {last}",
            "jae 3f",
            "2:",
            "por {a}, xmmword ptr [{at}]",
            "por {b}, xmmword ptr [{at} + 16]",
            "por {a}, xmmword ptr [{at} + 32]",
            "por {b}, xmmword ptr [{at} + 48]",
            "add {at}, 64",
            "cmp {at}, {last}",
            "jb 2b",
            "3:",
            "por {a}, {b}",
            "pxor {b}, {b}",
            "pcmpeqb {a}, {b}",
            "pmovmskb {bytes:e}, {a}",
            at = inout(reg) address => _,
            last = in(reg) address + len - STEP,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
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

/// Clears one step to two.
///
/// # Safety
/// 1. As for `wipe`, of 64 to 128 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn clear_two_steps(address: usize, len: usize) {
    // SAFETY: duty 1, as in `clear`.
    unsafe {
        core::arch::asm!(
            "pxor {zero}, {zero}",
            "movaps xmmword ptr [{at} + 0], {zero}",
            "movaps xmmword ptr [{at} + 16], {zero}",
            "movaps xmmword ptr [{at} + 32], {zero}",
            "movaps xmmword ptr [{at} + 48], {zero}",
            "movaps xmmword ptr [{end} - 64], {zero}",
            "movaps xmmword ptr [{end} - 48], {zero}",
            "movaps xmmword ptr [{end} - 32], {zero}",
            "movaps xmmword ptr [{end} - 16], {zero}",
            at = in(reg) address,
            end = in(reg) address + len,
            zero = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Whether one step to two are zero.
///
/// # Safety
/// 1. As for `is_zero`, of 64 to 128 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn is_zero_two_steps(address: usize, len: usize) -> bool {
    let bytes: u32;
    // SAFETY: duty 1, as in `is_zero_steps`.
    unsafe {
        core::arch::asm!(
            "movdqa {a}, xmmword ptr [{at}]",
            "movdqa {b}, xmmword ptr [{at} + 16]",
            "por {a}, xmmword ptr [{at} + 32]",
            "por {b}, xmmword ptr [{at} + 48]",
            "por {a}, xmmword ptr [{end} - 64]",
            "por {b}, xmmword ptr [{end} - 48]",
            "por {a}, xmmword ptr [{end} - 32]",
            "por {b}, xmmword ptr [{end} - 16]",
            "por {a}, {b}",
            "pxor {b}, {b}",
            "pcmpeqb {a}, {b}",
            "pmovmskb {bytes:e}, {a}",
            at = in(reg) address,
            end = in(reg) address + len,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            bytes = lateout(reg) bytes,
            options(nostack, readonly, preserves_flags),
        );
    }
    bytes == 0xFFFF
}

/// Clears more than two steps and up to 1 KiB, by long vectors and without a loop. The register that is zero is made
/// so as a short one: its upper half is not in use for the processor.
///
/// # Safety
/// 1. As for `wipe`, of 129 to 1024 bytes.
/// 2. There are long vectors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn clear_straight(address: usize, len: usize) {
    // SAFETY: duties 1 and 2: every store lies within the range.
    unsafe {
        core::arch::asm!(
            "vpxor xmm0, xmm0, xmm0",
            "cmp {len}, 256",
            "ja 2f",
            "vmovdqu ymmword ptr [{at} + 0], ymm0",
            "vmovdqu ymmword ptr [{at} + 32], ymm0",
            "vmovdqu ymmword ptr [{at} + 64], ymm0",
            "vmovdqu ymmword ptr [{at} + 96], ymm0",
            "vmovdqu ymmword ptr [{end} - 128], ymm0",
            "vmovdqu ymmword ptr [{end} - 96], ymm0",
            "vmovdqu ymmword ptr [{end} - 64], ymm0",
            "vmovdqu ymmword ptr [{end} - 32], ymm0",
            "jmp 4f",
            "2:",
            "cmp {len}, 512",
            "ja 3f",
            "vmovdqu ymmword ptr [{at} + 0], ymm0",
            "vmovdqu ymmword ptr [{at} + 32], ymm0",
            "vmovdqu ymmword ptr [{at} + 64], ymm0",
            "vmovdqu ymmword ptr [{at} + 96], ymm0",
            "vmovdqu ymmword ptr [{at} + 128], ymm0",
            "vmovdqu ymmword ptr [{at} + 160], ymm0",
            "vmovdqu ymmword ptr [{at} + 192], ymm0",
            "vmovdqu ymmword ptr [{at} + 224], ymm0",
            "vmovdqu ymmword ptr [{end} - 256], ymm0",
            "vmovdqu ymmword ptr [{end} - 224], ymm0",
            "vmovdqu ymmword ptr [{end} - 192], ymm0",
            "vmovdqu ymmword ptr [{end} - 160], ymm0",
            "vmovdqu ymmword ptr [{end} - 128], ymm0",
            "vmovdqu ymmword ptr [{end} - 96], ymm0",
            "vmovdqu ymmword ptr [{end} - 64], ymm0",
            "vmovdqu ymmword ptr [{end} - 32], ymm0",
            "jmp 4f",
            "3:",
            "vmovdqu ymmword ptr [{at} + 0], ymm0",
            "vmovdqu ymmword ptr [{at} + 32], ymm0",
            "vmovdqu ymmword ptr [{at} + 64], ymm0",
            "vmovdqu ymmword ptr [{at} + 96], ymm0",
            "vmovdqu ymmword ptr [{at} + 128], ymm0",
            "vmovdqu ymmword ptr [{at} + 160], ymm0",
            "vmovdqu ymmword ptr [{at} + 192], ymm0",
            "vmovdqu ymmword ptr [{at} + 224], ymm0",
            "vmovdqu ymmword ptr [{at} + 256], ymm0",
            "vmovdqu ymmword ptr [{at} + 288], ymm0",
            "vmovdqu ymmword ptr [{at} + 320], ymm0",
            "vmovdqu ymmword ptr [{at} + 352], ymm0",
            "vmovdqu ymmword ptr [{at} + 384], ymm0",
            "vmovdqu ymmword ptr [{at} + 416], ymm0",
            "vmovdqu ymmword ptr [{at} + 448], ymm0",
            "vmovdqu ymmword ptr [{at} + 480], ymm0",
            "vmovdqu ymmword ptr [{end} - 512], ymm0",
            "vmovdqu ymmword ptr [{end} - 480], ymm0",
            "vmovdqu ymmword ptr [{end} - 448], ymm0",
            "vmovdqu ymmword ptr [{end} - 416], ymm0",
            "vmovdqu ymmword ptr [{end} - 384], ymm0",
            "vmovdqu ymmword ptr [{end} - 352], ymm0",
            "vmovdqu ymmword ptr [{end} - 320], ymm0",
            "vmovdqu ymmword ptr [{end} - 288], ymm0",
            "vmovdqu ymmword ptr [{end} - 256], ymm0",
            "vmovdqu ymmword ptr [{end} - 224], ymm0",
            "vmovdqu ymmword ptr [{end} - 192], ymm0",
            "vmovdqu ymmword ptr [{end} - 160], ymm0",
            "vmovdqu ymmword ptr [{end} - 128], ymm0",
            "vmovdqu ymmword ptr [{end} - 96], ymm0",
            "vmovdqu ymmword ptr [{end} - 64], ymm0",
            "vmovdqu ymmword ptr [{end} - 32], ymm0",
            "4:",
            at = in(reg) address,
            end = in(reg) address + len,
            len = in(reg) len,
            out("xmm0") _,
            options(nostack),
        );
    }
}

/// Whether more than two steps and up to 1 KiB are zero, in the same way.
///
/// # Safety
/// 1. As for `is_zero`, of 129 to 1024 bytes.
/// 2. There are long vectors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn is_zero_straight(address: usize, len: usize) -> bool {
    let zero: u8;
    // SAFETY: duties 1 and 2, as in `is_zero_steps`.
    unsafe {
        core::arch::asm!(
            "cmp {len}, 256",
            "ja 2f",
            "vmovdqu ymm0, ymmword ptr [{at} + 0]",
            "vmovdqu ymm1, ymmword ptr [{at} + 32]",
            "vmovdqu ymm2, ymmword ptr [{at} + 64]",
            "vmovdqu ymm3, ymmword ptr [{at} + 96]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 128]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 96]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 64]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 32]",
            "jmp 4f",
            "2:",
            "cmp {len}, 512",
            "ja 3f",
            "vmovdqu ymm0, ymmword ptr [{at} + 0]",
            "vmovdqu ymm1, ymmword ptr [{at} + 32]",
            "vmovdqu ymm2, ymmword ptr [{at} + 64]",
            "vmovdqu ymm3, ymmword ptr [{at} + 96]",
            "vpor ymm0, ymm0, ymmword ptr [{at} + 128]",
            "vpor ymm1, ymm1, ymmword ptr [{at} + 160]",
            "vpor ymm2, ymm2, ymmword ptr [{at} + 192]",
            "vpor ymm3, ymm3, ymmword ptr [{at} + 224]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 256]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 224]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 192]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 160]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 128]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 96]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 64]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 32]",
            "jmp 4f",
            "3:",
            "vmovdqu ymm0, ymmword ptr [{at} + 0]",
            "vmovdqu ymm1, ymmword ptr [{at} + 32]",
            "vmovdqu ymm2, ymmword ptr [{at} + 64]",
            "vmovdqu ymm3, ymmword ptr [{at} + 96]",
            "vpor ymm0, ymm0, ymmword ptr [{at} + 128]",
            "vpor ymm1, ymm1, ymmword ptr [{at} + 160]",
            "vpor ymm2, ymm2, ymmword ptr [{at} + 192]",
            "vpor ymm3, ymm3, ymmword ptr [{at} + 224]",
            "vpor ymm0, ymm0, ymmword ptr [{at} + 256]",
            "vpor ymm1, ymm1, ymmword ptr [{at} + 288]",
            "vpor ymm2, ymm2, ymmword ptr [{at} + 320]",
            "vpor ymm3, ymm3, ymmword ptr [{at} + 352]",
            "vpor ymm0, ymm0, ymmword ptr [{at} + 384]",
            "vpor ymm1, ymm1, ymmword ptr [{at} + 416]",
            "vpor ymm2, ymm2, ymmword ptr [{at} + 448]",
            "vpor ymm3, ymm3, ymmword ptr [{at} + 480]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 512]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 480]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 448]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 416]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 384]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 352]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 320]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 288]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 256]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 224]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 192]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 160]",
            "vpor ymm0, ymm0, ymmword ptr [{end} - 128]",
            "vpor ymm1, ymm1, ymmword ptr [{end} - 96]",
            "vpor ymm2, ymm2, ymmword ptr [{end} - 64]",
            "vpor ymm3, ymm3, ymmword ptr [{end} - 32]",
            "4:",
            "vpor ymm0, ymm0, ymm1",
            "vpor ymm2, ymm2, ymm3",
            "vpor ymm0, ymm0, ymm2",
            "vptest ymm0, ymm0",
            "sete {result}",
            "vzeroupper",
            at = in(reg) address,
            end = in(reg) address + len,
            len = in(reg) len,
            result = lateout(reg_byte) zero,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack, readonly),
        );
    }
    zero != 0
}

/// Clears any number of bytes from two steps on, by long vectors.
///
/// # Safety
/// 1. As for `wipe`, of 128 bytes at least.
/// 2. There are long vectors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn clear_long(address: usize, len: usize) {
    // SAFETY: duties 1 and 2: every store lies within the range.
    unsafe {
        core::arch::asm!(
            "vpxor xmm0, xmm0, xmm0",
            "2:",
            "vmovdqu ymmword ptr [{at}], ymm0",
            "vmovdqu ymmword ptr [{at} + 32], ymm0",
            "vmovdqu ymmword ptr [{at} + 64], ymm0",
            "vmovdqu ymmword ptr [{at} + 96], ymm0",
            "add {at}, 128",
            "cmp {at}, {last}",
            "jb 2b",
            "vmovdqu ymmword ptr [{last}], ymm0",
            "vmovdqu ymmword ptr [{last} + 32], ymm0",
            "vmovdqu ymmword ptr [{last} + 64], ymm0",
            "vmovdqu ymmword ptr [{last} + 96], ymm0",
            at = inout(reg) address => _,
            last = in(reg) address + len - TWO_STEPS,
            out("xmm0") _,
            options(nostack),
        );
    }
}

/// Whether any number of bytes from two steps on are zero, by long vectors.
///
/// # Safety
/// 1. As for `is_zero`, of 128 bytes at least.
/// 2. There are long vectors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn is_zero_long(address: usize, len: usize) -> bool {
    let zero: u8;
    // SAFETY: duties 1 and 2, as in `is_zero_steps`. The function that this is a part of is not inlined, and so
    // has no vector in use.
    unsafe {
        core::arch::asm!(
            "vmovdqu ymm0, ymmword ptr [{last}]",
            "vmovdqu ymm1, ymmword ptr [{last} + 32]",
            "vmovdqu ymm2, ymmword ptr [{last} + 64]",
            "vmovdqu ymm3, ymmword ptr [{last} + 96]",
            "2:",
            "vpor ymm0, ymm0, ymmword ptr [{at}]",
            "vpor ymm1, ymm1, ymmword ptr [{at} + 32]",
            "vpor ymm2, ymm2, ymmword ptr [{at} + 64]",
            "vpor ymm3, ymm3, ymmword ptr [{at} + 96]",
            "add {at}, 128",
            "cmp {at}, {last}",
            "jb 2b",
            "vpor ymm0, ymm0, ymm1",
            "vpor ymm2, ymm2, ymm3",
            "vpor ymm0, ymm0, ymm2",
            "vptest ymm0, ymm0",
            "sete {result}",
            "vzeroupper",
            at = inout(reg) address => _,
            last = in(reg) address + len - TWO_STEPS,
            result = lateout(reg_byte) zero,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack, readonly),
        );
    }
    zero != 0
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
unsafe fn is_zero_steps(address: usize, len: usize) -> bool {
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
    unsafe { is_zero_steps(address, len) }
}

/// # Safety
/// 1. As for `is_zero`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn is_zero_two_steps(address: usize, len: usize) -> bool {
    // SAFETY: duty 1.
    unsafe { is_zero_steps(address, len) }
}

/// # Safety
/// 1. As for `wipe`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn clear_two_steps(address: usize, len: usize) {
    // SAFETY: duty 1.
    unsafe { clear(address, len) };
}

/// # Safety
/// 1. As for `is_zero`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn is_zero_straight(address: usize, len: usize) -> bool {
    // SAFETY: duty 1.
    unsafe { is_zero_steps(address, len) }
}

/// # Safety
/// 1. As for `is_zero`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn is_zero_long(address: usize, len: usize) -> bool {
    // SAFETY: duty 1.
    unsafe { is_zero_steps(address, len) }
}

/// # Safety
/// 1. As for `wipe`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn clear_straight(address: usize, len: usize) {
    // SAFETY: duty 1.
    unsafe { clear(address, len) };
}

/// # Safety
/// 1. As for `wipe`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn clear_long(address: usize, len: usize) {
    // SAFETY: duty 1.
    unsafe { clear(address, len) };
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

    /// With and without long vectors, where there are any.
    fn ways() -> impl Iterator<Item = bool> {
        [false, true].into_iter().filter(|&long| !long || has_long_vectors())
    }

    #[test]
    fn every_byte_is_found_and_cleared() {
        let mut memory = Memory([0; 9 * 1024]);
        for long in ways() {
            for len in (16..1120).step_by(16).chain([4096, 4112, 4160, 4224, 8240, 9 * 1024]) {
                for place in (0..len).step_by(if len > 512 { 97 } else { 7 }).chain([len - 1]) {
                    let address = memory.0.as_mut_ptr().expose_provenance();
                    // SAFETY: (1) our own memory, aligned; (2) if there are.
                    unsafe {
                        assert!(is_zero(address, len, long));
                        core::ptr::with_exposed_provenance_mut::<u8>(address + place).write(1);
                        assert!(!is_zero(address, len, long), "{place} of {len}");
                        assert_eq!(first_nonzero(address, len), Some(place));
                        wipe(address, len, long);
                    }
                }
                assert!(memory.0.iter().all(|&byte| byte == 0), "{len}");
            }
        }
        assert!(memory.0.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nothing_around_the_range_is_touched_or_looked_at() {
        for long in ways() {
            for len in (16..1120).step_by(16).chain([4096, 4112, 4224, 8192]) {
                let mut memory = Memory([0xEE; 9 * 1024]);
                let address = memory.0.as_mut_ptr().expose_provenance();
                // SAFETY: (1) a part of our own memory, aligned; (2) if there are.
                unsafe {
                    wipe(address + 16, len, long);
                    assert!(is_zero(address + 16, len, long), "{len}");
                }
                let zeros = (0..memory.0.len()).filter(|&place| memory.0[place] == 0);
                assert!(zeros.eq(16..16 + len), "{len}");
            }
        }
    }
}
