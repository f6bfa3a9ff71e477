//! Sums over the whole heap, for programs that ask for them several times a second.

use crate::allocator::Allocator;
use crate::os::Os;
use crate::sync::AtomicU64;
use crate::thread::Heap;

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
}

/// Counts the sums. Reads the descriptor of each slab once, and makes no system call.
pub fn totals<O: Os>(allocator: &Allocator<O>) -> Totals {
    let page = allocator.os().page_size();
    let in_pages = |bytes: usize| bytes.checked_next_multiple_of(page).unwrap_or(bytes);
    let mut t = Totals::default();
    allocator.for_each_slab(|slab| {
        let (live, size) = (slab.live_slots(), slab.size());
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
    t
}

/// Counts the usable bytes that the thread of `heap` has allocated and freed, and returns the words
/// that have them until the next count. `None` for the constant heaps. Reads the descriptor of each
/// slab once, and makes no system call. Holder of the heap only.
pub fn thread_bytes<'h, O: Os>(
    allocator: &Allocator<O>,
    heap: &'h Heap,
) -> Option<&'h [AtomicU64; 2]> {
    let counters = heap.counters()?;
    let mut owned = [0_u64; 2];
    allocator.for_each_slab(|slab| {
        if heap.owns(slab) {
            owned.iter_mut().zip(slab.bytes_ever()).for_each(|(sum, bytes)| *sum += bytes);
        }
    });
    Some(counters.show(owned))
}
