//! Frees of another thread's slots that one thread gathers before it publishes them.
//!
//! To publish a free takes an atomic operation, which costs more than the rest of the free. A
//! thread that frees several slots of one slab therefore *marks* them in a [`Batch`] of its heap
//! (`remote/outbox.rs`), by plain stores, and publishes all of them by one atomic operation for
//! each group of slots.
//!
//! ```text
//! take      batch.slab = slab;  slab.batch = batch, if there is no other;  owner |= BATCHED
//! mark      marks[group] |= bit
//! publish   version is odd;  remote[group] |= marks[group];  marks[group] = 0;  version is even
//! release   owner &= !BATCHED;  slab.batch = 0;  batch.slab = 0;  version is another
//! ```
//!
//! A mark is as good as a published free for every other thread that frees the slot: while BATCHED
//! is set, the owner's free takes the way that checks marks, and so does its search for free slots.
//! Other threads check marks before they set a remote bit. So a slot that is freed twice is found
//! at the second free. If two threads free it at the same moment, one of these finds it:
//!
//! - the thread that publishes a mark whose remote bit is set;
//! - the owner that collects a slot that is not live, or that is also marked.
//!
//! Invariants, verified by [`Batch::check`] and `Slab::check`:
//! - O1 a batch has a slab exactly if the slab names the batch, and the slab has BATCHED then.
//! - O2 marks are of slots of the batch's slab that were live and that no other thread has freed.
//!
//! A batch has one slab at a time. A reader that has found a batch by `slab.batch` must know that
//! the marks that it reads are still of that slab. So it reads the version before and after.

#[cfg(not(loom))]
use super::Violation;
use super::slab::{BATCHED, GROUPS, SECURE_LEN, Slab, view};
use super::slots::SlotIndex;
use crate::policy::SECURE;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize};

/// The address of the batch that has marks of a slab, or zero. The default build only: in the
/// secure build, slots that other threads free wait in a quarantine first.
pub(super) type BatchAddress = [AtomicUsize; 1 - SECURE_LEN];

/// A batch is published when it has this many slots, or slots of this many bytes.
const SLOTS: u32 = 64;
const BYTES: usize = 8 << 10;
/// Slots of more bytes are published one by one.
const LARGEST: usize = BYTES / 4;

/// How often a reader tries to read marks while their version changes. One publication changes it
/// twice.
const TRIES: u32 = 3;

/// What one thread has freed in one slab of another thread and has not published. The thread whose
/// heap has the batch writes it, with the heap's reentrancy guard. Any thread reads it.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct Batch {
    /// Odd while marks are being published. Changes when the batch gets another slab.
    version: AtomicUsize,
    /// The address of the slab, or zero.
    slab: AtomicUsize,
    marks: [AtomicU64; GROUPS],
    /// The number of marks.
    count: AtomicU32,
    /// The number of marks that were ever published.
    published: AtomicU32,
    /// The number of marks that were ever made, at the last call of `is_rare`. Holder only.
    seen: AtomicU32,
}

/// What becomes of a free that is offered to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The slot is marked.
    Marked,
    /// The slot is marked, and the batch is to be published.
    Full,
    /// Another thread, or this one, has freed the slot.
    Twice,
    /// The free must be published at once.
    Refused,
}

#[cfg(not(loom))]
impl Batch {
    /// The offsets of the slab's address and of the marks, for readers outside the process.
    pub(super) const SLAB: usize = core::mem::offset_of!(Batch, slab);
    pub(super) const MARKS: usize = core::mem::offset_of!(Batch, marks);
}

impl Batch {
    /// Returns a batch without a slab.
    #[cfg(not(loom))]
    pub const fn new() -> Batch {
        Batch {
            version: AtomicUsize::new(0),
            slab: AtomicUsize::new(0),
            marks: [const { AtomicU64::new(0) }; GROUPS],
            count: AtomicU32::new(0),
            published: AtomicU32::new(0),
            seen: AtomicU32::new(0),
        }
    }

    /// Returns the batch's slab, if there is one.
    pub fn slab(&self) -> Option<&'static Slab> {
        let address = self.slab.load(Relaxed);
        // SAFETY: `take` has stored the address of a descriptor, and descriptors live for ever.
        (address != 0).then(|| unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Gives the batch, which has no slab, to `slab`. Returns false if another thread has a batch
    /// of that slab. Holder only.
    pub fn take(&self, slab: &Slab) -> bool {
        let Some(batch) = slab.batch.first() else { return false };
        // The first call of `is_rare` finds enough.
        self.seen.store(self.published.load(Relaxed).wrapping_sub(SLOTS), Relaxed);
        // Stored first, so that the child of a fork finds a slab that is half taken.
        self.slab.store(address_of(slab), Release);
        let own = (&raw const *self).expose_provenance();
        if batch.compare_exchange(0, own, AcqRel, Relaxed).is_err() {
            self.slab.store(0, Release);
            return false;
        }
        slab.set_owner_flag(BATCHED);
        true
    }

    /// Marks a slot of the batch's slab. Holder only.
    #[inline]
    pub fn mark(&self, slab: &Slab, slot: SlotIndex) -> Offered {
        debug_assert!(self.slab.load(Relaxed) == address_of(slab));
        let (marks, bit) = (self.marks_of(slot.group()), slot.bit());
        let before = marks.load(Relaxed);
        if before & bit != 0 || slab.remote.has(slot) {
            return Offered::Twice;
        }
        // mark: pairs with `read`.
        marks.store(before | bit, Release);
        let count = self.count.load(Relaxed) + 1;
        self.count.store(count, Relaxed);
        if count < SLOTS && (count as usize) * slab.size() < BYTES {
            Offered::Marked
        } else {
            Offered::Full
        }
    }

    /// Returns true if fewer than `least` slots were marked since the last call. The first call
    /// after the batch got its slab returns false. Holder only.
    pub fn is_rare(&self, least: u32) -> bool {
        let marked = self.published.load(Relaxed).wrapping_add(self.count.load(Relaxed));
        let lately = marked.wrapping_sub(self.seen.load(Relaxed));
        self.seen.store(marked, Relaxed);
        lately < least
    }

    /// Publishes the marks: each becomes a remote bit. Calls `twice` for each slot that another
    /// thread has freed meanwhile. Returns true if there was a mark. Holder, or the reclaimer while
    /// the batch is closed to its holder.
    pub fn publish(&self, slab: &Slab, mut twice: impl FnMut(SlotIndex)) -> bool {
        let count = self.count.load(Relaxed);
        self.published.store(self.published.load(Relaxed).wrapping_add(count), Relaxed);
        self.count.store(0, Relaxed);
        let version = self.version.load(Relaxed);
        // The thread that was publishing ended in between, in a signal handler or by a fork. It may
        // have set the bits of marks that it has not cleared.
        let cut_off = version & 1 != 0;
        // publish: pairs with `read`. A thread that sees one of the bits sees an odd version, or a
        // later one.
        self.version.store(version | 1, Release);
        // Not `count != 0`: a thread that ended between the two has made a mark and not counted it.
        let mut any = false;
        for group in 0..GROUPS {
            let word = self.marks_of(group);
            let marks = word.load(Relaxed);
            if marks == 0 {
                continue;
            }
            any = true;
            let both = slab.remote.publish(group, marks);
            let mut both = if cut_off { 0 } else { both };
            while both != 0 {
                twice(SlotIndex::in_group(group, both.trailing_zeros()));
                both &= both - 1;
            }
            word.store(0, Release);
        }
        self.version.store((version | 1).wrapping_add(1), Release);
        any
    }

    /// Takes the batch from its slab, after it was published. Holder, or as for `publish`.
    pub fn release(&self, slab: &Slab) {
        if let Some(batch) = slab.batch.first() {
            let own = (&raw const *self).expose_provenance();
            // In the child of a fork, the slab may be half taken or half released.
            if batch.load(Relaxed) == own {
                slab.clear_owner_flag(BATCHED);
                batch.store(0, Release);
            }
        }
        self.slab.store(0, Release);
        // release: pairs with `read`. Marks of the next slab come after this.
        let version = self.version.load(Relaxed);
        self.version.store((version | 1).wrapping_add(1), Release);
    }

    /// Returns a number that changes when a slot is marked or published, except for rare accidents.
    pub fn stamp(&self) -> u64 {
        let marks = (0..GROUPS)
            .fold(0, |sum: u64, group| sum.rotate_left(7) ^ self.marks_of(group).load(Relaxed));
        marks ^ (self.version.load(Relaxed) as u64).rotate_left(32)
    }

    /// Verifies O1 and O2. Holder only.
    #[cfg(not(loom))]
    pub fn check(&self) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let marked: u32 = self.marks.iter().map(|marks| marks.load(Relaxed).count_ones()).sum();
        ensure(marked == self.count.load(Relaxed), "O2: the number of marks")?;
        let Some(slab) = self.slab() else { return ensure(marked == 0, "O2: marks of no slab") };
        let own = (&raw const *self).expose_provenance();
        ensure(slab.remote_frees().batch_address() == own, "O1: the batch of another")?;
        let published = (0..GROUPS)
            .any(|group| slab.remote.of_group(group) & self.marks_of(group).load(Relaxed) != 0);
        ensure(!published, "O2: marked and published")
    }

    #[inline]
    fn marks_of(&self, group: usize) -> &AtomicU64 {
        debug_assert!(group < GROUPS);
        // As in `RemoteBits::word`.
        &self.marks[group % GROUPS]
    }

    /// Returns the marks of a group of `slab`. Zero while they are being published if `settled`.
    /// Any thread. No loop waits: after some tries the marks were published, and the caller reads
    /// the remote bits next.
    fn read(&self, slab: &Slab, group: usize, settled: bool) -> u64 {
        for _ in 0..TRIES {
            // pairs: publish, release.
            let version = self.version.load(Acquire);
            if self.slab.load(Acquire) != address_of(slab) {
                return 0;
            }
            // pairs: mark.
            let marks = self.marks_of(group).load(Acquire);
            if self.version.load(Relaxed) == version {
                return if settled && version & 1 != 0 { 0 } else { marks };
            }
        }
        0
    }
}

#[cfg(not(loom))]
impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

fn address_of(slab: &Slab) -> usize {
    (&raw const *slab).expose_provenance()
}

view! {
    /// What other threads have freed in a slab, published or not.
    RemoteFrees, remote_frees
}

impl RemoteFrees<'_> {
    /// Returns the address of the batch that has marks of the slab, or zero.
    #[inline]
    pub fn batch_address(self) -> usize {
        self.batch.first().map_or(0, |address| address.load(Acquire))
    }

    /// Returns true if threads gather frees of slots of this size.
    #[inline]
    pub fn may_have_batch(self) -> bool {
        !SECURE && self.size() <= LARGEST
    }

    /// Returns a bit for each slot of a group that another thread has freed and not published.
    #[inline]
    fn marks(self, group: usize, settled: bool) -> u64 {
        let address = self.batch_address();
        if address == 0 {
            return 0;
        }
        // SAFETY: `take` has stored the address of a batch, which is a part of a heap, and heaps
        // live for ever.
        let batch: &Batch = unsafe { &*core::ptr::with_exposed_provenance(address) };
        batch.read(self.0, group, settled)
    }

    /// Returns a bit for each slot of a group that a thread has freed and not published, although
    /// the holder has just taken the remote bits that were published.
    #[inline]
    pub(super) fn unpublished(self, group: usize) -> u64 {
        self.marks(group, true)
    }

    /// Returns a bit for each slot of a group that another thread has freed.
    #[inline]
    pub(super) fn of_group(self, group: usize) -> u64 {
        // In this order, because marks are published before they are cleared.
        let marks = self.marks(group, false);
        marks | self.remote.of_group(group)
    }

    /// Returns the number of slots that other threads have freed and the owner has not collected.
    pub fn count(self) -> usize {
        (0..GROUPS).map(|group| self.of_group(group).count_ones() as usize).sum()
    }

    /// Returns true if a thread has freed the slot and not published that.
    #[inline]
    pub fn is_marked(self, slot: SlotIndex) -> bool {
        self.marks(slot.group(), false) & slot.bit() != 0
    }

    /// Returns true if another thread has freed the slot.
    #[inline]
    pub fn has(self, slot: SlotIndex) -> bool {
        self.is_marked(slot) || self.remote.has(slot)
    }
}

#[cfg(all(test, not(loom), not(feature = "secure-light")))]
mod tests {
    use super::*;
    use crate::slab::SizeClass;
    use crate::slab::memory::slab_memory;
    use crate::slab::states::LIVE;
    use std::boxed::Box;
    use std::vec::Vec;
    extern crate std;

    /// Returns a slab of 256 live slots.
    fn slab() -> Box<Slab> {
        let slab = Box::new(Slab::zeroed());
        let slots = slab.open_for_test(slab_memory(), SizeClass::of(64).unwrap().size());
        slab.publish(1 << 20, slots);
        slab.all_slots().for_each(|slot| slab.states.of(slot).store(LIVE, Relaxed));
        slab
    }

    /// A thread ended after it had set the bits of some marks, and before it cleared the marks. Who
    /// has its batches next publishes the rest, and takes no mark for a double free.
    #[test]
    fn a_publication_that_was_cut_off_goes_on() {
        let (slab, batch) = (slab(), Batch::new());
        assert!(batch.take(&slab));
        let slots: Vec<SlotIndex> = SlotIndex::range(60..70).collect();
        for &slot in &slots {
            assert_eq!(batch.mark(&slab, slot), Offered::Marked);
        }
        batch.check().unwrap();
        batch.version.store(1, Relaxed);
        for &slot in &slots[..4] {
            assert!(slab.remote.set(slot));
        }
        assert!(batch.publish(&slab, |slot| panic!("{slot:?} was freed twice")));
        assert_eq!(slab.remote.count(), slots.len());
        // The next one is a publication like any other.
        assert_eq!(batch.mark(&slab, SlotIndex::new(0)), Offered::Marked);
        assert!(slab.remote.set(SlotIndex::new(0)));
        let mut twice = Vec::new();
        assert!(batch.publish(&slab, |slot| twice.push(slot)));
        assert_eq!(twice, [SlotIndex::new(0)]);
        batch.release(&slab);
        batch.check().unwrap();
        assert_eq!(slab.remote_frees().batch_address(), 0);
    }

    /// A reader that looks while marks are being published sees them, unless it asks for settled
    /// ones; and none of a batch that has gone to another slab.
    #[test]
    fn marks_are_read_while_they_are_published() {
        let (slab, other, batch) = (slab(), slab(), Batch::new());
        let slot = SlotIndex::new(5);
        assert!(batch.take(&slab));
        assert_eq!(batch.mark(&slab, slot), Offered::Marked);
        assert_eq!(batch.mark(&slab, slot), Offered::Twice);
        assert!(slab.remote_frees().has(slot) && slab.remote_frees().unpublished(0) == 1 << 5);
        batch.version.store(1, Relaxed);
        assert!(slab.remote_frees().has(slot) && slab.remote_frees().unpublished(0) == 0);
        assert!(!other.remote_frees().has(slot));
        batch.publish(&slab, |_| {});
        batch.release(&slab);
        assert!(batch.take(&other));
        assert!(!other.remote_frees().has(slot) && slab.remote.has(slot));
        // A second batch of a slab is refused.
        assert!(!Batch::new().take(&other));
    }
}
