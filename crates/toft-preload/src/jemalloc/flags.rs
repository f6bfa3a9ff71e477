//! The flags of the calls about blocks.

use core::ffi::c_int;

/// The flags of a call, as jemalloc's header defines them.
///
/// ```text
/// bits 31..20  arena, plus one         accepted, no effect
/// bits 19..8   thread cache, plus two  accepted, no effect
/// bit  6       MALLOCX_ZERO
/// bits 5..0    log2 of the alignment; zero: the usual one
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Flags(c_int);

impl Flags {
    pub fn new(flags: c_int) -> Flags {
        Flags(flags)
    }

    /// Returns the requested alignment, a power of two.
    pub fn align(self) -> usize {
        1 << (self.0 & 63)
    }

    /// Returns true if new bytes must be zero.
    pub fn zero(self) -> bool {
        self.0 & 0x40 != 0
    }
}
