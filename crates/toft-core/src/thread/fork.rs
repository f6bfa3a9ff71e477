//! The repair of the heaps in the child of a fork, before any other code of the program runs there.
//!
//! No heap is locked across a fork, so a thread inside stdio can still allocate (promise 23). Only
//! compaction needs a prepare handler (`Compactor::prepare_fork`). Instead, the child repairs what
//! a thread that does not exist in it may have left half done:
//!
//! - The heaps of other threads become orphans.
//! - If such a thread was changing its heap's lists, the lists are built again from the slabs.
//! - A slab that was about to be pushed on a pending stack is collected directly.
//!
//! Metadata that such a thread was about to map is finished by its owners (`repair` of `Field`,
//! `Units` and `Heaps`). Slabs that such a thread was about to map stay unused. A large block in
//! transit is lost to its stack, but not to the address space.

use super::{Heap, Heaps};
use crate::remote::{Last, announce};
use crate::slab::{Batch, LINK_OPEN, PENDING, Slab, Spent};
use crate::sync::Ordering::Relaxed;

/// Repairs all heaps in the child of a fork. `mine` is the forking thread's heap. `torn` is true if
/// a thread without a heap was in the middle of a change. `for_each_slab` visits every slab.
///
/// Costs a few instructions for each heap. It visits the descriptors of all slabs only if some
/// thread was in the middle of a change.
pub fn repair_after_fork(
    heaps: &Heaps,
    mine: &Heap,
    torn: bool,
    mut for_each_slab: impl FnMut(&mut dyn FnMut(&Slab)),
) {
    repair_outboxes(heaps, mine);
    let mine_number = (!mine.is_sentinel()).then_some(mine.number);
    // A signal handler may fork while it interrupts a change by this same thread. That change
    // continues in the child when the handler returns, so its heaps are left alone. They are the
    // thread's own heap and the shared heap that it uses.
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
            heap.forget_lists(heaps.partitions_after_fork());
        }
    }
    for_each_slab(&mut |slab| {
        if let Some(heap) = heaps.owner_of(slab).filter(|heap| !is_kept(heap)) {
            repair_slab(heap, is_others(heap), slab);
        }
    });
    others().for_each(Heap::clear_torn);
}

/// Publishes what threads that do not exist in the child have freed in slabs of others.
fn repair_outboxes(heaps: &Heaps, mine: &Heap) {
    for heap in heaps.all() {
        if let Some(outbox) = heap.outbox() {
            // A mark whose remote bit is set was being published. It is no double free.
            let publish = |slab: &Slab, batch: &Batch, _: Last| {
                let any = batch.publish(slab, |_| {});
                batch.release(slab);
                if any {
                    announce(slab);
                }
            };
            outbox.repair(heap.address() == mine.address(), publish);
        }
    }
}

/// Repairs a slab of a heap that no thread of the child is changing.
fn repair_slab(heap: &Heap, is_others: bool, slab: &Slab) {
    // The stacks were reset above, so what was pending is collected here. A slot that is not live
    // was freed twice by threads that do not exist any more. It is not reported.
    slab.link.store(LINK_OPEN, Relaxed);
    slab.clear_owner_flag(PENDING);
    let relist = heap.collect_slab(slab, |_| {}) != Spent::Nothing && !slab.is_listed();
    if heap.is_torn() && is_others {
        heap.list_torn(slab);
    } else if relist {
        heap.bins().list(Heap::bin_of(slab), slab);
    }
}
