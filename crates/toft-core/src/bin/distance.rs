//! The distance to the next allocation that is reported to a probe, in bytes. It is random, with
//! the requested average, so that each allocated byte is equally likely to be chosen.
//!
//! The bytes between two are drawn from an exponential distribution. The chosen bytes are then a
//! Poisson process over all that are allocated: on average, what they stand for adds up to what was
//! allocated.

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// The distance of one heap. Its holder only; a signal handler that comes in between may draw the
/// same.
#[derive(Debug)]
pub struct Distance {
    /// Bytes up to the chosen one, which is the last of them; zero before the first was drawn.
    left: AtomicU64,
    /// What numbers are drawn from; zero at first.
    random: AtomicU64,
}

/// Most numbers that are drawn for one block: a larger one has about as many as it should.
const DRAWS_MOST: u64 = 64;

/// Fraction bits of log2.
const BITS: u32 = 24;
/// The natural logarithm of 2, with as many.
const LN_2: u64 = 11_629_080;

impl Distance {
    /// Nothing was drawn yet.
    pub const fn new() -> Distance {
        Distance { left: AtomicU64::new(0), random: AtomicU64::new(0) }
    }

    /// Passes a block of `bytes`; returns the number of chosen bytes it has. They are `mean` apart,
    /// at least one; `seed` tells heaps apart.
    pub fn pass(&self, bytes: usize, mean: usize, seed: usize) -> u64 {
        let (mut bytes, mean, mut chosen) = (bytes as u64, mean as u64, 0);
        let mut left = match self.left.load(Relaxed) {
            0 => self.draw(mean, seed),
            left => left,
        };
        let many = bytes / mean.max(1);
        if many > DRAWS_MOST {
            chosen = many - DRAWS_MOST;
            bytes -= chosen * mean;
        }
        while left <= bytes {
            bytes -= left;
            chosen += 1;
            left = self.draw(mean, seed);
        }
        self.left.store(left - bytes, Relaxed);
        chosen
    }

    /// How many of `count` slots of `size` bytes come before the one that has the next chosen byte;
    /// those are passed.
    pub fn pass_slots(&self, count: usize, size: usize) -> usize {
        let left = self.left.load(Relaxed);
        let before = left.saturating_sub(1) / (size as u64).max(1);
        let passed = before.min(count as u64);
        self.left.store(left - passed * size as u64, Relaxed);
        passed as usize
    }

    /// The chosen byte is owed to a slot for which a claim was cut: returns where in it. Until then
    /// the thread's other allocations draw separate distances; else one would be chosen in that
    /// slot's place.
    pub fn owe(&self) -> u64 {
        let left = self.left.load(Relaxed);
        self.left.store(0, Relaxed);
        left
    }

    /// A random number of bytes, one at least, on average `mean`.
    fn draw(&self, mean: u64, seed: usize) -> u64 {
        // Of the logarithm of a number between 0 and 1, the negative.
        let random = self.random(seed) | 1;
        let whole = u64::from(random.leading_zeros() + 1) << BITS;
        let doublings = whole - log2_of_mantissa(random << random.leading_zeros());
        let scaled = u128::from(doublings) * u128::from(LN_2) * u128::from(mean);
        u64::try_from(scaled >> (2 * BITS)).unwrap_or(u64::MAX).max(1)
    }

    fn random(&self, seed: usize) -> u64 {
        let before = match self.random.load(Relaxed) {
            0 => seed as u64,
            before => before,
        };
        let now = before.wrapping_add(0xA076_1D64_78BD_642F);
        self.random.store(now, Relaxed);
        let product = u128::from(now) * u128::from(now ^ 0xE703_7ED1_A0B4_28DB);
        product as u64 ^ (product >> 64) as u64
    }
}

impl Default for Distance {
    fn default() -> Distance {
        Distance::new()
    }
}

/// log2 of a number from 1 to 2, which is given with 63 bits behind the point: squared again and
/// again.
fn log2_of_mantissa(mut x: u64) -> u64 {
    let mut log = 0;
    for _ in 0..BITS {
        let square = (u128::from(x) * u128::from(x)) >> 63;
        log <<= 1;
        if square >> 64 != 0 {
            log |= 1;
            x = (square >> 1) as u64;
        } else {
            x = square as u64;
        }
    }
    log
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    const MEAN: u64 = 1 << 19;

    #[test]
    fn logarithms_are_right() {
        for (mantissa, log) in [(1.0, 0.0), (1.25, 0.321_928), (1.5, 0.584_963), (1.999, 0.999_279)]
        {
            let bits = (mantissa * (1u64 << 63) as f64) as u64;
            let found = log2_of_mantissa(bits) as f64 / f64::from(1 << BITS);
            assert!((found - log).abs() < 1e-5, "{mantissa}: {found}");
        }
    }

    /// As an exponential distribution has them: the mean, and the share that is longer than `means`
    /// means. Each bound is six standard deviations away.
    #[test]
    fn distances_are_exponential() {
        let (distance, count) = (Distance::new(), 200_000);
        let drawn: Vec<u64> = (0..count).map(|_| distance.draw(MEAN, 7)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / f64::from(count) / MEAN as f64;
        assert!((mean - 1.0).abs() < 6.0 / f64::from(count).sqrt(), "{mean}");
        for means in [0.1, 1.0, 3.0] {
            let longer = drawn.iter().filter(|&&d| d as f64 > means * MEAN as f64).count();
            let expected = f64::exp(-means);
            let off = (longer as f64 / f64::from(count) - expected).abs();
            let deviation = (expected * (1.0 - expected) / f64::from(count)).sqrt();
            assert!(off < 6.0 * deviation, "{means}: {longer}");
        }
    }

    /// Whatever the sizes, chosen bytes stand for what passes: in slots of a claim, alone, and as
    /// one huge block.
    #[test]
    fn what_is_chosen_adds_up() {
        let distance = Distance::new();
        let (mut passed, mut chosen) = (0u64, 0u64);
        for round in 0..40_000usize {
            let size = [16, 48, 1024, 30_000, 3 << 20][round % 5];
            chosen += distance.pass(size, MEAN as usize, 3);
            let more = distance.pass_slots(63, size);
            passed += ((more + 1) * size) as u64;
            // Where it stops before the last, the next has a chosen byte.
            if more < 63 {
                let next = distance.pass(size, MEAN as usize, 3);
                assert!(next > 0, "{size}");
                (passed, chosen) = (passed + size as u64, chosen + next);
            }
        }
        let expected = passed as f64 / MEAN as f64;
        assert!((chosen as f64 - expected).abs() < 6.0 * expected.sqrt(), "{chosen} {expected}");
        let huge = distance.pass(1 << 40, MEAN as usize, 3) as f64;
        assert!((huge - (1u64 << 21) as f64).abs() < 100.0, "{huge}");
    }
}
