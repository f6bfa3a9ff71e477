//! The address range that all slabs come from, so that a pointer is known by its address.
//!
//! The range is reserved at the start without memory. Each slab gets its memory when it is opened
//! and keeps it for ever.

use crate::errno::Errno;
use crate::slab::{SLAB_BYTES, Slab};
use crate::sync::{AtomicUsize, Ordering};
use Ordering::Relaxed;

/// The bytes that are reserved. Of less address space (`ulimit -v`) the largest half that fits.
const RESERVED: usize = 1 << 36;
/// With less than this there is no region, and all requests pass through.
const LEAST: usize = 1 << 22;

/// A range of slabs.
#[derive(Debug)]
pub struct Region {
    /// The address of the first slab; zero without a region. Written once, before any use.
    base: AtomicUsize,
    /// The number of slabs that the range has room for. Written once, before any use.
    room: AtomicUsize,
    /// The number of slabs that were claimed, at most `room`. Any thread.
    claimed: AtomicUsize,
}

impl Region {
    /// A region without room.
    pub const fn new() -> Region {
        Region {
            base: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            claimed: AtomicUsize::new(0),
        }
    }

    /// Reserves the range. Called once, before any other thread uses the region.
    pub fn reserve(&self) {
        let _errno = Errno::kept();
        let mut bytes = RESERVED;
        while bytes >= LEAST {
            // One slab more, so that the first can begin at a multiple of its size.
            if let Some(place) = map(bytes + SLAB_BYTES, libc::PROT_NONE) {
                self.base.store(place.next_multiple_of(SLAB_BYTES), Relaxed);
                self.room.store(bytes / SLAB_BYTES, Relaxed);
                return;
            }
            bytes /= 2;
        }
    }

    /// Claims the memory of a slab: `SLAB_BYTES` of zeros. `None` if there is no memory.
    pub fn claim(&self) -> Option<*mut u8> {
        let room = self.room.load(Relaxed);
        let more = |claimed: usize| (claimed < room).then_some(claimed + 1);
        let index = self.claimed.fetch_update(Relaxed, Relaxed, more).ok()?;
        let address = self.base.load(Relaxed) + index * SLAB_BYTES;
        let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
        let _errno = Errno::kept();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of this region's mapping that only this call has claimed.
        (unsafe { libc::mprotect(place.cast(), SLAB_BYTES, protection) } == 0).then_some(place)
    }

    /// Returns true if an address is in the range.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base.load(Relaxed)) / SLAB_BYTES < self.room.load(Relaxed)
    }

    /// The slab that an address is in; `None` if no slab was claimed there.
    #[inline]
    pub fn slab_at(&self, address: usize) -> Option<&'static Slab> {
        let index = address.wrapping_sub(self.base.load(Relaxed)) / SLAB_BYTES;
        (index < self.claimed.load(Relaxed)).then(|| self.slab(index))
    }

    /// All slabs.
    pub fn slabs(&self) -> impl Iterator<Item = &'static Slab> {
        (0..self.claimed.load(Relaxed)).map(|index| self.slab(index))
    }

    fn slab(&self, index: usize) -> &'static Slab {
        let address = self.base.load(Relaxed) + index * SLAB_BYTES;
        // SAFETY: the slab was claimed and is opened by the thread that claimed it, before the
        // program can have a block of it. Between the two it is memory of zeros, or none: only an
        // address that no malloc has returned can be of such a slab.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }
}

/// Maps `bytes` of zeros; returns their address, which is exposed.
pub fn map(bytes: usize, protection: libc::c_int) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (place != libc::MAP_FAILED).then(|| place.expose_provenance())
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/region.rs"]
mod tests;
