//! A private zone as a Rust value.

use core::alloc::Layout;
use core::ptr::NonNull;
use toft_zone::{Figures, Handle, Name, Terms, calls};

/// The figures of a zone, by [`Zone::statistics`]. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZoneStatistics {
    /// The number of live blocks.
    pub live_blocks: u64,
    /// The usable bytes of the live blocks.
    pub live_bytes: u64,
    /// The number of blocks that were ever allocated.
    pub allocations: u64,
    /// Bytes of address space that is mapped.
    pub mapped_bytes: u64,
}

/// A private zone: memory apart from all other, which goes at once when the zone is dropped.
///
/// What is dropped with it can no longer be reached: every access through a remaining pointer
/// faults, and its addresses stay unused for a long time (`docs/zones.md`).
///
/// ```
/// use std::alloc::Layout;
///
/// let zone = toft::Zone::new("request 17").expect("memory for a zone");
/// let block = zone.allocate(Layout::new::<[u64; 8]>()).expect("memory in it");
/// // SAFETY: 64 bytes, aligned, and nobody else's.
/// unsafe { block.cast::<[u64; 8]>().write([7; 8]) };
/// assert_eq!(zone.statistics().live_blocks, 1);
/// // SAFETY: (1) allocated above, and not used after this.
/// unsafe { zone.free(block) };
/// assert_eq!(zone.statistics().live_blocks, 0);
/// ```
#[derive(Debug)]
pub struct Zone {
    handle: Handle,
}

impl Zone {
    /// A zone for blocks of any size; `None` where the system has no memory for it.
    pub fn new(name: &str) -> Option<Zone> {
        Zone::with(name, 0)
    }

    /// A zone for objects of one size only: every slot is one of them.
    ///
    /// ```
    /// let zone = toft::Zone::of_objects("nodes", 48).unwrap();
    /// let layout = |size| core::alloc::Layout::from_size_align(size, 8).unwrap();
    /// assert!(zone.allocate(layout(48)).is_some() && zone.allocate(layout(49)).is_none());
    /// ```
    pub fn of_objects(name: &str, object: usize) -> Option<Zone> {
        Zone::with(name, object)
    }

    fn with(name: &str, object: usize) -> Option<Zone> {
        let terms = Terms { name: Name::new(name.as_bytes()), object, tagged: false };
        calls::create(&terms).map(|handle| Zone { handle })
    }

    /// A block, at least as large and as much aligned as the layout says; `None` where there is no
    /// memory, or where the zone is for objects that are smaller.
    pub fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        NonNull::new(calls::allocate(self.handle, layout.size(), layout.align(), false).cast())
    }

    /// Allocates a block that is all zero.
    pub fn allocate_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        NonNull::new(calls::allocate(self.handle, layout.size(), layout.align(), true).cast())
    }

    /// Takes a block back. One that is not a live block of this zone is named, and the process
    /// ends.
    ///
    /// # Safety
    /// 1. The block is not used afterwards.
    pub unsafe fn free(&self, block: NonNull<u8>) {
        // SAFETY: (1) the caller's.
        unsafe { calls::free(self.handle, block.as_ptr().cast()) }
    }

    /// Usable bytes of a block.
    pub fn usable_size(&self, block: NonNull<u8>) -> usize {
        calls::usable_size(self.handle, block.as_ptr().cast())
    }

    /// Verifies its tables and, in the secure build, what is free. Names what is wrong; returns
    /// true if nothing is.
    pub fn verify(&self) -> bool {
        calls::verify(self.handle)
    }

    /// Gives it another name.
    pub fn rename(&self, name: &str) {
        calls::rename(self.handle, &Name::new(name.as_bytes()));
    }

    /// Counts the zone. All figures are zero if that fails.
    pub fn statistics(&self) -> ZoneStatistics {
        let figures = calls::figures(self.handle).map(|(_, figures)| figures).unwrap_or_default();
        let Figures { live_blocks, live_bytes, allocations, mapped_bytes, .. } = figures;
        ZoneStatistics { live_blocks, live_bytes, allocations, mapped_bytes }
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        calls::destroy(self.handle);
    }
}
