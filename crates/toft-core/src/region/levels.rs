//! A table by key that grows and never moves, in a separate piece of metadata address space.
//!
//! ```text
//! level 0  128 entries   level 1  256   level 2  512   ...      one behind the other, mapped as needed
//! ```
//!
//! A key has a few possible places in each level, which are searched in order. It takes the first
//! empty one. If all are taken, the search goes on in the next level. No entry is ever removed, so
//! a thread that has found an entry may keep it. Two threads that add the same key at the same time
//! compete for the same place. A key that is present is found by a few loads, without a lock. Only
//! the address space limits the capacity.
//!
//! The first entries may be in memory that was mapped together with something else. The others are
//! where they would be without that.
//!
//! A table may also let its keys leave. Such a table uses `add`, `find` and `leave`, and never
//! `find_or_add`. No two threads may then add the same key at the same time, and every place of a
//! key is searched.
//!
//! The table of call sites (`site/table.rs`) is older, and has one word for key and value. This
//! table is for entries that count.

use super::{Carve, STEP};
use crate::os::{Error, Memory};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{AcqRel, Acquire, Release};
use core::marker::PhantomData;

/// The number of entries of level 0. Each level has twice as many as the level before.
pub const FIRST: usize = 128;
/// The number of places of a level where a key may be.
const PROBES: usize = 16;
/// The largest number of levels, which have more entries than a machine has memory for.
const LEVELS_MAX: u32 = 28;

/// An entry of a table.
///
/// # Safety
/// 1. All zero is an unowned entry, and has the key zero.
/// 2. Every field may be used by any thread at any time.
pub unsafe trait Keyed {
    /// Returns the key, which is zero if the entry is not in use. The table writes it.
    fn key(&self) -> &AtomicU64;
}

/// A table of entries.
#[derive(Debug)]
pub struct Levels<E> {
    base: usize,
    /// The address and the number of bytes of the first entries, if these are not at `base`.
    first: (usize, usize),
    levels: u32,
    carve: *const Carve,
    entries: PhantomData<E>,
}

// SAFETY: the pointer leads to atomics that live for ever; entries are `Keyed` (2).
unsafe impl<E: Keyed> Sync for Levels<E> {}
// SAFETY: the pointer leads to atomics that live for ever; nothing is tied to a thread.
unsafe impl<E: Keyed> Send for Levels<E> {}

impl<E: Keyed> Levels<E> {
    /// Returns an object without a table.
    pub const fn none() -> Levels<E> {
        Levels { base: 0, first: (0, 0), levels: 0, carve: core::ptr::null(), entries: PhantomData }
    }

    /// Returns a table in the address space from `start` to `end`.
    ///
    /// # Safety
    /// 1. `carve` is the address of a zero `Carve` that lives for ever and belongs to this object
    ///    alone.
    /// 2. `start..end` is address space for this object alone, and begins with a page.
    pub unsafe fn new((start, end): (usize, usize), carve: usize) -> Levels<E> {
        let room = (end - start) / size_of::<E>();
        let fits = |levels: &u32| (FIRST << levels) - FIRST <= room;
        Levels {
            base: start,
            first: (0, 0),
            levels: (1..=LEVELS_MAX).take_while(fits).count() as u32,
            carve: core::ptr::with_exposed_provenance(carve),
            entries: PhantomData,
        }
    }

    /// Returns the table with its first entries at another address, with their number of bytes.
    ///
    /// # Safety
    /// 1. That memory is zero, lives for ever, is aligned to an entry, and belongs to this object
    ///    alone. Its bytes are whole entries and whole pages.
    /// 2. No other thread uses the table yet.
    pub unsafe fn with_first(self, first: (usize, usize)) -> Levels<E> {
        debug_assert!(first.1.is_multiple_of(size_of::<E>()), "whole entries");
        if let Some(carve) = self.carve() {
            carve.begin_with(first.1);
        }
        Levels { first, ..self }
    }

    fn carve(&self) -> Option<&Carve> {
        // SAFETY: `new` duty 1, or null.
        unsafe { self.carve.as_ref() }
    }

    fn entry(&self, number: usize) -> &E {
        let offset = number * size_of::<E>();
        let base = if offset < self.first.1 { self.first.0 } else { self.base };
        let address = base + offset;
        // SAFETY: `new` duty 2, or `with_first` duty 1. Callers pass numbers of entries that are
        // mapped. Zero bytes are an `E` (`Keyed` 1).
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Returns the entry of a key that is not zero. Adds the entry if there is none. Fails if there
    /// is no memory for it, or if the table would have to grow and `os` is `None`.
    pub fn find_or_add(&self, os: Option<&impl Memory>, key: u64) -> Result<&E, Error> {
        let carve = self.carve().ok_or(Error::NoMemory)?;
        let mut before = 0;
        for level in 0..self.levels {
            let count = FIRST << level;
            let bytes = (before + count) * size_of::<E>();
            if carve.mapped() < bytes {
                carve.reach(os.ok_or(Error::NoMemory)?, self.base, self.base + bytes, STEP)?;
            }
            for number in places(key, count) {
                let entry = self.entry(before + number);
                // add entry: a thread that sees a key sees that the place is taken, and no more.
                let mut known = entry.key().load(Acquire);
                if known == 0 {
                    match entry.key().compare_exchange(0, key, AcqRel, Acquire) {
                        Ok(_) => return Ok(entry),
                        Err(other) => known = other,
                    }
                }
                if known == key {
                    return Ok(entry);
                }
            }
            before += count;
        }
        Err(Error::NoMemory)
    }

    /// Adds an entry for a key, in a table that keys [leave](Levels::leave). The key has no entry,
    /// and no other thread adds it meanwhile. The entry is the first empty place of the key. Fails
    /// if there is no memory for it.
    pub fn add(&self, os: &impl Memory, key: u64) -> Result<&E, Error> {
        let carve = self.carve().ok_or(Error::NoMemory)?;
        let mut before = 0;
        for level in 0..self.levels {
            let count = FIRST << level;
            let bytes = (before + count) * size_of::<E>();
            if carve.mapped() < bytes {
                carve.reach(os, self.base, self.base + bytes, STEP)?;
            }
            let mut free = places(key, count).map(|number| self.entry(before + number));
            // leave -> add: what was written for the key that has left is over.
            if let Some(entry) =
                free.find(|e| e.key().compare_exchange(0, key, AcqRel, Acquire).is_ok())
            {
                return Ok(entry);
            }
            before += count;
        }
        Err(Error::NoMemory)
    }

    /// Returns the entry of a key that is not zero, in a table that keys leave. An empty place does
    /// not end the search, because the key may be in a place after it.
    pub fn find(&self, key: u64) -> Option<&E> {
        let mapped = self.carve()?.mapped();
        let mut before = 0;
        for level in 0..self.levels {
            let count = FIRST << level;
            if mapped < (before + count) * size_of::<E>() {
                break;
            }
            let mut entries = places(key, count).map(|number| self.entry(before + number));
            let found = entries.find(|entry| entry.key().load(Acquire) == key);
            if found.is_some() {
                return found;
            }
            before += count;
        }
        None
    }

    /// Removes the key of an entry. Only the thread that added the key may do so, or a thread that
    /// got the entry from it.
    pub fn leave(&self, entry: &E) {
        entry.key().store(0, Release);
    }

    /// Calls `each` with every entry that has a key.
    pub fn for_each(&self, mut each: impl FnMut(&E)) {
        let mapped = self.carve().map_or(0, Carve::mapped);
        for number in 0..mapped / size_of::<E>() {
            let entry = self.entry(number);
            if entry.key().load(Acquire) != 0 {
                each(entry);
            }
        }
    }

    /// Returns the entry at an address, or `None` if no entry is there. For a table whose first
    /// entries are not apart.
    pub fn at(&self, address: usize) -> Option<&E> {
        let offset = address.checked_sub(self.base)?;
        let mapped = self.carve()?.mapped() / size_of::<E>() * size_of::<E>();
        (offset < mapped && offset.is_multiple_of(size_of::<E>()))
            .then(|| self.entry(offset / size_of::<E>()))
    }

    /// Returns the address of the first entry, and the address of the number of mapped bytes.
    /// Returns zeros if there is no table.
    pub fn places(&self) -> (usize, usize) {
        self.carve().map_or((0, 0), |carve| (self.base, carve.mapped_at()))
    }

    /// Returns the address of the first entries and their number of bytes, if they are apart.
    pub fn first(&self) -> (usize, usize) {
        self.first
    }

    /// Returns the number of bytes of metadata mapped for the table, without its first entries if
    /// these are apart.
    pub fn mapped_bytes(&self) -> usize {
        self.carve().map_or(0, Carve::mapped) - self.first.1
    }

    /// Finishes, in the child of a fork, the mapping that a thread of the parent had begun.
    pub fn repair(&self, os: &impl Memory) {
        if let Some(carve) = self.carve() {
            carve.repair(os, self.base);
        }
    }
}

/// Returns the places of a level where a key may be.
fn places(key: u64, count: usize) -> impl Iterator<Item = usize> {
    let product = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let first = (mixed >> (64 - count.trailing_zeros())) as usize;
    (0..PROBES).map(move |step| (first + step) & (count - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};
    use crate::sync::Ordering::Relaxed;

    #[repr(C)]
    struct Pair {
        key: AtomicU64,
        value: AtomicU64,
    }

    // SAFETY: (1), (2) two atomic numbers.
    unsafe impl Keyed for Pair {
        fn key(&self) -> &AtomicU64 {
            &self.key
        }
    }

    fn table(bytes: usize) -> (Fake, Levels<Pair>) {
        let fake = Fake::new(Machine::LARGE);
        let tables = fake.address_space().start.next_multiple_of(1 << 40);
        fake.map(tables, 4096).unwrap();
        let start = tables + (1 << 30);
        // SAFETY: (1) mapped above, zero; (2) the fake's address space is not used otherwise.
        let levels = unsafe { Levels::new((start, start + bytes), tables) };
        (fake, levels)
    }

    #[test]
    fn each_key_has_one_entry_for_ever_and_there_is_no_last_one() {
        let (fake, levels) = table(1 << 28);
        for key in 1..=50_000 {
            levels.find_or_add(Some(&fake), key).unwrap().value.fetch_add(key, Relaxed);
        }
        for key in (1..=50_000).rev() {
            let entry = levels.find_or_add(Some(&fake), key).unwrap();
            assert_eq!(entry.value.load(Relaxed), key);
        }
        let (base, last) = (levels.base, levels.find_or_add(Some(&fake), 50_000).unwrap());
        let at = |address: usize| levels.at(address).map(|entry| entry.key.load(Relaxed));
        assert_eq!(at((&raw const *last).addr()), Some(50_000));
        let end = base + levels.mapped_bytes();
        assert!([0, base - 16, base + 8, end, usize::MAX].iter().all(|&odd| at(odd).is_none()));
        let (mut count, mut sum) = (0, 0);
        levels.for_each(|entry| {
            count += 1;
            sum += entry.value.load(Relaxed);
        });
        assert_eq!((count, sum), (50_000, 50_000 * 50_001 / 2));
    }

    #[test]
    fn places_that_keys_have_left_are_used_again() {
        let (fake, levels) = table(1 << 28);
        let live = 1000;
        for key in 1..=50_000 {
            levels.add(&fake, key).unwrap().value.store(key, Relaxed);
            if key > live {
                let old = levels.find(key - live).unwrap();
                assert_eq!(old.value.load(Relaxed), key - live);
                levels.leave(old);
                assert!(levels.find(key - live).is_none());
            }
        }
        let mut count = 0;
        levels.for_each(|_| count += 1);
        assert_eq!(count, live);
        // The table is not larger than the live keys require.
        assert!(levels.mapped_bytes() <= (8 * live as usize * size_of::<Pair>()).max(STEP));
    }

    #[test]
    fn without_room_it_says_so_and_what_was_there_stays() {
        // The table has room for level 0 only.
        let (fake, levels) = table(FIRST * size_of::<Pair>());
        let had: std::vec::Vec<u64> =
            (1..=2000).filter(|&key| levels.find_or_add(Some(&fake), key).is_ok()).collect();
        assert!((FIRST / 2..=FIRST).contains(&had.len()), "{}", had.len());
        assert!(had.iter().all(|&key| levels.find_or_add(Some(&fake), key).is_ok()));
        let none: Levels<Pair> = Levels::none();
        assert!(none.find_or_add(Some(&fake), 1).is_err() && none.places() == (0, 0));
    }
}
