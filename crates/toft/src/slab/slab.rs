//! The slab descriptor: what each slot of one run of address space is doing. Each kind of writer
//! has separate cache lines.
//!
//! ```text
//! line 0     everyone reads   owner|flags  multiplier  slots  base  size  class  partition  site (hardened: words)
//! line 1     owner writes     claim  claim_states  slot_size  credit  next ...
//! line 2     others write     remote[4]  bit s: slot s was freed by another thread;  link
//! lines 3-6  owner writes     states[256]  a byte for each slot
//! line 7     owner writes     previous  seen  tidy_at  row;  shares (hardened: site) calm warmth stamp dense: the reclaimer
//! (hardened: lines 8-15, bytes behind the end of each block: `requested_sizes.rs`)
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
//! The reclaimer may *hold* free slots for a moment, and remote ones: `pinning.rs`. Where slabs
//! share pages, a free slot may be *lent*: `page_sharing.rs`.
//!
//! A byte for each slot lets malloc and free say what they do with one plain store, where a bit has
//! to be read, changed and written; and what one call has stored no other call waits for (decision
//! 0012). The *claim* is the magazine of the design: the free slots of one group of 64, found in
//! one step and handed out by counting trailing zeros. It holds no pointers and needs no flush.
//!
//! Invariants, verified by [`Slab::check`]:
//! - I1 `slots` is `min(256, tier slab size / size)`, and nothing at or above it is in use.
//! - I2 a claimed slot is neither live nor remote; but for the one that is just handed out.
//! - I3 a remote slot is live.
//! - I4 slots at or above `fresh` were not handed out since the slab's memory was zero.
//! - I5 `claim_states` points to the states of a group of 64.
//! - I6 a slab that is on no list has no claim, and its credit is the number of frees by which it
//!   falls short of the threshold for being listed; unless it is `disturbed`. A slab that is
//!   disturbed, on a list or not, is announced to its owner, which will count again.
//! - I7 a slab without owner has no live slot, no claim, and is on no list.
//! - I8 SHARED is set exactly where a unit shares pages, and only there slots are lent.
//! - I9 what may be drawn from counts: a slab with uncounted bytes is not awake.
//! - I10 each slot has one of the states of `states.rs`.
//! - I11 reserved slots are those that were chosen when the slab was opened.

use super::states::NO_SLOT;
use super::{Class, MEDIUM, SMALL, Tier};
use crate::policy::HARDENED;
use crate::region::Descriptor;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, Settled};
use Ordering::{Acquire, Relaxed, Release};

/// Most slots a slab can have: so many that the smallest fill a page.
#[cfg(not(loom))]
pub const SLOTS_MAX: usize = 256;
/// The model checker tracks every state on its own: it gets few.
#[cfg(loom)]
pub const SLOTS_MAX: usize = 2;
/// Slots of a group: as many as a claim has bits.
pub const GROUP_SLOTS: usize = 64;
/// Groups in a slab.
pub const GROUPS: usize = SLOTS_MAX.div_ceil(GROUP_SLOTS);
/// What `awake` says: no pages, or none that malloc knows; slots may be claimed; malloc must ask
/// first.
pub(super) const DORMANT: u8 = 0;
pub(super) const AWAKE: u8 = 1;
pub(super) const ASIDE: u8 = 2;
/// Words that only the hardened build has: for the pages of walls, for reserved slots, for
/// canaries.
const WALLED: usize = if HARDENED { 1 } else { 0 };
/// Bytes in a descriptor.
pub use crate::policy::SLAB_BYTES;

/// Flag in `owner`: another thread has freed a slot here and the slab is on the pending stack.
/// Heaps are aligned, so that this bit of their address is zero.
pub const PENDING: usize = 1;

/// Flag in `owner`: the reclaimer holds slots of this slab, so that it must not change hands.
pub const HOLDING: usize = 2;

/// Flag in `owner`: the slab shares pages with others. It keeps its owner and its mapping.
pub const SHARED: usize = 4;

/// All flags in `owner`.
pub const FLAGS: usize = PENDING | HOLDING | SHARED;

/// Parts of a slab that may share pages with the same part of others.
#[cfg(not(loom))]
pub const UNITS: usize = 16;
/// The number of units, for the model checker.
#[cfg(loom)]
pub const UNITS: usize = 1;

/// `link` of a slab whose pusher has not yet written the next one.
pub const LINK_OPEN: usize = usize::MAX;

/// The descriptor of one slab.
#[derive(Debug)]
// Where atomics are loom's, a descriptor of nothing is not zero bytes.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct Slab {
    /// Address of the owning heap, and flags. Written: PENDING by anyone, HOLDING by the reclaimer,
    /// both atomically; the heap by the holder of the owning heap. Read: by every free.
    pub(crate) owner: AtomicUsize,
    /// `Class::multiplier`.
    pub(crate) multiplier: AtomicU64,
    /// Number of slots; zero means that this is no slab (yet), and fails every free.
    pub(crate) slots: AtomicU64,
    /// Address of slot 0.
    pub(crate) base: AtomicUsize,
    /// The first call site that drew from this slab.
    pub(super) site_first: [AtomicUsize; 1 - WALLED],
    /// Of the hardened build: what the canaries of its slots are made from (`canary_seeds.rs`). Set
    /// when the slab is opened.
    pub(super) words: [AtomicU64; 2 * WALLED],
    pub(crate) size: AtomicU32,
    pub(crate) class: AtomicU32,
    pub(crate) partition: AtomicU32,
    /// How many slots are reserved in the hardened build, in the lowest byte, and which:
    /// `reserved.rs`. Set when the slab is opened.
    pub(super) reserved: [AtomicU32; WALLED],
    _line_0: [AtomicU32; 3 - 3 * WALLED],

    /// Slots of the claimed group that malloc hands out next. Owner.
    pub(super) claim: AtomicU64,
    /// Address of the claimed group's states.
    pub(super) claim_states: AtomicUsize,
    /// Slots of the claim whose memory is zero; kept for medium slabs only.
    pub(super) claim_zero: AtomicU64,
    /// Next slab of the same bin.
    pub(super) next: AtomicUsize,
    /// Frees of this slab's slots, but for those that the credit has counted.
    pub(super) frees: AtomicU64,
    /// As `size`, where malloc needs it.
    pub(super) slot_size: AtomicU32,
    /// Counts down by one with every free by the owner. At zero a slab that is on no list must be
    /// listed, and one that is may be empty. Read and written by the owner only.
    pub(super) credit: AtomicU32,
    /// What the credit was set to.
    pub(super) credit_start: AtomicU32,
    /// First slot that was not claimed since the slab's memory was zero.
    pub(super) fresh: AtomicU16,
    /// Claims of this slab while it had fresh slots, up to a limit.
    pub(super) heat: AtomicU8,
    /// Whether the slab is on its bin's list.
    pub(super) listed: AtomicU8,
    /// Whether the slab's pages are mapped, and may be used; slots are claimed only then. Owner;
    /// near a limit, the counting thread sets it aside (`suspended.rs`).
    pub(super) awake: AtomicU8,
    /// Whether the slab has ever got pages of another: then it has a separate mapping.
    pub(super) received: AtomicU8,
    /// Whether free slots may have come without a free. Written by the reclaimer, and by the owner.
    pub(super) disturbed: AtomicU8,
    _padding_1: [AtomicU8; 1],
    /// Bytes of slots that do not count against the limit. Any thread.
    pub(super) uncounted: AtomicU32,

    /// Others, by one atomic each; taken by the owner.
    pub(super) remote: [AtomicU64; GROUPS],
    /// Next slab on the pending stack. Written by the thread that pushed it.
    pub(crate) link: AtomicUsize,
    /// Frees by others that compaction has let take effect, so that no credit was spent.
    pub(super) absorbed: AtomicU64,
    /// The frees that the slab had seen when its bytes were last counted exactly, or zero. Written
    /// by the counting thread; zero, by the thread that gives pages back or lets slots be drawn
    /// from.
    pub(super) counted_at: AtomicU32,
    /// Where in the slot that is claimed next its chosen byte lies, counted from 1, or zero: the
    /// claim was cut for it (`sampling.rs`). Owner, on a slow path, where it lies with what others
    /// write.
    pub(super) due: AtomicU32,
    _line_2: Rest,

    /// Owner; read by other threads, for the slots that they free. The reclaimer changes those of
    /// free slots, by compare and exchange, and of remote ones.
    pub(super) states: States,
    /// Scans for which the huge page that begins with this slab was dense. By the scanning thread.
    /// A byte, because it follows the last state: `reserved.rs`.
    pub(crate) dense: AtomicU8,
    /// Slabs that the bin had filled one after another when it took this one. Owner.
    pub(crate) row: AtomicU8,
    /// What the claim looked like when its pages had gone; zero since `tidy_at` was written, until
    /// they have. The thread that sweeps; a hint.
    pub(super) unused_at: AtomicU16,
    /// What the slab looked like at the last look, and the frees it had seen when its pages were
    /// last given back. The thread that looks, the owner's or the reclaimer; nothing but when pages
    /// go depends on it.
    pub(super) seen: AtomicU32,
    /// Slab before this one on its bin's list. Owner.
    previous: AtomicUsize,
    /// The first call site, in the hardened build. Here, because it is aligned where it is not
    /// there, too.
    pub(super) site_last: [AtomicUsize; WALLED],
    pub(super) tidy_at: AtomicU32,
    /// For each unit the group of units that it shares pages with, or zero. The compacting thread.
    pub(super) shares: [AtomicU16; if HARDENED { 0 } else { UNITS }],
    /// Pages of 4 KiB among the slots that are walls, in the hardened build: `guard_pages.rs`. Set
    /// when the slab is opened.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) walled: [AtomicU32; WALLED],
    /// What the slab looked like when it was last looked at for compaction. The compacting thread.
    pub(super) calm: AtomicU32,
    /// What was remembered at the last look for cold pages, and `activity_ever` then. The threads
    /// that look, in turn.
    pub(crate) warmth: AtomicU32,
    pub(crate) stamp: AtomicU32,
    _line_7: [AtomicU32; 5 * WALLED],

    /// Of the hardened build: `requested_sizes.rs`.
    pub(super) slacks: super::requested_sizes::Slacks,
}

#[cfg(not(loom))]
type Rest = [AtomicU8; 8];
#[cfg(loom)]
type Rest = ();

/// A state for each slot.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub(super) struct States(pub(super) [AtomicU8; SLOTS_MAX]);

const _: () = assert!(cfg!(loom) || size_of::<Slab>() == SLAB_BYTES);
#[cfg(not(loom))]
const _: () = {
    // Separate lines for each kind of writer, as drawn above.
    assert!(core::mem::offset_of!(Slab, claim) == 64);
    assert!(core::mem::offset_of!(Slab, remote) == 128);
    assert!(core::mem::offset_of!(Slab, states) == 192);
    // An unused byte and another single one lie around the states.
    assert!(core::mem::offset_of!(Slab, _line_2) + size_of::<Rest>() == 192);
    assert!(core::mem::offset_of!(Slab, dense) == 192 + SLOTS_MAX);
    assert!(core::mem::offset_of!(Slab, slacks) == 512);
};

// SAFETY: (1) every field is an integer, and a slab with no slots is no slab; (2) every field is an
// atomic, and which thread may use which is said above.
unsafe impl Descriptor for Slab {
    fn is_open(&self) -> bool {
        self.slots.load(Acquire) != 0
    }
}

impl Slab {
    /// A descriptor of nothing: all zero, as fresh memory is.
    #[cfg(not(loom))]
    pub const fn nothing() -> Slab {
        // SAFETY: every field is an integer, for which zero is a value.
        unsafe { core::mem::zeroed() }
    }

    /// Turns a fresh descriptor into a slab of `class` at `base`; returns the number of slots it
    /// has.
    pub fn open(
        &self,
        base: usize,
        span: usize,
        class: Class,
        partition: usize,
        site: usize,
    ) -> usize {
        let slots = (span / class.size()).min(SLOTS_MAX);
        self.multiplier.store(class.multiplier(), Relaxed);
        self.base.store(base, Relaxed);
        self.size.store(class.size() as u32, Relaxed);
        self.class.store(class.index() as u32, Relaxed);
        self.partition.store(partition as u32, Relaxed);
        self.site_first.iter().chain(&self.site_last).for_each(|word| word.store(site, Relaxed));
        self.link.store(LINK_OPEN, Relaxed);
        self.slot_size.store(class.size() as u32, Relaxed);
        for state in self.states.0.iter().skip(slots) {
            state.store(NO_SLOT, Relaxed);
        }
        self.awake.store(AWAKE, Relaxed);
        slots
    }

    /// Makes an opened slab of `slots` slots findable: from here on its frees are recognised.
    pub fn publish(&self, owner: usize, slots: usize) {
        self.owner.store(owner, Relaxed);
        // publish slab: a thread that sees the number of slots sees the rest.
        self.slots.store(slots as u64, Release);
    }

    /// Address of slot 0.
    pub fn base(&self) -> usize {
        self.base.load(Relaxed)
    }

    /// Bytes in a slot.
    #[inline]
    pub fn size(&self) -> usize {
        (self.size.load(Relaxed) as usize).max(1)
    }

    /// Bytes in a slot, of a slab that is certainly open.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        // SAFETY: (1) written once, before the slab is published.
        unsafe { self.size.settled() as usize }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots.load(Relaxed) as usize
    }

    /// The slab's class.
    pub fn class(&self) -> Class {
        Class::new(self.class.load(Relaxed) as usize)
    }

    /// The number of its class.
    #[inline(always)]
    pub fn class_number(&self) -> usize {
        self.class.load(Relaxed) as usize
    }

    /// Where in a descriptor the first call site lies.
    #[cfg(not(loom))]
    pub(super) const SITE: usize = if HARDENED {
        core::mem::offset_of!(Slab, site_last)
    } else {
        core::mem::offset_of!(Slab, site_first)
    };

    /// The partition that the slab belongs to for ever.
    pub fn partition(&self) -> usize {
        self.partition.load(Relaxed) as usize
    }

    /// The first call site that drew from this slab.
    pub fn site(&self) -> usize {
        self.site_first.iter().chain(&self.site_last).next().map_or(0, |word| word.load(Relaxed))
    }

    /// The slab after this one in its bin, as an address; zero at the end.
    pub fn next(&self) -> usize {
        self.next.load(Relaxed)
    }

    /// Links this slab before `next` (an address, or zero).
    pub fn set_next(&self, next: usize) {
        self.next.store(next, Relaxed);
    }

    /// Says which slab is before this one on its bin's list, as an address.
    pub fn set_previous(&self, previous: usize) {
        self.previous.store(previous, Relaxed);
    }

    /// The slab before this one on its bin's list, as an address; of the first, anything.
    pub fn previous(&self) -> usize {
        self.previous.load(Relaxed)
    }

    /// The tier that the slab belongs to.
    pub fn tier(&self) -> Tier {
        Tier::of(if self.class().is_small() { SMALL } else { MEDIUM })
    }

    /// Whether some heap owns the slab.
    pub fn has_owner(&self) -> bool {
        self.owner.load(Relaxed) & !FLAGS != 0
    }

    /// Makes a slab out of the pool the heap's. Nothing is pending in it: a flag that a late freer
    /// has set meanwhile announced nothing.
    pub fn adopt(&self, owner: usize) {
        self.owner.store(owner, Release);
    }

    /// Allocations ever made from this slab: what was freed, which its credit counts, and what was
    /// not. Exact of a slab that no thread uses just then; while its owner runs, near enough.
    pub fn allocations(&self) -> u64 {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        let frees = self.frees.load(Relaxed) + self.absorbed.load(Relaxed);
        frees + u64::from(spent) + u64::from(self.held())
    }

    /// Offset and bytes of what `allocations` is made of beside the slots that are held: what the
    /// credit was set to, the credit, two counts of frees. For measurements from outside by the
    /// same version.
    pub const COUNTS: [(usize, usize); 4] = [
        (core::mem::offset_of!(Slab, credit_start), 4),
        (core::mem::offset_of!(Slab, credit), 4),
        (core::mem::offset_of!(Slab, frees), 8),
        (core::mem::offset_of!(Slab, absorbed), 8),
    ];
}
