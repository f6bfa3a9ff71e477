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
    // A fork from a signal handler that interrupted this very thread's change: that change goes on
    // in the child when the handler returns, so its heaps are left alone. They are its own and the
    // shared one that it uses.
    let keep = mine_number.filter(|_| mine.is_torn());
    heaps.orphan_all_but(mine_number);
    heaps.leave_all_shared(keep);
    let is_others = |heap: &Heap| Some(heap.number) != mine_number && !heaps.is_drawn(heap);
    let others = || heaps.all().filter(|heap| is_others(heap));
    if !torn && !others().any(Heap::is_torn) {
        return;
    }
    let is_kept = |heap: &Heap| Some(heap.number) == keep || heaps.is_drawn(heap);
    for heap in heaps.all().filter(|heap| !is_kept(heap)) {
        heap.inbox.reset();
        if heap.is_torn() && is_others(heap) {
            heap.forget_lists(heaps.partitions());
        }
    }
    for_each_slab(&mut |slab| {
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        if let Some(heap) = heaps.heap_at(owner).filter(|heap| !is_kept(heap)) {
            repair_slab(heap, is_others(heap), slab);
        }
    });
    others().for_each(Heap::clear_torn);
}

/// Repairs a slab of a heap that no thread uses in the child.
fn repair_slab(heap: &Heap, is_others: bool, slab: &Slab) {
    // The stacks were reset above, so whatever was pending is collected here. A slot that is not
    // live was freed twice by threads that are gone: no thread is left to tell.
    slab.link.store(LINK_OPEN, Relaxed);
    slab.clear_owner_flag(PENDING);
    let relist = slab.collect(|_| {}) != Spent::Nothing && !slab.is_listed();
    if heap.is_torn() && is_others {
        heap.list_torn(slab);
    } else if relist {
        heap.bins().list(Heap::bin_of(slab), slab);
    }
}
