//! Numbers that cannot be foretold from outside, made from secrets of the process. The kernel is
//! not asked each time, because a filter of system calls may forbid that.
//!
//! - [`Key`], a mixture that can be undone, for what programs may see: handles, and where guard
//!   pages stand. It is of the kind of Even and Mansour: a public permutation between two secret
//!   words. An observer of some of its values learns nothing of others with less work than to try
//!   2^32 keys on as many values.
//! - [`Secret`], one product, for what each malloc and free of the secure build reads and no
//!   program may read: canaries.
//!
//! Secrets come from the kernel, for the life of the process; without entropy there is none: an
//! error, never a weak one. They are in the allocator's own page, which is read-only after the
//! start.

use crate::os::{Error, Os};
use crate::policy::SECURE;

/// A mixture of words.
#[derive(Clone, Copy)]
pub struct Key([u64; 3]);

/// What canaries are made from: 128 bits.
#[derive(Clone, Copy)]
pub struct Secret {
    add: u64,
    times: u64,
}

// Not derived: no line that shows an allocator may show its keys.
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl Key {
    /// What stands for a secret where none is needed.
    pub const NONE: Key = Key([0; 3]);

    /// A secret from the kernel.
    pub fn new(os: &impl Os) -> Result<Key, Error> {
        Ok(Key([os.random()?, os.random()?, os.random()?]))
    }

    /// The number that belongs to `value`.
    #[inline]
    pub fn mix(&self, value: u64) -> u64 {
        let [first, middle, last] = self.0;
        permute(permute(value ^ first) ^ middle) ^ last
    }

    /// The value that a number belongs to: `mix` the other way round.
    #[inline]
    pub fn unmix(&self, number: u64) -> u64 {
        let [first, middle, last] = self.0;
        restore(restore(number ^ last) ^ middle) ^ first
    }

    /// The three secret words, for memory that only this library sees.
    pub fn words(&self) -> [u64; 3] {
        self.0
    }

    /// The key of such words.
    #[inline]
    pub fn of_words(words: [u64; 3]) -> Key {
        Key(words)
    }
}

impl Secret {
    /// No secret, for an allocator of nothing.
    pub const fn none() -> Secret {
        Secret { add: 0, times: 1 }
    }

    /// A secret from the kernel; none where the build makes no canaries.
    pub fn new(os: &impl Os) -> Result<Secret, Error> {
        if !SECURE {
            return Ok(Secret::none());
        }
        Ok(Secret { add: os.random()?, times: os.random()? | 1 })
    }

    /// A word for an address: the whole product of two words that both depend on the secret,
    /// folded. One word gives away none of the 128 bits; it is no cryptographic code, though: who
    /// reads many words could work at the keys.
    #[inline(always)]
    pub fn word(&self, address: usize) -> u64 {
        let product = u128::from(address as u64 ^ self.add) * u128::from(self.times);
        product as u64 ^ (product >> 64) as u64
    }

    /// The two words that the canaries of the slab at an address are made from: by permutations
    /// between secret words, as [`Key`] makes its numbers.
    pub fn canary_seeds(&self, slab: usize) -> [u64; 2] {
        [0, 1].map(|number| {
            let word = permute(slab as u64 ^ number ^ self.add) ^ self.times;
            permute(word) ^ self.add.rotate_left(32)
        })
    }

    /// The word that the reserved slot at an address carries, again and again. No canary has the
    /// same.
    #[inline]
    pub fn reserved_word(&self, address: usize) -> u64 {
        self.word(!address)
    }
}

const FIRST: u64 = 0xBF58_476D_1CE4_E5B9;
const SECOND: u64 = 0x94D0_49BB_1331_11EB;

/// A permutation of the words in which each bit depends on each (the finalizer of MurmurHash3, with
/// the constants of its variant 13).
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

    #[test]
    fn no_line_shows_a_secret() {
        let key = Key([0xDEAD, 0xBEEF, 0xCAFE]);
        let secret = Secret { add: 0xDEAD, times: 0xBEEF };
        assert_eq!(std::format!("{key:?} {secret:?} {key:#?}"), "Key Secret Key");
    }

    #[test]
    fn words_differ_by_address_and_by_secret() {
        let (a, b) = (Secret { add: 0x1234_5678_9ABC_DEF0, times: 0xF00D_FACE_CAFE_BEEF }, {
            Secret { add: 0x0FED_CBA9_8765_4321, times: 0x9E37_79B9_7F4A_7C15 }
        });
        let mut bits = [0u32; 64];
        let words = 4096;
        for n in 0..words {
            let address = 0x7000_0000_0000 + n * 64;
            assert_ne!(a.word(address), b.word(address));
            assert_ne!(a.word(address), a.word(address + 64));
            for (bit, count) in bits.iter_mut().enumerate() {
                *count += (a.word(address) >> bit & 1) as u32;
            }
        }
        // Six standard deviations of a fair coin thrown 4096 times.
        let fair = |&count: &u32| count.abs_diff(words as u32 / 2) < 6 * 32;
        assert!(bits.iter().all(fair), "{bits:?}");
    }
}
