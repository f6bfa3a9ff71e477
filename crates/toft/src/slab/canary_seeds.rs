//! What the canaries of a slab's slots are made from, in the hardened build: two random words for
//! each slab.
//!
//! Slot `s` has the word `first + s * times`, modulo 2^64. `times` has 64 random bits and two slots
//! of a slab differ by less than 2^8 in number. So the words of two slots differ by something of
//! which all bits from the eighth on are random. A canary uses no others, and an attacker who has
//! read one knows nothing of another slot's. One who has read two of a slab knows all of this slab,
//! and of no other: the two words are made from the secret by permutations that cannot be undone
//! without it.

use super::slab::Slab;
use crate::sync::Ordering::Relaxed;
use crate::sync::Settled;

impl Slab {
    /// What the words of a slab's slots are made from. Once, before it is published.
    pub fn set_words(&self, words: [u64; 2]) {
        self.words.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
    }

    /// The random word of the slot before the one that has this.
    #[inline(always)]
    pub fn word_before(&self, word: u64) -> u64 {
        let [_, times] = &self.words[..] else { return 0 };
        // SAFETY: (1) as below.
        word.wrapping_sub(unsafe { times.settled() })
    }

    /// The random word of a slot of a slab that is open.
    #[inline(always)]
    pub fn word(&self, slot: usize) -> u64 {
        let [first, times] = &self.words[..] else { return 0 };
        // SAFETY: (1) written once, before any pointer into the slab is given to anybody.
        let (first, times) = unsafe { (first.settled(), times.settled()) };
        first.wrapping_add(times.wrapping_mul(slot as u64))
    }
}

#[cfg(all(test, feature = "hardened", not(loom)))]
mod tests {
    use super::*;

    /// What is known of one slot's word says nothing of another's: over random words of a slab, the
    /// difference of two slots takes each value of each byte that a canary uses, as often as any
    /// other.
    #[test]
    fn the_words_of_two_slots_differ_by_random_bytes() {
        let slab = Slab::nothing();
        for (one, other) in [(0, 1), (0, 128), (3, 67), (254, 255), (128, 0)] {
            let mut counts = [[0u32; 256]; 8];
            let mut random = 1u64;
            for _ in 0..256 * 200 {
                let mut draw = || {
                    random =
                        random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (random >> 33) ^ random.rotate_left(17) ^ random << 31
                };
                slab.set_words([draw(), draw()]);
                let difference = slab.word(one).wrapping_sub(slab.word(other)).to_le_bytes();
                for (count, byte) in counts.iter_mut().zip(difference) {
                    count[byte as usize] += 1;
                }
            }
            for (at, counts) in counts.iter().enumerate().skip(1) {
                let square = |&count: &u32| (f64::from(count) - 200.0).powi(2) / 200.0;
                let sum: f64 = counts.iter().map(square).sum();
                // Of 255 degrees of freedom: one in a million is above 372.
                assert!(sum < 372.0, "{one} {other} byte {at}: {sum}");
            }
        }
    }
}
