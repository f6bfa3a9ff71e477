//! Which live address is which object: a table in 256 parts, each with a separate lock.

use crate::lock::Lock;
use crate::map::{map, unmap};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

const PARTS: usize = 256;
/// The entries of a part when it gets its first.
const FIRST: usize = 256;

/// An address and its object; an address of 0 is a free place.
type Entry = (usize, u64);

/// Open addressing: an entry is at the place of its hash or behind, with no free place between.
/// Changed only with the lock held.
struct Part {
    lock: Lock,
    table: UnsafeCell<Table>,
}

struct Table {
    entries: *mut Entry,
    /// A power of two, or 0 while there are no entries.
    places: usize,
    used: usize,
}

// SAFETY: the table is reached with the lock held only.
unsafe impl Sync for Part {}

static OBJECTS: [Part; PARTS] = [const {
    Part {
        lock: Lock::new(),
        table: UnsafeCell::new(Table { entries: null_mut(), places: 0, used: 0 }),
    }
}; PARTS];

/// Scrambles an address; the lowest four bits of most are zero.
fn hash(address: usize) -> usize {
    (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) as usize
}

fn with<R>(address: usize, work: impl FnOnce(&mut Table) -> R) -> R {
    let part = &OBJECTS[hash(address) >> 56 & (PARTS - 1)];
    // SAFETY: the lock is held, so that this is the only borrow.
    part.lock.with(|| work(unsafe { &mut *part.table.get() }))
}

/// The answer of [`insert`].
pub enum Inserted {
    /// It is there now.
    Fresh,
    /// It is there now, and another object was: its free was not recorded.
    Instead(u64),
    /// There is no memory for it.
    Full,
}

/// Notes that `object` is at `address`.
pub fn insert(address: usize, object: u64) -> Inserted {
    with(address, |table| table.insert(address, object))
}

/// Forgets what is at `address`, and says what it was.
pub fn remove(address: usize) -> Option<u64> {
    with(address, |table| table.remove(address))
}

/// Closes every part, before a fork.
pub fn close() {
    OBJECTS.iter().for_each(|part| part.lock.close());
}

/// Opens every part, after a fork.
pub fn open() {
    OBJECTS.iter().for_each(|part| part.lock.open());
}

/// Forgets everything.
///
/// # Safety
/// 1. No other thread is in here: for the child of a fork.
pub unsafe fn forget() {
    for part in &OBJECTS {
        // SAFETY: (1) no other thread has a borrow.
        let table = unsafe { &mut *part.table.get() };
        table.release();
        *table = Table { entries: null_mut(), places: 0, used: 0 };
    }
}

impl Table {
    fn entry(&mut self, place: usize) -> &mut Entry {
        debug_assert!(place < self.places);
        // SAFETY: within the mapping, which holds `places` entries; zero is a valid entry.
        unsafe { &mut *self.entries.add(place) }
    }

    fn release(&mut self) {
        if self.places > 0 {
            // SAFETY: (1) the mapping of these entries, which no other code knows.
            unsafe { unmap(self.entries.cast(), self.places * size_of::<Entry>()) };
        }
    }

    fn insert(&mut self, address: usize, object: u64) -> Inserted {
        if (self.used + 1) * 2 > self.places && !self.grow() {
            return Inserted::Full;
        }
        let mask = self.places - 1;
        let mut place = hash(address) & mask;
        loop {
            let entry = self.entry(place);
            if entry.0 == address {
                return Inserted::Instead(std::mem::replace(&mut entry.1, object));
            }
            if entry.0 == 0 {
                *entry = (address, object);
                self.used += 1;
                return Inserted::Fresh;
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) -> bool {
        let places = if self.places == 0 { FIRST } else { self.places * 2 };
        let entries: *mut Entry = map(places * size_of::<Entry>()).cast();
        if entries.is_null() {
            return false;
        }
        let mut larger = Table { entries, places, used: 0 };
        for place in 0..self.places {
            let (address, object) = *self.entry(place);
            if address != 0 {
                larger.insert(address, object);
            }
        }
        self.release();
        *self = larger;
        true
    }

    fn remove(&mut self, address: usize) -> Option<u64> {
        if self.places == 0 {
            return None;
        }
        let mask = self.places - 1;
        let mut hole = hash(address) & mask;
        let object = loop {
            match *self.entry(hole) {
                (0, _) => return None,
                (found, object) if found == address => break object,
                _ => hole = (hole + 1) & mask,
            }
        };
        // What is behind moves up, unless that would put it before the place of its hash.
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let (next, with) = *self.entry(place);
            if next == 0 {
                break;
            }
            let from_home = place.wrapping_sub(hash(next)) & mask;
            if from_home >= place.wrapping_sub(hole) & mask {
                *self.entry(hole) = (next, with);
                hole = place;
            }
        }
        *self.entry(hole) = (0, 0);
        self.used -= 1;
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_table_agrees_with_one_of_the_standard_library() {
        let mut table = Table { entries: null_mut(), places: 0, used: 0 };
        let mut model = HashMap::new();
        let mut random = 1u64;
        for step in 1..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let address = (random >> 40) as usize % 3000 * 16 + 16;
            if random & 1 << 20 == 0 {
                let before = match table.insert(address, step) {
                    Inserted::Fresh => None,
                    Inserted::Instead(before) => Some(before),
                    Inserted::Full => panic!("no memory"),
                };
                assert_eq!(before, model.insert(address, step));
            } else {
                assert_eq!(table.remove(address), model.remove(&address));
            }
            assert_eq!(table.used, model.len());
        }
        table.release();
    }
}
