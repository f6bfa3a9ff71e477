//! L5: from a call site to its partition.
//!
//! The key is random for each process, so nobody outside can tell which sites share a partition
//! (promise 17). Multiply-and-shift: one multiplication and one shift on the fast path.

use crate::slab::CLASSES;

/// Most partitions that may be asked for.
pub const PARTITIONS_MAX: usize = 4096;

/// How a call site is turned into a row of bins.
#[derive(Clone, Copy, Debug)]
pub struct SiteHash {
    /// A random odd number; zero sends every site to row 0.
    pub key: u64,
    /// 64 less the bits of a bin's index.
    pub shift: u32,
}

impl SiteHash {
    /// A hash into `partitions` (a power of two) with a key from the kernel.
    pub fn new(partitions: usize, random: u64) -> SiteHash {
        let bits = (partitions * CLASSES).trailing_zeros();
        SiteHash { key: random | 1, shift: 64 - bits }
    }

    /// Everything in row 0.
    pub const fn single() -> SiteHash {
        SiteHash { key: 0, shift: 64 - CLASSES.trailing_zeros() }
    }

    /// Index of the first bin of the site's row.
    #[inline(always)]
    pub fn row(&self, site: usize) -> usize {
        (((site as u64).wrapping_mul(self.key) >> self.shift) as u32 & !(CLASSES as u32 - 1)) as usize
    }

    /// The site's partition.
    #[inline]
    pub fn partition(&self, site: usize) -> usize {
        self.row(site) / CLASSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_partition_takes_every_site() {
        let hash = SiteHash::new(1, 0x9E37_79B9_7F4A_7C15);
        assert!((0..10_000).all(|site| hash.partition(site * 13) == 0));
    }

    #[test]
    fn sites_spread_over_all_partitions_and_depend_on_the_key() {
        for partitions in [2, 64, 4096] {
            let (a, b) = (SiteHash::new(partitions, 0x1234_5678_9ABC_DEF1), SiteHash::new(partitions, 0xF00D_FACE_CAFE_BEEF));
            let mut counts = vec![0; partitions];
            let mut moved = 0;
            let sites = partitions * 64;
            for site in 0..sites {
                let address = 0x5555_5555_0000 + site * 7;
                counts[a.partition(address)] += 1;
                moved += usize::from(a.partition(address) != b.partition(address));
            }
            assert!(counts.iter().all(|&count| count < 64 * 4), "{counts:?}");
            assert!(moved > sites / 3, "{moved} of {sites}");
        }
    }
}
