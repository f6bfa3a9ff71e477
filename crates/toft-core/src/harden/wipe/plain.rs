//! The functions of `vectors.rs`, by operations that every processor and the interpreter support.

/// The only implementation.
pub mod short {
    /// Clears a range.
    ///
    /// # Safety
    /// 1. The range is mapped, and only the caller uses it; both ends are multiples of 16.
    #[inline(always)]
    pub unsafe fn clear(address: usize, len: usize) {
        let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: duty 1.
        unsafe { target.write_bytes(0, len) };
    }

    /// Returns true if a range is zero.
    ///
    /// # Safety
    /// 1. As for `clear`, but other threads may write to it: then the result may be either.
    #[inline]
    pub unsafe fn is_zero(address: usize, len: usize) -> bool {
        let start: *const u64 = core::ptr::with_exposed_provenance(address);
        let mut any = 0;
        for at in (0..len / 8).step_by(2) {
            // SAFETY: duty 1: `len / 8` words, aligned to 16.
            any |= unsafe { start.add(at).read_volatile() | start.add(at + 1).read_volatile() };
        }
        any == 0
    }

    /// Returns true if a range repeats a word.
    ///
    /// # Safety
    /// 1. As for `is_zero`.
    #[inline]
    pub unsafe fn is_filled(address: usize, len: usize, word: u64) -> bool {
        let start: *const u64 = core::ptr::with_exposed_provenance(address);
        // SAFETY: duty 1: `len / 8` words, aligned to 16.
        (0..len / 8).all(|at| unsafe { start.add(at).read_volatile() } == word)
    }

    pub use {
        clear as clear_both_ends, clear as clear_little, is_zero as is_zero_at_both_ends,
        is_zero as is_zero_little,
    };
}

pub use short as long;
