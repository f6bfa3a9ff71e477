//! Bins: for each (partition, class) the slab that malloc draws from, and a list of others that
//! have free slots.
//!
//! ```text
//! bins[row + class] --> current slab --next--> slab with room --next--> ... 0
//! ```
//!
//! A bin is one word: the slab's address less the address of [`EMPTY_SLAB`]. Fresh memory is
//! therefore a table of empty bins, a bin that was never used costs nothing, and the fast path
//! needs no null check. Invariants:
//! - B1 a slab of this heap is in its bin's list exactly when its credit says that it is listed.
//! - B2 a slab leaves the list only when it has no free slot, but for those freed by others.

use crate::slab::{EMPTY_SLAB, Slab};
use crate::sync::{AtomicUsize, Ordering};
use Ordering::Relaxed;

/// The bins of one heap.
#[derive(Clone, Copy, Debug)]
pub struct Bins {
    words: *const AtomicUsize,
}

impl Bins {
    /// The bins whose words begin at `address`.
    ///
    /// # Safety
    /// 1. The words live for ever, begin as zero, and there is one for each index used.
    /// 2. The caller holds the heap: nobody else uses its bins for as long as this value is used.
    /// 3. The words contain nothing but what this type writes.
    #[inline(always)]
    pub unsafe fn at(address: usize) -> Bins {
        Bins { words: core::ptr::with_exposed_provenance(address) }
    }

    #[inline(always)]
    fn word(self, index: usize) -> &'static AtomicUsize {
        // SAFETY: `at` duty 1.
        unsafe { &*self.words.add(index) }
    }

    /// The slab that the next slot comes from; the empty slab where there is none.
    #[inline(always)]
    pub fn current(self, index: usize) -> &'static Slab {
        let address = empty().wrapping_add(self.word(index).load(Relaxed));
        // SAFETY: `at` duty 3: the word is zero or was written by `set`, from a slab's address.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    fn set(self, index: usize, address: usize) {
        let word = if address == 0 { 0 } else { address.wrapping_sub(empty()) };
        self.word(index).store(word, Relaxed);
    }

    /// Lists a slab that has free slots, behind the current one.
    pub fn list(self, index: usize, slab: &Slab) {
        let current = self.current(index);
        slab.relist();
        if is_empty(current) {
            slab.set_next(0);
            self.set(index, address_of(slab));
        } else {
            slab.set_next(current.next());
            current.set_next(address_of(slab));
        }
    }

    /// The current slab's claim is used up: claims more from it, or from the next slab that has free
    /// slots; slabs without are taken off. `wake` maps the pages of a dormant slab. False when the
    /// bin has nothing left that can be used now.
    pub fn advance(self, index: usize, mut wake: impl FnMut(&Slab) -> bool) -> bool {
        loop {
            let slab = self.current(index);
            if is_empty(slab) {
                return false;
            }
            if slab.refill() {
                return true;
            }
            if slab.is_dormant() {
                if wake(slab) {
                    continue;
                }
                return self.pass_dormant(index, slab);
            }
            self.set(index, slab.next());
            slab.unlist();
        }
    }

    /// There is no memory to wake the current slab with: a later one of the list may be awake and
    /// have room, and becomes the current one.
    #[cold]
    fn pass_dormant(self, index: usize, current: &'static Slab) -> bool {
        let mut before = current;
        while let Some(slab) = slab_at(before.next()) {
            if slab.is_dormant() {
                before = slab;
                continue;
            }
            before.set_next(slab.next());
            if slab.refill() {
                slab.set_next(address_of(current));
                self.set(index, address_of(slab));
                return true;
            }
            slab.unlist();
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
                    Some(before) => before.set_next(slab.next()),
                    None => self.set(index, slab.next()),
                }
                slab.set_next(0);
                return Some(slab);
            }
            before = Some(slab);
        }
        None
    }

    /// Forgets everything, for rebuilding.
    pub fn clear(self, index: usize) {
        self.set(index, 0);
    }

    /// The slabs of a bin's list.
    pub fn listed(self, index: usize) -> impl Iterator<Item = &'static Slab> {
        let first = Some(self.current(index)).filter(|slab| !is_empty(slab));
        core::iter::successors(first, |slab| slab_at(slab.next()))
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

#[inline(always)]
fn empty() -> usize {
    (&raw const EMPTY_SLAB).expose_provenance()
}

fn is_empty(slab: &Slab) -> bool {
    core::ptr::eq(slab, &EMPTY_SLAB)
}
