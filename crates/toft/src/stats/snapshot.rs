//! The figures of a whole allocator at one moment.

use crate::allocator::Allocator;
use crate::large::BlockState;
use crate::os::Os;
use crate::policy::HARDENED;
use crate::slab::{Slab, SlotState};
use crate::sync::Ordering::Relaxed;

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
    /// Usable bytes of live blocks in the medium tier.
    pub medium_bytes: usize,
    /// Usable bytes of live large blocks.
    pub large_bytes: usize,
    /// Live guarded blocks, and their usable bytes.
    pub guarded_blocks: usize,
    /// Usable bytes of live guarded blocks.
    pub guarded_bytes: usize,
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
    /// Their bytes.
    pub remote_bytes: usize,
    /// Bytes of slots that malloc hands out next: the magazines of all threads.
    pub claimed_bytes: usize,
    /// Bytes of slots that were in use and are free, in slabs that have an owner, lent ones not
    /// counted.
    pub free_bytes: usize,
    /// Slots of which another slab has the memory, and their bytes: what compaction saves.
    pub lent_slots: usize,
    /// Bytes of lent slots.
    pub lent_bytes: usize,
    /// Of those, what lies on pages that a live slot keeps.
    pub pinned_bytes: usize,
    /// Bytes of slots of empty slabs that are unowned and have their pages: a part of `kept_bytes`.
    pub empty_slab_bytes: usize,
    /// Resident bytes of free large blocks: the other part.
    pub large_kept_bytes: usize,
    /// Address space behind large blocks that is never used.
    pub guard_bytes: usize,
    /// Bad calls that were ignored.
    pub misuses: usize,
    /// Blocks that were freed for good, and their bytes: of small and medium blocks a part of
    /// `free_bytes`.
    pub gone_blocks: usize,
    /// Bytes of blocks that were freed for good.
    pub gone_bytes: usize,
}

impl Snapshot {
    /// Usable bytes that the program has now.
    pub fn live_bytes(&self) -> usize {
        self.small_bytes + self.medium_bytes + self.large_bytes + self.guarded_bytes
    }
}

/// Bytes of slots that were in use and are free, on pages that a live slot keeps: what cannot go
/// back.
pub fn pinned_bytes(slab: &Slab, page: usize) -> usize {
    let (size, slots) = (slab.size(), slab.slots());
    let mut pinned = 0;
    for at in (0..slots * size).step_by(page.max(1)) {
        let end = at + page;
        let (mut free, mut live) = (0, false);
        for slot in (at / size..slots).take_while(|slot| slot * size < end) {
            match slab.state(slot) {
                SlotState::Live => live = true,
                SlotState::Free if slab.is_lent(slot) => {}
                SlotState::Free => free += ((slot + 1) * size).min(end) - (slot * size).max(at),
                SlotState::Fresh | SlotState::Remote => {}
            }
        }
        if live {
            pinned += free;
        }
    }
    pinned
}

/// Counts everything.
pub fn snapshot<O: Os>(allocator: &Allocator<O>) -> Snapshot {
    let mut s = Snapshot {
        threads: allocator.heaps.live(),
        heaps: allocator.heaps.count() as usize,
        misuses: allocator.misuse_count(),
        gone_blocks: allocator.gone()[0].load(Relaxed),
        gone_bytes: allocator.gone()[1].load(Relaxed),
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
        let remote = slab.remote_slots();
        s.remote_pending += remote;
        s.remote_bytes += remote * slab.size();
        s.claimed_bytes += slab.claimed().count_ones() as usize * slab.size();
        if slab.has_owner() {
            // Walls are no slots of anybody.
            let (lent, touched) = if HARDENED { (0, 0) } else { slab.lent_slots() };
            s.lent_slots += lent;
            s.lent_bytes += lent * slab.size();
            let free = slab.touched_slots().saturating_sub(live + remote + touched);
            s.free_bytes += free * slab.size();
            s.pinned_bytes += pinned_bytes(slab, allocator.os().page_size());
        }
    });
    let (mapped, metadata) = allocator.mapped_bytes();
    let (blocks, bytes, peak, allocations, kept) = allocator.large().figures();
    s.large_blocks = blocks;
    s.live_blocks += blocks;
    s.large_bytes = bytes;
    s.peak_bytes += peak;
    s.allocations += allocations;
    s.empty_slab_bytes = allocator.kept_slab_bytes();
    s.large_kept_bytes = kept;
    s.kept_bytes = kept + s.empty_slab_bytes;
    s.mapped_bytes = mapped;
    allocator.large().for_each(|block| {
        s.guard_bytes += block.extent().saturating_sub(block.mapped());
        if block.state() == BlockState::Live {
            s.mapped_bytes += block.bytes();
        }
    });
    (s.guarded_blocks, s.guarded_bytes) = allocator.guarded_figures();
    s.live_blocks += s.guarded_blocks;
    s.peak_bytes += s.guarded_bytes;
    s.mapped_bytes += kept + s.guarded_bytes;
    s.metadata_bytes = metadata;
    s
}
