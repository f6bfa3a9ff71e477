//! The handle of a zone.
//!
//! A handle is a keyed permutation of the zone's place in the table and of the place's generation.
//! The generation grows when a zone is created at the place and when one is destroyed. A forged or
//! altered handle stands for an existing zone with a chance of one in 2^64 for each zone. The
//! handle of a destroyed zone never becomes valid again.

use toft_core::keyed::Key;

/// log2 of the largest number of zones at a time.
pub(crate) const NUMBER_BITS: u32 = 24;
/// The largest generation of a place in the table. The place is not used any more after that.
pub(crate) const GENERATION_MAX: u64 = (1 << (u64::BITS - NUMBER_BITS)) - 1;

/// The number by which the program names a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(u64);

impl Handle {
    /// Returns the handle for a word that the program passes.
    pub fn from_word(word: u64) -> Handle {
        Handle(word)
    }

    /// Returns the word that the program gets.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the handle of a zone, or `None` if it would be zero, which is not a handle.
    pub(crate) fn new(key: &Key, number: usize, generation: u64) -> Option<Handle> {
        let word = key.mix(generation << NUMBER_BITS | number as u64);
        (word != 0).then_some(Handle(word))
    }

    /// Returns the place in the table, and the place's generation when the handle was made.
    pub(crate) fn open(self, key: &Key) -> (usize, u64) {
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
