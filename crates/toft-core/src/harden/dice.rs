//! The dice of one heap. They decide which slot comes next, and which block leaves the quarantine.
//!
//! The kernel's random numbers seed them when the heap is created, and again in the child of a
//! fork. A throw costs one multiplication. An observer of many throws could compute the next ones.
//! But a throw shows only which of at most 64 slots a block is in, or that a block is handed out
//! again.

use crate::policy::{QUARANTINE, RANDOM_ORDER};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// The number of words of state, which is zero if the build throws no dice.
const WORDS: usize = if RANDOM_ORDER || QUARANTINE { 1 } else { 0 };

/// The dice of one heap. Only the heap's holder uses them. A signal handler that interrupts a throw
/// gets the same number.
#[derive(Debug)]
pub struct Dice([AtomicU64; WORDS]);

impl Dice {
    /// Returns dice that are not seeded.
    pub const fn new() -> Dice {
        Dice([const { AtomicU64::new(0) }; WORDS])
    }

    /// Sets the seed, which is a random word of the kernel.
    pub fn seed(&self, random: u64) {
        if let Some(state) = self.0.first() {
            state.store(random, Relaxed);
        }
    }

    /// Returns a random word.
    #[inline(always)]
    pub fn roll(&self) -> u64 {
        let Some(state) = self.0.first() else { return 0 };
        let now = state.load(Relaxed).wrapping_add(0xA076_1D64_78BD_642F);
        state.store(now, Relaxed);
        let product = u128::from(now) * u128::from(now ^ 0xE703_7ED1_A0B4_28DB);
        product as u64 ^ (product >> 64) as u64
    }

    /// Returns a random number below `limit`, which is less than 2^32.
    #[inline(always)]
    pub fn below(&self, limit: usize) -> usize {
        (((self.roll() >> 32) * limit as u64) >> 32) as usize
    }
}

impl Default for Dice {
    fn default() -> Dice {
        Dice::new()
    }
}

#[cfg(all(test, feature = "secure-light"))]
mod tests {
    use super::*;

    /// The sum of squared deviations over 63 degrees of freedom exceeds 125 once in 200 000 times.
    #[test]
    fn throws_are_uniform() {
        let dice = Dice::new();
        dice.seed(0x0123_4567_89AB_CDEF);
        for limit in [64, 48] {
            let mut counts = [0u32; 64];
            for _ in 0..limit * 1000 {
                counts[dice.below(limit)] += 1;
            }
            let square = |&count: &u32| (f64::from(count) - 1000.0).powi(2) / 1000.0;
            let sum: f64 = counts[..limit].iter().map(square).sum();
            assert!(sum < 125.0 && counts[limit..].iter().all(|&n| n == 0), "{sum} {counts:?}");
        }
    }
}
