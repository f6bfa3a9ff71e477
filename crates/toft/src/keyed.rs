//! Numbers that nobody outside can foretell: a keyed mixture, for where walls stand and what is written
//! on them.
//!
//! The mixture is of the kind of Even and Mansour: a public permutation between two secret words. Who
//! sees some of its values learns nothing of others with less work than to try 2^32 keys on as many
//! values. The kernel is not asked each time, because a filter of system calls may forbid that.

use crate::os::{Error, Os};

/// A secret of this process.
#[derive(Clone, Copy, Debug)]
pub struct Key([u64; 3]);

impl Key {
    /// What stands for a secret where none is needed.
    pub const NONE: Key = Key([0; 3]);

    /// A secret from the kernel.
    pub fn new(os: &impl Os) -> Result<Key, Error> {
        Ok(Key([os.random()?, os.random()?, os.random()?]))
    }

    /// The number that belongs to `value`.
    pub fn mix(&self, value: u64) -> u64 {
        let [first, middle, last] = self.0;
        permute(permute(value ^ first) ^ middle) ^ last
    }

    /// The value that a number belongs to: `mix` the other way round.
    pub fn unmix(&self, number: u64) -> u64 {
        let [first, middle, last] = self.0;
        restore(restore(number ^ last) ^ middle) ^ first
    }

    /// The three secret words, for memory that only this library sees.
    pub fn words(&self) -> [u64; 3] {
        self.0
    }

    /// The key of such words.
    pub fn of_words(words: [u64; 3]) -> Key {
        Key(words)
    }
}

const FIRST: u64 = 0xBF58_476D_1CE4_E5B9;
const SECOND: u64 = 0x94D0_49BB_1331_11EB;

/// A permutation of the words in which each bit depends on each (the finalizer of MurmurHash3, with the
/// constants of its variant 13).
fn permute(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(FIRST);
    word = (word ^ (word >> 27)).wrapping_mul(SECOND);
    word ^ (word >> 31)
}

/// The other way round.
fn restore(mut word: u64) -> u64 {
    word = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(const { inverse(SECOND) });
    word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(const { inverse(FIRST) });
    word ^ (word >> 30) ^ (word >> 60)
}

/// What an odd number is multiplied by to give one, modulo 2^64.
const fn inverse(odd: u64) -> u64 {
    // Newton's iteration: 3 correct bits, 6, 12, 24, 48, 96.
    let mut inverse = odd;
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// One of `0..limit`, by the upper bits of a random word.
pub fn below(random: u64, limit: usize) -> usize {
    ((u128::from(random) * limit as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_nothing_in_common() {
        let key = Key([1, 2, 3]);
        for value in 0..1000u64 {
            let differ = (key.mix(value) ^ key.mix(value + 1)).count_ones();
            assert!((10..=54).contains(&differ), "{value}: {differ} bits");
        }
        assert_ne!(key.mix(7), Key([1, 2, 4]).mix(7));
        assert_ne!(key.mix(7), Key([2, 2, 3]).mix(7));
    }

    #[test]
    fn a_mixture_is_undone() {
        let key = Key([u64::MAX / 3, 2, u64::MAX / 7]);
        for value in (0..1000).chain([u64::MAX, 1 << 63, u64::MAX / 5]) {
            assert_eq!(key.unmix(key.mix(value)), value);
            assert_ne!(Key::of_words([1, 2, 3]).unmix(key.mix(value)), value);
        }
    }

    #[test]
    fn below_is_below_and_even() {
        let key = Key([5, 6, 7]);
        let mut counts = [0; 10];
        for value in 0..10_000 {
            counts[below(key.mix(value), 10)] += 1;
        }
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }
}
