//! The figures of a whole allocator.

use crate::allocator::Allocator;
use crate::large::BlockState;
use crate::os::Os;
use crate::policy::SECURE;
use crate::slab::{Slab, SlotIndex, SlotState};
use crate::sync::Ordering::Relaxed;

/// The figures of a whole allocator. If threads run, each figure is exact for some moment during
/// the call. Their sum is not exact for any single moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The heaps of running threads.
    pub threads: usize,
    /// The heaps that were ever created.
    pub heaps: usize,
    /// The blocks that were ever allocated.
    pub allocations: u64,
    /// The blocks that are live now.
    pub live_blocks: usize,
    /// Usable bytes of live small blocks.
    pub small_bytes: usize,
    /// Usable bytes of live medium blocks.
    pub medium_bytes: usize,
    /// Usable bytes of live large blocks.
    pub large_bytes: usize,
    /// Live guarded blocks.
    pub guarded_blocks: usize,
    /// Usable bytes of live guarded blocks.
    pub guarded_bytes: usize,
    /// Bytes of slots that were ever in use, each counted once, plus the peak of large blocks.
    pub peak_bytes: usize,
    /// The slabs.
    pub slabs: usize,
    /// The large blocks that are live now.
    pub large_blocks: usize,
    /// Bytes of free large blocks and empty slabs that may still be resident.
    pub kept_bytes: usize,
    /// Bytes of address space mapped for blocks of any kind.
    pub mapped_bytes: usize,
    /// Bytes of address space mapped for metadata.
    pub metadata_bytes: usize,
    /// Slots that were freed by threads that do not own them, and that are not collected yet.
    pub remote_pending: usize,
    /// Bytes of the slots in `remote_pending`.
    pub remote_bytes: usize,
    /// Bytes of claimed slots, which malloc hands out next, in all threads.
    pub claimed_bytes: usize,
    /// Bytes of slots that were in use and are free, in slabs with an owner. Lent slots are not
    /// counted.
    pub free_bytes: usize,
    /// Slots whose memory another slab uses.
    pub lent_slots: usize,
    /// Bytes of lent slots, which compaction saves.
    pub lent_bytes: usize,
    /// The part of `free_bytes` on pages that a live slot keeps.
    pub pinned_bytes: usize,
    /// Bytes of slots of unowned empty slabs that still have their pages: one part of `kept_bytes`.
    pub empty_slab_bytes: usize,
    /// Resident bytes of free large blocks: the other part of `kept_bytes`.
    pub large_kept_bytes: usize,
    /// Address space after large blocks that is never used.
    pub guard_bytes: usize,
    /// The invalid calls that were ignored.
    pub misuses: usize,
    /// Blocks that were freed permanently. Small and medium ones are also part of `free_bytes`.
    pub gone_blocks: usize,
    /// Bytes of blocks that were freed permanently.
    pub gone_bytes: usize,
}

impl Snapshot {
    /// Returns the usable bytes of all live blocks.
    pub fn live_bytes(&self) -> usize {
        self.small_bytes + self.medium_bytes + self.large_bytes + self.guarded_bytes
    }
}

/// Returns the bytes of slots that were in use and are free, on pages that a live slot keeps. These
/// bytes cannot be returned to the OS.
pub fn pinned_bytes(slab: &Slab, page: usize) -> usize {
    let (size, slots) = (slab.size(), slab.slots());
    let mut pinned = 0;
    for at in (0..slots * size).step_by(page.max(1)) {
        let end = at + page;
        let (mut free, mut live) = (0, false);
        for slot in SlotIndex::range(at / size..slots).take_while(|slot| slot.begin(size) < end) {
            match slab.state(slot) {
                SlotState::Live => live = true,
                SlotState::Free if slab.units().is_lent(slot) => {}
                SlotState::Free => free += slot.end(size).min(end) - slot.begin(size).max(at),
                SlotState::Fresh | SlotState::Remote => {}
            }
        }
        if live {
            pinned += free;
        }
    }
    pinned
}

/// Counts all figures.
pub fn snapshot<O: Os>(allocator: &Allocator<O>) -> Snapshot {
    let mut s = Snapshot {
        threads: allocator.heaps.live(),
        heaps: allocator.heaps.count() as usize,
        misuses: allocator.misuse_count(),
        gone_blocks: allocator.permanently_freed()[0].load(Relaxed),
        gone_bytes: allocator.permanently_freed()[1].load(Relaxed),
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
        let remote = slab.remote_frees().count();
        s.remote_pending += remote;
        s.remote_bytes += remote * slab.size();
        s.claimed_bytes += slab.claimed().count_ones() as usize * slab.size();
        if slab.has_owner() {
            // Guard pages are not slots.
            let (lent, touched) = if SECURE { (0, 0) } else { slab.units().lent_slots() };
            s.lent_slots += lent;
            s.lent_bytes += lent * slab.size();
            let free = slab.touched_slots().saturating_sub(live + remote + touched);
            s.free_bytes += free * slab.size();
            s.pinned_bytes += pinned_bytes(slab, allocator.os().page_size());
        }
    });
    let (mapped, metadata) = allocator.mapped_bytes();
    let large = allocator.large().figures();
    let kept = large.kept_bytes();
    s.large_blocks = large.live_blocks();
    s.live_blocks += s.large_blocks;
    s.large_bytes = large.live_bytes();
    s.peak_bytes += large.peak_bytes();
    s.allocations += large.allocations();
    s.empty_slab_bytes = allocator.kept_slab_bytes();
    s.large_kept_bytes = kept;
    s.kept_bytes = kept + s.empty_slab_bytes;
    s.mapped_bytes = mapped;
    allocator.large().units().for_each(|block| {
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
