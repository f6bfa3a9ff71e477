//! What the child of a fork does, before anything else of the program runs in it.
//!
//! Nothing of the heaps is held across a fork, so a thread inside stdio can still allocate (promise
//! 23). Only with compaction is there a prepare handler (`Allocator::prepare_fork`). Instead the
//! child repairs what a thread that no longer exists may have left half done:
//!
//! - heaps of other threads become orphans;
//! - where such a thread was changing its heap's lists, the lists are built again from the slabs;
//! - a slab that was about to be pushed on a pending stack is collected directly.
//!
//! Metadata that such a thread was about to map is finished by its owners (`repair` of `Plots`,
//! `Blocks` and `Heaps`). Slabs that it had mapped and not published are gone round; a large block
//! in transit is lost to its stack, not to the address space.

use super::{Heap, Heaps};
use crate::slab::{FLAGS, LINK_OPEN, PENDING, Slab, Spent};
use crate::sync::Ordering::Relaxed;

/// Repairs all heaps in the child of a fork. `mine` is the forking thread's heap; `torn` is true if
/// a thread without a heap was in the middle of a change; `for_each_slab` names every slab.
///
/// Costs a few instructions a heap; only when some thread was in the middle of a change, or slabs
/// were pending, a walk over all descriptors on top.
pub fn repair_after_fork(
    heaps: &Heaps,
    mine: &Heap,
    torn: bool,
    mut for_each_slab: impl FnMut(&mut dyn FnMut(&Slab)),
) {
    let mine_number = (!mine.is_nobodys()).then_some(mine.number);
    heaps.orphan_all_but(mine_number);
    let others = || heaps.all().filter(|heap| Some(heap.number) != mine_number);
    if !torn && !others().any(Heap::is_torn) {
        return;
    }
    // A fork from a signal handler that interrupted this very thread's change: that change goes on
    // in the child when the handler returns, so its heap is left alone.
    let keep = mine_number.filter(|_| mine.is_torn());
    for heap in heaps.all().filter(|heap| Some(heap.number) != keep) {
        heap.inbox.reset();
        if heap.is_torn() && Some(heap.number) != mine_number {
            heap.forget_lists(heaps.partitions());
        }
    }
    for_each_slab(&mut |slab| repair_slab(heaps, mine_number, keep, slab));
    for heap in heaps.all() {
        if Some(heap.number) != mine_number {
            heap.clear_torn();
        }
    }
}

fn repair_slab(heaps: &Heaps, mine: Option<u32>, keep: Option<u32>, slab: &Slab) {
    let owner = slab.owner.load(Relaxed) & !FLAGS;
    let Some(heap) = heaps.heap_at(owner) else { return };
    if Some(heap.number) == keep {
        return;
    }
    // The stacks were reset above, so whatever was pending is collected here. A slot that is not
    // live was freed twice by threads that are gone: no thread is left to tell.
    slab.link.store(LINK_OPEN, Relaxed);
    slab.clear_owner_flag(PENDING);
    let relist = slab.collect(|_| {}) != Spent::Nothing && !slab.is_listed();
    if heap.is_torn() && Some(heap.number) != mine {
        heap.list_torn(slab);
    } else if relist {
        heap.bins().list(Heap::bin_of(slab), slab);
    }
}
