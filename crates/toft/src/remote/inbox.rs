//! The pending stack of one heap, and the free that ends on it.

use crate::slab::{FLAGS, LINK_OPEN, PENDING, Slab};
use crate::sync::{AtomicUsize, Ordering, SPIN_LIMIT, pause};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Slabs that other threads have freed into. It is the first part of a heap, so that the address in
/// a slab's `owner` is the address of the inbox to push to.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Inbox {
    /// Top of the stack: a descriptor's address, or zero. Written by any thread, by exchange.
    head: AtomicUsize,
    /// The part of an earlier stack that was not handed out yet: whose next link was not written,
    /// or whose holder was ended while it was at it. Holder of the heap only.
    deferred: AtomicUsize,
}

impl Inbox {
    /// An empty inbox.
    #[cfg(not(loom))]
    pub const fn new() -> Inbox {
        Inbox { head: AtomicUsize::new(0), deferred: AtomicUsize::new(0) }
    }

    /// An empty inbox.
    #[cfg(loom)]
    pub fn new() -> Inbox {
        Inbox { head: AtomicUsize::new(0), deferred: AtomicUsize::new(0) }
    }

    /// Puts a slab on the stack. Only the thread that has set PENDING may: so a slab is pushed
    /// once.
    fn push(&self, slab: &Slab) {
        // push slab: Release makes the slab's bits visible to the thread that takes the stack.
        let below = self.head.swap((&raw const *slab).expose_provenance(), AcqRel);
        slab.link.store(below, Release);
    }

    /// Whether there is nothing to drain.
    pub fn is_empty(&self) -> bool {
        self.head.load(Relaxed) == 0 && self.deferred.load(Relaxed) == 0
    }

    /// Hands every pending slab to `each`, with PENDING already clear. Holder of the heap only.
    pub fn drain(&self, mut each: impl FnMut(&'static Slab)) {
        let deferred = self.deferred.load(Relaxed);
        // A pusher may still sleep between two instructions; what has come since can wait for the
        // next drain, so that one word is enough to remember where we were.
        if deferred != 0 && !self.walk(deferred, &mut each) {
            return;
        }
        if self.head.load(Relaxed) != 0 {
            // pairs: push slab.
            let head = self.head.swap(0, AcqRel);
            self.deferred.store(head, Relaxed);
            self.walk(head, &mut each);
        }
    }

    /// From `deferred` on, which is always what is left.
    fn walk(&self, mut address: usize, each: &mut impl FnMut(&'static Slab)) -> bool {
        while address != 0 {
            // SAFETY: the stack holds addresses of slab descriptors, which live for ever.
            let slab: &'static Slab = unsafe { &*core::ptr::with_exposed_provenance(address) };
            let mut spins = 0;
            let below = loop {
                let below = slab.link.load(Acquire);
                if below != LINK_OPEN {
                    break below;
                }
                if spins == SPIN_LIMIT {
                    return false;
                }
                spins += 1;
                pause();
            };
            self.deferred.store(below, Relaxed);
            // From the moment PENDING is clear the slab may be pushed again.
            slab.link.store(LINK_OPEN, Release);
            slab.clear_owner_flag(PENDING);
            crate::sync::fence_between_locations();
            each(slab);
            address = below;
        }
        true
    }

    /// Forgets the stack, for rebuilding after a fork.
    pub fn reset(&self) {
        self.head.store(0, Relaxed);
        self.deferred.store(0, Relaxed);
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}

/// What setting a remote bit has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The bit was set already: another thread has freed the slot.
    Twice,
    /// Done; the slab is on its owner's pending stack, or its owner is about to look.
    Done,
    /// Done, and the slab must be announced to its owner.
    Unannounced,
}

/// Frees a slot of a slab that the caller does not own. Wait-free: one atomic.
#[inline]
pub fn mark_remote(slab: &Slab, slot: usize) -> Marked {
    if !slab.set_remote(slot) {
        return Marked::Twice;
    }
    crate::sync::fence_between_locations();
    if slab.owner.load(SeqCst) & PENDING == 0 {
        return Marked::Unannounced;
    }
    Marked::Done
}

/// Puts a slab with a new remote bit on its owner's pending stack, unless another thread does.
/// Wait-free: two exchanges.
#[cold]
pub fn announce(slab: &Slab) {
    let before = slab.set_owner_flag(PENDING);
    // Without owner: what the caller has freed was collected already, and the slab has become
    // empty. The thread that takes it from the pool takes the flag off with that.
    if before & PENDING == 0 && before & !FLAGS != 0 {
        // SAFETY: `owner` of a published slab is the address of a heap, whose first part is its
        // inbox, and heaps live for ever. The heap named by the value that we exchanged is the one
        // that owns the slab until PENDING is clear again (`Slab::change_owner` fails meanwhile).
        let inbox: &Inbox = unsafe { &*core::ptr::with_exposed_provenance(before & !FLAGS) };
        inbox.push(slab);
    }
}
