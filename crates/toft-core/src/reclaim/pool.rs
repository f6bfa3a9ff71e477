//! Slabs that are empty and unowned.
//!
//! ```text
//! stacks[partition][class]   kept  --> slab --next--> slab ... 0      pages as they were
//!                            aging --> slab --next--> slab ... 0      the same, for longer
//!                            clean --> slab --next--> slab ... 0      pages returned to the OS
//! ```
//!
//! Any thread puts and takes slabs. The stacks are lock-free ([`stack`]), because descriptors are
//! never unmapped. A thread that a fork has stopped in the middle loses only the slab in transit,
//! and only in the child.
//!
//! Invariants, verified by [`Pool::check`], E5 by `Allocator::check`:
//! - E1 a slab in the pool has no owner (and so, by I7, is empty and on no list).
//! - E2 it is on the stacks of its partition and class.
//! - E3 no slot of a clean slab is dirty, or all count as dirty because the system refused to take
//!   the pages.
//! - E4 a partition with kept slabs has its bit set; one that ever had any slab here has its other
//!   bit set.
//! - E5 `total` is the bytes of slots of all slabs that have an owner or are kept, without the
//!   bytes that are uncounted.

use crate::keyed::Secret;
use crate::os::Os;
use crate::region::Partition;
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

/// The counters of the pool. Any thread. In the metadata tables, zero at first.
#[derive(Debug)]
pub(super) struct State {
    /// The bytes of slots in slabs that have an owner or are kept, without the uncounted bytes.
    pub(super) total: AtomicUsize,
    /// The most bytes of slots in slabs that had an owner, since the start.
    pub(super) peak: AtomicUsize,
    /// The bytes of slots in kept slabs. This is the only counter that changes with every slab that
    /// is put or taken.
    pub(super) kept: AtomicUsize,
    /// The tick at which slabs were last moved to the aging stacks.
    pub(super) decayed_at: AtomicU32,
    /// The number of the (partition, class) at which that continues, or zero.
    pub(super) aged: AtomicUsize,
    /// Not zero while a thread ages slabs.
    pub(super) decaying: AtomicU32,
    /// The partition where the last search for kept slabs ended.
    pub(super) cursor: AtomicUsize,
    /// Not zero while as few slabs as possible are kept.
    pub(super) lean: AtomicU32,
    /// The number of slabs that have ever received pages of another slab.
    pub(super) receivers: AtomicUsize,
    /// The number of slabs whose tails were unmapped.
    pub(super) tails: AtomicUsize,
}

/// The number of bytes before the bits of partitions.
const ROWS: usize = size_of::<State>().next_multiple_of(64);

/// All slabs that are empty and unowned.
#[derive(Debug)]
pub struct Pool {
    state: *const State,
    stacks: *const Stacks,
    /// A bit for each partition that may have kept slabs. Then a bit for each that ever had a slab
    /// here: the stacks of the others are not read, so that their pages stay untouched. Any thread.
    rows: *const AtomicU64,
    pub(super) partitions: usize,
    /// The address of the descriptor with number 0.
    slabs: usize,
    /// The secret of the pattern in reserved slots.
    secret: Secret,
}

impl Pool {
    /// Returns the number of bytes of the first zeroed table that `new` needs: of the state, and of
    /// the bits. Every program writes to it.
    pub const fn state_bytes(partitions: usize) -> usize {
        ROWS + 2 * partitions.div_ceil(64) * size_of::<AtomicU64>()
    }

    /// Returns the number of bytes of the second one.
    pub const fn table_bytes(partitions: usize) -> usize {
        partitions * CLASSES * size_of::<Stacks>()
    }

    /// Returns a pool without state, for the time before the start.
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

    /// Returns a pool of the slabs whose descriptors are at `slabs` and after it.
    ///
    /// # Safety
    /// 1. `state` and `stacks` are the addresses of `state_bytes(partitions)` and of
    ///    `table_bytes(partitions)` zero bytes that live for ever, are aligned to 64, and belong to
    ///    this object alone.
    /// 2. The slabs that are put here are of partitions below `partitions`. Their descriptors live
    ///    for ever, at multiples of `SLAB_BYTES` from `slabs` on, less than 2^32 of them.
    pub unsafe fn new(
        (state, stacks): (usize, usize),
        partitions: usize,
        slabs: usize,
        secret: Secret,
    ) -> Pool {
        Pool {
            state: core::ptr::with_exposed_provenance(state),
            stacks: core::ptr::with_exposed_provenance(stacks),
            rows: core::ptr::with_exposed_provenance(state + ROWS),
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

    /// Returns the word and the bit that are set if a partition may have kept slabs.
    pub(super) fn row(&self, partition: usize) -> (&AtomicU64, u64) {
        debug_assert!(partition < self.partitions);
        // SAFETY: `new` duty 1: a bit for each partition.
        (unsafe { &*self.rows.add(partition / 64) }, 1 << (partition % 64))
    }

    /// Returns the word and the bit that are set if a partition ever had a slab here.
    fn ever(&self, partition: usize) -> (&AtomicU64, u64) {
        debug_assert!(partition < self.partitions);
        let words = self.partitions.div_ceil(64);
        // SAFETY: `new` duty 1: as many words again.
        (unsafe { &*self.rows.add(words + partition / 64) }, 1 << (partition % 64))
    }

    /// Returns the stacks of a partition and class, or `None` if the partition never had a slab
    /// here. A thread that does not see the bit yet uses another slab.
    fn stacks_in_use(&self, partition: Partition, class: usize) -> Option<&Stacks> {
        let (word, bit) = self.ever(partition.number());
        let is_used = word.load(Relaxed) & bit != 0;
        is_used.then(|| self.stacks(partition.number() * CLASSES + class))
    }

    pub(super) fn stacks_of(&self, slab: &Slab) -> &Stacks {
        self.stacks(number_of(slab))
    }

    /// Puts an empty slab into the pool. Its owner has given it up.
    pub fn put(&self, slab: &Slab) {
        if slab.limit_count().may_be_uncounted() {
            self.resume(slab);
        }
        self.state().kept.fetch_add(slab.pages().slot_bytes(), Relaxed);
        self.push(&self.stacks_of(slab).kept, slab);
        // kept slab: pairs with `take_kept`, which clears the bit and then reads the stacks. Both
        // sides write first and then read, all SeqCst, so at least one sees the other.
        let (word, bit) = self.row(slab.partition().number());
        if word.load(SeqCst) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// Puts in an empty slab that is not worth keeping, after its pages are returned to the OS.
    pub fn put_clean(&self, os: &impl Os, slab: &Slab) {
        self.release(os, slab, false);
        self.resume(slab);
        self.state().total.fetch_sub(slab.pages().slot_bytes(), Relaxed);
        self.push(&self.stacks_of(slab).clean, slab);
    }

    /// Takes an empty slab that has its pages, for a new owner. The slab may be dormant.
    pub fn take(&self, partition: Partition, class: usize) -> Option<&'static Slab> {
        let stacks = self.stacks_in_use(partition, class)?;
        if let Some(slab) = self.pop(&stacks.kept).or_else(|| self.pop(&stacks.aging)) {
            self.state().kept.fetch_sub(slab.pages().slot_bytes(), Relaxed);
            self.note_peak();
            return Some(slab);
        }
        None
    }

    /// Takes an empty slab without pages, for a new owner that has the limit's promise for its
    /// bytes. The slab may be dormant.
    pub fn take_clean(
        &self,
        os: &impl Os,
        partition: Partition,
        class: usize,
    ) -> Option<&'static Slab> {
        let slab = self.pop(&self.stacks_in_use(partition, class)?.clean)?;
        self.grow(os, slab);
        Some(slab)
    }

    /// Counts all bytes of a slab again, and allows its use. The caller holds the slab.
    pub fn resume(&self, slab: &Slab) {
        self.add(slab.limit_count().take_uncounted());
        slab.limit_count().resume();
        // A thread may have left bytes uncounted meanwhile, because it did not see this call.
        self.add(slab.limit_count().take_uncounted());
    }

    /// Leaves `bytes` bytes of an owned slab uncounted until it is resumed. The slab is suspended
    /// or dormant. One thread at a time.
    pub fn set_uncounted(&self, slab: &Slab, bytes: usize) {
        let before = slab.limit_count().set_uncounted(bytes);
        self.add(before);
        self.state().total.fetch_sub(bytes, Relaxed);
        if !slab.limit_count().may_be_uncounted() {
            self.add(slab.limit_count().take_uncounted());
        }
    }

    /// Counts `bytes` bytes from now on.
    pub(crate) fn add(&self, bytes: usize) {
        if bytes != 0 {
            self.state().total.fetch_add(bytes, Relaxed);
        }
    }

    /// Raises the peak to the bytes of slots in use, if there were never more. Returns the bytes in
    /// use.
    pub(super) fn note_peak(&self) -> usize {
        let state = self.state();
        let used = state.total.load(Relaxed).saturating_sub(state.kept.load(Relaxed));
        if used > state.peak.load(Relaxed) {
            state.peak.fetch_max(used, Relaxed);
        }
        used
    }

    /// Returns the bytes of slots in slabs that have an owner or are kept, without the uncounted
    /// bytes.
    pub fn bytes(&self) -> usize {
        self.state().total.load(Relaxed)
    }

    /// Sets the result of `bytes`, in the child of a fork.
    pub fn set_bytes(&self, bytes: usize) {
        self.state().total.store(bytes, Relaxed);
    }

    /// Returns the bytes of slots in kept slabs.
    pub fn kept_bytes(&self) -> usize {
        self.state().kept.load(Relaxed)
    }

    /// Gives the pages of a kept slab back to the OS, and returns the number of bytes of its slots.
    pub(super) fn clean_out(&self, os: &impl Os, slab: &Slab, unmap: bool) -> usize {
        self.release(os, slab, unmap);
        self.push_clean(slab)
    }

    /// Puts a slab that was kept on its clean stack. Its pages have been returned to the OS.
    pub(super) fn push_clean(&self, slab: &Slab) -> usize {
        // A limit's count may have left bytes of the slab uncounted in its owner's last moment.
        self.add(slab.limit_count().take_uncounted());
        let bytes = slab.pages().slot_bytes();
        self.state().kept.fetch_sub(bytes, Relaxed);
        self.state().total.fetch_sub(bytes, Relaxed);
        self.push(&self.stacks_of(slab).clean, slab);
        bytes
    }

    /// Gives the pages of an empty slab back to the OS. With `unmap`, also unmaps its address
    /// space, and then leaves the slab dormant. The caller holds the slab.
    pub fn release(&self, os: &impl Os, slab: &Slab, unmap: bool) {
        // The reclaimer is about to discard the pages of slots that it holds. Other slabs need
        // shared pages.
        if slab.is_dormant() || slab.is_engaged() {
            return;
        }
        // A slab that stays is treated as if the system had refused to take the pages.
        let damaged = slab.reserved().has_damage(|address| self.secret.reserved_word(address));
        let stays = damaged || slab.pages().has_been_written();
        let armed = slab.reserved().armed();
        slab.make_dormant();
        let (base, bytes) = (slab.base(), slab.pages().mapped_bytes(os.page_size()));
        // SAFETY: (1) no slot of the slab is live, and none can be claimed while it is dormant.
        if unmap && !stays && unsafe { os.unmap(base, bytes) }.is_ok() {
            return;
        }
        // Unmapping can fail at the limit of mappings. The pages can then still be returned.
        // SAFETY: (1) no slot of the slab is live, and none can be claimed while it is dormant.
        let zero = !stays && unsafe { os.discard(base, bytes) }.is_ok();
        slab.wake(zero);
        if stays {
            // The thread that takes the slab checks the reserved slots.
            armed.for_each(|slot| slab.reserved().arm(slot));
        }
    }

    pub(super) fn push(&self, head: &AtomicU64, slab: &Slab) {
        let (word, bit) = self.ever(slab.partition().number());
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
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
        // SAFETY: `new` duty 2: the numbers on stacks are those of slabs that were put there.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Verifies E1 to E4. No other thread may use the pool.
    pub fn check(&self) -> Result<(), Violation> {
        for number in 0..self.partitions * CLASSES {
            let stacks = self.stacks(number);
            let heads = [(&stacks.kept, false), (&stacks.aging, false), (&stacks.clean, true)];
            for (head, clean) in heads {
                let mut next = stack::top(head);
                let (word, bit) = self.row(number / CLASSES);
                let (ever, ever_bit) = self.ever(number / CLASSES);
                let seen = ever.load(Acquire) & ever_bit != 0;
                if next != 0 && (!seen || !clean && word.load(Acquire) & bit == 0) {
                    return Err(Violation("E4: slabs without a bit"));
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
                    if number_of(slab) != number {
                        return Err(Violation("E2: slab on another pair's stack"));
                    }
                    next = slab.next() as u32;
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the stacks have a slab with pages.
pub(super) fn has_any(stacks: &Stacks) -> bool {
    stack::top(&stacks.kept) != 0 || stack::top(&stacks.aging) != 0
}

/// Returns the number of the stacks of a slab's partition and class.
fn number_of(slab: &Slab) -> usize {
    slab.partition().number() * CLASSES + slab.class().index()
}
