//! Memory for the slabs of tests that read what is in their slots.

use std::alloc::{Layout, alloc_zeroed};
extern crate std;

/// Bytes of the largest slab, and a multiple of what every slab is aligned to.
const BYTES: usize = 512 << 10;

/// Address of zero bytes for a slab, for ever.
pub(super) fn slab_memory() -> usize {
    let layout = Layout::from_size_align(BYTES, BYTES).unwrap();
    // SAFETY: the layout is not of size zero.
    unsafe { alloc_zeroed(layout) }.expose_provenance()
}
