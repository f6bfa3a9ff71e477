//! A slab: 64 KiB of blocks of one class, which belong to one heap for ever.
//!
//! ```text
//! | header | links: two bytes for each slot | slot 0 | slot 1 | ... |
//! ```
//!
//! A link says what its slot is: live, in a thread's cache, free, or never handed out. The links of
//! free slots form a list. No link is inside a block, so a write after free cannot change them, and
//! a free of a slot that is not live is found at once.

use crate::class::Class;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU16, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The size and the alignment of a slab.
pub const SLAB_BYTES: usize = 64 * 1024;

/// What a link holds: zero, as fresh memory, if the slot was never handed out. From [`FIRST_INDEX`]
/// up it is the index of the next free slot.
mod link {
    /// Handed out to the program.
    pub const LIVE: u16 = 1;
    /// In a thread's cache.
    pub const CACHED: u16 = 2;
    /// Claimed by a thread that is about to put it on the remote list.
    pub const CLAIMED: u16 = 3;
    /// Free, and the last of its list.
    pub const END: u16 = 4;
    /// The link of a slot whose successor is slot 0.
    pub const FIRST_INDEX: u16 = 8;
}

/// The holder of a slot in use: a slot is taken to it, and comes from it when it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum From {
    /// The program had it.
    Program = link::LIVE,
    /// A thread's cache had it.
    Cache = link::CACHED,
}

/// A slot was freed that was not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInUse;

/// The position of a slot in its slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotIndex(u16);

impl SlotIndex {
    #[inline]
    fn link(self) -> u16 {
        self.0 + link::FIRST_INDEX
    }

    fn of(link: u16) -> Option<SlotIndex> {
        link.checked_sub(link::FIRST_INDEX).map(SlotIndex)
    }
}

/// The header of a slab. Fields without an atomic never change.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slab {
    links: *const AtomicU16,
    /// The address of the heap that owns the slab.
    pub owner: usize,
    /// The number of the owner's arena.
    pub arena: usize,
    /// The class of all its slots.
    pub class: Class,
    slots: u16,
    /// The distance of slot 0 from the header, in bytes.
    first: u16,
    /// 2^32 over the size of a slot, rounded up.
    reciprocal: u32,
    /// First link of the list of free slots. The holder of the heap.
    free: AtomicU16,
    /// Slots that were handed out at least once. The holder of the heap.
    used: AtomicU16,
    /// True while the slab is in its heap's list. The holder of the heap.
    listed: AtomicBool,
    /// The next slab of that list. The holder of the heap.
    pub(crate) next: AtomicPtr<Slab>,
    /// First link of the slots that other threads have freed. They push with Release; the owner
    /// takes all with Acquire, and so sees what they wrote before.
    remote: AtomicU16,
    /// The next slab of the heap's inbox. The thread that made `remote` non-empty writes it.
    pub(crate) next_remote: AtomicPtr<Slab>,
}

// SAFETY: `links` points to atomics that live as long as the slab; all else is plain numbers that
// never change, and atomics.
unsafe impl Sync for Slab {}
// SAFETY: as for `Sync`; no field belongs to a thread.
unsafe impl Send for Slab {}

impl Slab {
    /// The number of slots of a slab of this class, and the distance of the first.
    fn layout(class: Class) -> (u16, u16) {
        let header = size_of::<Slab>();
        let slots = (SLAB_BYTES - header - 63) / (class.size() + size_of::<AtomicU16>());
        let first = (header + slots * size_of::<AtomicU16>()).next_multiple_of(64);
        (slots as u16, first as u16)
    }

    fn header(class: Class, slots: u16, links: *const AtomicU16, owner: (usize, usize)) -> Slab {
        Slab {
            links,
            owner: owner.0,
            arena: owner.1,
            class,
            slots,
            first: Slab::layout(class).1,
            reciprocal: (1u64 << 32).div_ceil(class.size() as u64) as u32,
            free: AtomicU16::new(link::END),
            used: AtomicU16::new(0),
            listed: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
            remote: AtomicU16::new(link::END),
            next_remote: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Makes a slab out of fresh memory. `owner` is its heap's address and arena.
    ///
    /// # Safety
    /// 1. `place` is `SLAB_BYTES` of zeros at a multiple of `SLAB_BYTES`, writable, in no other
    ///    use, and never unmapped while the slab is in use.
    pub unsafe fn open(place: *mut u8, class: Class, owner: (usize, usize)) -> &'static Slab {
        let slab = place.cast::<Slab>();
        let links = place.wrapping_add(size_of::<Slab>()).cast::<AtomicU16>();
        // SAFETY: (1) the memory is ours, large enough and aligned. Zeros are sound links.
        unsafe {
            slab.write(Slab::header(class, Slab::layout(class).0, links, owner));
            &*slab
        }
    }

    /// The address of a slot.
    pub fn address(&self, slot: SlotIndex) -> usize {
        let base = std::ptr::from_ref(self).expose_provenance();
        base + usize::from(self.first) + usize::from(slot.0) * self.class.size()
    }

    /// The slot that begins at an address in this slab.
    #[inline]
    pub fn slot_at(&self, address: usize) -> Option<SlotIndex> {
        let offset = (address % SLAB_BYTES).checked_sub(usize::from(self.first))?;
        // Exact, because the offset is below 2^16 and a size at most 2^10.
        let slot = ((offset as u64 * u64::from(self.reciprocal)) >> 32) as usize;
        let exact = slot * self.class.size() == offset && slot < usize::from(self.slots);
        exact.then_some(SlotIndex(slot as u16))
    }

    /// The link of a slot.
    #[inline]
    fn link(&self, slot: SlotIndex) -> &AtomicU16 {
        debug_assert!(slot.0 < self.slots);
        // SAFETY: every `SlotIndex` of this slab comes from `slot_at`, `take` or a list of the
        // slab, and is below `slots`; there are as many links.
        unsafe { &*self.links.add(usize::from(slot.0)) }
    }

    /// Takes a free slot for the program or for a cache. The caller holds the heap.
    #[inline]
    pub fn take(&self, to: From) -> Option<SlotIndex> {
        let slot = match SlotIndex::of(self.free.load(Relaxed)) {
            Some(slot) => {
                self.free.store(self.link(slot).load(Relaxed), Relaxed);
                slot
            }
            None => {
                let used = self.used.load(Relaxed);
                if used == self.slots {
                    return None;
                }
                self.used.store(used + 1, Relaxed);
                SlotIndex(used)
            }
        };
        self.link(slot).store(to as u16, Relaxed);
        Some(slot)
    }

    /// Frees a slot. The caller holds the heap.
    #[inline]
    pub fn give(&self, slot: SlotIndex, from: From) -> Result<(), NotInUse> {
        let link = self.link(slot);
        if link.load(Relaxed) != from as u16 {
            return Err(NotInUse);
        }
        link.store(self.free.load(Relaxed), Relaxed);
        self.free.store(slot.link(), Relaxed);
        Ok(())
    }

    /// Frees a slot for a thread that does not hold the heap. Returns true if it is the first since
    /// the owner collected: then the caller must put the slab into the heap's inbox.
    #[inline]
    pub fn give_remote(&self, slot: SlotIndex, from: From) -> Result<bool, NotInUse> {
        let link = self.link(slot);
        // Of several threads that free one slot at the same moment, one wins.
        link.compare_exchange(from as u16, link::CLAIMED, Relaxed, Relaxed)
            .map_err(|_| NotInUse)?;
        let mut head = self.remote.load(Relaxed);
        loop {
            link.store(head, Relaxed);
            // Release: the owner sees the link, and all that this thread did with the block.
            match self.remote.compare_exchange_weak(head, slot.link(), Release, Relaxed) {
                Ok(_) => return Ok(head == link::END),
                Err(now) => head = now,
            }
        }
    }

    /// Moves the slots that other threads have freed to the free list. The caller holds the heap.
    pub fn collect(&self) {
        // AcqRel: the caller's read of `next_remote` stays before it (`Heap::collect`).
        let mut head = self.remote.swap(link::END, AcqRel);
        while let Some(slot) = SlotIndex::of(head) {
            let link = self.link(slot);
            head = link.load(Relaxed);
            link.store(self.free.load(Relaxed), Relaxed);
            self.free.store(slot.link(), Relaxed);
        }
    }

    /// Notes that a slot moves between the program and a cache. Only the thread whose block it is.
    pub fn change(&self, slot: SlotIndex, from: From, to: From) -> Result<(), NotInUse> {
        let link = self.link(slot);
        if link.load(Relaxed) != from as u16 {
            return Err(NotInUse);
        }
        link.store(to as u16, Relaxed);
        Ok(())
    }

    /// Returns true if the program has this slot.
    pub fn is_live(&self, slot: SlotIndex) -> bool {
        self.link(slot).load(Relaxed) == link::LIVE
    }

    /// Marks the slab as listed or not; returns true if it was. The caller holds the heap.
    pub fn set_listed(&self, listed: bool) -> bool {
        let before = self.listed.load(Relaxed);
        self.listed.store(listed, Relaxed);
        before
    }

    /// Adds the slots of each kind to a census. Exact while no thread changes the slab.
    pub fn count(&self, census: &mut Census) {
        census.slots += usize::from(self.slots);
        for slot in (0..self.slots).map(SlotIndex) {
            match self.link(slot).load(Relaxed) {
                link::LIVE => census.live += 1,
                link::CACHED => census.cached += 1,
                _ => {}
            }
        }
        census.free += usize::from(self.slots - self.used.load(Relaxed));
        for list in [&self.free, &self.remote] {
            let mut head = list.load(Acquire);
            // A loop in the list would have more slots than the slab.
            for _ in 0..self.slots {
                let Some(slot) = SlotIndex::of(head) else { break };
                census.free += 1;
                head = self.link(slot).load(Relaxed);
            }
        }
    }
}

/// The number of slots of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All.
    pub slots: usize,
    /// In the program's hands.
    pub live: usize,
    /// In the caches of threads.
    pub cached: usize,
    /// Never handed out, in a free list, or freed by other threads and not yet collected.
    pub free: usize,
}

#[cfg(any(test, loom))]
#[path = "../tests/model/slab.rs"]
mod model;
#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/slab.rs"]
mod tests;
