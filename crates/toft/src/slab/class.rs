//! Size classes: which slot size a request gets, and the numbers that go with it.
//!
//! Sixteen-byte steps to 256 bytes, then eight classes per doubling to 1 KiB (the small tier), then
//! four per doubling to 4 KiB, eight to 32 KiB, where slots have pages of their own and more classes
//! cost nothing, and four to 128 KiB (the medium tier). Waste inside a slot is at most 15 bytes at
//! the bottom, and 11 % or 20 % of the slot above.

use super::{MEDIUM, SMALL, Tier};

/// Number of classes; a power of two, so that a bin's index is a row plus a class.
pub const CLASSES: usize = 128;
/// Classes of the small tier; the rest are medium.
pub const SMALL_CLASSES: usize = 32;
/// The largest request of the small tier, in bytes.
pub const SMALL_MAX: usize = 1024;
/// The largest request of the medium tier, in bytes.
pub const MEDIUM_MAX: usize = 128 << 10;

const USED: usize = SMALL_CLASSES + 40;
const _: () = assert!(USED <= CLASSES);
const _: () = assert!(SIZES[SMALL_CLASSES - 1] as usize == SMALL_MAX);
const _: () = assert!(SIZES[USED - 1] as usize == MEDIUM_MAX);

/// Slot size of each class in bytes.
static SIZES: [u32; USED] = {
    let mut sizes = [0; USED];
    let mut i = 0;
    while i < USED {
        sizes[i] = match i {
            0..16 => 16 * (i + 1),
            16..24 => 256 + 32 * (i - 15),
            24..32 => 512 + 64 * (i - 23),
            32..40 => (1024 << ((i - 32) / 4)) / 4 * (5 + (i - 32) % 4),
            40..64 => (4096 << ((i - 40) / 8)) / 8 * (9 + (i - 40) % 8),
            _ => (32768 << ((i - 64) / 4)) / 4 * (5 + (i - 64) % 4),
        } as u32;
        i += 1;
    }
    sizes
};

/// Class of a small request, by `(size + 15) / 16`.
static SMALL_TABLE: [u8; SMALL_MAX / 16 + 1] = {
    let mut table = [0; SMALL_MAX / 16 + 1];
    let mut class = 0;
    let mut i = 1;
    while i < table.len() {
        if i * 16 > SIZES[class] as usize {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// Class of a medium request, by `(size - 1) / 256`.
static MEDIUM_TABLE: [u8; MEDIUM_MAX / 256] = {
    let mut table = [SMALL_CLASSES as u8; MEDIUM_MAX / 256];
    let mut class = SMALL_CLASSES;
    let mut i = SMALL_MAX / 256;
    while i < table.len() {
        if (i + 1) * 256 > SIZES[class] as usize {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// The class of a request of at most [`SMALL_MAX`] bytes; zero bytes get the smallest slot.
#[inline(always)]
pub fn class_of_small(size: usize) -> usize {
    debug_assert!(size <= SMALL_MAX);
    // SAFETY: size <= SMALL_MAX, checked by the caller's branch and above in debug builds, so the
    // index is at most SMALL_MAX / 16, the last of the table.
    unsafe { *SMALL_TABLE.get_unchecked(size.wrapping_add(15) >> 4) as usize }
}

/// The class of a request of more than [`SMALL_MAX`] and at most [`MEDIUM_MAX`] bytes.
#[inline(always)]
pub fn class_of_medium(size: usize) -> usize {
    debug_assert!(size > SMALL_MAX && size <= MEDIUM_MAX);
    // SAFETY: 0 < size <= MEDIUM_MAX, so the index is below MEDIUM_MAX / 256, the table's length.
    unsafe { *MEDIUM_TABLE.get_unchecked((size - 1) >> 8) as usize }
}

/// A size class and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The class of an index below the number of classes in use.
    #[inline]
    pub fn new(index: usize) -> Class {
        debug_assert!(index < USED);
        Class(index as u8)
    }

    /// The smallest class that holds `size` bytes, or `None` when the request is large.
    #[inline]
    pub fn of(size: usize) -> Option<Class> {
        match size {
            0..=SMALL_MAX => Some(Class(class_of_small(size) as u8)),
            _ if size <= MEDIUM_MAX => Some(Class(class_of_medium(size) as u8)),
            _ => None,
        }
    }

    /// The smallest class that holds `size` bytes in slots aligned to `align` (a power of two).
    ///
    /// Slabs are aligned to at least their largest slot, so a slot is aligned to whatever its size
    /// is a multiple of.
    pub fn of_aligned(size: usize, align: usize) -> Option<Class> {
        let mut class = Class::of(size.max(align))?;
        while class.size() & (align - 1) != 0 {
            class.0 += 1;
            if class.index() == USED {
                return None;
            }
        }
        Some(class)
    }

    /// All classes in use.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..USED).map(Class::new)
    }

    /// The class's number.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes in a slot.
    #[inline]
    pub fn size(self) -> usize {
        // No class is ever out of range; a default keeps the compiler from adding a panic.
        SIZES.get(self.0 as usize).map_or(1, |&size| size as usize)
    }

    /// Whether the class belongs to the small tier.
    #[inline]
    pub fn is_small(self) -> bool {
        (self.0 as usize) < SMALL_CLASSES
    }

    /// `ceil(2^bits / size)` with the tier's bits. For an offset within a slab, the part of
    /// `offset * reciprocal` above those bits is `offset / size`, and the part below is less than
    /// `reciprocal` exactly when the division is exact.
    pub fn reciprocal(self) -> u64 {
        let tier = Tier::of(if self.is_small() { SMALL } else { MEDIUM });
        (1u64 << tier.reciprocal_bits).div_ceil(self.size() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=MEDIUM_MAX {
            let class = Class::of(size).unwrap();
            assert!(class.size() >= size, "{size}");
            if class.index() > 0 {
                assert!(Class::new(class.index() - 1).size() < size.max(1), "{size}");
            }
        }
        assert_eq!(Class::of(MEDIUM_MAX + 1), None);
    }

    #[test]
    fn reciprocals_divide_every_offset_exactly() {
        for class in Class::all() {
            let tier = Tier::of(if class.is_small() { SMALL } else { MEDIUM });
            let size = class.size() as u64;
            for offset in 0..tier.slab_bytes() as u64 {
                let product = offset.checked_mul(class.reciprocal()).unwrap();
                let below = product & ((1 << tier.reciprocal_bits) - 1);
                assert_eq!(product >> tier.reciprocal_bits, offset / size);
                assert_eq!(below < class.reciprocal(), offset % size == 0, "{class:?} {offset}");
            }
        }
    }

    #[test]
    fn sizes_are_multiples_of_sixteen_and_of_their_tiers_granule() {
        for class in Class::all() {
            assert_eq!(class.size() % if class.is_small() { 16 } else { 256 }, 0);
        }
    }

    #[test]
    fn aligned_classes_hold_and_align() {
        for shift in 0..=17 {
            for size in [0, 1, 17, 100, 1000, 1025, 5000, 70_000, MEDIUM_MAX] {
                let align = 1 << shift;
                if let Some(class) = Class::of_aligned(size, align) {
                    assert!(class.size() >= size && class.size() % align == 0);
                } else {
                    assert!(size.max(align) > MEDIUM_MAX / 2);
                }
            }
        }
    }
}
