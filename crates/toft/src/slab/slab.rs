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
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

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

/// Least credit of a listed slab, so that one with few blocks does not ask at every free.
const LISTED_MIN: u32 = 512;
/// The share of its slots that must be free, as a shift, before a slab that was full is listed
/// again. With less, every free and every malloc of a steady program would change a list; this is
/// the slack that law 4 counts with (decision 0003).
const RELIST_SHIFT: u32 = 3;

/// `link` of a slab whose pusher has not yet written the next one.
pub const LINK_OPEN: usize = usize::MAX;

/// Bytes of slots that a claim may span, so that a rarely used site touches few pages.
const CLAIM_SPAN: usize = 4096;
/// How many doublings a hot slab's claims may grow by.
const HEAT_MAX: u32 = 2;

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
    used: AtomicU32,
    _line_0: [AtomicU32; 3],

    /// Slots of the claimed word that malloc hands out next. Owner.
    claim: AtomicU64,
    claim_base: AtomicUsize,
    /// The same as `size`, where malloc needs it.
    slot_size: AtomicU32,
    /// Index in `live` of the claimed word.
    live_word: AtomicU32,
    /// Slots of the claim that were never handed out before: their memory is zero.
    claim_fresh: AtomicU64,
    /// First slot that was never claimed.
    fresh: AtomicU32,
    /// How often the claims of this slab have grown.
    heat: AtomicU32,
    /// Next slab of the same bin.
    next: AtomicUsize,
    /// Whether the slab is on its bin's list.
    listed: AtomicU32,
    /// Slots that may be claimed: all, or none while the slab's pages are unmapped.
    claimable: AtomicU32,
    /// Frees of this slab's slots, but for those that the credit has counted.
    frees: AtomicU64,

    /// Owner; read by other threads, for the slots that they free.
    live: [AtomicU64; WORDS],
    /// Counts down by one with every free by the owner. At zero a slab that is on no list must be
    /// listed, and one that is may be empty. Owner, and nobody else reads it.
    credit: AtomicU32,
    /// What the credit was set to.
    credit_start: AtomicU32,

    remote: [AtomicU64; WORDS],
    /// Next slab on the pending stack. Written by the thread that pushed it.
    pub(crate) link: AtomicUsize,
}

/// What follows when a slab's credit is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing.
    Nothing,
    /// The slab must be put on its bin's list.
    List,
    /// The slab is on its list, and no slot is live.
    Empty,
}

/// What taking a slot back has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The slot is free.
    Done,
    /// The slot is free, and the slab's credit is spent: `Slab::credit_spent` says what follows.
    Spent,
    /// The slot was not live.
    NotLive,
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

    /// Hands out a claimed slot. Owner only.
    ///
    /// 5 loads, 2 stores and 1 multiplication. What one call leaves for the next is the claim.
    #[inline(always)]
    pub fn pop(&self) -> Option<usize> {
        let claim = self.claim.load(Relaxed);
        if claim == 0 {
            return None;
        }
        let rest = claim & (claim - 1);
        self.claim.store(rest, Relaxed);
        // SAFETY: `claim_from` has set `live_word` to an index below WORDS.
        let live = unsafe { self.live.get_unchecked(self.live_word.load(Relaxed) as usize) };
        live.store(live.load(Relaxed) | (claim ^ rest), Relaxed);
        let slot = claim.trailing_zeros() as usize;
        let size = self.slot_size.load(Relaxed) as usize;
        Some(self.claim_base.load(Relaxed) + slot * size)
    }

    /// Whether the slot that `pop` has just handed out had never been handed out before.
    #[inline(always)]
    pub fn popped_fresh(&self, address: usize) -> bool {
        // The claim's slots are at most 64, and both operands are exact multiples of the size.
        let offset = address - self.claim_base.load(Relaxed);
        let slot = offset / (self.slot_size.load(Relaxed) as usize).max(1);
        self.claim_fresh.load(Relaxed) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Takes a slot back. Owner only.
    ///
    /// 2 loads and 2 stores.
    #[inline(always)]
    pub fn put(&self, slot: usize) -> Put {
        debug_assert!(slot < SLOTS_MAX);
        // SAFETY: `slot_at` gives slots below SLOTS_MAX only.
        let live = unsafe { self.live.get_unchecked(slot / WORD_SLOTS) };
        let bits = live.load(Relaxed);
        if bits >> (slot % WORD_SLOTS) & 1 == 0 {
            return Put::NotLive;
        }
        live.store(bits & !(1u64 << (slot % WORD_SLOTS)), Relaxed);
        // SAFETY: only the owner touches the credit, and the caller is the owner: a plain
        // decrement in place is one instruction where an atomic load and store would be three.
        let credit = unsafe {
            let credit = self.credit.as_ptr();
            *credit = (*credit).wrapping_sub(1);
            *credit
        };
        if credit == 0 { Put::Spent } else { Put::Done }
    }

    fn set_credit(&self, credit: u32) {
        let spent = self.credit_start.load(Relaxed).wrapping_sub(self.credit.load(Relaxed));
        self.frees.store(self.frees.load(Relaxed) + u64::from(spent), Relaxed);
        self.credit_start.store(credit, Relaxed);
        self.credit.store(credit, Relaxed);
    }

    fn threshold(&self) -> u32 {
        (self.slots.load(Relaxed) >> RELIST_SHIFT).max(1)
    }

    /// The slab has no free slot left and leaves its list: it comes back after so many frees.
    pub fn unlist(&self) {
        self.next.store(0, Relaxed);
        self.listed.store(0, Relaxed);
        self.set_credit(self.threshold());
    }

    /// The slab goes on its list. From here on the credit watches for emptiness: as many frees as
    /// there are live slots now.
    pub fn relist(&self) {
        self.listed.store(1, Relaxed);
        self.set_credit(self.held().max(1));
    }

    /// Slots that are live, those freed by others included. Owner.
    fn held(&self) -> u32 {
        self.live.iter().map(|word| word.load(Relaxed).count_ones()).sum()
    }

    /// What to do about a slab whose credit is spent. `exact` asks to be told of emptiness as soon
    /// as it is there, at the price of more such questions. Owner.
    pub fn credit_spent(&self, exact: bool) -> Spent {
        if !self.is_listed() {
            return Spent::List;
        }
        let held = self.held();
        self.set_credit(held.max(if exact { 1 } else { LISTED_MIN }));
        if held == 0 { Spent::Empty } else { Spent::Nothing }
    }

    /// The credit is spent at a moment when nothing can be done: one more free brings it up again.
    pub fn postpone(&self) {
        self.set_credit(1);
    }

    /// Whether the pages of the slab are unmapped.
    pub fn is_dormant(&self) -> bool {
        self.claimable.load(Relaxed) == 0
    }

    /// Nothing may be claimed from here on: the pages are about to go. Owner, of an empty slab.
    pub fn lie_dormant(&self) {
        debug_assert_eq!(self.held(), 0);
        self.unclaim();
        self.claimable.store(0, Relaxed);
        // What comes back will be zero.
        self.used.store(self.touched_slots() as u32, Relaxed);
        self.fresh.store(0, Relaxed);
    }

    /// The pages are mapped again; or still, and then they may not be zero.
    pub fn wake(&self, zero: bool) {
        if !zero {
            self.fresh.store(self.used.load(Relaxed), Relaxed);
        }
        self.claimable.store(self.slots.load(Relaxed), Relaxed);
    }

    /// Whether the slab is on its bin's list.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Relaxed) != 0
    }

    /// Counts frees by other threads; says whether the slab must be listed now.
    fn spend_credit(&self, frees: u32) -> bool {
        let credit = self.credit.load(Relaxed);
        if frees < credit {
            self.credit.store(credit - frees, Relaxed);
            return false;
        }
        self.frees.store(self.frees.load(Relaxed) + u64::from(frees - credit), Relaxed);
        self.credit.store(0, Relaxed);
        self.credit_spent(false) == Spent::List
    }

    /// Claims free slots for `pop`: the lowest free ones of the lowest word that has any, so that a
    /// slab stays packed. Owner only, with the claim used up. False when the slab is full.
    #[inline(always)]
    pub fn refill(&self) -> bool {
        debug_assert_eq!(self.claim.load(Relaxed), 0);
        for (word, live) in self.live.iter().enumerate() {
            let mut free = !live.load(Relaxed);
            if free == 0 {
                continue;
            }
            free &= valid_bits(self.claimable.load(Relaxed) as usize, word);
            if self.owner.load(Relaxed) & PENDING != 0 {
                // A free slot with its remote bit set was freed twice by racing threads. It must
                // not be handed out again before `collect` has named it.
                free &= !word_of(&self.remote, word).load(Relaxed);
            }
            if free != 0 {
                self.claim_from(word, free);
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn claim_from(&self, word: usize, free: u64) {
        let size = self.slot_size.load(Relaxed) as usize;
        let low = word * WORD_SLOTS;
        let fresh = self.fresh.load(Relaxed) as usize;
        let mut claim = free;
        let mut fresh_bits = 0;
        if fresh < self.slots() {
            claim = self.claim_less(free, size);
            let end = low + 64 - claim.leading_zeros() as usize;
            if end > fresh {
                self.fresh.store(end as u32, Relaxed);
                fresh_bits = claim & u64::MAX << fresh.saturating_sub(low);
            }
        }
        self.claim_fresh.store(fresh_bits, Relaxed);
        self.claim_base.store(self.base() + low * size, Relaxed);
        self.live_word.store(word as u32, Relaxed);
        // The claim comes last, so that a signal handler that interrupts here finds the bin empty
        // rather than half made.
        crate::sync::compiler_fence(Release);
        self.claim.store(claim, Relaxed);
    }

    /// A slab with slots that were never used is touched with care: a claim spans a page or little
    /// more, so that what is freed is used again before what is fresh.
    #[cold]
    fn claim_less(&self, free: u64, size: usize) -> u64 {
        let heat = self.heat.load(Relaxed);
        if heat < HEAT_MAX {
            self.heat.store(heat + 1, Relaxed);
        }
        let span = ((CLAIM_SPAN << heat) / size.max(1)).max(1) as u32;
        match free.trailing_zeros() + span {
            end @ 0..64 => free & ((1 << end) - 1),
            _ => free,
        }
    }

    /// Gives an unused claim back. Holder of the owning heap only.
    pub fn unclaim(&self) {
        // Slots are handed out from the lowest up, so that those of the claim that were not are the
        // last of all that count as touched.
        let untouched = self.claim.load(Relaxed) & self.claim_fresh.load(Relaxed);
        if untouched != 0 {
            let low = self.live_word.load(Relaxed) * WORD_SLOTS as u32;
            self.fresh.store(low + untouched.trailing_zeros(), Relaxed);
        }
        self.claim.store(0, Relaxed);
    }

    /// Whether a slot may be freed by a thread that is not the owner.
    ///
    /// The slot of a correct program is stably live here: it was handed out before the pointer was
    /// handed over, and nobody changes its bit until it is freed.
    #[inline]
    pub fn is_live(&self, slot: usize) -> bool {
        word_of(&self.live, slot / WORD_SLOTS).load(Acquire) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Sets a slot's remote bit; says whether it was clear.
    #[inline]
    pub fn set_remote(&self, slot: usize) -> bool {
        let (word, bit) = (slot / WORD_SLOTS, 1u64 << (slot % WORD_SLOTS));
        // remote bit: pairs with `collect`, so that the owner sees what the freer did before.
        word_of(&self.remote, word).fetch_or(bit, SeqCst) & bit == 0
    }

    /// Whether another thread has freed this slot.
    pub fn is_remote(&self, slot: usize) -> bool {
        word_of(&self.remote, slot / WORD_SLOTS).load(Acquire) >> (slot % WORD_SLOTS) & 1 != 0
    }

    /// Collects what other threads have freed; tells the slots that were not live through `bad`.
    /// Says whether the slab must be listed again. Holder of the owning heap only.
    pub fn collect(&self, mut bad: impl FnMut(usize)) -> bool {
        let mut frees = 0;
        for word in 0..self.slots().div_ceil(WORD_SLOTS) {
            if word_of(&self.remote, word).load(SeqCst) == 0 {
                continue;
            }
            // collect: pairs with `set_remote`.
            let freed = word_of(&self.remote, word).swap(0, SeqCst);
            let live = word_of(&self.live, word).load(Relaxed);
            let good = freed & live;
            word_of(&self.live, word).store(live & !good, Release);
            frees += good.count_ones();
            let mut wrong = freed & !good;
            while wrong != 0 {
                bad(word * WORD_SLOTS + wrong.trailing_zeros() as usize);
                wrong &= wrong - 1;
            }
        }
        self.spend_credit(frees)
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

    /// Slots freed by other threads and not yet collected.
    pub fn remote_slots(&self) -> usize {
        self.remote.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
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

    /// Verifies I1 to I6. Holder of the owning heap only, with no other thread freeing.
    pub fn check(&self) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        let slots = self.slots();
        ensure(slots <= SLOTS_MAX && slots > 0, "I1: slots")?;
        let claim = self.claim.load(Relaxed);
        let live_word = self.live_word.load(Relaxed) as usize;
        ensure(live_word < WORDS, "I5: claimed word")?;
        let mut used = 0;
        for word in 0..WORDS {
            let live = word_of(&self.live, word).load(Relaxed);
            let remote = word_of(&self.remote, word).load(Relaxed);
            let claimed = if live_word == word { claim } else { 0 };
            ensure((live | claimed) & !valid_bits(slots, word) == 0, "I1: beyond the end")?;
            ensure(claimed & (live | remote) == 0, "I2: claimed and in use")?;
            ensure(remote & !live == 0, "I3: remote but not live")?;
            let fresh = (self.fresh.load(Relaxed) as usize).saturating_sub(word * WORD_SLOTS);
            let untouched = if fresh >= 64 { 0 } else { u64::MAX << fresh };
            ensure(live & untouched == 0, "I4: live but fresh")?;
            used += live.count_ones();
        }
        if claim != 0 {
            let base = self.base() + live_word * WORD_SLOTS * self.size();
            ensure(base == self.claim_base.load(Relaxed), "I5: claim base")?;
        }
        if !self.is_listed() {
            ensure(claim == 0, "I6: claim without a list")?;
            let free = slots as u32 - used;
            let missing = self.threshold().saturating_sub(free).max(1);
            let credit = self.credit.load(Relaxed);
            ensure(credit == missing, "I6: credit")?;
        }
        Ok(())
    }
}

/// A word of a bitmap, with no way to panic: callers' indices are below WORDS.
#[inline(always)]
fn word_of(words: &[AtomicU64; WORDS], word: usize) -> &AtomicU64 {
    debug_assert!(word < WORDS);
    // SAFETY: every slot number comes from `slot_at` or a loop over WORDS, so the index is in range.
    unsafe { words.get_unchecked(word) }
}

/// Bits of a word that belong to slots below `slots`.
#[inline]
fn valid_bits(slots: usize, word: usize) -> u64 {
    match slots.saturating_sub(word * WORD_SLOTS) {
        64.. => u64::MAX,
        some => (1 << some) - 1,
    }
}
