//! Where the managed memory lies: how a *place*, which is what the heap calculates with and what it
//! writes into links, becomes a pointer. This is the only file that makes pointers.
//!
//! | | place | written as | provenance |
//! |---|---|---|---|
//! | [`Anywhere`] | the address | `usize` | exposed when a span is claimed, and taken up again here |
//! | [`Within`] | the distance from an origin | `u32` or `usize` | that of the origin, strictly |
//!
//! The pointer that a caller frees may have the right to its object only, and neither to the tag
//! before it nor to its neighbours. So it serves as a number, and the right comes from the claim.

use crate::word::Word;
use core::marker::PhantomData;

/// Memory in which a heap has its spans.
///
/// # Safety
/// 1. `pointer(place)` may be used for what was admitted: wherever `[place, place + n)` lies inside
///    of memory for which `admit` returned a place, `n` bytes may be read and written through it.
/// 2. `place(pointer(p)) == p`, and the distance of two places inside of one admitted range is that
///    of their addresses.
/// 3. `address(place)` is the address of `pointer(place)`.
/// 4. `admit` returns a place only if every place of the range, and the one after it, fits into
///    `Word`, and none but possibly the first is 0.
pub unsafe trait Space {
    /// What places, sizes and tags are written as.
    type Word: Word;
    /// Takes up a range of memory. `None` if it cannot be expressed here.
    ///
    /// # Safety
    /// 1. Until the heap has let go of them, only the heap reads and writes `size` bytes from
    ///    `start`.
    unsafe fn admit(&mut self, start: *mut u8, size: usize) -> Option<usize>;
    /// The pointer to a place.
    fn pointer(&self, place: usize) -> *mut u8;
    /// The place of a pointer, whatever its provenance; a number without meaning for a pointer that
    /// is outside of everything that was admitted.
    fn place(&self, pointer: *const u8) -> usize;
    /// The address of a place.
    fn address(&self, place: usize) -> usize;
}

/// Any memory: spans may be unrelated allocations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anywhere;

// SAFETY: 1. the claim exposed a pointer that may access the range, and a pointer made of an
// exposed address may access what the exposed one could. 2. and 3. places are addresses. 4.
// checked.
unsafe impl Space for Anywhere {
    type Word = usize;
    unsafe fn admit(&mut self, start: *mut u8, size: usize) -> Option<usize> {
        let place = start.expose_provenance();
        (place.checked_add(size)? != usize::MAX && place != 0).then_some(place)
    }
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn pointer(&self, place: usize) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(place)
    }
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn place(&self, pointer: *const u8) -> usize {
        pointer.addr()
    }
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn address(&self, place: usize) -> usize {
        place
    }
}

/// Memory that has come into being at an address to which no pointer led before.
#[cfg(target_arch = "wasm32")]
pub(crate) fn grown(address: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(address)
}

/// One allocation, or one mapping: all spans are after an origin, from which places are counted.
///
/// What the heap writes does not depend on where the memory is mapped. With `u32` a tag takes four
/// bytes, and the memory may have 4 GiB less one byte.
#[derive(Clone, Copy, Debug)]
pub struct Within<W> {
    origin: *mut u8,
    size: usize,
    width: PhantomData<W>,
}

impl<W: Word> Within<W> {
    /// Memory of `size` bytes. Only what of it is claimed is ever touched.
    ///
    /// # Safety
    /// 1. `size` bytes from `origin` are of one allocation or mapping, and `origin` may access what
    ///    of it is claimed.
    #[must_use]
    pub const unsafe fn new(origin: *mut u8, size: usize) -> Self {
        Self { origin, size, width: PhantomData }
    }

    /// Moves the origin, after the heap's memory has been mapped elsewhere, or for another process.
    ///
    /// # Safety
    /// 1. The bytes at `origin` are those that were at the old origin, and may be used as those.
    /// 2. The distance of both origins is a multiple of the shape's `ALIGN`. Larger alignments that
    ///    have been asked for hold only up to that of the distance.
    /// 3. No thread uses the heap at the old origin meanwhile: a heap has one origin. So two
    ///    processes that share one `Heap` map it at the same address, or rebase it whenever they
    ///    have taken the lock.
    pub unsafe fn rebase(&mut self, origin: *mut u8) {
        self.origin = origin;
    }

    /// Where places are counted from.
    #[must_use]
    pub const fn origin(&self) -> *mut u8 {
        self.origin
    }
}

// SAFETY: a `Within` is a pointer and a number; only `Heap` uses the pointer, and is `Send` if what
// it manages may be.
unsafe impl<W> Send for Within<W> {}

// SAFETY: 1. a pointer that is derived from the origin may access what the origin may, and `admit`
// has checked that the range is after it, in the allocation (by 1 of `new`). 2. and 3. both differ
// from addresses by the origin's.
// 4. checked: the end of the memory fits.
unsafe impl<W: Word> Space for Within<W> {
    type Word = W;
    unsafe fn admit(&mut self, start: *mut u8, size: usize) -> Option<usize> {
        let place = start.addr().checked_sub(self.origin.addr())?;
        let end = place.checked_add(size)?;
        (end <= self.size && end < W::MAX).then_some(place)
    }
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn pointer(&self, place: usize) -> *mut u8 {
        self.origin.wrapping_add(place)
    }
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn place(&self, pointer: *const u8) -> usize {
        pointer.addr().wrapping_sub(self.origin.addr())
    }
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn address(&self, place: usize) -> usize {
        self.origin.addr().wrapping_add(place)
    }
}
