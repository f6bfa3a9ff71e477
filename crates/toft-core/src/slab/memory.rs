//! Memory for the slabs of tests that read the contents of slots.

use std::alloc::{Layout, alloc_zeroed};
extern crate std;

/// The number of bytes in the largest slab, which is a multiple of each slab's alignment.
const BYTES: usize = 512 << 10;

/// Returns the address of zeroed memory for a slab. The memory is never freed.
pub(super) fn slab_memory() -> usize {
    let layout = Layout::from_size_align(BYTES, BYTES).unwrap();
    // SAFETY: the layout is not of size zero.
    unsafe { alloc_zeroed(layout) }.expose_provenance()
}
