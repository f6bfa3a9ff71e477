//! Maps call sites to partitions by a keyed hash.
//!
//! The key is random for each process, so an outsider cannot tell which sites share a partition
//! (promise 17). The product of site and key is multiplied by its own upper half. By the product
//! alone, sites at equal distances (the functions of a generated table) would all collide together
//! for one key in forty (decision 0008).

use crate::bin::{BinIndex, ROW_WORDS};
use crate::region::{Partition, Site};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The number of low bits of the second product that are not used, because they depend on few bits
/// of the site.
const SHIFT: u32 = 38;
const _: () = assert!(crate::options::PARTITIONS_MAX * ROW_WORDS <= 1 << (64 - SHIFT));

/// A hash from call sites to rows of bins.
#[derive(Clone, Copy, Debug)]
pub struct SiteHash {
    /// A random odd number.
    key: u64,
    /// The bits of a bin's index that come from the partition.
    mask: u64,
}

impl SiteHash {
    /// Returns a hash into `partitions` (a power of two). The key comes from `random`, a number
    /// from the kernel.
    pub fn new(partitions: usize, random: u64) -> SiteHash {
        let mask = ((partitions - 1) * ROW_WORDS) as u64;
        SiteHash { key: random | 1, mask }
    }

    /// Returns a hash that sends every site to row 0.
    pub const fn single() -> SiteHash {
        SiteHash { key: 1, mask: 0 }
    }

    /// Returns this hash into the first `partitions` (a power of two) of those that it has. A site
    /// that had one of these stays there.
    pub fn of_first(self, partitions: usize) -> SiteHash {
        SiteHash { mask: self.mask & ((partitions - 1) * ROW_WORDS) as u64, ..self }
    }

    /// Returns the index of the first bin of the site's row.
    #[inline(always)]
    pub fn row(&self, site: Site) -> BinIndex {
        let product = (site.address() as u64).wrapping_mul(self.key);
        BinIndex::at_word((product.wrapping_mul(product >> 32) >> SHIFT & self.mask) as usize)
    }

    /// Returns the site's partition.
    #[inline]
    pub fn partition(&self, site: Site) -> Partition {
        self.row(site).partition()
    }
}

/// The hash of one heap, which gets more partitions as the process grows.
#[derive(Debug)]
#[repr(C)]
pub struct HeapHash {
    key: u64,
    /// Written by the holder of the heap, who alone reads it.
    mask: AtomicU64,
}

impl HeapHash {
    /// Returns the same as a hash.
    pub const fn new(hash: SiteHash) -> HeapHash {
        HeapHash { key: hash.key, mask: AtomicU64::new(hash.mask) }
    }

    /// Returns the index of the first bin of the site's row.
    #[inline(always)]
    pub fn row(&self, site: Site) -> BinIndex {
        SiteHash { key: self.key, mask: self.mask.load(Relaxed) }.row(site)
    }

    /// Changes the partitions to those of `hash`, which has the same key.
    #[inline]
    pub fn set(&self, hash: SiteHash) {
        debug_assert!(hash.key == self.key);
        self.mask.store(hash.mask, Relaxed);
    }

    /// Returns the number of words in all rows of bins.
    pub fn bins(&self) -> usize {
        self.mask.load(Relaxed) as usize + ROW_WORDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_partition_takes_every_site() {
        let hash = SiteHash::new(1, 0x9E37_79B9_7F4A_7C15);
        assert!((0..10_000).all(|site| hash.partition(Site::at(site * 13)) == Partition::new(0)));
    }

    #[test]
    fn sites_at_equal_distances_do_not_collide_together() {
        let bad_key = |random: &u64| {
            let hash = SiteHash::new(64, *random);
            let collide = |pair: &usize| {
                let site = 0x5555_5555_4000 + pair * 352;
                hash.partition(Site::at(site)) == hash.partition(Site::at(site + 176))
            };
            (0..64).filter(collide).count() > 16
        };
        let keys = (0..2000u64).map(|i| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let bad = keys.filter(bad_key).count();
        // One multiplication alone has 47 such keys.
        assert!(bad < 5, "{bad} of 2000 keys");
    }

    #[test]
    fn sites_spread_over_all_partitions_and_depend_on_the_key() {
        for partitions in [2, 64, 4096] {
            let (a, b) = (
                SiteHash::new(partitions, 0x1234_5678_9ABC_DEF1),
                SiteHash::new(partitions, 0xF00D_FACE_CAFE_BEEF),
            );
            let mut counts = vec![0; partitions];
            let mut moved = 0;
            let sites = partitions * 64;
            for site in 0..sites {
                let site = Site::at(0x5555_5555_0000 + site * 7);
                counts[a.partition(site).number()] += 1;
                moved += usize::from(a.partition(site) != b.partition(site));
            }
            assert!(counts.iter().all(|&count| count < 64 * 4), "{counts:?}");
            assert!(moved > sites / 3, "{moved} of {sites}");
        }
    }
}
