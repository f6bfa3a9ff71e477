//! The width of what is written into the managed memory: tags, links and words of bitmaps.

use core::fmt::Debug;

/// An unsigned integer of one width. `u32` makes every structure what it is on a 32-bit machine, on
/// any machine.
///
/// # Safety
/// 1. Any bit pattern is a value, and the type has no padding.
/// 2. `BYTES` is its size and its alignment is not greater; `BITS` is eight times that.
/// 3. `from_usize` and `to_usize` are inverse for numbers up to `MAX`.
pub unsafe trait Word: Copy + Eq + Debug + Send + Sync + 'static {
    /// Its size in bytes.
    const BYTES: usize;
    /// Its size in bits.
    const BITS: u32;
    /// The greatest number that it holds, or that an address has if that is less.
    const MAX: usize;
    /// No bit set.
    const ZERO: Self;
    /// The low bits of a number.
    fn from_usize(number: usize) -> Self;
    /// The number.
    fn to_usize(self) -> usize;
    /// Only the bit of this number, which is less than `BITS`.
    fn bit(number: u32) -> Self;
    /// All bits from this one up; the number is less than `BITS`.
    fn from_bit_up(number: u32) -> Self;
    /// Bits of either.
    #[must_use]
    fn or(self, other: Self) -> Self;
    /// Bits of both.
    #[must_use]
    fn and(self, other: Self) -> Self;
    /// Bits of the first that are not in the second.
    #[must_use]
    fn without(self, other: Self) -> Self;
    /// The lowest bit that is set; `BITS` when none is.
    fn lowest(self) -> u32;
}

macro_rules! word {
    ($type:ty) => {
        // SAFETY: 1. a primitive integer has neither. 2. they are what the language says of it.
        // 3. `as` between unsigned integers keeps every number that fits into both.
        unsafe impl Word for $type {
            const BYTES: usize = size_of::<Self>();
            const BITS: u32 = Self::BITS;
            const MAX: usize = if size_of::<Self>() < size_of::<usize>() {
                Self::MAX as usize
            } else {
                usize::MAX
            };
            const ZERO: Self = 0;
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn from_usize(number: usize) -> Self {
                number as Self
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn to_usize(self) -> usize {
                self as usize
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn bit(number: u32) -> Self {
                1 << number
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn from_bit_up(number: u32) -> Self {
                Self::MAX << number
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn without(self, other: Self) -> Self {
                self & !other
            }
            #[cfg_attr(not(feature = "small"), inline(always))]
            fn lowest(self) -> u32 {
                self.trailing_zeros()
            }
        }
    };
}

word!(u32);
word!(u64);
word!(usize);
