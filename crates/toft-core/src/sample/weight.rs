//! The weight of a sampled block: the number of blocks that it stands for.
//!
//! Chosen bytes are a Poisson process (`bin/distance.rs`). So a block of `size` bytes has a chosen
//! byte with probability `1 - exp(-size / interval)`. One over that probability, summed over the
//! chosen blocks, is on average the number of all blocks, whatever their sizes. Each block is
//! counted with less scatter than by the number of its chosen bytes.

/// The number of fraction bits of [`Weight::objects`].
pub const OBJECT_BITS: u32 = 16;
/// The number of fraction bits of a probability.
const BITS: u32 = 63;
const ONE: u128 = 1 << BITS;
/// The number of intervals from which on a block is practically always chosen.
const SURE: u128 = 44;

/// The number of blocks, and of bytes, that a sampled block stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The number of blocks, with [`OBJECT_BITS`] fraction bits.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Weight {
    /// Returns the weight of a block of `size` bytes, if chosen bytes are `interval` bytes apart on
    /// average. `interval` is at least one.
    pub fn of(size: usize, interval: usize) -> Weight {
        let objects = (ONE << OBJECT_BITS) / chance(size, interval);
        let bytes = (objects * size as u128 + (1 << (OBJECT_BITS - 1))) >> OBJECT_BITS;
        let number = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Weight { objects: number(objects), bytes: number(bytes) }
    }
}

/// Returns `1 - exp(-size / interval)`, but never zero.
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
    // From `1 - exp(-x)` to `1 - exp(-2x)`.
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
                // Bytes are whole numbers.
                let off = (bytes - expected).abs();
                assert!(off < 0.5 + 2e-5 * expected, "{size} {interval}: {bytes}");
            }
        }
        assert_eq!(Weight::of(16, usize::MAX), Weight { objects: u64::MAX, bytes: u64::MAX });
        // If every byte is chosen, a block stands for itself.
        assert_eq!(Weight::of(64, 1), Weight { objects: 1 << OBJECT_BITS, bytes: 64 });
    }
}
