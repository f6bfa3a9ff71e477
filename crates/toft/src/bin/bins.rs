//! Bins: for each (partition, class) the slab that malloc draws from, the slot that it hands out
//! next, and a list of other slabs that have free slots.
//!
//! ```text
//! bins[row + class]  slab --> current slab --next--> slab with room --next--> ... 0
//!                    next --> the current slab's lowest claimed slot
//! ```
//!
//! The slab is kept as its distance from a slab of nothing that lies before the bins. Fresh memory
//! is therefore a table of empty bins, a bin that was never used costs nothing, and the fast path
//! needs no null check. The address of the next slot is worked out one call ahead: malloc returns
//! it without waiting for the multiplication, and so does what its caller does with it. The
//! hardened build takes any claimed slot. It draws the number of the next one a call ahead, too, so
//! that its memory is fetched meanwhile. Each bin has a generator, which the heap's dice seed again
//! at each claim (`draw.rs`).
//!
//! Invariants:
//! - B1 a slab of this heap is in its bin's list exactly when its credit says that it is listed.
//! - B2 a slab leaves the list only when it has no free slot, but for those freed by others, or
//!   when another heap takes it over.
//! - B3 where the current slab has claimed slots, `next` is the address of the lowest. Where slots
//!   are handed out in random order, it is the state of a generator, and the number of a claimed
//!   slot; or of another one of the claim's group, and then nothing is taken before `refill`.
//! - B4 the slab of nothing is never written.
//! - B5 each slab of a list but the first knows the one before it.

use super::draw::{GENERATOR, Taken, draw_from, once, prefetch};
use super::head::BinsHead;
use crate::harden::Dice;
use crate::policy::RANDOM_ORDER;
use crate::slab::{CLASSES, GROUP_SLOTS, Slab, Violation};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::Relaxed;

/// One bin. An index of a bin counts words, so that a row plus a class is an index without a shift.
#[repr(C)]
#[derive(Debug)]
struct Bin {
    slab: AtomicUsize,
    next: AtomicUsize,
}

impl Bin {
    /// Where slots are handed out in random order: the state of a generator, and the slot that
    /// comes next.
    #[inline(always)]
    fn halves(&self) -> &[AtomicU32; 2] {
        // SAFETY: eight bytes, aligned to eight; in such a build they are used in no other way.
        unsafe { &*(&raw const self.next).cast() }
    }
}

/// Words in a bin.
pub const BIN_WORDS: usize = 2;
/// Words in a row: the bins of one partition.
pub const ROW_WORDS: usize = CLASSES * BIN_WORDS;
const _: () = assert!(size_of::<Bin>() == BIN_WORDS * size_of::<usize>());

/// The bins of one heap.
#[derive(Clone, Copy, Debug)]
pub struct Bins {
    head: *const BinsHead,
}

impl Bins {
    /// The bins that follow `head`.
    ///
    /// # Safety
    /// 1. The bins live for ever, begin as zero, and there is one for each index used.
    /// 2. The caller holds the heap: only the caller uses its bins for as long as this value is
    ///    used. Or it calls only `draws_from`.
    /// 3. The bins contain nothing but what this type writes.
    #[inline(always)]
    pub unsafe fn behind(head: &BinsHead) -> Bins {
        // From its address, so that what follows it may be used too.
        Bins { head: core::ptr::with_exposed_provenance((&raw const *head).expose_provenance()) }
    }

    #[inline(always)]
    fn nothing(self) -> usize {
        self.head.expose_provenance()
    }

    #[inline(always)]
    fn bin(self, index: usize) -> &'static Bin {
        // SAFETY: `behind` duty 1.
        unsafe { &*self.head.add(1).cast::<usize>().add(index).cast() }
    }

    #[inline(always)]
    fn slab_of(self, bin: &Bin) -> &'static Slab {
        let address = self.nothing().wrapping_add(bin.slab.load(Relaxed));
        // SAFETY: `behind` duty 3: the word is zero or was written by `set`, from a slab's address.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The slab that the next slot comes from; a slab of nothing where there is none.
    pub fn current(self, index: usize) -> &'static Slab {
        self.slab_of(self.bin(index))
    }

    /// Whether a slab is the bin's current one. Any thread; to others than the holder of the heap,
    /// a hint.
    pub fn draws_from(self, index: usize, slab: &Slab) -> bool {
        self.bin(index).slab.load(Relaxed) == address_of(slab).wrapping_sub(self.nothing())
    }

    fn is_empty(self, slab: &Slab) -> bool {
        address_of(slab) == self.nothing()
    }

    fn set(self, index: usize, address: usize) {
        let bin = self.bin(index);
        let word = if address == 0 { 0 } else { address.wrapping_sub(self.nothing()) };
        if RANDOM_ORDER {
            // In this order, because a signal handler in between must not take a slot by the number
            // that another slab's claim has left: who comes has no claim, or the one that goes has
            // none.
            let [_, next] = bin.halves();
            let comes = slab_at(address).map_or(0, Slab::first_of_claim);
            next.store(comes, Relaxed);
            crate::sync::compiler_fence(Ordering::SeqCst);
            bin.slab.store(word, Relaxed);
            return self.draw(bin);
        }
        bin.slab.store(word, Relaxed);
        bin.next.store(self.slab_of(bin).next_claimed().unwrap_or(0), Relaxed);
    }

    fn dice(self) -> &'static Dice {
        // SAFETY: `behind`: the head is a part of the heap.
        unsafe { (*self.head).dice() }
    }

    /// Begins to draw from a bin's claim.
    #[inline]
    fn draw(self, bin: &Bin) {
        let throw = self.dice().throw() as u32;
        let [drawn, next] = bin.halves();
        let slab = self.slab_of(bin);
        next.store(draw_from(slab.claimed(), throw, slab.first_of_claim()), Relaxed);
        drawn.store(throw, Relaxed);
    }

    /// Hands out the next slot, if one is claimed. The fast path of malloc.
    ///
    /// 5 loads, 3 stores and 1 multiplication. The address is the value of a load; what one call
    /// leaves for the next is the claim.
    #[inline(always)]
    pub fn pop(self, index: usize) -> Option<usize> {
        let bin = self.bin(index);
        let slab = self.slab_of(bin);
        let claim = slab.claimed();
        if claim == 0 {
            return None;
        }
        if RANDOM_ORDER {
            return self.take(index).map(|taken| taken.address);
        }
        let address = bin.next.load(Relaxed);
        bin.next.store(address.wrapping_add(slab.hand_out(claim)), Relaxed);
        Some(address)
    }

    /// Hands out any of the claimed slots, if there is one, and has the memory of the one that
    /// comes next fetched: it was freed long ago. The fast path of the hardened build's malloc.
    #[inline(always)]
    pub fn take(self, index: usize) -> Option<Taken<'static>> {
        let bin = once(self.bin(index));
        let slab = once(self.slab_of(bin));
        let [drawn, next] = bin.halves();
        let slot = next.load(Relaxed);
        let claim = slab.claimed();
        let rest = claim & !(1 << (slot % GROUP_SLOTS as u32));
        if rest == claim {
            return None;
        }
        let random = drawn.load(Relaxed).wrapping_mul(GENERATOR).wrapping_add(1);
        drawn.store(random, Relaxed);
        // Behind the last one nothing is known: then any slot will do.
        let following = draw_from(rest, random, slot);
        next.store(following, Relaxed);
        let (address, bytes) = slab.hand_out_any(rest, slot as usize);
        let steps = (following as usize).wrapping_sub(slot as usize);
        let next = address.wrapping_add(steps.wrapping_mul(bytes));
        prefetch(next);
        Some(Taken { slab, slot: slot as usize, address, bytes, next })
    }

    /// Claims more from the current slab, whose claim is used up. False when it has no more.
    #[inline(always)]
    pub fn refill(self, index: usize) -> bool {
        let bin = self.bin(index);
        let slab = self.slab_of(bin);
        if RANDOM_ORDER {
            let [_, next] = bin.halves();
            // Before the claim can be seen: a signal handler that comes before `draw` takes a slot
            // of it, or none.
            let any = slab.claimed() != 0
                || slab.refill(self.dice().throw(), |_| next.store(slab.first_of_claim(), Relaxed));
            if any {
                self.draw(bin);
            }
            return any;
        }
        slab.refill(0, |first| bin.next.store(first, Relaxed))
    }

    /// A slot at `address` was just freed: where its slab is the current one, and the slot lies
    /// before what is claimed, it is the next to be handed out.
    #[inline(always)]
    pub fn push(self, index: usize, slab: &Slab, slot: usize, address: usize) {
        if !RANDOM_ORDER && self.draws_from(index, slab) {
            slab.claim_freed(slot, || self.bin(index).next.store(address, Relaxed));
        }
    }

    /// Lists a slab that has free slots, behind the current one.
    pub fn list(self, index: usize, slab: &Slab) {
        let current = self.current(index);
        slab.relist();
        if self.is_empty(current) {
            slab.set_next(0);
            self.set(index, address_of(slab));
        } else {
            join(slab, current.next());
            join(current, address_of(slab));
        }
    }

    /// Takes a slab off the list that is on it, and not the current one.
    pub fn unlist(self, slab: &Slab) {
        if let Some(before) = slab_at(slab.previous()) {
            join(before, slab.next());
            slab.set_next(0);
        }
    }

    /// The current slab's claim is used up: claims more from it, or from the next slab that has
    /// free slots; slabs without are taken off. `wake` maps the pages of a dormant slab, or asks
    /// for one that was set aside, and returns true if it may be used. Returns false when the bin
    /// has nothing left that can be used now.
    pub fn advance(self, index: usize, mut wake: impl FnMut(&Slab) -> bool) -> bool {
        loop {
            let slab = self.current(index);
            if self.is_empty(slab) {
                return false;
            }
            if self.refill(index) {
                return true;
            }
            // Only its owner wakes it: what `refill` has seen of that is still so.
            if !slab.is_awake() {
                if wake(slab) {
                    continue;
                }
                return self.pass_dormant(index, slab, wake);
            }
            self.set(index, slab.next());
            slab.unlist();
        }
    }

    /// There is no memory to wake the current slab with: a later one of the list may be awake and
    /// have room, and becomes the current one.
    #[cold]
    fn pass_dormant(
        self,
        index: usize,
        current: &'static Slab,
        mut wake: impl FnMut(&Slab) -> bool,
    ) -> bool {
        let mut before = current;
        while let Some(slab) = slab_at(before.next()) {
            if !(slab.is_awake() || slab.is_aside() && wake(slab)) {
                before = slab;
                continue;
            }
            join(before, slab.next());
            join(slab, address_of(current));
            self.set(index, address_of(slab));
            if self.refill(index) {
                return true;
            }
            self.set(index, address_of(current));
            if slab.is_awake() {
                slab.unlist();
            } else {
                // It was set aside again meanwhile: it has room, and stays on the list.
                join(slab, current.next());
                join(current, address_of(slab));
                return false;
            }
        }
        false
    }

    /// Takes the first slab out of the list for which `choose` says yes.
    pub fn remove(
        self,
        index: usize,
        mut choose: impl FnMut(&Slab) -> bool,
    ) -> Option<&'static Slab> {
        let mut before: Option<&Slab> = None;
        for slab in self.listed(index) {
            if choose(slab) {
                match before {
                    Some(before) => join(before, slab.next()),
                    None => self.set(index, slab.next()),
                }
                slab.set_next(0);
                return Some(slab);
            }
            before = Some(slab);
        }
        None
    }

    /// Makes B3 true of every bin, and I2 of the slab that it draws from, where a thread may have
    /// been stopped in the middle of `pop` or `take`.
    pub fn look_again(self, partitions: usize) {
        for index in (0..partitions * ROW_WORDS).step_by(BIN_WORDS) {
            let slab = self.current(index);
            slab.take_back_cut_off();
            if let Some(address) = slab.next_claimed().filter(|_| !RANDOM_ORDER) {
                self.bin(index).next.store(address, Relaxed);
            }
        }
    }

    /// Verifies B3 to B5.
    pub fn check(self, index: usize) -> Result<(), Violation> {
        // SAFETY: `behind`: the head is a part of the heap.
        let nothing = unsafe { &(*self.head).nothing };
        if nothing.claimed() != 0 || nothing.slots() != 0 || nothing.next() != 0 {
            return Err(Violation("B4: the slab of nothing"));
        }
        let mut before = self.current(index);
        for slab in self.listed(index).skip(1) {
            if slab.previous() != address_of(before) {
                return Err(Violation("B5: previous"));
            }
            before = slab;
        }
        let current = self.current(index);
        let [_, next] = self.bin(index).halves();
        let group = |slot: u32| slot as usize / GROUP_SLOTS;
        if RANDOM_ORDER
            && current.claimed() != 0
            && group(next.load(Relaxed)) != group(current.first_of_claim())
        {
            return Err(Violation("B3: a slot of another group"));
        }
        match current.next_claimed() {
            Some(address) if !RANDOM_ORDER && address != self.bin(index).next.load(Relaxed) => {
                Err(Violation("B3: next"))
            }
            _ => Ok(()),
        }
    }

    /// Forgets everything, for rebuilding.
    pub fn clear(self, index: usize) {
        self.set(index, 0);
    }

    /// The slabs of a bin's list.
    pub fn listed(self, index: usize) -> impl Iterator<Item = &'static Slab> {
        let first = Some(self.current(index)).filter(|slab| !self.is_empty(slab));
        core::iter::successors(first, |slab| slab_at(slab.next()))
    }
}

/// Makes the slab at the address `next`, if that is not zero, the one after `before`.
fn join(before: &Slab, next: usize) {
    before.set_next(next);
    if let Some(slab) = slab_at(next) {
        slab.set_previous(address_of(before));
    }
}

/// The slab at an address that a list holds; `None` for zero.
pub fn slab_at(address: usize) -> Option<&'static Slab> {
    // SAFETY: lists hold addresses of slab descriptors only, which live for ever.
    (address != 0).then(|| unsafe { &*core::ptr::with_exposed_provenance(address) })
}

/// The address of a slab's descriptor.
#[inline]
pub fn address_of(slab: &Slab) -> usize {
    (&raw const *slab).expose_provenance()
}
