//! The random numbers of every workload: xorshift64*, seeded by the case, the same on every peer.

/// A xorshift64* generator: three shifts and a multiply, cheap beside a `malloc`.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for `seed`; nearby seeds are spread first, so that threads may use 0, 1, 2.
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

/// A linear congruential generator whose draws are shuffled through a table, after Bays and Durham.
/// It needs two divisions a draw; published benchmarks of the nineties use its kind.
#[derive(Clone, Debug)]
pub struct Shuffled {
    table: [u32; Self::TABLE],
    state: u64,
    last: u32,
}

impl Shuffled {
    const TABLE: usize = 97;
    const MODULUS: u64 = 714_025;
    const FACTOR: u64 = 1366;
    const STEP: u64 = 150_889;

    pub fn new(seed: u64) -> Self {
        let mut state = seed % Self::MODULUS;
        let mut draw = || {
            state = (Self::FACTOR * state + Self::STEP) % Self::MODULUS;
            state as u32
        };
        let table = [0; Self::TABLE].map(|_: u32| draw());
        let last = draw();
        Self { table, state, last }
    }

    /// A number below `bound`, which is at most 714 025.
    #[inline(always)]
    pub fn below(&mut self, bound: usize) -> usize {
        let place = &mut self.table[self.last as usize % Self::TABLE];
        self.last = *place;
        self.state = (Self::FACTOR * self.state + Self::STEP) % Self::MODULUS;
        *place = self.state as u32;
        self.last as usize % bound
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
    fn shuffled_draws_are_even_and_follow_their_seed() {
        let draws = |seed| {
            let mut rng = Shuffled::new(seed);
            (0..100_000).map(|_| rng.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        let low = draws(3).iter().filter(|&&draw| draw < 250).count();
        assert!((24_000..26_000).contains(&low), "{low}");
    }

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
