//! Clearing a slot, and detecting later writes to it.
//!
//! Slots are multiples of 16 bytes, and are processed in steps of a power of two. The last step
//! ends where the slot ends, and may overlap the step before it, so nothing is left over. Up to
//! 1040 bytes there is no loop, because the number of rounds for mixed sizes cannot be predicted.
//! Half of the steps go from the beginning on, and half up to the end. Their number is that of half
//! of the next power of two.
//!
//! The steps are in `vectors.rs` on x86-64, and in `plain.rs` elsewhere.

#[cfg_attr(all(target_arch = "x86_64", not(miri)), path = "vectors.rs")]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), path = "plain.rs")]
mod steps;

use steps::{long, short};

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The number of bytes that are read together. Bytes that are zero already are not written, so that
/// an untouched page stays missing.
pub const CLEARED_AT_ONCE: usize = 4096;
/// The smallest number of bytes in a page.
pub const PAGE_LEAST: usize = 4096;
/// The largest slot, in bytes, whose pages `touch` may make present at once. A program that
/// requests up to this size usually uses most of the pages. Larger blocks are often used only in
/// part.
pub const TOUCHED_MAX: usize = 4 * PAGE_LEAST;
/// The number of bytes of a step.
const STEP: usize = 64;
/// The number of bytes for which two steps are enough.
const TWO_STEPS: usize = 2 * STEP;
/// The number of bytes up to which there is no loop, if the processor has long vectors.
const STRAIGHT: usize = 1040;

/// The length from which long vectors are used. It is a number and not a flag. One comparison then
/// decides both whether there are long vectors and whether a range is long enough.
#[derive(Clone, Copy, Debug)]
pub struct Long(usize);

impl Long {
    /// The value for a processor without long vectors.
    pub const NONE: Long = Long(usize::MAX);

    /// Returns the value for this processor.
    pub fn of_processor() -> Long {
        if has_long_vectors() { Long(STEP) } else { Long::NONE }
    }

    /// Returns true if there are long vectors, and a range of `len` bytes is as long as a step.
    #[inline(always)]
    fn suit(self, len: usize) -> bool {
        len >= self.0
    }
}

/// Returns true if the processor has vectors of 32 bytes, and the system saves them.
fn has_long_vectors() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
        const AVX2: u32 = 1 << 5;
        if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
            return false;
        }
        let kept: u32;
        // SAFETY: the system has reported that the instruction exists.
        unsafe {
            core::arch::asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _,
                options(nomem, nostack, preserves_flags));
        }
        kept & 6 == 6 && __cpuid_count(7, 0).ebx & AVX2 != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Fetches the cache line of an address for writing, if there is memory. A freed block has often
/// not been used for long, and stores wait for their lines one after the other.
#[inline(always)]
pub fn fetch_to_write(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: has no visible effect, whatever the address.
    unsafe {
        core::arch::asm!("prefetchw [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Makes `len` bytes zero.
///
/// # Safety
/// 1. The range is mapped, only the caller uses it, and both ends are multiples of 16; it is not
///    empty.
/// 2. There are long vectors if `long` is not `Long::NONE`.
#[inline(always)]
pub unsafe fn wipe(address: usize, len: usize, long: Long) {
    // SAFETY: duties 1 and 2.
    unsafe {
        if len <= STRAIGHT {
            wipe_small(address, len, long)
        } else {
            wipe_large(address, len, long)
        }
    }
}

/// Makes at most 1040 bytes zero.
///
/// # Safety
/// 1. As for `wipe`.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn wipe_small(address: usize, len: usize, long: Long) {
    debug_assert!(len <= STRAIGHT);
    // SAFETY: duties 1 and 2.
    unsafe {
        if long.suit(len) {
            if len <= TWO_STEPS {
                long::clear_little(address, len);
            } else {
                long::clear_both_ends(address, len);
            }
        } else if len < STEP {
            short::clear_little(address, len);
        } else {
            short::clear(address, len);
        }
    }
}

/// # Safety
/// 1. As for `wipe`, of more than 1040 bytes.
/// 2. As for `wipe`.
#[inline(never)]
unsafe fn wipe_large(address: usize, len: usize, long: Long) {
    let mut at = address;
    let end = address + len;
    while at < end {
        // Each round clears one page of the system, but at least two steps for the first and the
        // last.
        let next = (at + TWO_STEPS).next_multiple_of(CLEARED_AT_ONCE);
        let bytes = if end < next + TWO_STEPS { end - at } else { next - at };
        // SAFETY: duties 1 and 2, of a part of the range.
        unsafe {
            if len <= CLEARED_AT_ONCE || !is_zero_loop(at, bytes, long) {
                if long.suit(len) { long::clear(at, bytes) } else { short::clear(at, bytes) }
            }
        }
        at += bytes;
    }
}

/// Returns true if `len` bytes are zero.
///
/// # Safety
/// 1. As for `wipe`, but other threads may write to it: then the result may be either.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn is_zero(address: usize, len: usize, long: Long) -> bool {
    // SAFETY: duties 1 and 2.
    unsafe {
        if len <= STRAIGHT {
            is_zero_small(address, len, long)
        } else {
            is_zero_loop(address, len, long)
        }
    }
}

/// Returns true if at most 1040 bytes are zero.
///
/// # Safety
/// 1. As for `is_zero`.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn is_zero_small(address: usize, len: usize, long: Long) -> bool {
    debug_assert!(len <= STRAIGHT);
    // SAFETY: duties 1 and 2.
    unsafe {
        if long.suit(len) {
            if len <= TWO_STEPS {
                long::is_zero_little(address, len)
            } else {
                long::is_zero_at_both_ends(address, len)
            }
        } else if len < STEP {
            short::is_zero_little(address, len)
        } else {
            short::is_zero(address, len)
        }
    }
}

/// Returns true if `len` bytes are zero. Of more than 128 bytes, only the first and the last 64 are
/// read.
///
/// # Safety
/// 1. As for `is_zero`.
/// 2. As for `wipe`.
#[inline(always)]
pub unsafe fn is_zero_at_ends(address: usize, len: usize, long: Long) -> bool {
    // SAFETY: duties 1 and 2, of the range or of its two ends.
    unsafe {
        if long.suit(len) {
            long::is_zero_little(address, len)
        } else if len < STEP {
            short::is_zero_little(address, len)
        } else {
            short::is_zero(address, STEP) && short::is_zero(address + len - STEP, STEP)
        }
    }
}

/// # Safety
/// 1. As for `is_zero`, of at least two steps.
/// 2. As for `wipe`.
#[inline(never)]
unsafe fn is_zero_loop(address: usize, len: usize, long: Long) -> bool {
    // SAFETY: duties 1 and 2.
    unsafe {
        if long.suit(len) { long::is_zero(address, len) } else { short::is_zero(address, len) }
    }
}

/// Returns true if `len` bytes repeat a word.
///
/// # Safety
/// 1. As for `is_zero`.
/// 2. As for `wipe`.
#[inline(never)]
pub unsafe fn is_filled(address: usize, len: usize, word: u64, long: Long) -> bool {
    // SAFETY: duties 1 and 2.
    unsafe {
        if long.suit(len) {
            long::is_filled(address, len, word)
        } else {
            short::is_filled(address, len, word)
        }
    }
}

/// Returns the offset of the first byte that is not zero, if there is one.
///
/// # Safety
/// 1. As for `is_zero`.
#[inline(never)]
pub unsafe fn first_nonzero(address: usize, len: usize) -> Option<usize> {
    let start: *const u8 = core::ptr::with_exposed_provenance(address);
    let words: *const u64 = start.cast();
    let is_whole = address.is_multiple_of(8);
    // SAFETY: duty 1: whole words of the range. All reads are volatile, because another thread may
    // be writing there by mistake.
    let is_zero = |&word: &usize| unsafe { words.add(word).read_volatile() } == 0;
    let zeros = if is_whole { 8 * (0..len / 8).take_while(is_zero).count() } else { 0 };
    // SAFETY: duty 1.
    (zeros..len).find(|&at| unsafe { start.add(at).read_volatile() } != 0)
}

/// Makes the pages of a range writable and present, and changes nothing. A first read of such a
/// page would otherwise cost two faults.
///
/// # Safety
/// 1. The range is mapped, only the caller writes to it, and both ends are multiples of 8; it is
///    not empty.
#[inline]
pub unsafe fn touch(address: usize, len: usize) {
    let mut at = address;
    while at < address + len {
        // SAFETY: duty 1: eight bytes from a multiple of 8 on.
        unsafe { touch_word(at) };
        at = (at | (PAGE_LEAST - 1)) + 1;
    }
}

/// # Safety
/// 1. Eight bytes there are mapped, and only the caller writes to them; the address is a multiple
///    of 8.
#[inline(always)]
unsafe fn touch_word(address: usize) {
    // This is one instruction that reads and writes, so the first fault is that of a write.
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

    /// Returns both ways: without long vectors, and with them if there are any.
    fn ways() -> [Long; 2] {
        [Long::NONE, Long::of_processor()]
    }

    #[test]
    fn every_byte_is_found_and_cleared() {
        let mut memory = Memory([0; 9 * 1024]);
        for long in ways() {
            for len in (16..1120).step_by(16).chain([4096, 4112, 4160, 4224, 8240, 9 * 1024]) {
                for place in (0..len).step_by(if len > 1200 { 97 } else { 7 }).chain([len - 1]) {
                    let address = memory.0.as_mut_ptr().expose_provenance();
                    // SAFETY: (1) our own memory, aligned; (2) the processor has them, if any are
                    // used.
                    unsafe {
                        assert!(is_zero(address, len, long));
                        core::ptr::with_exposed_provenance_mut::<u8>(address + place).write(1);
                        assert!(!is_zero(address, len, long), "{place} of {len}");
                        let between = len > 2 * STEP && (STEP..len - STEP).contains(&place);
                        assert_eq!(
                            is_zero_at_ends(address, len, long),
                            between,
                            "{place} of {len}"
                        );
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
    fn every_byte_that_differs_from_a_word_is_found() {
        let (mut memory, word) = (Memory([0; 9 * 1024]), 0x0123_4567_89AB_CDEF_u64);
        let address = memory.0.as_mut_ptr().expose_provenance();
        for long in ways() {
            for len in (16..1120).step_by(16).chain([4096, 4112, 4224, 8192]) {
                for (place, byte) in memory.0.iter_mut().enumerate() {
                    let within = (16..16 + len).contains(&place);
                    *byte = if within { word.to_le_bytes()[place % 8] } else { 0 };
                }
                // SAFETY: (1) a part of our own memory, aligned; (2) the processor has them, if any
                // are used.
                let is_filled = |word| unsafe { is_filled(address + 16, len, word, long) };
                assert!(is_filled(word) && !is_filled(word ^ 1) && !is_filled(word ^ 1 << 63));
                for place in (16..16 + len).step_by(if len > 512 { 97 } else { 7 }) {
                    memory.0[place] ^= 0x10;
                    assert!(!is_filled(word), "{place} of {len}");
                    memory.0[place] ^= 0x10;
                }
            }
        }
    }

    #[test]
    fn nothing_around_the_range_is_touched_or_looked_at() {
        for long in ways() {
            for len in (16..1120).step_by(16).chain([4096, 4112, 4224, 8192]) {
                let mut memory = Memory([0xEE; 9 * 1024]);
                let address = memory.0.as_mut_ptr().expose_provenance();
                // SAFETY: (1) a part of our own memory, aligned; (2) the processor has them, if any
                // are used.
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
