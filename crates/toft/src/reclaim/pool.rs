//! Slabs that are empty and unowned.
//!
//! ```text
//! stacks[partition][class]   kept  --> slab --next--> slab ... 0      pages as they were
//!                            aging --> slab --next--> slab ... 0      the same, for longer
//!                            clean --> slab --next--> slab ... 0      pages given back
//! ```
//!
//! Any thread puts and takes; lock-free ([`stack`]): descriptors are never unmapped. A thread that
//! a fork has stopped in the middle loses for the child what it had in hand, and no more.
//!
//! Invariants, verified by [`Pool::check`], E5 by `Allocator::check`:
//! - E1 a slab in the pool has no owner (and so, by I7, is empty and on no list).
//! - E2 it is on the stacks of its partition and class.
//! - E4 a partition with kept slabs has its bit set.
//! - E5 `total` is the bytes of slots of all slabs that have an owner or are kept, but for those
//!   that are uncounted.
//! - E3 no slot of a clean slab is dirty, or all count as such: the system refused to take its
//!   pages.

use crate::keyed::Secret;
use crate::os::Os;
use crate::slab::{CLASSES, SLAB_BYTES, Slab, Violation};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, stack};
use Ordering::{Acquire, Relaxed, SeqCst};

/// The stacks of one (partition, class). Any thread, by compare and exchange.
#[derive(Debug)]
pub(super) struct Stacks {
    pub(super) kept: AtomicU64,
    pub(super) aging: AtomicU64,
    clean: AtomicU64,
}

/// Counters, by any thread; lives in the metadata tables, zero at first.
#[derive(Debug)]
pub(super) struct State {
    /// Bytes of slots in slabs that have pages, but for those that are uncounted: slabs that have
    /// an owner, and kept ones. And the most that the former ever were.
    pub(super) total: AtomicUsize,
    pub(super) peak: AtomicUsize,
    /// Bytes of slots in kept slabs. The one counter that changes with every slab that comes or
    /// goes.
    pub(super) kept: AtomicUsize,
    /// The tick at which slabs last grew old, and the pair of stacks at which that goes on, or 0.
    pub(super) decayed_at: AtomicU32,
    pub(super) aged: AtomicUsize,
    /// Not zero while a thread does so.
    pub(super) decaying: AtomicU32,
    /// The partition where the last search for kept slabs ended.
    pub(super) cursor: AtomicUsize,
    /// Not zero while as little is kept as can be.
    pub(super) lean: AtomicU32,
    /// Slabs that have ever got pages of another.
    pub(super) receivers: AtomicUsize,
}

/// All empty slabs that are unowned.
#[derive(Debug)]
pub struct Pool {
    state: *const State,
    stacks: *const Stacks,
    /// A bit for each partition that may have kept slabs. Any thread.
    rows: *const AtomicU64,
    pub(super) partitions: usize,
    /// Address of the descriptor with number 0.
    slabs: usize,
    /// What reserved slots carry is made from it.
    secret: Secret,
}

impl Pool {
    /// Bytes of tables that `new` needs, zeroed.
    pub const fn table_bytes(partitions: usize) -> usize {
        size_of::<State>().next_multiple_of(64)
            + partitions * CLASSES * size_of::<Stacks>()
            + partitions.div_ceil(64) * size_of::<AtomicU64>()
    }

    /// Before anything is known.
    pub const fn none() -> Pool {
        Pool {
            state: core::ptr::null(),
            stacks: core::ptr::null(),
            rows: core::ptr::null(),
            partitions: 0,
            slabs: 0,
            secret: Secret::none(),
        }
    }

    /// A pool of the slabs whose descriptors lie from `slabs` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes(partitions)` zero bytes that live for ever, are
    ///    aligned to 64, and belong to this object alone.
    /// 2. The slabs that are put here are of partitions below `partitions`; their descriptors live
    ///    for ever, at multiples of `SLAB_BYTES` from `slabs` on, less than 2^32 of them.
    pub unsafe fn new(tables: usize, partitions: usize, slabs: usize, secret: Secret) -> Pool {
        let stacks = tables + size_of::<State>().next_multiple_of(64);
        Pool {
            state: core::ptr::with_exposed_provenance(tables),
            stacks: core::ptr::with_exposed_provenance(stacks),
            rows: core::ptr::with_exposed_provenance(
                stacks + partitions * CLASSES * size_of::<Stacks>(),
            ),
            partitions,
            slabs,
            secret,
        }
    }

    pub(super) fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    pub(super) fn stacks(&self, number: usize) -> &Stacks {
        debug_assert!(number < self.partitions * CLASSES);
        // SAFETY: `new` duty 1: one for each partition and class.
        unsafe { &*self.stacks.add(number) }
    }

    /// The word and the bit that say whether a partition may have kept slabs.
    pub(super) fn row(&self, partition: usize) -> (&AtomicU64, u64) {
        debug_assert!(partition < self.partitions);
        // SAFETY: `new` duty 1: a bit for each partition.
        (unsafe { &*self.rows.add(partition / 64) }, 1 << (partition % 64))
    }

    pub(super) fn stacks_of(&self, slab: &Slab) -> &Stacks {
        self.stacks(slab.partition() * CLASSES + slab.class().index())
    }

    /// Takes a slab that has become empty from its owner, who has let go of it.
    pub fn put(&self, slab: &Slab) {
        if slab.must_be_asked_for() {
            self.call_back(slab);
        }
        self.state().kept.fetch_add(slab.slot_bytes(), Relaxed);
        self.push(&self.stacks_of(slab).kept, slab);
        // kept slab: pairs with `take_kept`, which clears the bit and then reads the stacks. Both
        // sides write first and then look, all SeqCst, so at least one sees the other.
        let (word, bit) = self.row(slab.partition());
        if word.load(SeqCst) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// As `put`, of a slab that is not worth keeping: its pages go.
    pub fn put_clean(&self, os: &impl Os, slab: &Slab) {
        self.release(os, slab, false);
        self.call_back(slab);
        self.state().total.fetch_sub(slab.slot_bytes(), Relaxed);
        self.push(&self.stacks_of(slab).clean, slab);
    }

    /// An empty slab that has its pages, for its new owner. It may be dormant.
    pub fn take(&self, partition: usize, class: usize) -> Option<&'static Slab> {
        let stacks = self.stacks(partition * CLASSES + class);
        if let Some(slab) = self.pop(&stacks.kept).or_else(|| self.pop(&stacks.aging)) {
            self.state().kept.fetch_sub(slab.slot_bytes(), Relaxed);
            self.note_peak();
            return Some(slab);
        }
        None
    }

    /// An empty slab without pages for its new owner, who has asked whether it may grow. It may be
    /// dormant.
    pub fn take_clean(
        &self,
        os: &impl Os,
        partition: usize,
        class: usize,
    ) -> Option<&'static Slab> {
        let slab = self.pop(&self.stacks(partition * CLASSES + class).clean)?;
        self.grow(os, slab);
        Some(slab)
    }

    /// All of a slab counts again, and it may be used. The caller holds it.
    pub fn call_back(&self, slab: &Slab) {
        self.add(slab.count_again());
        slab.call_back();
        // A thread may have put something there meanwhile, without seeing that it is called back.
        self.add(slab.count_again());
    }

    /// Leaves `bytes` of an owned slab that was set aside, or is dormant, uncounted until it is
    /// called back. One thread at a time.
    pub fn leave_uncounted(&self, slab: &Slab, bytes: usize) {
        let before = slab.leave_uncounted(bytes);
        self.add(before);
        self.state().total.fetch_sub(bytes, Relaxed);
        if !slab.must_be_asked_for() {
            self.add(slab.count_again());
        }
    }

    /// Counts `bytes` from here on.
    pub(crate) fn add(&self, bytes: usize) {
        if bytes != 0 {
            self.state().total.fetch_add(bytes, Relaxed);
        }
    }

    /// Remembers the bytes of slots in use, if there were never more; returns that number.
    pub(super) fn note_peak(&self) -> usize {
        let state = self.state();
        let used = state.total.load(Relaxed).saturating_sub(state.kept.load(Relaxed));
        if used > state.peak.load(Relaxed) {
            state.peak.fetch_max(used, Relaxed);
        }
        used
    }

    /// Bytes of slots in slabs that have pages.
    pub fn bytes(&self) -> usize {
        self.state().total.load(Relaxed)
    }

    /// Sets that, in the child of a fork.
    pub fn set_bytes(&self, bytes: usize) {
        self.state().total.store(bytes, Relaxed);
    }

    /// Bytes of slots in kept slabs.
    pub fn kept_bytes(&self) -> usize {
        self.state().kept.load(Relaxed)
    }

    /// Gives the pages of a slab back that was kept; returns the number of bytes.
    pub(super) fn clean_out(&self, os: &impl Os, slab: &Slab, unmap: bool) -> usize {
        self.release(os, slab, unmap);
        self.shelve(slab)
    }

    /// A slab that was kept has no pages any more.
    pub(super) fn shelve(&self, slab: &Slab) -> usize {
        // A count may have reached it in its owner's last moment.
        self.add(slab.count_again());
        let bytes = slab.slot_bytes();
        self.state().kept.fetch_sub(bytes, Relaxed);
        self.state().total.fetch_sub(bytes, Relaxed);
        self.push(&self.stacks_of(slab).clean, slab);
        bytes
    }

    /// Gives the pages of an empty slab back; with `unmap` its address space as well, and then it
    /// is dormant. The caller holds the slab.
    pub fn release(&self, os: &impl Os, slab: &Slab, unmap: bool) {
        // What the reclaimer holds it is about to discard, and what shares pages others need.
        if slab.is_dormant() || slab.is_engaged() {
            return;
        }
        // Then it is as if the system had refused to take the pages.
        let damaged = slab.has_reserved_damage(|address| self.secret.reserved_word(address));
        let stays = damaged || slab.has_been_written();
        let armed = slab.armed_slots();
        slab.lie_dormant();
        let (base, bytes) = (slab.base(), slab.tier().slab_bytes());
        // SAFETY: (1) no slot of the slab is live, and none can be claimed while it is dormant.
        if unmap && !stays && unsafe { os.unmap(base, bytes) }.is_ok() {
            return;
        }
        // Even giving address space back can fail, at the limit of mappings: the pages at least can
        // go. SAFETY: (1) as above.
        let zero = !stays && unsafe { os.discard(base, bytes) }.is_ok();
        slab.wake(zero);
        if stays {
            // Who takes the slab looks.
            armed.for_each(|slot| slab.arm(slot));
        }
    }

    pub(super) fn push(&self, head: &AtomicU64, slab: &Slab) {
        let number = ((&raw const *slab).addr() - self.slabs) / SLAB_BYTES;
        stack::push(head, number as u32, |below| slab.set_next(below as usize));
    }

    pub(super) fn pop(&self, head: &AtomicU64) -> Option<&'static Slab> {
        let number = stack::pop(head, |number| self.slab(number).next() as u32)?;
        let slab = self.slab(number);
        slab.set_next(0);
        Some(slab)
    }

    fn slab(&self, number: u32) -> &'static Slab {
        let address = self.slabs + number as usize * SLAB_BYTES;
        // SAFETY: `new` duty 2: numbers on stacks are those of slabs that were put there.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Verifies E1 to E4. No other thread may be using the pool.
    pub fn check(&self) -> Result<(), Violation> {
        for number in 0..self.partitions * CLASSES {
            let stacks = self.stacks(number);
            let heads = [(&stacks.kept, false), (&stacks.aging, false), (&stacks.clean, true)];
            for (head, clean) in heads {
                let mut next = stack::top(head);
                let (word, bit) = self.row(number / CLASSES);
                if next != 0 && !clean && word.load(Acquire) & bit == 0 {
                    return Err(Violation("E4: kept slabs without a bit"));
                }
                while let Some(top) = next.checked_sub(1) {
                    let slab = self.slab(top);
                    if slab.has_owner() {
                        return Err(Violation("E1: pooled but owned"));
                    }
                    slab.check()?;
                    if clean && !slab.is_clean() {
                        return Err(Violation("E3: clean but dirty"));
                    }
                    if slab.partition() * CLASSES + slab.class().index() != number {
                        return Err(Violation("E2: slab on another pair's stack"));
                    }
                    next = slab.next() as u32;
                }
            }
        }
        Ok(())
    }
}

/// Whether there is a slab that has its pages.
pub(super) fn has_any(stacks: &Stacks) -> bool {
    stack::top(&stacks.kept) != 0 || stack::top(&stacks.aging) != 0
}
