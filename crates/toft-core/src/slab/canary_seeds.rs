//! The seeds of the canaries of a slab's slots, in the secure build: two random words for each
//! slab.
//!
//! Slot `s` has the word `first + s * times`, modulo 2^64. `times` has 64 random bits, and the
//! numbers of two slots of a slab differ by less than 2^8. So the words of two slots differ by a
//! number whose bits are all random from the eighth on. The lowest bits may be equal, so a canary
//! combines the lowest byte with another one (`harden/canary.rs`).
//!
//! An attacker that has read one canary knows no byte of another slot's canary. An attacker that
//! has read two canaries of a slab knows all of this slab, and none of another. The two words are
//! made from the secret by permutations that cannot be undone without the secret.

use super::slab::SECURE_LEN;
use super::slots::SlotIndex;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, Settled};

/// The two words of a slab. The default build has none.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(transparent)]
pub struct CanarySeeds([AtomicU64; 2 * SECURE_LEN]);

impl CanarySeeds {
    /// Sets the words. Called once, before the slab is published.
    pub fn set(&self, seeds: [u64; 2]) {
        self.0.iter().zip(seeds).for_each(|(to, word)| to.store(word, Relaxed));
    }

    /// Returns the random word of the slot before the one whose word is `word`.
    #[inline(always)]
    pub fn word_before(&self, word: u64) -> u64 {
        let [_, times] = &self.0[..] else { return 0 };
        // SAFETY: (1) as in `word`.
        word.wrapping_sub(unsafe { times.settled() })
    }

    /// Returns the random word of a slot. The slab is open.
    #[inline(always)]
    pub fn word(&self, slot: SlotIndex) -> u64 {
        let [first, times] = &self.0[..] else { return 0 };
        // SAFETY: (1) written once, before the program gets any pointer into the slab.
        let (first, times) = unsafe { (first.settled(), times.settled()) };
        first.wrapping_add(times.wrapping_mul(slot.number() as u64))
    }
}

#[cfg(all(test, feature = "secure-light", not(loom)))]
mod tests {
    use super::*;
    use crate::harden::spread;
    use crate::slab::Slab;

    /// The word of one slot says nothing about the word of another. Over random seeds, the
    /// difference of two slots' canaries takes each value of each byte equally often. (The bytes
    /// are those before zeros are replaced, which would favour one value.)
    #[test]
    fn the_words_of_two_slots_differ_by_random_bytes() {
        let slab = Slab::zeroed();
        for (one, other) in [(0, 1), (0, 128), (3, 67), (254, 255), (128, 0)] {
            let mut counts = [[0u32; 256]; 8];
            let mut random = 1u64;
            for _ in 0..256 * 200 {
                let mut draw = || {
                    random =
                        random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (random >> 33) ^ random.rotate_left(17) ^ random << 31
                };
                slab.canary_seeds.set([draw(), draw()]);
                let word = |slot| spread(slab.canary_seeds.word(SlotIndex::new(slot)));
                let difference = (word(one) ^ word(other)).to_le_bytes();
                for (count, byte) in counts.iter_mut().zip(difference) {
                    count[byte as usize] += 1;
                }
            }
            for (at, counts) in counts.iter().enumerate() {
                let square = |&count: &u32| (f64::from(count) - 200.0).powi(2) / 200.0;
                let sum: f64 = counts.iter().map(square).sum();
                // With 255 degrees of freedom, one sum in a million is above 372.
                assert!(sum < 372.0, "{one} {other} byte {at}: {sum}");
            }
        }
    }
}
