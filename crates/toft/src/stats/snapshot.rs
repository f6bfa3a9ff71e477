//! The figures of a whole allocator at one moment.

use crate::entry::Allocator;
use crate::large::BlockState;
use crate::os::Os;

/// Figures of a whole allocator. With threads running, each is exact for some moment during the
/// call; the sum of them is for no single one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Heaps of running threads.
    pub threads: usize,
    /// Heaps ever born.
    pub heaps: usize,
    /// Blocks ever allocated.
    pub allocations: u64,
    /// Blocks that the program has now.
    pub live_blocks: usize,
    /// Their usable bytes, by tier.
    pub small_bytes: usize,
    /// As above.
    pub medium_bytes: usize,
    /// As above.
    pub large_bytes: usize,
    /// Bytes of slots ever in use, each counted once, and the most that large blocks ever had.
    pub peak_bytes: usize,
    /// Slabs.
    pub slabs: usize,
    /// Large blocks that the program has now.
    pub large_blocks: usize,
    /// Free large blocks and empty slabs that may still be resident, in bytes.
    pub kept_bytes: usize,
    /// Bytes of address space mapped for blocks of any kind.
    pub mapped_bytes: usize,
    /// Bytes of address space mapped for metadata.
    pub metadata_bytes: usize,
    /// Slots freed by threads that do not own them, not yet collected.
    pub remote_pending: usize,
    /// Bad calls that were ignored.
    pub misuses: usize,
}

impl Snapshot {
    /// Usable bytes that the program has now.
    pub fn live_bytes(&self) -> usize {
        self.small_bytes + self.medium_bytes + self.large_bytes
    }
}

/// Counts everything.
pub fn snapshot<O: Os>(allocator: &Allocator<O>) -> Snapshot {
    let mut s = Snapshot {
        threads: allocator.heaps.live(),
        heaps: allocator.heaps.count() as usize,
        misuses: allocator.misuse_count(),
        ..Snapshot::default()
    };
    allocator.for_each_slab(|slab| {
        let live = slab.live_slots();
        let bytes = live * slab.size();
        if slab.class().is_small() {
            s.small_bytes += bytes;
        } else {
            s.medium_bytes += bytes;
        }
        s.live_blocks += live;
        s.slabs += 1;
        s.allocations += slab.allocations();
        s.peak_bytes += slab.touched_slots() * slab.size();
        s.remote_pending += slab.remote_slots();
    });
    let (mapped, metadata) = allocator.mapped_bytes();
    let (blocks, bytes, peak, allocations, kept) = allocator.large().figures();
    s.large_blocks = blocks;
    s.live_blocks += blocks;
    s.large_bytes = bytes;
    s.peak_bytes += peak;
    s.allocations += allocations;
    s.kept_bytes = kept + allocator.kept_slab_bytes();
    s.mapped_bytes = mapped;
    allocator.large().for_each(|block| {
        if block.state() == BlockState::Live {
            s.mapped_bytes += block.bytes();
        }
    });
    s.mapped_bytes += kept;
    s.metadata_bytes = metadata;
    s
}
