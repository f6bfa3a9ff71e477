//! What a sampled block stands for: as many blocks as one of its size is chosen of.
//!
//! Chosen bytes are a Poisson process (`bin/distance.rs`), so that a block of `size` bytes has one
//! with probability `1 - exp(-size / interval)`. One over that, summed over those that were chosen,
//! is on average their number, whatever the sizes; and each is counted with less scatter than by
//! the number of its chosen bytes.

/// Bits behind the point of [`Weight::objects`].
pub const OBJECT_BITS: u32 = 16;
/// Bits behind the point of a probability.
const BITS: u32 = 63;
const ONE: u128 = 1 << BITS;
/// From this number of intervals on a block is as good as always chosen.
const SURE: u128 = 44;

/// What a sampled block stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Blocks, with [`OBJECT_BITS`] bits behind the point.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Weight {
    /// Of a block of `size` bytes, where chosen bytes are `interval` apart, one at least.
    pub fn of(size: usize, interval: usize) -> Weight {
        let objects = (ONE << OBJECT_BITS) / chance(size, interval);
        let bytes = (objects * size as u128 + (1 << (OBJECT_BITS - 1))) >> OBJECT_BITS;
        let number = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Weight { objects: number(objects), bytes: number(bytes) }
    }
}

/// `1 - exp(-size / interval)`, not zero.
fn chance(size: usize, interval: usize) -> u128 {
    let mut x = ((size as u128) << BITS) / (interval as u128).max(1);
    if x >= SURE << BITS {
        return ONE;
    }
    let mut halved = 0;
    while x >> (BITS - 6) != 0 {
        x >>= 1;
        halved += 1;
    }
    // x - x^2/2! + x^3/3! - x^4/4! + x^5/5!
    let sum = [5, 4, 3, 2].iter().fold(ONE, |sum, by| ONE - ((x * sum) >> BITS) / by);
    let mut chance = (x * sum) >> BITS;
    // 1 - exp(-2x), of that.
    for _ in 0..halved {
        chance = (chance * (2 * ONE - chance)) >> BITS;
    }
    chance.max(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn weights_are_one_over_the_chance() {
        for interval in [1usize, 4096, 512 << 10, 1 << 40] {
            for size in [16usize, 48, 1000, 30_000, 512 << 10, 3 << 20, 1 << 40] {
                let x = size as f64 / interval as f64;
                let expected = -1.0 / f64::exp_m1(-x);
                let weight = Weight::of(size, interval);
                let objects = weight.objects as f64 / f64::from(1 << OBJECT_BITS);
                assert!((objects / expected - 1.0).abs() < 2e-5, "{size} {interval}: {objects}");
                let (bytes, expected) = (weight.bytes as f64, size as f64 * expected);
                // Whole ones.
                let off = (bytes - expected).abs();
                assert!(off < 0.5 + 2e-5 * expected, "{size} {interval}: {bytes}");
            }
        }
        assert_eq!(Weight::of(16, usize::MAX), Weight { objects: u64::MAX, bytes: u64::MAX });
        // With every byte chosen a block stands for itself.
        assert_eq!(Weight::of(64, 1), Weight { objects: 1 << OBJECT_BITS, bytes: 64 });
    }
}
