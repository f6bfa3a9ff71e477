//! Clearing a slot, and finding what was written to it since.

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Bytes that are looked at together: what is zero already is not written, so that a page that
/// nobody has touched stays away.
pub const CLEARED_AT_ONCE: usize = 4096;

/// Makes `len` bytes zero.
///
/// # Safety
/// 1. The range is mapped, nobody else uses it, and both ends are multiples of 16.
#[inline]
pub unsafe fn wipe(address: usize, len: usize) {
    if len <= CLEARED_AT_ONCE {
        // SAFETY: duty 1.
        return unsafe { clear(address, len) };
    }
    let end = address + len;
    let mut at = address;
    while at < end {
        let bytes = CLEARED_AT_ONCE.min(end - at);
        // SAFETY: duty 1, of a part of the range.
        unsafe {
            if first_nonzero(at, bytes).is_some() {
                clear(at, bytes);
            }
        }
        at += bytes;
    }
}

/// # Safety
/// 1. As for `wipe`.
#[inline(always)]
unsafe fn clear(address: usize, len: usize) {
    let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: duty 1.
    unsafe { target.write_bytes(0, len) };
}

/// Offset of the first byte that is not zero, if there is one.
///
/// # Safety
/// 1. As for `wipe`; nobody writes to the range meanwhile.
#[inline]
pub unsafe fn first_nonzero(address: usize, len: usize) -> Option<usize> {
    let start: *const u64 = core::ptr::with_exposed_provenance(address);
    let words = len / 8;
    let mut at = 0;
    // Eight words at a time with one branch; by hand, because the compiler makes a loop of single words of
    // any iterator that can stop early.
    while at + 8 <= words {
        // SAFETY: duty 1: so many words, aligned to 16.
        let any = unsafe {
            let word = start.add(at);
            let low = *word | *word.add(1) | *word.add(2) | *word.add(3);
            low | *word.add(4) | *word.add(5) | *word.add(6) | *word.add(7)
        };
        if any != 0 {
            // SAFETY: duty 1.
            return unsafe { find_nonzero(address, len) };
        }
        at += 8;
    }
    while at < words {
        // SAFETY: duty 1: the length is a multiple of 16.
        if unsafe { *start.add(at) | *start.add(at + 1) } != 0 {
            // SAFETY: duty 1.
            return unsafe { find_nonzero(address, len) };
        }
        at += 2;
    }
    None
}

/// # Safety
/// 1. As for `first_nonzero`.
#[cold]
unsafe fn find_nonzero(address: usize, len: usize) -> Option<usize> {
    // SAFETY: duty 1.
    let bytes = unsafe {
        core::slice::from_raw_parts::<u8>(core::ptr::with_exposed_provenance(address), len)
    };
    bytes.iter().position(|&byte| byte != 0)
}

/// Gets the page of an address for writing and changes nothing, so that what is read there first does not
/// cost two faults.
///
/// # Safety
/// 1. Eight bytes there are mapped, and nobody else uses them; the address is a multiple of 16.
#[inline]
pub unsafe fn touch(address: usize) {
    let word: *mut u64 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: duty 1.
    unsafe { AtomicU64::from_ptr(word) }.fetch_or(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Memory([u8; 9 * 1024]);

    #[test]
    fn every_byte_is_found_and_cleared() {
        let mut memory = Memory([0; 9 * 1024]);
        for len in [16, 48, 64, 80, 4096, 4112, 9 * 1024] {
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
