//! Sums over the whole heap, for programs that ask for them several times a second.

use crate::allocator::Allocator;
use crate::os::Os;

/// Bytes of the whole heap. Each is counted for some moment during the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Usable bytes of live blocks.
    pub live: usize,
    /// Bytes of live large and guarded blocks, and of slots that were ever handed out, free ones
    /// too, in slabs with a live block. Each slab counts in whole pages.
    pub active: usize,
    /// Bytes of free large blocks and of empty slabs that may still be resident.
    pub kept: usize,
    /// Bytes mapped for metadata.
    pub metadata: usize,
    /// Bytes of address space of the blocks and slabs that `active` counts.
    pub mapped: usize,
    /// Bytes of address space mapped for slabs that neither `mapped` nor `kept` counts.
    pub unused: usize,
    /// Usable bytes of all blocks ever allocated.
    pub allocated_ever: u64,
}

/// Counts the sums. Reads the descriptor of each slab once, and makes no system call.
pub fn totals<O: Os>(allocator: &Allocator<O>) -> Totals {
    let page = allocator.os().page_size();
    let in_pages = |bytes: usize| bytes.checked_next_multiple_of(page).unwrap_or(bytes);
    let mut t = Totals::default();
    allocator.for_each_slab(|slab| {
        let (live, size) = (slab.live_slots(), slab.size());
        t.allocated_ever += slab.allocations() * size as u64;
        if live != 0 {
            t.live += live * size;
            t.active += in_pages(slab.slots_with_memory() * size);
            t.mapped += in_pages(slab.slots() * size);
        }
    });
    let (slabs, metadata) = allocator.mapped_bytes();
    let kept_slabs = allocator.kept_slab_bytes();
    t.unused = slabs.saturating_sub(t.mapped + kept_slabs);
    t.metadata = metadata;
    let large = allocator.large().figures();
    let (_, guarded) = allocator.guarded_figures();
    t.kept = kept_slabs + large.kept_bytes();
    let alone = large.live_bytes() + guarded;
    t.live += alone;
    t.active += in_pages(alone);
    t.mapped += in_pages(alone);
    let [_, mut large_ever] = allocator.large().tally().missed();
    allocator.large().tally().for_each(|made| large_ever += made.bytes);
    t.allocated_ever += large_ever;
    t
}
