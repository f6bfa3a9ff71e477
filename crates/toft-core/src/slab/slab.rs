//! The slab descriptor: the state of each slot of one run of address space. Each kind of writer has
//! separate cache lines.
//!
//! ```text
//! line 0     everyone reads   owner|flags  multiplier  slots  base  size  class  partition  site
//!                             batch (secure: canary_seeds, reserved; site is in line 7)
//! line 1     owner writes     claim  claim_states  slot_size  credit  next ...
//! line 2     others write     remote[4]  bit s: slot s was freed by another thread;  link
//! lines 3-6  owner writes     states[256]  a byte for each slot
//! line 7     reclaimer writes scans  (`activity.rs`)
//!            owner writes     previous  (secure: site)
//! (secure: lines 8-15, the number of bytes after the end of each block: `requested_sizes.rs`)
//! ```
//!
//! A slot is in exactly one condition ([`SlotState`](super::SlotState)):
//!
//! ```text
//!            state    claim  remote
//! free       not LIVE   0      0     never handed out, or freed
//! claimed    not LIVE   1      0     next to be handed out by malloc: the magazine
//! live       LIVE       0      0     the program has it
//! remote     LIVE       0      1     freed by another thread; the owner will collect it
//! ```
//!
//! A thread that has freed a slot of another thread may publish its remote bit later (`batch.rs`).
//!
//! The reclaimer may *hold* free and remote slots for a moment (`pinning.rs`). In slabs that share
//! pages, a free slot may be *lent* (`page_sharing.rs`).
//!
//! Each slot has a byte, so malloc and free change its state by one plain store. A bit would have
//! to be read, changed and written. No call waits for what another call has stored (decision 0012).
//! The *claim* is the magazine of the design: the free slots of one group of 64. One step finds
//! them, and malloc hands them out by counting trailing zeros. A claim holds no pointers and needs
//! no flush.
//!
//! Invariants, verified by [`Slab::check`], except I10, which `check_from_outside` verifies:
//! - I1 `slots` is what the class says, or fewer in the default build. No slot at or above it is in
//!   use.
//! - I2 a claimed slot is neither live nor remote, except the slot that malloc is handing out.
//! - I3 a remote slot is live.
//! - I4 no slot at or above `fresh` was handed out since the slab's memory was last zero.
//! - I5 `claim_states` points to the states of a group of 64.
//! - I6 a slab that is on no list has no claim. Its credit is the number of frees until it reaches
//!   the threshold for being listed, unless it is `disturbed` or shares pages. A disturbed slab, on
//!   a list or not, is announced to its owner, which will count again.
//! - I7 a slab without owner has no live slot, no claim, and is on no list.
//! - I8 SHARED is set exactly if a unit shares pages. Only such a slab has lent slots, except that
//!   guard pages and reserved slots of the secure build count as lent.
//! - I9 an awake slab has no uncounted bytes, so all memory that malloc can draw from counts.
//! - I10 each slot has one of the states of `states.rs`.
//! - I11 the reserved slots are those that were chosen when the slab was opened.

use super::activity::ScanRecord;
use super::batch::BatchAddress;
use super::canary_seeds::CanarySeeds;
use super::class::{PAGE, SizeClass, SmallSize};
use super::remote::RemoteBits;
use super::requested_sizes::Slacks;
use super::slots::SlotIndex;
use super::states::{NO_SLOT, States};
use crate::policy::SECURE;
use crate::region::{Descriptor, Partition, Site};
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, Settled};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The maximum number of slots in a slab: 256 slots of the smallest size fill a page.
#[cfg(not(loom))]
pub const SLOTS_MAX: usize = 256;
/// The maximum number of slots in a slab. The model checker tracks each state, so the number is
/// small.
#[cfg(loom)]
pub const SLOTS_MAX: usize = 2;
/// The number of slots in a group, which is the number of bits in a claim.
pub const GROUP_SLOTS: usize = 64;
/// The number of groups in a slab.
pub const GROUPS: usize = SLOTS_MAX.div_ceil(GROUP_SLOTS);
/// A value of `awake`: the slab has no pages, or none that malloc knows of.
pub(super) const DORMANT: u8 = 0;
/// A value of `awake`: slots may be claimed.
pub(super) const AWAKE: u8 = 1;
/// A value of `awake`: the slab is suspended, and malloc must ask before it claims slots.
pub(super) const SUSPENDED: u8 = 2;
/// A value of `outgrown`: after this number of credits the bin should get a slab of the greatest
/// length.
pub(super) const OUTGROWN: u8 = 32;
/// A value of `outgrown`: the bin has done so.
pub(super) const REPLACED: u8 = OUTGROWN + 1;
/// The length of the arrays that only the secure build has: 1 there, and 0 in the default build.
pub(super) const SECURE_LEN: usize = if SECURE { 1 } else { 0 };
/// The number of bytes in a descriptor.
pub use crate::policy::SLAB_BYTES;

/// Flag in `owner`: another thread has freed a slot here, and the slab is on the pending stack.
/// Heaps are aligned, so this bit of their address is zero.
pub const PENDING: usize = 1;

/// Flag in `owner`: the reclaimer holds slots of this slab, or reads it. The slab must not change
/// owner, and its pages stay mapped.
pub const HOLDING: usize = 2;

/// Flag in `owner`: the slab shares pages with others, so it keeps its owner and its mapping.
pub const SHARED: usize = 4;

/// Flag in `owner`: a thread that is not the owner has a batch of frees of this slab's slots
/// (`batch.rs`). The owner's free and search for free slots check the batch. The slab must not
/// change owner.
pub const BATCHED: usize = 8;

/// Flag in `owner`, for ever where the slab has an owner: its slots are medium, so that a free
/// makes malloc hand out the slot next (`Heap::push`). A free of a small slot compares the owner
/// with the heap's address alone. Not in the secure builds.
pub const MEDIUM_SLOTS: usize = 16;

/// All flags in `owner`.
pub const FLAGS: usize = PENDING | HOLDING | SHARED | BATCHED | MEDIUM_SLOTS;

/// The number of units in a slab. A unit may share its pages with the same unit of other slabs.
#[cfg(not(loom))]
pub const UNITS: usize = 16;
/// The number of units, for the model checker.
#[cfg(loom)]
pub const UNITS: usize = 1;

/// The `link` of a slab whose pushing thread has not yet written the next slab.
pub const LINK_OPEN: usize = usize::MAX;

/// Defines a view of a slab: a type with the methods of one concern, and a method of `Slab` that
/// returns it.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $method:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(&'a Slab);

        impl Slab {
            #[doc = concat!("Returns the methods of `", stringify!($name), "`.")]
            #[inline(always)]
            pub fn $method(&self) -> $name<'_> {
                $name(self)
            }
        }

        impl core::ops::Deref for $name<'_> {
            type Target = Slab;

            #[inline(always)]
            fn deref(&self) -> &Slab {
                self.0
            }
        }
    };
}
pub(super) use view;

/// The descriptor of one slab.
#[derive(Debug)]
// An atomic of loom is not zero bytes, so the empty descriptor there is made by `Default`.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct Slab {
    /// The address of the owning heap, and flags. Any thread sets PENDING, and the reclaimer sets
    /// HOLDING and SHARED, all atomically. The holder of the owning heap writes the heap. Every
    /// free reads this word.
    pub(crate) owner: AtomicUsize,
    /// [`SizeClass::multiplier`] of the slab's class.
    pub(crate) multiplier: AtomicU64,
    /// The number of slots. Zero means that this is not a slab (yet), and every free fails.
    pub(crate) slots: AtomicU64,
    /// The address of slot 0.
    pub(crate) base: AtomicUsize,
    /// Default build: the first call site that drew from this slab.
    pub(super) site_first: [AtomicUsize; 1 - SECURE_LEN],
    /// Default build: the batch that has marks of this slab. Written by the thread that has the
    /// batch, or will have it.
    pub(super) batch: BatchAddress,
    /// Secure build: set when the slab is opened.
    pub canary_seeds: CanarySeeds,
    pub(crate) size: AtomicU32,
    pub(crate) class: AtomicU32,
    pub(crate) partition: AtomicU32,
    /// Secure build: the number of reserved slots, in the lowest byte, and their slot numbers in
    /// the other bytes (`reserved.rs`). Set when the slab is opened.
    pub(super) reserved: [AtomicU32; SECURE_LEN],
    _line_0: [AtomicU32; 1 - SECURE_LEN],

    /// The slots of the claimed group that malloc hands out next. Written by the owner.
    pub(super) claim: AtomicU64,
    /// The address of the claimed group's states.
    pub(super) claim_states: AtomicUsize,
    /// The slots of the claim whose memory is zero. Medium slabs only.
    pub(super) claim_zero: AtomicU64,
    /// The next slab of the same bin.
    pub(super) next: AtomicUsize,
    /// The number of frees of this slab's slots, without those that the current credit has counted.
    pub(super) frees: AtomicU64,
    /// A copy of `size` in the line that malloc uses.
    pub(super) slot_size: AtomicU32,
    /// A counter that every free by the owner decrements. At zero, a slab that is on no list must
    /// be listed, and a listed slab may be empty. Written by the owner only.
    pub(super) credit: AtomicU32,
    /// The value that the credit was last set to.
    pub(super) credit_start: AtomicU32,
    /// The first slot that was not claimed since the slab's memory was last zero.
    pub(super) fresh: AtomicU16,
    /// The number of claims of this slab while it had fresh slots, up to a limit.
    pub(super) heat: AtomicU8,
    /// Not zero if the slab is on its bin's list.
    pub(super) listed: AtomicU8,
    /// DORMANT, AWAKE or SUSPENDED: slots are claimed only if the slab's pages are mapped and may
    /// be used. Written by the owner. Near a limit, the counting thread suspends the slab
    /// (`suspended.rs`).
    pub(super) awake: AtomicU8,
    /// Not zero if the slab has ever received pages of another slab. It then has a separate
    /// mapping.
    pub(super) received: AtomicU8,
    /// Not zero if slots may have become free without a free. Written by the reclaimer and the
    /// owner.
    pub(super) disturbed: AtomicU8,
    /// Not zero if the pages after the last slot were unmapped, or are about to be (`tail.rs`).
    /// Written by the holder.
    pub(super) without_tail: AtomicU8,
    /// The number of bytes of slots that do not count against the limit. Written by any thread.
    pub(super) uncounted: AtomicU32,

    /// What other threads have freed.
    pub remote: RemoteBits,
    /// The next slab on the pending stack. Written by the thread that pushed this one.
    pub(crate) link: AtomicUsize,
    /// The number of frees by other threads that compaction has completed, so that they spent no
    /// credit.
    pub(super) absorbed: AtomicU64,
    /// The slab's number of frees when its bytes were last counted exactly, or zero. The counting
    /// thread writes the number. The thread that gives pages back, or lets slots be drawn from,
    /// writes zero.
    pub(super) counted_at: AtomicU32,
    /// The place of the sampled byte in the slot that is claimed next, counted from 1, or zero. The
    /// claim was shortened for that slot (`claim_at_most`). Written by the owner, on a slow path
    /// only, so it can be in the line that other threads write.
    pub(super) due: AtomicU32,
    /// The number of slabs that the bin had filled in a row when it took this one. Written by the
    /// owner, on a slow path.
    pub(crate) row: AtomicU8,
    /// In a short slab, the number of credits that the owner has spent since the last scan, up to
    /// OUTGROWN, or REPLACED. Written by the owner, on slow paths, and by the next owner before it
    /// owns the slab. A thread that scans sets a number to zero, by compare and exchange.
    pub(super) outgrown: AtomicU8,
    _line_2: Rest,

    /// The states of the slots. The owner writes them. Other threads read those of the slots that
    /// they free, and change some by compare and exchange. The reclaimer changes those of free
    /// slots, by compare and exchange, and of remote slots.
    pub states: States,
    /// What scanning threads remember of the slab.
    pub(crate) scans: ScanRecord,
    /// The slab before this one on its bin's list. Written by the owner.
    previous: AtomicUsize,
    /// Secure build: the first call site that drew from this slab. It is aligned at this place in
    /// both builds, so the empty array of the default build adds no padding.
    pub(super) site_last: [AtomicUsize; SECURE_LEN],
    /// Secure build: the number of bytes of the guard pages among the slots (`guard_pages.rs`). Set
    /// when the slab is opened.
    pub(super) guard_bytes: [AtomicU32; SECURE_LEN],
    _line_7: [AtomicU32; 5 * SECURE_LEN],

    /// Secure build: the slack of each slot.
    pub slacks: Slacks,
}

#[cfg(not(loom))]
type Rest = [AtomicU8; 6];
#[cfg(loom)]
type Rest = ();

const _: () = assert!(cfg!(loom) || size_of::<Slab>() == SLAB_BYTES);
#[cfg(not(loom))]
const _: () = {
    // Each kind of writer has separate lines, as drawn above.
    assert!(core::mem::offset_of!(Slab, claim) == 64);
    assert!(core::mem::offset_of!(Slab, remote) == 128);
    assert!(core::mem::offset_of!(Slab, states) == 192);
    // The byte before the states is unused, and the one after them, too.
    assert!(core::mem::offset_of!(Slab, _line_2) + size_of::<Rest>() == 192);
    assert!(core::mem::offset_of!(Slab, scans._after_states) == 192 + SLOTS_MAX);
    assert!(core::mem::offset_of!(Slab, slacks) == 512);
};

// SAFETY: (1) every field is an integer, and a descriptor with zero slots is not a slab; (2) every
// field is an atomic, and the comments above name the threads that may write it.
unsafe impl Descriptor for Slab {
    fn is_open(&self) -> bool {
        self.slots.load(Acquire) != 0
    }

    fn extent(&self) -> (usize, usize) {
        (self.base(), self.span())
    }
}

impl Slab {
    /// Returns an empty descriptor: all zero, like fresh memory.
    #[cfg(not(loom))]
    pub const fn zeroed() -> Slab {
        // SAFETY: every field is an integer, for which zero is a valid value.
        unsafe { core::mem::zeroed() }
    }

    /// Returns true if malloc or free of the slab's own thread stores in the byte at this offset of
    /// a descriptor, or of any descriptor after it.
    #[cfg(not(loom))]
    pub const fn has_hot_store(offset: usize) -> bool {
        let (line, states) =
            (core::mem::offset_of!(Slab, claim), core::mem::offset_of!(Slab, states));
        let offset = offset % SLAB_BYTES;
        (line <= offset && offset < line + 64) || (states <= offset && offset < states + SLOTS_MAX)
    }

    /// Turns a fresh descriptor into the longest slab of `class` at `base`. Returns the number of
    /// slots.
    #[cfg(all(test, not(loom)))]
    pub fn open(&self, base: usize, class: SizeClass, partition: Partition, site: Site) -> usize {
        self.open_slots(base, class, class.slots(), partition, site);
        class.slots()
    }

    /// Turns a fresh descriptor into a slab of `slots` slots of `class` at `base`.
    #[inline]
    pub fn open_slots(
        &self,
        base: usize,
        class: SizeClass,
        slots: usize,
        partition: Partition,
        site: Site,
    ) {
        self.multiplier.store(class.multiplier(), Relaxed);
        self.base.store(base, Relaxed);
        self.size.store(class.size() as u32, Relaxed);
        self.class.store(class.index() as u32, Relaxed);
        self.partition.store(partition.number() as u32, Relaxed);
        let site_words = self.site_first.iter().chain(&self.site_last);
        site_words.for_each(|word| word.store(site.address(), Relaxed));
        self.link.store(LINK_OPEN, Relaxed);
        self.slot_size.store(class.size() as u32, Relaxed);
        for slot in SlotIndex::range(slots..SLOTS_MAX) {
            self.states.of(slot).store(NO_SLOT, Relaxed);
        }
        self.awake.store(AWAKE, Relaxed);
    }

    /// Opens a slab of slots of `size` bytes for a test, which then may publish it.
    #[cfg(all(test, not(loom)))]
    pub(super) fn open_for_test(&self, base: usize, size: usize) -> usize {
        self.open(base, SizeClass::of(size).unwrap(), Partition::default(), Site::default())
    }

    /// Publishes an opened slab of `slots` slots, so that frees find it.
    pub fn publish(&self, owner: usize, slots: usize) {
        self.owner.store(self.owner_word(owner), Relaxed);
        // publish slab: a thread that sees the number of slots sees the rest.
        self.slots.store(slots as u64, Release);
    }

    /// Returns the address of slot 0.
    pub fn base(&self) -> usize {
        self.base.load(Relaxed)
    }

    /// Returns the number of bytes in a slot.
    #[inline]
    pub fn size(&self) -> usize {
        (self.size.load(Relaxed) as usize).max(1)
    }

    /// Returns the number of bytes in a slot of a slab that is certainly open.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        // SAFETY: (1) written once, before the slab is published.
        unsafe { self.size.settled() as usize }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.slots.load(Relaxed) as usize
    }

    /// Returns the slab's class.
    pub fn class(&self) -> SizeClass {
        SizeClass::new(self.class.load(Relaxed) as usize)
    }

    /// Returns the number of the slab's class.
    #[inline(always)]
    pub fn class_number(&self) -> usize {
        self.class.load(Relaxed) as usize
    }

    /// Returns true if the slab's class is that of a small request of `bytes` bytes.
    #[inline(always)]
    pub fn is_of_small(&self, bytes: usize) -> bool {
        SmallSize::of(bytes).map(SmallSize::class) == Some(self.class_number())
    }

    /// The offset of the first call site in a descriptor.
    #[cfg(not(loom))]
    pub(super) const SITE: usize = if SECURE {
        core::mem::offset_of!(Slab, site_last)
    } else {
        core::mem::offset_of!(Slab, site_first)
    };

    /// Returns the partition, which never changes.
    pub fn partition(&self) -> Partition {
        Partition::new(self.partition.load(Relaxed) as usize)
    }

    /// Returns the first call site that drew from this slab.
    pub fn site(&self) -> Site {
        let word = self.site_first.iter().chain(&self.site_last).next();
        Site::at(word.map_or(0, |word| word.load(Relaxed)))
    }

    /// Returns the address of the next slab in the bin, or zero at the end.
    pub fn next(&self) -> usize {
        self.next.load(Relaxed)
    }

    /// Links this slab before `next`, which is an address or zero.
    pub fn set_next(&self, next: usize) {
        self.next.store(next, Relaxed);
    }

    /// Sets the address of the slab before this one on its bin's list.
    pub fn set_previous(&self, previous: usize) {
        self.previous.store(previous, Relaxed);
    }

    /// Returns the address of the slab before this one on its bin's list. The first slab has any
    /// value.
    pub fn previous(&self) -> usize {
        self.previous.load(Relaxed)
    }

    /// Returns the number of bytes of address space that the slab has, in pages of 4 KiB. In the
    /// default build, zero before the slab is published.
    pub fn span(&self) -> usize {
        if SECURE {
            return self.class().span();
        }
        (self.slots() * self.size()).next_multiple_of(PAGE)
    }

    /// Returns the owner word of a slab that the heap at an address owns, or none if that is zero,
    /// and that has no other flag.
    fn owner_word(&self, heap: usize) -> usize {
        if SECURE || heap == 0 || self.class().is_small() { heap } else { heap | MEDIUM_SLOTS }
    }

    /// Returns true if a heap owns the slab.
    pub fn has_owner(&self) -> bool {
        self.owner.load(Relaxed) & !FLAGS != 0
    }

    /// Returns true if the heap at an address owns the slab, and no flag is set.
    #[inline(always)]
    pub fn is_owned_plainly(&self, heap: usize) -> bool {
        self.owner.load(Relaxed) == heap
    }

    /// Makes the heap at `owner` the owner of a slab from the pool. Nothing is pending in the slab.
    /// If a late freeing thread has set PENDING meanwhile, it announced nothing, and the flag is
    /// cleared here.
    pub fn adopt(&self, owner: usize) {
        self.outgrown.store(0, Relaxed);
        self.owner.store(self.owner_word(owner), Release);
    }

    /// Sets flags in `owner`. Returns the previous value.
    pub fn set_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_or(flag, SeqCst)
    }

    /// Clears flags in `owner`. Returns the previous value.
    pub fn clear_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_and(!flag, SeqCst)
    }

    /// Sets HOLDING. Returns false if the slab has no owner or is being held.
    pub(super) fn set_holding(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        let held = owner | HOLDING;
        owner & !FLAGS != 0
            && owner & HOLDING == 0
            // pairs: tail.
            && self.owner.compare_exchange(owner, held, SeqCst, Relaxed).is_ok()
    }

    /// Returns true if slots of the slab may be held, so that its pages must stay mapped. The
    /// slab's holder calls this with its reentrancy guard. If the reclaimer comes later, it finds
    /// the holder busy, or finds what the holder has done.
    pub fn is_being_held(&self) -> bool {
        self.owner.load(Relaxed) & HOLDING != 0
    }

    /// Returns true if the slab shares pages with others.
    pub fn is_shared(&self) -> bool {
        self.owner.load(Relaxed) & SHARED != 0
    }

    /// Returns true if the reclaimer holds slots here, or the slab shares pages.
    pub fn is_engaged(&self) -> bool {
        self.owner.load(Relaxed) & (SHARED | HOLDING) != 0
    }

    /// Hands the slab to another heap. Returns false if the owner word has a flag: for example, a
    /// remote free has put the slab on a pending stack meanwhile.
    pub fn change_owner(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.owner_word(from), self.owner_word(to));
        self.owner.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Returns the number of frees that the credit has counted.
    fn counted_frees(&self) -> u64 {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        self.frees.load(Relaxed) + u64::from(spent)
    }

    /// Returns the number of allocations ever made from this slab. It is the sum of all frees and
    /// of the slots that are not free. Exact if no thread uses the slab at that time; approximate
    /// while its owner runs.
    pub fn allocations(&self) -> u64 {
        self.counted_frees() + self.absorbed.load(Relaxed) + u64::from(self.held())
    }

    /// Returns the usable bytes of all blocks ever allocated from this slab, and of those whose
    /// frees were counted or wait in a quarantine. Owner only.
    pub fn bytes_ever(&self) -> [u64; 2] {
        let waits =
            |&slot: &SlotIndex| self.states.is_quarantined(slot) && !self.remote_frees().has(slot);
        let slots = if SECURE && !self.is_empty() { self.slots() } else { 0 };
        let waiting = SlotIndex::range(0..slots).filter(waits).count() as u64;
        let size = self.size() as u64;
        [self.allocations() * size, (self.counted_frees() + waiting) * size]
    }
}
