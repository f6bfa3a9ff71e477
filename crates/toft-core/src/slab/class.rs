//! Size classes: the slot size for each request, and the numbers that belong to it.
//!
//! ```text
//! request in bytes    classes in the default build    in the secure builds    slots
//! 1      to 256       every 16 bytes                  the same                small
//! 256    to 1 KiB     8 per doubling                  the same                small
//! 1 KiB  to 4 KiB     4 per doubling                  the same                medium
//! 4 KiB  to 16 KiB    4 per doubling, and 9/8         8 per doubling          medium
//! 16 KiB to 32 KiB    4 per doubling, and 9/8         4 per doubling          medium
//! 32 KiB to 128 KiB   4 per doubling                  2 per doubling          medium
//! ```
//!
//! 9/8 of 4, 8 and 16 KiB are classes for requests of a power of two and a header.
//!
//! The waste in a slot is at most 15 bytes up to 256 bytes. Above that it is at most 13 % of the
//! slot with 8 classes per doubling, 20 % with 4, and a third with 2. The third is only address
//! space, because untouched pages take no memory.
//!
//! A slab has slots of one class. In the default build the first slab of a bin has an eighth of the
//! bytes of the class's longest slab, and each next one is twice as long. Most bins need few slots,
//! and addresses that are mapped for others cost page tables.
//!
//! In the default build `malloc_usable_size` returns the size of the slot. With 4 classes per
//! doubling it is at most 1.25 times the request (decision 0078).
//!
//! In the secure builds it returns the requested size, and each class has a quarantine. A slot is
//! at least one byte larger than the request, and the whole slot is cleared and checked. The class
//! of 1 KiB is 16 bytes larger than a power of two there, and six medium classes are 256 bytes
//! larger. The most frequent sizes then do not need the next class. Three classes that are close to
//! others are powers of two instead, for blocks that are aligned to them.

use super::SLOTS_MAX;
use crate::policy::SECURE;

/// The number of classes. A power of two, so that a bin's index is a row plus a class.
pub const CLASSES: usize = 64;
/// The number of classes of small slots. The rest are of medium ones.
pub const SMALL_CLASSES: usize = 32;
/// The largest request that gets a small slot, in bytes.
pub const SMALL_MAX: usize = if SECURE { 1024 + SMALL_GRANULE } else { 1024 };
/// The largest request that gets a medium slot, in bytes.
pub const MEDIUM_MAX: usize = 128 << 10;

const _: () = assert!(CLASSES.is_power_of_two());
// Blocks of up to a page have reserved slots beside them.
const _: () = assert!(!SECURE || SIZES[39] as usize <= crate::policy::RESERVED_SIZE_MOST);
const _: () = assert!(SIZES[SMALL_CLASSES - 1] as usize == SMALL_MAX);
const _: () = assert!(SIZES[CLASSES - 1] as usize == MEDIUM_MAX);

/// The class of no slots: `CLASSES` if there is none. Its bins are always empty, so that malloc
/// leaves the fast path for zero bytes, without a comparison (decision 0070). Requests of its size,
/// 36 KiB, get the next class. The secure build compares, and uses every class.
pub const NO_SLOTS: usize = if SECURE { CLASSES } else { 55 };

/// The sizes of small slots are multiples of this number of bytes.
const SMALL_GRANULE: usize = 16;
/// The sizes of medium slots are multiples of this number of bytes.
const MEDIUM_GRANULE: usize = 256;

/// The slot size of each class, in bytes.
const SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut i = 0;
    while i < CLASSES {
        sizes[i] = match i {
            0..16 => 16 * (i + 1),
            16..24 => 256 + 32 * (i - 15),
            24..32 => 512 + 64 * (i - 23),
            32..40 => (1024 << ((i - 32) / 4)) / 4 * (5 + (i - 32) % 4),
            40..56 if SECURE => (4096 << ((i - 40) / 8)) / 8 * (9 + (i - 40) % 8),
            56..60 if SECURE => 16384 / 4 * (5 + (i - 56)),
            60.. if SECURE => (32768 << ((i - 60) / 2)) / 2 * (3 + (i - 60) % 2),
            40..60 if (i - 40) % 5 == 0 => (4096 << ((i - 40) / 5)) / 8 * 9,
            40..60 => (4096 << ((i - 40) / 5)) / 4 * (4 + (i - 40) % 5),
            _ => 65536 / 4 * (5 + (i - 60)),
        } as u32;
        if SECURE && i + 1 == SMALL_CLASSES {
            sizes[i] = SMALL_MAX as u32;
        }
        if SECURE && i >= SMALL_CLASSES && i + 1 < CLASSES {
            if sizes[i].is_power_of_two() {
                sizes[i] += MEDIUM_GRANULE as u32;
            } else if matches!(i, 34 | 46 | 54) {
                sizes[i] = sizes[i].next_power_of_two();
            }
        }
        i += 1;
    }
    sizes
};

/// log2 of the largest power of two that divides a slot size.
pub(super) const SLOT_BITS: u32 = 17;

/// The bytes of a page that every system has, or a part of one.
pub(super) const PAGE: usize = 4096;
/// The bytes of slots that a small slab has at most, and a medium slab usually. In the secure
/// builds those of each slab, with its guard pages.
const SMALL_SPAN: usize = 64 << 10;
const MEDIUM_SPAN: usize = if SECURE { 512 << 10 } else { 256 << 10 };
/// The least and the most slots of a medium slab, in the default build. With fewer, each call of a
/// program that replaces one block would need another claim. A claim has 64 at most.
const MEDIUM_SLOTS: (usize, usize) = (4, 64);

/// The first slab of a bin has this part of the bytes of the longest.
const FIRST_DIVISOR: usize = 8;

/// The most slots of a slab of each class.
const SLOTS: [u16; CLASSES] = {
    let mut slots = [0; CLASSES];
    let mut i = 0;
    while i < CLASSES {
        let size = SIZES[i] as usize;
        let small = i < SMALL_CLASSES;
        let fit = if SECURE || small {
            (if small { SMALL_SPAN } else { MEDIUM_SPAN }) / size
        } else {
            let fit = MEDIUM_SPAN / size;
            if fit < MEDIUM_SLOTS.0 {
                MEDIUM_SLOTS.0
            } else if fit > MEDIUM_SLOTS.1 {
                MEDIUM_SLOTS.1
            } else {
                fit
            }
        };
        slots[i] = (if fit > SLOTS_MAX { SLOTS_MAX } else { fit }) as u16;
        i += 1;
    }
    slots
};

/// The most bytes of address space of a slab of each class.
const SPANS: [u32; CLASSES] = {
    let mut spans = [0; CLASSES];
    let mut i = 0;
    while i < CLASSES {
        spans[i] = if SECURE {
            (if i < SMALL_CLASSES { SMALL_SPAN } else { MEDIUM_SPAN }) as u32
        } else {
            (SIZES[i] * SLOTS[i] as u32).next_multiple_of(PAGE as u32)
        };
        i += 1;
    }
    spans
};

/// `SLOTS` and `SPANS` in memory, for use at run time.
static SLOT_TABLE: [u16; CLASSES] = SLOTS;
static SPAN_TABLE: [u32; CLASSES] = SPANS;

/// The most bytes of address space of a slab.
pub const SPAN_MAX: usize = {
    let mut most = 0;
    let mut i = 0;
    while i < CLASSES {
        if SPANS[i] as usize > most {
            most = SPANS[i] as usize;
        }
        i += 1;
    }
    most
};

/// `SIZES` in memory, for use at run time.
static SIZE_TABLE: [u32; CLASSES] = SIZES;

/// [`SizeClass::multiplier`] of each class.
static MULTIPLIERS: [u64; CLASSES] = {
    let mut multipliers = [0; CLASSES];
    let mut i = 0;
    while i < CLASSES {
        let zeros = SIZES[i].trailing_zeros();
        let odd = (SIZES[i] >> zeros) as u64;
        // Newton's iteration for the inverse modulo 2^64: 3 correct bits, 6, 12, 24, 48, 96.
        let mut inverse = odd;
        let mut round = 0;
        while round < 5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
            round += 1;
        }
        multipliers[i] = inverse << (SLOT_BITS - zeros);
        i += 1;
    }
    multipliers
};

/// The number of entries in a table of small classes.
pub const SMALL_STEPS: usize = SMALL_MAX / SMALL_GRANULE + 1;

/// Returns a table with `times` the class of a small request, indexed by `(size + 15) / 16`. Zero
/// bytes have the class `of_zero`.
pub const fn small_classes(of_zero: usize, times: usize) -> [u8; SMALL_STEPS] {
    let mut table = [0; SMALL_STEPS];
    table[0] = (of_zero * times) as u8;
    let mut class = 0;
    let mut i = 1;
    while i < table.len() {
        if i * 16 > SIZES[class] as usize {
            class += 1;
        }
        table[i] = (class * times) as u8;
        i += 1;
    }
    table
}

static SMALL_TABLE: [u8; SMALL_STEPS] = small_classes(0, 1);

/// The class of a medium request, indexed by `(size - 1) / MEDIUM_GRANULE`.
static MEDIUM_TABLE: [u8; MEDIUM_MAX / MEDIUM_GRANULE] = {
    let mut table = [SMALL_CLASSES as u8; MEDIUM_MAX / MEDIUM_GRANULE];
    let mut class = SMALL_CLASSES;
    let mut i = SMALL_MAX / MEDIUM_GRANULE;
    while i < table.len() {
        if (i + 1) * MEDIUM_GRANULE > SIZES[class] as usize {
            class += 1;
            if class == NO_SLOTS {
                class += 1;
            }
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// A number of bytes that is at most [`SMALL_MAX`]. Only a comparison makes one, so the tables of
/// classes are read without another.
#[derive(Clone, Copy, Debug)]
pub struct SmallSize(usize);

/// A number of bytes that is more than [`SMALL_MAX`], and at most [`MEDIUM_MAX`].
#[derive(Clone, Copy, Debug)]
pub struct MediumSize(usize);

impl SmallSize {
    /// Returns the size, if it is small.
    #[inline(always)]
    pub const fn of(size: usize) -> Option<SmallSize> {
        if size <= SMALL_MAX { Some(SmallSize(size)) } else { None }
    }

    /// Returns a size that the caller has compared.
    ///
    /// # Safety
    /// 1. `size` is at most [`SMALL_MAX`].
    #[inline(always)]
    pub const unsafe fn compared(size: usize) -> SmallSize {
        debug_assert!(size <= SMALL_MAX);
        SmallSize(size)
    }

    /// Returns the place of the size's class in a table of `SMALL_STEPS`.
    #[inline(always)]
    pub fn read(self, table: &[u8; SMALL_STEPS]) -> usize {
        // SAFETY: the size is at most SMALL_MAX, whose step is the last of the table.
        unsafe { *table.get_unchecked(self.0.wrapping_add(15) >> 4) as usize }
    }

    /// Returns the size's class. Zero bytes get the smallest slot.
    #[inline(always)]
    pub fn class(self) -> usize {
        self.read(&SMALL_TABLE)
    }
}

impl MediumSize {
    /// Returns the size, if it is medium.
    #[inline(always)]
    pub const fn of(size: usize) -> Option<MediumSize> {
        if size > SMALL_MAX && size <= MEDIUM_MAX { Some(MediumSize(size)) } else { None }
    }

    /// Returns the size's class.
    #[inline(always)]
    pub fn class(self) -> usize {
        // SAFETY: the size is above zero and at most MEDIUM_MAX, whose step is the table's last.
        unsafe { *MEDIUM_TABLE.get_unchecked((self.0 - 1) / MEDIUM_GRANULE) as usize }
    }
}

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Returns the class with an index below [`CLASSES`].
    #[inline]
    pub fn new(index: usize) -> SizeClass {
        debug_assert!(index < CLASSES);
        SizeClass(index as u8)
    }

    /// Returns the smallest class that holds `size` bytes, or `None` if the request is large.
    #[inline]
    pub fn of(size: usize) -> Option<SizeClass> {
        let class = match SmallSize::of(size) {
            Some(small) => small.class(),
            None => MediumSize::of(size)?.class(),
        };
        Some(SizeClass(class as u8))
    }

    /// Returns the smallest class that holds `size` bytes in slots aligned to `align`, a power of
    /// two. Returns `None` if there is none.
    ///
    /// Slabs are aligned to at least their largest slot. A slot is therefore aligned to each power
    /// of two that divides its size.
    #[inline]
    pub fn of_aligned(size: usize, align: usize) -> Option<SizeClass> {
        let mut class = SizeClass::of(size.max(align))?;
        while class.size() & (align - 1) != 0 {
            class.0 += 1;
            if class.index() == CLASSES {
                return None;
            }
        }
        Some(class)
    }

    /// Returns the number of bytes in a slot of the class with an index, for constants.
    pub const fn size_of(index: usize) -> usize {
        SIZES[index] as usize
    }

    /// Returns all classes that have slots.
    pub fn all() -> impl Iterator<Item = SizeClass> {
        (0..CLASSES).filter(|&class| class != NO_SLOTS).map(SizeClass::new)
    }

    /// Returns the class's index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of bytes in a slot.
    #[inline]
    pub fn size(self) -> usize {
        // The index is never out of range. The default keeps the compiler from adding a panic.
        SIZE_TABLE.get(self.0 as usize).map_or(1, |&size| size as usize)
    }

    /// Returns the most slots of a slab.
    #[inline]
    pub fn slots(self) -> usize {
        SLOT_TABLE.get(self.0 as usize).map_or(1, |&slots| slots as usize)
    }

    /// Returns the number of slots of a slab that a bin gets after one of `before` slots, which is
    /// zero for the first.
    pub fn slots_after(self, before: usize) -> usize {
        if SECURE {
            return self.slots();
        }
        let bytes = match before {
            0 => self.slab_bytes() / FIRST_DIVISOR,
            _ => 2 * before * self.size(),
        };
        let fit = bytes.next_multiple_of(PAGE) / self.size().max(1);
        fit.clamp(MEDIUM_SLOTS.0, self.slots())
    }

    /// Returns the number of bytes of address space of the longest slab, in pages of 4 KiB.
    #[inline]
    pub fn span(self) -> usize {
        SPAN_TABLE.get(self.0 as usize).map_or(PAGE, |&span| span as usize)
    }

    /// Returns the most bytes of a slab's slots.
    pub fn slab_bytes(self) -> usize {
        self.slots() * self.size()
    }

    /// Returns the largest power of two that divides the slots' size. A slab begins at a multiple
    /// of it, so that slots are aligned to it.
    pub fn alignment(self) -> usize {
        1 << self.size().trailing_zeros()
    }

    /// Returns true if the class has small slots.
    #[inline]
    pub fn is_small(self) -> bool {
        (self.0 as usize) < SMALL_CLASSES
    }

    /// Returns the factor that turns an offset within a slab into a slot number.
    ///
    /// A size is `odd << s`. The product of `multiple * size` and this factor is `multiple <<
    /// SLOT_BITS` modulo 2^64. Rotated right by `SLOT_BITS`, the product is the multiple.
    ///
    /// The rotated product of any other offset is larger than every slot number. Either one of its
    /// low bits is set, and the rotation moves that bit to the top. Or the offset is a multiple of
    /// `1 << s`, and a small result would make it a multiple of `odd` as well.
    ///
    /// So one multiplication, one rotation and one comparison with the number of slots show if an
    /// offset begins a slot, and which one.
    pub fn multiplier(self) -> u64 {
        MULTIPLIERS.get(self.0 as usize).map_or(0, |&multiplier| multiplier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=MEDIUM_MAX {
            let class = SizeClass::of(size).unwrap();
            assert!(class.size() >= size && class.index() != NO_SLOTS, "{size}");
            let smaller = SizeClass::all().take_while(|smaller| smaller.index() < class.index());
            if let Some(smaller) = smaller.last() {
                assert!(smaller.size() < size.max(1), "{size}");
            }
        }
        assert_eq!(SizeClass::of(MEDIUM_MAX + 1), None);
    }

    #[test]
    #[cfg_attr(feature = "secure-light", ignore = "a block is not its whole slot there")]
    fn a_slot_above_a_kibibyte_is_at_most_a_quarter_larger_than_its_request() {
        for size in SMALL_MAX + 1..=MEDIUM_MAX {
            let slot = SizeClass::of(size).unwrap().size();
            assert!(4 * slot <= 5 * size, "{size}: {slot}");
        }
    }

    #[test]
    fn multipliers_find_exactly_the_starts_of_slots() {
        for class in SizeClass::all() {
            let size = class.size() as u64;
            let slots = class.slots() as u64;
            for offset in 0..class.span() as u64 {
                let slot = offset.wrapping_mul(class.multiplier()).rotate_right(SLOT_BITS);
                if offset % size == 0 && offset / size < slots {
                    assert_eq!(slot, offset / size, "{class:?} {offset}");
                } else {
                    assert!(slot >= slots, "{class:?} {offset}");
                }
            }
        }
    }

    #[test]
    fn sizes_are_multiples_of_sixteen_and_of_their_tiers_granule() {
        for class in SizeClass::all() {
            assert_eq!(
                class.size() % if class.is_small() { SMALL_GRANULE } else { MEDIUM_GRANULE },
                0
            );
        }
    }

    /// A slot for a power of two and one more byte is at most an eighth larger. A slot that is also
    /// aligned to that power of two has twice its size.
    #[test]
    #[cfg_attr(
        not(feature = "secure-light"),
        ignore = "there the powers of two are classes themselves"
    )]
    fn powers_of_two_fit_their_slots_with_a_byte_more() {
        for shift in 10..=16 {
            let size = 1usize << shift;
            let slot = SizeClass::of(size + 1).unwrap().size();
            assert!(slot <= size + size / 8, "{size}: {slot}");
        }
        for align in [4096, 8192] {
            assert_eq!(SizeClass::of_aligned(align + 1, align).unwrap().size(), 2 * align);
        }
    }

    /// The distance between two classes is a power of two, so the class of a multiple of a power of
    /// two is a multiple of it. The fast path of aligned allocation relies on it.
    #[test]
    #[cfg_attr(feature = "secure-light", ignore = "there is no such fast path")]
    fn the_class_of_a_multiple_of_an_alignment_is_aligned() {
        for shift in 0..=17 {
            let align = 1 << shift;
            for size in (align..=MEDIUM_MAX).step_by(align) {
                assert_eq!(
                    SizeClass::of(size),
                    SizeClass::of_aligned(size, align),
                    "{size} {align}"
                );
                assert!(SizeClass::of(size).unwrap().size().is_multiple_of(align));
            }
        }
    }

    /// The first slab of a bin has an eighth of the bytes of the longest, in whole pages, or four
    /// slots. In the secure builds slabs have one length.
    #[test]
    fn slabs_of_a_bin_begin_short_and_double() {
        for class in SizeClass::all() {
            let most = class.slots();
            if SECURE {
                assert_eq!([0, 1, most].map(|before| class.slots_after(before)), [most; 3]);
                continue;
            }
            let first = class.slots_after(0);
            let first_most = (class.slab_bytes() / 8).next_multiple_of(PAGE) / class.size();
            assert!((4..=first_most.max(4)).contains(&first), "{class:?} {first}");
            let mut slots = first;
            for _ in 0..4 {
                let next = class.slots_after(slots);
                assert!((2 * slots).min(most) <= next && next <= most, "{class:?} {slots} {next}");
                slots = next;
            }
            assert_eq!((slots, class.slots_after(slots)), (most, most), "{class:?}");
        }
    }

    #[test]
    fn aligned_classes_hold_and_align() {
        for shift in 0..=17 {
            for size in [0, 1, 17, 100, 1000, 1025, 5000, 70_000, MEDIUM_MAX] {
                let align = 1 << shift;
                if let Some(class) = SizeClass::of_aligned(size, align) {
                    assert!(class.size() >= size && class.size() % align == 0);
                } else {
                    assert!(size.max(align) > MEDIUM_MAX / 2);
                }
            }
        }
    }
}
