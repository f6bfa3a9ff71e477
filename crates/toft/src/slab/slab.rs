//! The slab descriptor: which slots of one run of address space are live, claimed, or freed by
//! other threads. Four cache lines, one for each kind of writer.
//!
//! ```text
//! line 0  everyone reads   owner|PENDING  reciprocal  base  size  slots  class  partition  site
//! line 1  owner writes     claim  claim_base  slot_size  live_word  fresh ...  next
//! line 2  owner writes     live[7]    bit s: the program has slot s;         credit
//! line 3  others write     remote[7]  bit s: slot s was freed by another thread;  link
//! ```
//!
//! A slot is in exactly one state ([`SlotState`]), told by three bits:
//!
//! ```text
//!            live  claim  remote
//! free         0     0      0     never handed out, or freed
//! claimed      0     1      0     next to be handed out by malloc: the magazine
//! live         1     0      0     the program has it
//! remote       1     0      1     freed by another thread; the owner will collect it
//! ```
//!
//! The *claim* is the magazine of the design: the free slots of one word of the bitmap, looked up in
//! one step and handed out by counting trailing zeros. It holds no pointers and needs no flush; a
//! freed slot goes back as one bit; and malloc does not wait for the bits that free has just
//! changed, because it takes its slots from a copy of them (decision 0002).
//!
//! Invariants, verified by [`Slab::check`]:
//! - I1 `slots` is `min(448, tier slab size / size)`, and no bit at or above it is set anywhere.
//! - I2 a claimed slot is neither live nor remote.
//! - I3 a remote slot is live.
//! - I4 slots at or above `fresh` were never handed out: none is live.
//! - I5 `claim_base` is the address of the first slot of the claimed word.
//! - I6 a slab that is on no list has no claim, and its credit is the number of frees by which it
//!   falls short of the threshold for being listed.

use super::{Class, Tier, TierNumber};
use crate::region::Descriptor;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// Most slots a slab can have: a cache line of bits, less one word for what goes with them.
pub const SLOTS_MAX: usize = 448;
/// Words in each bitmap.
pub const WORDS: usize = SLOTS_MAX / WORD_SLOTS;
/// Slots that one word of a bitmap speaks for.
pub const WORD_SLOTS: usize = 64;
/// Bytes in a descriptor.
pub const SLAB_BYTES: usize = 256;

/// Flag in `owner`: another thread has freed a slot here and the slab is on the pending stack.
/// Heaps are aligned, so that this bit of their address is zero.
pub const PENDING: usize = 1;

/// `link` of a slab whose pusher has not yet written the next one.
pub const LINK_OPEN: usize = usize::MAX;

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Never handed out.
    Fresh,
    /// Freed, or claimed for a coming malloc.
    Free,
    /// The program has it.
    Live,
    /// Freed by another thread and not yet collected.
    Remote,
}

/// The descriptor of one slab.
#[derive(Debug)]
// Where atomics are loom's, a descriptor of nothing is not zero bytes.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct Slab {
    /// Address of the owning heap, and PENDING. Written: the flag by anyone, atomically; the heap
    /// by whoever holds the owning heap. Read: by every free.
    pub(crate) owner: AtomicUsize,
    /// `Class::reciprocal`; zero means that this is no slab (yet), and fails every free.
    pub(crate) reciprocal: AtomicU64,
    /// Address of slot 0.
    pub(crate) base: AtomicUsize,
    pub(crate) size: AtomicU32,
    pub(crate) slots: AtomicU32,
    pub(crate) class: AtomicU32,
    pub(crate) partition: AtomicU32,
    /// The first call site that drew from this slab.
    pub(crate) site: AtomicUsize,
    /// Slots that were handed out before the slab's pages were last given back: `fresh` begins anew
    /// then, because its memory is zero again, but a double free is still one.
    pub(super) used: AtomicU32,
    _line_0: [AtomicU32; 3],

    /// Slots of the claimed word that malloc hands out next. Owner.
    pub(super) claim: AtomicU64,
    pub(super) claim_base: AtomicUsize,
    /// The same as `size`, where malloc needs it.
    pub(super) slot_size: AtomicU32,
    /// Index in `live` of the claimed word.
    pub(super) live_word: AtomicU32,
    /// Slots of the claim that were never handed out before: their memory is zero.
    pub(super) claim_fresh: AtomicU64,
    /// First slot that was never claimed.
    pub(super) fresh: AtomicU32,
    /// How often the claims of this slab have grown.
    pub(super) heat: AtomicU32,
    /// Next slab of the same bin.
    pub(super) next: AtomicUsize,
    /// Whether the slab is on its bin's list.
    pub(super) listed: AtomicU32,
    /// Slots that may be claimed: all, or none while the slab's pages are unmapped.
    pub(super) claimable: AtomicU32,
    /// Frees of this slab's slots, but for those that the credit has counted.
    pub(super) frees: AtomicU64,

    /// Owner; read by other threads, for the slots that they free.
    pub(super) live: [AtomicU64; WORDS],
    /// Counts down by one with every free by the owner. At zero a slab that is on no list must be
    /// listed, and one that is may be empty. Owner, and nobody else reads it.
    pub(super) credit: AtomicU32,
    /// What the credit was set to.
    pub(super) credit_start: AtomicU32,

    pub(super) remote: [AtomicU64; WORDS],
    /// Next slab on the pending stack. Written by the thread that pushed it.
    pub(crate) link: AtomicUsize,
}

const _: () = assert!(cfg!(loom) || size_of::<Slab>() == SLAB_BYTES);
#[cfg(not(loom))]
const _: () = {
    // One line for each kind of writer, as drawn above.
    assert!(core::mem::offset_of!(Slab, claim) == 64);
    assert!(core::mem::offset_of!(Slab, live) == 128);
    assert!(core::mem::offset_of!(Slab, remote) == 192);
};

/// What a bin without slabs points to: nothing to claim, nothing to free. It lies in memory that is
/// read-only once the library is loaded, so a write to it would be found at once.
#[cfg(not(loom))]
#[unsafe(link_section = ".data.rel.ro")]
pub static EMPTY_SLAB: Slab = Slab::nothing();

// SAFETY: (1) every field is an integer, and a reciprocal of zero says that this is no slab; (2) every
// field is an atomic, and which thread may use which is said above.
unsafe impl Descriptor for Slab {
    fn is_open(&self) -> bool {
        self.reciprocal.load(Acquire) != 0
    }
}

impl Slab {
    /// A descriptor of nothing: all zero, as fresh memory is.
    #[cfg(not(loom))]
    pub const fn nothing() -> Slab {
        // SAFETY: every field is an integer, for which zero is a value.
        unsafe { core::mem::zeroed() }
    }

    /// Turns a fresh descriptor into a slab of `class` at `base`.
    pub fn open(&self, base: usize, span: usize, class: Class, partition: usize, site: usize) {
        let slots = (span / class.size()).min(SLOTS_MAX);
        self.base.store(base, Relaxed);
        self.size.store(class.size() as u32, Relaxed);
        self.slots.store(slots as u32, Relaxed);
        self.class.store(class.index() as u32, Relaxed);
        self.partition.store(partition as u32, Relaxed);
        self.site.store(site, Relaxed);
        self.link.store(LINK_OPEN, Relaxed);
        self.slot_size.store(class.size() as u32, Relaxed);
        self.claimable.store(slots as u32, Relaxed);
    }

    /// Makes an opened slab findable: from here on its frees are recognised.
    pub fn publish(&self, owner: usize) {
        self.owner.store(owner, Relaxed);
        let class = Class::new(self.class.load(Relaxed) as usize);
        // publish slab: a thread that sees the reciprocal sees the rest.
        self.reciprocal.store(class.reciprocal(), Release);
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

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots.load(Relaxed) as usize
    }

    /// The slab's class.
    pub fn class(&self) -> Class {
        Class::new(self.class.load(Relaxed) as usize)
    }

    /// The partition that the slab belongs to for ever.
    pub fn partition(&self) -> usize {
        self.partition.load(Relaxed) as usize
    }

    /// The first call site that drew from this slab.
    pub fn site(&self) -> usize {
        self.site.load(Relaxed)
    }

    /// The slab after this one in its bin, as an address; zero at the end.
    pub fn next(&self) -> usize {
        self.next.load(Relaxed)
    }

    /// Links this slab before `next` (an address, or zero).
    pub fn set_next(&self, next: usize) {
        self.next.store(next, Relaxed);
    }

    /// Which slot starts at `offset` bytes from the slab's base, if one does.
    ///
    /// One multiplication: the low part of the product tells whether the division is exact, the
    /// high part is the quotient. A descriptor that is no slab has reciprocal zero and no slot.
    #[inline(always)]
    pub fn slot_at<const TIER: TierNumber>(&self, offset: usize) -> Option<usize> {
        let bits = Tier::of(TIER).reciprocal_bits;
        let reciprocal = self.reciprocal.load(Relaxed);
        let product = (offset as u64).wrapping_mul(reciprocal);
        let (slot, rest) = (product >> bits, product & ((1 << bits) - 1));
        if rest >= reciprocal {
            return None;
        }
        if slot >= SLOTS_MAX as u64 {
            return None;
        }
        Some(slot as usize)
    }

    /// What a slot is doing, as far as the caller may see it.
    pub fn state(&self, slot: usize) -> SlotState {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        let claimed = self.live_word.load(Relaxed) as usize == word
            && self.claim.load(Relaxed) & self.claim_fresh.load(Relaxed) & bit != 0
            && slot >= self.used.load(Relaxed) as usize;
        if word_of(&self.remote, word).load(Acquire) & bit != 0 {
            SlotState::Remote
        } else if word_of(&self.live, word).load(Acquire) & bit != 0 {
            SlotState::Live
        } else if claimed || slot >= self.touched_slots() {
            SlotState::Fresh
        } else {
            SlotState::Free
        }
    }

    /// Slots that the program has, remote frees already taken off.
    pub fn live_slots(&self) -> usize {
        let count = |(live, remote): (&AtomicU64, &AtomicU64)| {
            (live.load(Relaxed) & !remote.load(Relaxed)).count_ones() as usize
        };
        self.live.iter().zip(&self.remote).map(count).sum()
    }

    /// Allocations ever made from this slab: what was freed and what was not. While the owner runs,
    /// near enough.
    pub fn allocations(&self) -> u64 {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        self.frees.load(Relaxed) + u64::from(spent) + u64::from(self.held())
    }

    /// Slots that were ever handed out or claimed.
    pub fn touched_slots(&self) -> usize {
        self.fresh.load(Relaxed).max(self.used.load(Relaxed)) as usize
    }

    /// Whether no slot is live.
    pub fn is_empty(&self) -> bool {
        self.held() == 0
    }
}

/// A word of a bitmap, with no way to panic: callers' indices are below WORDS.
#[inline(always)]
pub(super) fn word_of(words: &[AtomicU64; WORDS], word: usize) -> &AtomicU64 {
    debug_assert!(word < WORDS);
    // SAFETY: every slot number comes from `slot_at` or a loop over WORDS, so the index is in range.
    unsafe { words.get_unchecked(word) }
}

/// Bits of a word that belong to slots below `slots`.
#[inline]
pub(super) fn valid_bits(slots: usize, word: usize) -> u64 {
    match slots.saturating_sub(word * WORD_SLOTS) {
        64.. => u64::MAX,
        some => (1 << some) - 1,
    }
}
