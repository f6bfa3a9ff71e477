//! The random numbers of every workload: xorshift64*, seeded by the case, the same on every peer.

/// A xorshift64* generator: three shifts and a multiply, cheap beside a `malloc`.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for `seed`; nearby seeds are spread first, so that threads may use 0, 1, 2.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((z ^ (z >> 31)) | 1)
    }

    /// The next 64 bits.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound` (at most 2^32).
    #[inline(always)]
    pub fn below(&mut self, bound: usize) -> usize {
        scale(self.next_u64() >> 32, bound)
    }

    /// An index below `slots` and a size in `low..=high`, both out of one draw: the loop that is
    /// measured should spend its time in the allocator.
    #[inline(always)]
    pub fn slot_and_size(&mut self, slots: usize, low: usize, high: usize) -> (usize, usize) {
        let bits = self.next_u64();
        (scale(bits >> 32, slots), low + scale(bits & 0xffff_ffff, high - low + 1))
    }
}

#[inline(always)]
fn scale(bits32: u64, bound: usize) -> usize {
    ((bits32 * bound as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_reach_both_ends() {
        let mut rng = Rng::new(7);
        let (mut smallest, mut largest) = (usize::MAX, 0);
        let mut slots = [0u32; 10];
        for _ in 0..200_000 {
            let (slot, size) = rng.slot_and_size(10, 16, 256);
            slots[slot] += 1;
            smallest = smallest.min(size);
            largest = largest.max(size);
        }
        assert_eq!((smallest, largest), (16, 256));
        assert!(slots.iter().all(|&n| (19_000..21_000).contains(&n)), "{slots:?}");
    }

    #[test]
    fn equal_seeds_agree_and_neighbours_do_not() {
        let mut streams = [Rng::new(1), Rng::new(1), Rng::new(2)];
        let [a, b, c] =
            [0, 1, 2].map(|i: usize| (0..8).map(|_| streams[i].next_u64()).collect::<Vec<_>>());
        assert_eq!(a, b);
        assert!(a.iter().zip(&c).all(|(x, y)| x != y));
    }
}
