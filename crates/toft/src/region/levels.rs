//! A table by key that grows and never moves, in a separate piece of metadata address space.
//!
//! ```text
//! level 0  128 entries   level 1  256   level 2  512   ...      one behind the other, mapped as needed
//! ```
//!
//! A key is looked for in a few places of each level, in order, and the first empty one becomes its
//! own; if all are taken, in the next level. Nothing is ever taken out, so that a thread that has
//! found an entry may keep it. Two threads that bring the same key at the same time compete for the
//! same place. All of it is a few loads for a key that is there, no lock, and no capacity but that
//! of the address space.
//!
//! Or a table's keys leave it again (`add`, `find`, `leave`, and never `find_or_add`): then no two
//! threads bring the same key at the same time, and every place of a key is searched.
//!
//! The table of call sites (`site/table.rs`) is older and has a word for key and value; this one is
//! for entries that count.

use super::{Carve, STEP};
use crate::os::{Error, Os};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{AcqRel, Acquire, Release};
use core::marker::PhantomData;

/// Entries of level 0; each level has twice as many as the one before.
pub const FIRST: usize = 128;
/// Entries of a level that a key may have.
const PROBES: usize = 16;
/// Levels at most: more entries than a machine has memory for.
const LEVELS_MAX: u32 = 28;

/// What a table is made of.
///
/// # Safety
/// 1. All zero is an unowned entry, and has the key zero.
/// 2. Every field may be used by any thread at any time.
pub unsafe trait Keyed {
    /// The key; zero for an unowned entry. Written by the table.
    fn key(&self) -> &AtomicU64;
}

/// A table of entries.
#[derive(Debug)]
pub struct Levels<E> {
    base: usize,
    levels: u32,
    carve: *const Carve,
    entries: PhantomData<E>,
}

// SAFETY: the pointer leads to atomics that live for ever; entries are `Keyed` (2).
unsafe impl<E: Keyed> Sync for Levels<E> {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl<E: Keyed> Send for Levels<E> {}

impl<E: Keyed> Levels<E> {
    /// No table.
    pub const fn none() -> Levels<E> {
        Levels { base: 0, levels: 0, carve: core::ptr::null(), entries: PhantomData }
    }

    /// A table in the address space from `start` to `end`.
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
            levels: (1..=LEVELS_MAX).take_while(fits).count() as u32,
            carve: core::ptr::with_exposed_provenance(carve),
            entries: PhantomData,
        }
    }

    fn carve(&self) -> Option<&Carve> {
        // SAFETY: `new` duty 1, or null.
        unsafe { self.carve.as_ref() }
    }

    fn entry(&self, number: usize) -> &E {
        let address = self.base + number * size_of::<E>();
        // SAFETY: `new` duty 2, and callers name entries that are mapped; zero bytes are an `E`
        // (`Keyed` 1).
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The entry of a key, which is not zero; a new one, if there is none yet. Without memory for
    /// more there may be none.
    pub fn find_or_add(&self, os: &impl Os, key: u64) -> Result<&E, Error> {
        let carve = self.carve().ok_or(Error::NoMemory)?;
        let mut before = 0;
        for level in 0..self.levels {
            let count = FIRST << level;
            let bytes = (before + count) * size_of::<E>();
            if carve.mapped() < bytes {
                carve.reach(os, self.base, self.base + bytes, STEP)?;
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

    /// An entry for a key that has none and that no other thread brings meanwhile, in a table that
    /// keys [leave](Levels::leave): the first empty place that it may have. Without memory for more
    /// there may be none.
    pub fn add(&self, os: &impl Os, key: u64) -> Result<&E, Error> {
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

    /// The entry of a key, which is not zero, in a table that keys leave: an empty place says
    /// nothing of those behind it.
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

    /// An entry is unowned again. By the thread that has added its key, or has it from that one.
    pub fn leave(&self, entry: &E) {
        entry.key().store(0, Release);
    }

    /// Every entry that has a key.
    pub fn for_each(&self, mut each: impl FnMut(&E)) {
        let mapped = self.carve().map_or(0, Carve::mapped);
        for number in 0..mapped / size_of::<E>() {
            let entry = self.entry(number);
            if entry.key().load(Acquire) != 0 {
                each(entry);
            }
        }
    }

    /// Where the first entry is, and the address of the number of mapped bytes; zeros if there is
    /// no table.
    pub fn places(&self) -> (usize, usize) {
        self.carve().map_or((0, 0), |carve| (self.base, carve.mapped_at()))
    }

    /// Bytes of metadata mapped for it.
    pub fn mapped_bytes(&self) -> usize {
        self.carve().map_or(0, Carve::mapped)
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os) {
        if let Some(carve) = self.carve() {
            carve.repair(os, self.base);
        }
    }
}

/// The places of a level where a key may be.
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
            levels.find_or_add(&fake, key).unwrap().value.fetch_add(key, Relaxed);
        }
        for key in (1..=50_000).rev() {
            let entry = levels.find_or_add(&fake, key).unwrap();
            assert_eq!(entry.value.load(Relaxed), key);
        }
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
        // No more than the live ones ask for.
        assert!(levels.mapped_bytes() <= (8 * live as usize * size_of::<Pair>()).max(STEP));
    }

    #[test]
    fn without_room_it_says_so_and_what_was_there_stays() {
        // Level 0 alone.
        let (fake, levels) = table(FIRST * size_of::<Pair>());
        let had: std::vec::Vec<u64> =
            (1..=2000).filter(|&key| levels.find_or_add(&fake, key).is_ok()).collect();
        assert!((FIRST / 2..=FIRST).contains(&had.len()), "{}", had.len());
        assert!(had.iter().all(|&key| levels.find_or_add(&fake, key).is_ok()));
        let none: Levels<Pair> = Levels::none();
        assert!(none.find_or_add(&fake, 1).is_err() && none.places() == (0, 0));
    }
}
