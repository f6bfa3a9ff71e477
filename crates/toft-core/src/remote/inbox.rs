//! The pending stack of one heap, and the remote frees that push to it.

use crate::slab::{FLAGS, LINK_OPEN, PENDING, Slab, SlotIndex};
use crate::sync::{AtomicUsize, Ordering, SPIN_LIMIT, pause};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The slabs that other threads have freed into. It is the first part of a heap, so the address in
/// a slab's `owner` is the address of the inbox to push to.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Inbox {
    /// The top of the stack: a descriptor's address, or zero. Any thread writes it, by exchange.
    head: AtomicUsize,
    /// The rest of an earlier stack, or zero. `drain` stopped there because a next link was not
    /// written yet, or because its thread exited. Holder of the heap only.
    deferred: AtomicUsize,
}

impl Inbox {
    /// Returns an empty inbox.
    #[cfg(not(loom))]
    pub const fn new() -> Inbox {
        Inbox { head: AtomicUsize::new(0), deferred: AtomicUsize::new(0) }
    }

    /// Returns an empty inbox.
    #[cfg(loom)]
    pub fn new() -> Inbox {
        Inbox { head: AtomicUsize::new(0), deferred: AtomicUsize::new(0) }
    }

    /// Pushes a slab on the stack. Only the thread that has set PENDING calls this, so a slab is
    /// pushed once.
    fn push(&self, slab: &Slab) {
        // push slab: Release makes the slab's bits visible to the thread that takes the stack.
        let below = self.head.swap((&raw const *slab).expose_provenance(), AcqRel);
        slab.link.store(below, Release);
    }

    /// Returns true if there is nothing to drain.
    pub fn is_empty(&self) -> bool {
        self.head.load(Relaxed) == 0 && self.deferred.load(Relaxed) == 0
    }

    /// Passes every pending slab to `each`, after PENDING is cleared. Holder of the heap only.
    pub fn drain(&self, mut each: impl FnMut(&'static Slab)) {
        let deferred = self.deferred.load(Relaxed);
        // A pushing thread may be stopped between two instructions. The slabs pushed since then
        // wait for the next drain, so one word is enough to store the position.
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

    /// Passes the slabs from `address` on to `each`. `deferred` always stores the rest. Returns
    /// false if a link is not written yet.
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
            // The slab may be pushed again as soon as PENDING is clear.
            slab.link.store(LINK_OPEN, Release);
            slab.clear_owner_flag(PENDING);
            crate::sync::fence_between_locations();
            each(slab);
            address = below;
        }
        true
    }

    /// Forgets the stack, before the lists are rebuilt after a fork.
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

/// The result of setting a remote bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The bit was set already: another thread has freed the slot.
    Twice,
    /// The bit is set, and PENDING was set before. The slab is on its owner's pending stack, or on
    /// its way there, or the owner is about to collect it.
    Done,
    /// The bit is set, and the caller must call [`announce`].
    Unannounced,
}

/// Frees a slot of a slab that the caller does not own. Wait-free: one atomic operation.
#[inline]
pub fn mark_remote(slab: &Slab, slot: SlotIndex) -> Marked {
    if slab.remote_frees().is_marked(slot) || !slab.remote.set(slot) {
        return Marked::Twice;
    }
    crate::sync::fence_between_locations();
    if slab.owner.load(SeqCst) & PENDING == 0 {
        return Marked::Unannounced;
    }
    Marked::Done
}

/// Pushes a slab with a new remote bit on its owner's pending stack, unless another thread does.
/// Wait-free: two atomic operations.
#[cold]
pub fn announce(slab: &Slab) {
    let before = slab.set_owner_flag(PENDING);
    // A slab without an owner is empty, and the caller's free was collected already. The thread
    // that takes the slab from the pool also clears the flag (`Slab::adopt`).
    if before & PENDING == 0 && before & !FLAGS != 0 {
        // SAFETY: the `owner` of a published slab is the address of a heap, whose first part is its
        // inbox, and heaps live for ever. The heap in the exchanged value owns the slab until
        // PENDING is clear again, because `Slab::change_owner` fails until then.
        let inbox: &Inbox = unsafe { &*core::ptr::with_exposed_provenance(before & !FLAGS) };
        inbox.push(slab);
    }
}
