//! The pool: where its slots are, and how they are taken in turn.

use super::{Slot, SlotCondition};
use crate::os::{Error, process, userfault};
use crate::region::Site;
use crate::report::{OwnFile, Stack};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use Ordering::Relaxed;

/// The number of bytes of a slot, and of the largest sampled block. Blocks of every slab class fit.
pub const SLOT_BYTES: usize = 128 << 10;
/// The most slots that are tried for a free one.
const TRIES: usize = 16;
/// One block in `LEFT` starts where its slot starts, to catch accesses below it.
const LEFT: u64 = 8;

/// The pool, which has no slots if it is off. After the start only the memory that `head` points to
/// changes.
#[derive(Debug)]
pub struct Guarded {
    /// The first guard page.
    base: usize,
    pub(super) slots: usize,
    pub(super) page: usize,
    /// One allocation in `every` is sampled.
    every: usize,
    /// This library's own code, which stacks leave out.
    own: OwnFile,
    head: *const Head,
}

/// The part of the pool that changes. The slots follow it. Zero at first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Head {
    /// The slot that is tried next. Any thread, by one atomic.
    next: AtomicUsize,
    /// The number of blocks ever allocated.
    allocations: AtomicU64,
    /// The state of the random generator. Any thread; an update that a race loses is not needed.
    chance: AtomicU64,
    /// The action on SIGSEGV before Toft's: handler and flags of the program's last action, and of
    /// the first of all. Written by the thread that installs Toft's handler.
    pub(super) chained: [AtomicUsize; 2],
    pub(super) original: [AtomicUsize; 2],
    /// The watcher's descriptor, and its process: `watch.rs`.
    pub(super) watcher: AtomicUsize,
    pub(super) watcher_of: AtomicUsize,
    /// The number of the watcher's thread, or zero. Written by the thread that started it.
    pub(super) watcher_thread: AtomicUsize,
}

impl Guarded {
    /// The number of slots of the process's pool. Each takes two mappings while its block is live.
    pub const PLACES: usize = 1024;

    /// Returns a pool without slots, which contains no address.
    pub const fn none() -> Guarded {
        Guarded {
            base: 0,
            slots: 0,
            page: 4096,
            every: 0,
            own: OwnFile::NONE,
            head: core::ptr::null(),
        }
    }

    /// Returns a pool of `slots` slots. One allocation in `every` gets a slot.
    #[cold]
    #[inline(never)]
    pub fn new(slots: usize, every: usize, page: usize, random: u64) -> Result<Guarded, Error> {
        let none = Error::NoMemory;
        let pool = Guarded { slots, page, every, own: Stack::own_file(), ..Guarded::none() };
        let bytes = pool.stride().checked_mul(slots).and_then(|all| all.checked_add(page));
        let base = process::reserve(bytes.ok_or(none)?).ok_or(none)?;
        let tables = size_of::<Head>() + slots * size_of::<Slot>();
        let head = process::scratch(tables).ok_or(none)?;
        let pool = Guarded { base, head: core::ptr::with_exposed_provenance(head), ..pool };
        pool.head().chance.store(random | 1, Relaxed);
        Ok(pool)
    }

    /// Returns true if there is a pool.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.slots != 0
    }

    /// Returns the range of the tables: the head, and the records of the slots.
    pub fn tables(&self) -> (usize, usize) {
        let tables = size_of::<Head>() + self.slots * size_of::<Slot>();
        let begin = self.head.expose_provenance();
        (begin, begin + if self.is_on() { tables } else { 0 })
    }

    /// Returns `n` if one allocation in `n` is sampled.
    pub fn every(&self) -> usize {
        self.every
    }

    fn stride(&self) -> usize {
        (SLOT_BYTES + self.page).max(1)
    }

    pub(super) fn head(&self) -> &Head {
        // SAFETY: `new` has mapped it for ever, and zero is a `Head`. It is not called without a
        // pool: callers have checked `is_on`, or found an address in the pool.
        unsafe { &*self.head }
    }

    pub(super) fn slot(&self, number: usize) -> Option<&Slot> {
        if number >= self.slots {
            return None;
        }
        // SAFETY: `new` has mapped `slots` of them after the head, zero is a `Slot`, and all its
        // fields are atomics.
        Some(unsafe { &*self.head.add(1).cast::<Slot>().add(number) })
    }

    /// Returns where the bytes of a slot begin, after its guard page.
    pub(super) fn first(&self, number: usize) -> usize {
        self.base + number * self.stride() + self.page
    }

    pub(super) fn number(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base);
        (offset < self.slots * self.stride() + self.page && self.is_on())
            .then(|| offset / self.stride())
    }

    /// Returns true if an address is in the pool.
    pub fn contains(&self, address: usize) -> bool {
        self.number(address).is_some()
    }

    fn random(&self) -> u64 {
        let chance = &self.head().chance;
        let mut x = chance.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        chance.store(x, Relaxed);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Returns true, by chance, if one of `of` allocations is to be sampled. Each of them has the
    /// requested chance.
    pub fn chooses(&self, of: usize) -> bool {
        self.is_on() && self.random() % (self.every as u64).max(1) < of as u64
    }

    /// Returns a block of `size` bytes, a multiple of 16, all zero. Returns `None` if no slot is
    /// free or the block does not fit. Uninitialized reads are reported to `watcher`, if there is
    /// one.
    ///
    /// If `looks` is true, stacks may be walked, by unusual system calls.
    pub fn allocate(
        &self,
        (size, align): (usize, usize),
        site: Site,
        looks: bool,
        watcher: Option<i32>,
    ) -> Option<usize> {
        if size > SLOT_BYTES || align > self.page || !size.is_multiple_of(16) || size == 0 {
            return None;
        }
        let head = self.head();
        for _ in 0..TRIES.min(self.slots) {
            let number = head.next.fetch_add(1, Relaxed) % self.slots.max(1);
            let slot = self.slot(number)?;
            if !slot.take() {
                continue;
            }
            let (first, end) = (self.first(number), self.first(number) + SLOT_BYTES);
            let left = self.random().is_multiple_of(LEFT);
            let begin = if left { first } else { (end - size) & !(align - 1) };
            let (from, to) = self.pages(begin, size);
            if !process::allow(from, to - from) {
                slot.untake();
                return None;
            }
            if let Some(file) = watcher
                && userfault::register(file, from, to - from)
            {
                slot.watch();
            }
            head.allocations.fetch_add(1, Relaxed);
            let stack = if looks {
                Stack::of_site(site.address())
            } else {
                Stack::of_frames(core::iter::once(site.address()))
            };
            slot.publish(begin, size, process::thread_number(), &stack);
            return Some(begin);
        }
        None
    }

    /// Returns the start of the page that contains an address.
    pub(super) fn down(&self, address: usize) -> usize {
        address & !(self.page - 1)
    }

    /// Returns the range of the pages that contain a block.
    pub(super) fn pages(&self, begin: usize, size: usize) -> (usize, usize) {
        (self.down(begin), self.down(begin + size + self.page - 1))
    }

    /// Returns the live block that begins at an address.
    pub fn live_at(&self, address: usize) -> Option<&Slot> {
        let slot = self.slot(self.number(address)?)?;
        (slot.condition() == SlotCondition::Live && slot.begin() == address).then_some(slot)
    }

    /// Frees the block at an address, and makes it inaccessible. Returns false if there is none. A
    /// block that is freed permanently keeps its slot.
    pub fn free(&self, address: usize, looks: bool, permanently: bool) -> bool {
        let Some(slot) = self.live_at(address) else { return false };
        if !slot.take_live() {
            return false;
        }
        let stack = if looks { Stack::of_caller_soon(&self.own) } else { Stack::EMPTY };
        slot.note_free(process::thread_number(), &stack);
        self.unwatch(slot);
        let (from, to) = self.pages(address, slot.bytes());
        process::forbid(from, to - from);
        if !permanently {
            slot.retire();
        }
        true
    }

    /// Returns the number of live blocks, and their bytes.
    pub fn figures(&self) -> (usize, usize) {
        let slots = (0..self.slots).filter_map(|number| self.slot(number));
        let live = slots.filter(|slot| slot.condition() == SlotCondition::Live);
        live.fold((0, 0), |(blocks, bytes), slot| (blocks + 1, bytes + slot.bytes()))
    }

    /// Verifies Q1, at any moment. A block that is freed during the check is skipped.
    pub fn check(&self) -> Result<(), &'static str> {
        for number in 0..self.slots {
            let Some(slot) = self.slot(number) else { return Err("Q1: no slot") };
            if slot.condition() != SlotCondition::Live {
                continue;
            }
            let (first, begin) = (self.first(number), slot.begin());
            let end = begin + slot.bytes();
            if slot.condition() != SlotCondition::Live {
                continue;
            }
            let fits = begin >= first && end <= first + SLOT_BYTES;
            if !fits || begin != first && self.down(end + self.page - 1) != first + SLOT_BYTES {
                return Err("Q1: a block not at an end of its slot");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::guarded) fn pool(slots: usize) -> Guarded {
        Guarded::new(slots, 1, process::page_size(), 12345).unwrap()
    }

    #[test]
    fn blocks_lie_at_an_end_of_their_slot_and_are_zero() {
        let pool = pool(64);
        let (mut left, mut right) = (0, 0);
        for number in 0..64 {
            let size = 16 * (number + 1);
            let block =
                pool.allocate((size, 16), Site::at(7), true, None).expect("a slot for each");
            assert!(pool.live_at(block).is_some_and(|slot| slot.bytes() == size));
            assert!(pool.live_at(block + 16).is_none());
            // SAFETY: `size` bytes, allocated a moment ago.
            let bytes = unsafe { core::slice::from_raw_parts_mut(block as *mut u8, size) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(1);
            let at_end = (block + size).is_multiple_of(pool.page);
            *(if at_end { &mut right } else { &mut left }) += 1;
        }
        assert!(left > 1 && right > left, "{left} left, {right} right");
        assert!(pool.allocate((16, 16), Site::at(7), true, None).is_none(), "all slots are live");
        pool.check().unwrap();
    }

    #[test]
    fn a_freed_slot_comes_last() {
        let pool = pool(8);
        let blocks: std::vec::Vec<usize> =
            (0..8).map(|_| pool.allocate((64, 16), Site::at(7), true, None).unwrap()).collect();
        let slot = |address| pool.number(address).unwrap();
        assert!(
            pool.free(blocks[2], true, false)
                && pool.free(blocks[5], true, false)
                && !pool.free(blocks[2], true, false)
        );
        let next = pool.allocate((64, 16), Site::at(7), true, None).unwrap();
        assert_eq!(slot(next), slot(blocks[2]));
        assert!(pool.free(next, true, false));
        assert_eq!(
            slot(pool.allocate((64, 16), Site::at(7), true, None).unwrap()),
            slot(blocks[5])
        );
        pool.check().unwrap();
    }

    #[test]
    fn chance_is_what_was_asked_for() {
        let pool = Guarded::new(1, 50, 4096, 99).unwrap();
        let chosen = (0..100_000).filter(|_| pool.chooses(1)).count();
        assert!((1700..2300).contains(&chosen), "{chosen} of 100000 at one in 50");
        let chosen = (0..10_000).filter(|_| pool.chooses(10)).count();
        assert!((1700..2300).contains(&chosen), "{chosen} of 10000 refills of ten at one in 50");
    }

    #[test]
    fn planted_damage_is_found() {
        let pool = pool(2);
        let block = pool.allocate((64, 16), Site::at(7), true, None).unwrap();
        let slot = pool.live_at(block).unwrap();
        slot.address.store(pool.first(0) + SLOT_BYTES / 2, Relaxed);
        assert_eq!(pool.check(), Err("Q1: a block not at an end of its slot"));
        slot.address.store(block, Relaxed);
        pool.check().unwrap();
    }
}
