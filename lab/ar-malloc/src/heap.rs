//! A heap: for each class the slabs that have free slots.
//!
//! One thread at a time changes a heap: the holder of its lock, or the thread that owns it. Other
//! threads reach a heap without a lock only through its inbox.

use crate::class::{CLASSES, Class};
use crate::lock::Lock;
use crate::slab::{From, NotInUse, Slab, SlotIndex};
use crate::sync::{AtomicPtr, Ordering, const_outside_models, each, push};
use Ordering::{Acquire, Relaxed};
use std::ptr::null_mut;

/// The slabs of one class that have free slots, and the lock that guards them if there is one for
/// each class. A bin has its own cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct Bin {
    /// Taken only if each class has a lock.
    pub lock: Lock,
    /// The first slab of the list. The holder of the heap.
    first: AtomicPtr<Slab>,
}

/// The slabs of an arena or of a thread.
#[derive(Debug)]
pub struct Heap {
    bins: [Bin; CLASSES],
    /// Slabs in which other threads have freed. Any thread pushes with Release; the owner takes all
    /// with Acquire.
    inbox: AtomicPtr<Slab>,
}

/// A slot that was taken, and its slab.
pub type Taken = (&'static Slab, SlotIndex);

impl Heap {
    const_outside_models! {
        /// A heap without slabs.
        new() -> Heap {
            Heap { bins: each!(CLASSES, Bin::new()), inbox: AtomicPtr::new(null_mut()) }
        }
    }

    /// The address that slabs know their owner by.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// The bin of a class.
    pub fn bin(&self, class: Class) -> &Bin {
        // In range, because a class has an index below `CLASSES`.
        &self.bins[class.index() % CLASSES]
    }

    /// Takes a slot of a class; `None` if no slab has one. The caller holds the heap.
    #[inline]
    pub fn take(&self, class: Class, to: From) -> Option<Taken> {
        let bin = self.bin(class);
        loop {
            // SAFETY: slabs live for ever. Under the heap's lock this is the newest value.
            let slab = unsafe { bin.first.load(Relaxed).as_ref()? };
            if let Some(slot) = slab.take(to) {
                return Some((slab, slot));
            }
            slab.set_listed(false);
            bin.first.store(slab.next.load(Relaxed), Relaxed);
        }
    }

    /// Adds a slab, unless it is in the list already. The caller holds the heap.
    #[inline]
    pub fn list(&self, slab: &'static Slab) {
        if !slab.set_listed(true) {
            let bin = self.bin(slab.class);
            slab.next.store(bin.first.load(Relaxed), Relaxed);
            bin.first.store(std::ptr::from_ref(slab).cast_mut(), Relaxed);
        }
    }

    /// Frees a slot of one of this heap's slabs. The caller holds the heap.
    #[inline]
    pub fn give(&self, slab: &'static Slab, slot: SlotIndex, from: From) -> Result<(), NotInUse> {
        slab.give(slot, from)?;
        self.list(slab);
        Ok(())
    }

    /// Frees a slot of one of this heap's slabs, for a thread that does not hold the heap.
    #[inline]
    pub fn give_remote(
        &self,
        slab: &'static Slab,
        slot: SlotIndex,
        from: From,
    ) -> Result<(), NotInUse> {
        if slab.give_remote(slot, from)? {
            push(&self.inbox, slab, &slab.next_remote);
        }
        Ok(())
    }

    /// Collects what other threads have freed; returns true if there was any. The caller holds the
    /// heap.
    #[cold]
    #[inline(never)]
    pub fn collect(&self) -> bool {
        let mut head = self.inbox.swap(null_mut(), Acquire);
        let any = !head.is_null();
        // SAFETY: slabs live for ever; the Acquire sees the links of the list.
        while let Some(slab) = unsafe { head.as_ref() } {
            // Before the slab is emptied: from then on another thread may put it back.
            head = slab.next_remote.load(Relaxed);
            slab.collect();
            self.list(slab);
        }
        any
    }
}

impl Bin {
    const_outside_models! {
        /// A bin without slabs.
        new() -> Bin { Bin { lock: Lock::new(), first: AtomicPtr::new(null_mut()) } }
    }
}
