//! The number that stands for a zone.
//!
//! It is a keyed permutation of the zone's place in the table and of how often that place was used.
//! So a handle that is changed in any bit, or made up, is one of a zone that never was, but for a
//! chance of one in 2^64 for each zone that is. That of a zone that was destroyed never becomes
//! right again.

use crate::keyed::Key;

/// log2 of the most zones that can be at a time.
pub(super) const NUMBER_BITS: u32 = 24;
/// The most often that a place in the table is used.
pub(super) const GENERATION_MAX: u64 = (1 << (u64::BITS - NUMBER_BITS)) - 1;

/// What the program knows of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(u64);

impl Handle {
    /// The handle that a program says it has.
    pub fn from_word(word: u64) -> Handle {
        Handle(word)
    }

    /// The word that the program is given.
    pub fn word(self) -> u64 {
        self.0
    }

    /// The handle of a zone; `None` where that would be zero, which is no handle.
    pub(super) fn new(key: &Key, number: usize, generation: u64) -> Option<Handle> {
        let word = key.mix(generation << NUMBER_BITS | number as u64);
        (word != 0).then_some(Handle(word))
    }

    /// The place in the table, and how often it had been used.
    pub(super) fn open(self, key: &Key) -> (usize, u64) {
        let plain = key.unmix(self.0);
        ((plain & ((1 << NUMBER_BITS) - 1)) as usize, plain >> NUMBER_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_it_was_made_of_and_a_changed_one_something_else() {
        let key = Key::of_words([11, 22, 33]);
        let mut near = 0;
        for (number, generation) in [(0, 1), (7, 1), (7, 2), ((1 << 24) - 1, GENERATION_MAX)] {
            let handle = Handle::new(&key, number, generation).unwrap();
            assert_eq!(handle.open(&key), (number, generation));
            for bit in 0..64 {
                let (other, then) = Handle::from_word(handle.word() ^ 1 << bit).open(&key);
                assert_ne!((other, then), (number, generation));
                near += usize::from(other < 64 && (1..64).contains(&then));
            }
        }
        assert_eq!(near, 0, "changed handles that could be of a zone");
    }
}
