//! The slab descriptor: which slots of one run of address space are live, claimed, or freed by
//! other threads. Four cache lines, one for each kind of writer.
//!
//! ```text
//! line 0  everyone reads   owner|flags  reciprocal  base  size slots class claim_word  site  link
//! line 1  owner writes     claim  claim_base  size  fresh ...  next
//! line 2  owner writes     live[8]    bit s: slot s is live or claimed
//! line 3  others write     remote[8]  bit s: slot s was freed by a thread that is not the owner
//! ```
//!
//! A slot is in exactly one state ([`SlotState`]), told by three bits:
//!
//! ```text
//!            live  claim  remote
//! free         0     0      0     never handed out, or freed
//! claimed      1     1      0     about to be handed out by malloc: the magazine
//! live         1     0      0     the program has it
//! remote       1     0      1     freed by another thread; the owner will collect it
//! ```
//!
//! The *claim* is the magazine of the design: up to 64 slots of one word of the bitmap, taken from
//! it in one step and handed out by counting trailing zeros. It holds no pointers, needs no flush,
//! and a freed slot goes back as one bit (decision 0002).
//!
//! Invariants, verified by [`Slab::check`]:
//! - I1 `slots` is `min(512, tier slab size / size)`, and no bit at or above it is set anywhere.
//! - I2 a claimed slot is live in the bitmap and not remote.
//! - I3 a remote slot is live in the bitmap.
//! - I4 slots at or above `fresh` were never handed out: none is live unless it is claimed.
//! - I5 `claim_base` is the address of the first slot of the claimed word.

use super::Class;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Most slots a slab can have: one cache line of bits.
pub const SLOTS_MAX: usize = 512;
/// Words in each bitmap.
pub const WORDS: usize = SLOTS_MAX / WORD_SLOTS;
/// Slots that one word of a bitmap speaks for.
pub const WORD_SLOTS: usize = 64;
/// Bytes in a descriptor.
pub const SLAB_BYTES: usize = 256;

/// Flag in `owner`: the slab has no free slot and is on no list; the next free must list it.
pub const FULL: usize = 1;
/// Flag in `owner`: another thread has freed a slot here and the slab is on the pending stack.
pub const PENDING: usize = 2;
/// All flags in `owner`; heaps are aligned so that these bits of their address are zero.
pub const OWNER_FLAGS: usize = FULL | PENDING;

/// `claim_word` of a slab that has never had a claim.
pub const NO_WORD: u8 = u8::MAX;

/// `link` of a slab whose pusher has not yet written the next one.
pub const LINK_OPEN: usize = usize::MAX;

/// Bytes of slots that a claim may span, so that a rarely used site touches few pages.
const CLAIM_SPAN: usize = 4096;
/// How many doublings a hot slab's claims may grow by.
const HEAT_MAX: u8 = 2;

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

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// The descriptor of one slab.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slab {
    /// Address of the owning heap, and flags. Written: flags by anyone, atomically; the heap by
    /// whoever holds the owning heap. Read: by every free.
    pub(crate) owner: AtomicUsize,
    /// `Class::reciprocal`; zero means that this is no slab (yet), and fails every free.
    pub(crate) reciprocal: AtomicU64,
    /// Address of slot 0.
    pub(crate) base: AtomicUsize,
    pub(crate) size: AtomicU32,
    pub(crate) slots: AtomicU16,
    pub(crate) class: AtomicU8,
    /// Which word of `live` the claim is from. Written by the owner before `claim`.
    pub(crate) claim_word: AtomicU8,
    pub(crate) partition: AtomicU32,
    /// Odd while the owner changes the claim: other threads then look again.
    pub(crate) claim_sequence: AtomicU32,
    /// The first call site that drew from this slab.
    pub(crate) site: AtomicUsize,
    /// Next slab on the pending stack. Written by the thread that pushed it.
    pub(crate) link: AtomicUsize,
    _line_0: AtomicU64,

    /// Slots of the claimed word that malloc hands out next. Written by the owner.
    claim: AtomicU64,
    claim_base: AtomicUsize,
    slot_size: AtomicU32,
    /// First slot that was never claimed.
    fresh: AtomicU16,
    heat: AtomicU8,
    _pad: AtomicU8,
    /// Slots of the claim that were never handed out before: their memory is zero.
    claim_fresh: AtomicU64,
    /// Slots ever claimed; less the claim's rest, the number of allocations.
    claimed_total: AtomicU64,
    /// Next slab of the same bin. Written by the owner.
    next: AtomicUsize,
    _line_1: [AtomicU64; 2],

    live: [AtomicU64; WORDS],
    remote: [AtomicU64; WORDS],
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
pub static EMPTY_SLAB: Slab = Slab::new();

impl Slab {
    /// A descriptor of nothing: all zero, as fresh memory is.
    #[cfg(not(loom))]
    pub const fn new() -> Slab {
        // SAFETY: every field is an integer, for which zero is a value.
        unsafe { core::mem::zeroed() }
    }

    /// Turns a fresh descriptor into a slab of `class` at `base`, owned by the heap at `owner`.
    pub fn open(&self, base: usize, span: usize, class: Class, partition: usize, site: usize) {
        let slots = (span / class.size()).min(SLOTS_MAX);
        self.base.store(base, Relaxed);
        self.size.store(class.size() as u32, Relaxed);
        self.slots.store(slots as u16, Relaxed);
        self.class.store(class.index() as u8, Relaxed);
        self.claim_word.store(NO_WORD, Relaxed);
        self.partition.store(partition as u32, Relaxed);
        self.site.store(site, Relaxed);
        self.link.store(LINK_OPEN, Relaxed);
        self.slot_size.store(class.size() as u32, Relaxed);
    }

    /// Makes an opened slab findable: from here on its frees are recognised.
    pub fn publish(&self, owner: usize) {
        self.owner.store(owner, Relaxed);
        let class = Class::new(self.class.load(Relaxed) as usize);
        // publish slab: a thread that sees the reciprocal sees the rest.
        self.reciprocal.store(class.reciprocal(), Release);
    }

    /// Whether this descriptor describes a slab.
    pub fn is_open(&self) -> bool {
        self.reciprocal.load(Acquire) != 0
    }

    /// Address of slot 0.
    pub fn base(&self) -> usize {
        self.base.load(Relaxed)
    }

    /// Bytes in a slot.
    #[inline]
    pub fn size(&self) -> usize {
        self.size.load(Relaxed) as usize
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
    /// One multiplication: its low word tells whether the division is exact, its high word is the
    /// quotient. A descriptor that is no slab has reciprocal zero and no slot.
    #[inline(always)]
    pub fn slot_at(&self, offset: usize) -> Option<usize> {
        let reciprocal = self.reciprocal.load(Relaxed);
        let product = (offset as u64 as u128) * (reciprocal as u128);
        let slot = (product >> 64) as usize;
        if (product as u64) < reciprocal && slot < SLOTS_MAX {
            return Some(slot);
        }
        None
    }

    /// Hands out a claimed slot. Owner only.
    ///
    /// 2 loads, 1 store and 1 multiplication; the only chain from one call to the next is the claim.
    #[inline(always)]
    pub fn pop(&self) -> Option<usize> {
        let claim = self.claim.load(Relaxed);
        if claim == 0 {
            return None;
        }
        let slot = claim.trailing_zeros() as usize;
        self.claim.store(claim & (claim - 1), Relaxed);
        let size = self.slot_size.load(Relaxed) as usize;
        Some(self.claim_base.load(Relaxed) + slot * size)
    }

    /// Whether the slot that `pop` has just handed out had never been handed out before.
    #[inline(always)]
    pub fn popped_fresh(&self, address: usize) -> bool {
        // The claim's slots are at most 64, and both operands are exact multiples of the size.
        let offset = address - self.claim_base.load(Relaxed);
        let slot = offset / self.slot_size.load(Relaxed) as usize;
        self.claim_fresh.load(Relaxed) >> slot & 1 != 0
    }

    /// Takes a slot back. Owner only. Says no when the slot is not live.
    ///
    /// 2 loads and 1 store on the way that is usual.
    #[inline(always)]
    pub fn put(&self, slot: usize) -> bool {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        debug_assert!(word < WORDS);
        // SAFETY: `slot_at` gives slots below SLOTS_MAX only.
        let live = unsafe { self.live.get_unchecked(word) };
        let bits = live.load(Relaxed);
        if bits & bit == 0 || self.is_claimed(word, bit) {
            return false;
        }
        live.store(bits & !bit, Relaxed);
        true
    }

    #[inline(always)]
    fn is_claimed(&self, word: usize, bit: u64) -> bool {
        self.claim_word.load(Relaxed) as usize == word && self.claim.load(Relaxed) & bit != 0
    }

    /// Claims free slots for `pop`: the lowest free ones of the lowest word that has any, so that a
    /// slab stays packed. Owner only, with the claim used up. False when the slab is full.
    pub fn refill(&self) -> bool {
        debug_assert_eq!(self.claim.load(Relaxed), 0);
        let slots = self.slots();
        let pending = self.owner.load(Relaxed) & PENDING != 0;
        let mut word = 0;
        while word * WORD_SLOTS < slots {
            let live = self.live[word].load(Relaxed);
            let mut free = !live & valid_bits(slots, word);
            if pending {
                // A free slot with its remote bit set was freed twice by racing threads. It must
                // not be handed out again before `collect` has named it.
                free &= !self.remote[word].load(Relaxed);
            }
            if free != 0 {
                self.claim_from(word, live, free);
                return true;
            }
            word += 1;
        }
        false
    }

    fn claim_from(&self, word: usize, live: u64, free: u64) {
        let size = self.size();
        let heat = self.heat.load(Relaxed);
        let first = free.trailing_zeros();
        let span = ((CLAIM_SPAN << heat) / size).max(1) as u32;
        let mut claim = free;
        if first + span < 64 {
            claim &= (1 << (first + span)) - 1;
        }
        if heat < HEAT_MAX {
            self.heat.store(heat + 1, Relaxed);
        }

        let low = word * WORD_SLOTS;
        let fresh = self.fresh.load(Relaxed) as usize;
        let fresh_bits = match fresh.saturating_sub(low) {
            64.. => 0,
            below => claim & (u64::MAX << below),
        };
        let end = low + 64 - claim.leading_zeros() as usize;
        if end > fresh {
            self.fresh.store(end as u16, Relaxed);
        }
        let total = self.claimed_total.load(Relaxed) + u64::from(claim.count_ones());
        self.claimed_total.store(total, Relaxed);
        self.claim_fresh.store(fresh_bits, Relaxed);
        self.claim_base.store(self.base() + low * size, Relaxed);

        // Other threads read (claim_word, claim) to recognise a double free; the sequence lets them
        // know that they read half of a change. The claim itself comes last, so that a signal
        // handler that interrupts here finds the bin empty rather than half made.
        let sequence = self.claim_sequence.load(Relaxed);
        self.claim_sequence.store(sequence.wrapping_add(1), Relaxed);
        self.live[word].store(live | claim, Release);
        self.claim_word.store(word as u8, Release);
        self.claim.store(claim, Release);
        self.claim_sequence.store(sequence.wrapping_add(2), Release);
    }

    /// Gives an unused claim back to the bitmap. Holder of the owning heap only.
    pub fn unclaim(&self) {
        let word = self.claim_word.load(Relaxed);
        if word == NO_WORD {
            return;
        }
        let rest = self.claim.load(Relaxed);
        self.claim.store(0, Relaxed);
        let live = &self.live[word as usize];
        live.store(live.load(Relaxed) & !rest, Release);
        let total = self.claimed_total.load(Relaxed) - u64::from(rest.count_ones());
        self.claimed_total.store(total, Relaxed);
    }

    /// Whether a slot may be freed by a thread that is not the owner: live, not claimed.
    ///
    /// The slot of a correct program is stably live here: it was popped before the pointer was
    /// handed over, and neither the owner nor anyone else changes its bits until it is freed.
    #[inline]
    pub fn is_live_for_others(&self, slot: usize) -> bool {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        if self.live[word].load(Acquire) & bit == 0 {
            return false;
        }
        if self.claim_word.load(Acquire) as usize != word || self.claim.load(Acquire) & bit == 0 {
            return true;
        }
        self.is_live_on_second_look(word, bit)
    }

    /// The owner may have moved its claim to another word between the two loads: believe only a
    /// pair that was read while nothing changed.
    #[cold]
    fn is_live_on_second_look(&self, word: usize, bit: u64) -> bool {
        for _ in 0..crate::sync::SPIN_LIMIT {
            let before = self.claim_sequence.load(Acquire);
            let claimed =
                self.claim_word.load(Acquire) as usize == word && self.claim.load(Acquire) & bit != 0;
            if !claimed {
                return true;
            }
            crate::sync::fence(Acquire);
            if before & 1 == 0 && self.claim_sequence.load(Relaxed) == before {
                return false;
            }
            crate::sync::pause();
        }
        // An owner that moves on thousands of times while we look has handed the slot out.
        true
    }

    /// Sets a slot's remote bit; says whether it was clear.
    #[inline]
    pub fn set_remote(&self, slot: usize) -> bool {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        // remote bit: pairs with `collect`, so that the owner sees what the freer did before.
        self.remote[word].fetch_or(bit, SeqCst) & bit == 0
    }

    /// Whether another thread has freed this slot.
    pub fn is_remote(&self, slot: usize) -> bool {
        self.remote[slot / WORD_SLOTS].load(Acquire) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Collects what other threads have freed; returns the slots that were not live, a word at a
    /// time, through `bad`. Holder of the owning heap only.
    pub fn collect(&self, mut bad: impl FnMut(usize)) {
        for word in 0..self.slots().div_ceil(WORD_SLOTS) {
            if self.remote[word].load(SeqCst) == 0 {
                continue;
            }
            // collect: pairs with `set_remote`.
            let freed = self.remote[word].swap(0, SeqCst);
            let live = self.live[word].load(Relaxed);
            let claimed = if self.claim_word.load(Relaxed) as usize == word {
                self.claim.load(Relaxed)
            } else {
                0
            };
            let good = freed & live & !claimed;
            self.live[word].store(live & !good, Release);
            let mut wrong = freed & !good;
            while wrong != 0 {
                bad(word * WORD_SLOTS + wrong.trailing_zeros() as usize);
                wrong &= wrong - 1;
            }
        }
    }

    /// Sets flags in `owner`; returns what it was.
    pub fn set_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_or(flag, SeqCst)
    }

    /// Clears flags in `owner`; returns what it was.
    pub fn clear_owner_flag(&self, flag: usize) -> usize {
        self.owner.fetch_and(!flag, SeqCst)
    }

    /// Hands the slab to another heap, unless a remote free has put it on a pending stack meanwhile.
    pub fn change_owner(&self, from: usize, to: usize) -> bool {
        self.owner.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// What a slot is doing, as far as the caller may see it.
    pub fn state(&self, slot: usize) -> SlotState {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        if self.remote[word].load(Acquire) & bit != 0 {
            SlotState::Remote
        } else if self.live[word].load(Acquire) & bit != 0 && !self.is_claimed(word, bit) {
            SlotState::Live
        } else if self.claim_word.load(Relaxed) as usize == word
            && self.claim.load(Relaxed) & self.claim_fresh.load(Relaxed) & bit != 0
            || slot >= self.fresh.load(Relaxed) as usize
        {
            SlotState::Fresh
        } else {
            SlotState::Free
        }
    }

    /// Slots that the program has, remote frees already taken off.
    pub fn live_slots(&self) -> usize {
        let mut live = 0;
        for word in 0..WORDS {
            let remote = self.remote[word].load(Relaxed);
            live += (self.live[word].load(Relaxed) & !remote).count_ones() as usize;
        }
        live.saturating_sub(self.claim.load(Relaxed).count_ones() as usize)
    }

    /// Slots freed by other threads and not yet collected.
    pub fn remote_slots(&self) -> usize {
        self.remote.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// Allocations ever made from this slab.
    pub fn allocations(&self) -> u64 {
        let rest = u64::from(self.claim.load(Relaxed).count_ones());
        self.claimed_total.load(Relaxed).saturating_sub(rest)
    }

    /// Slots that were ever handed out or claimed.
    pub fn touched_slots(&self) -> usize {
        self.fresh.load(Relaxed) as usize
    }

    /// Whether no slot is in use and none is claimed: nothing but the address is needed.
    pub fn is_empty(&self) -> bool {
        self.live.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// After the pages of an empty slab were given back: every slot reads as zero again.
    pub fn forget_contents(&self) {
        debug_assert!(self.is_empty());
        self.fresh.store(0, Relaxed);
    }

    /// Verifies I1 to I5. Holder of the owning heap only, with no other thread freeing.
    pub fn check(&self) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let slots = self.slots();
        ensure(slots <= SLOTS_MAX && slots > 0, "I1: slots")?;
        let claim_word = self.claim_word.load(Relaxed);
        let claim = self.claim.load(Relaxed);
        ensure(claim == 0 || (claim_word as usize) < WORDS, "I2: claim without a word")?;
        for word in 0..WORDS {
            let live = self.live[word].load(Relaxed);
            let remote = self.remote[word].load(Relaxed);
            let valid = valid_bits(slots, word);
            ensure(live & !valid == 0, "I1: live beyond the end")?;
            ensure(remote & !live == 0, "I3: remote but not live")?;
            let claimed = if claim_word as usize == word { claim } else { 0 };
            ensure(claimed & !live == 0, "I2: claimed but not live")?;
            ensure(claimed & remote == 0, "I2: claimed and remote")?;
            let low = word * WORD_SLOTS;
            let fresh = (self.fresh.load(Relaxed) as usize).saturating_sub(low);
            let untouched = if fresh >= 64 { 0 } else { u64::MAX << fresh };
            ensure(live & untouched == 0, "I4: live but fresh")?;
        }
        if claim_word != NO_WORD && claim != 0 {
            let base = self.base() + claim_word as usize * WORD_SLOTS * self.size();
            ensure(base == self.claim_base.load(Relaxed), "I5: claim base")?;
        }
        Ok(())
    }
}

/// Bits of a word that belong to slots below `slots`.
fn valid_bits(slots: usize, word: usize) -> u64 {
    match slots.saturating_sub(word * WORD_SLOTS) {
        64.. => u64::MAX,
        some => (1 << some) - 1,
    }
}
