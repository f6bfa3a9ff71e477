//! A thread's cache of call sites and their partitions, in exact mode.
//!
//! Each place is one word: the site, then the number of its partition. A site has one place, and a
//! later site takes it. Zero is a site without a partition, so fresh memory is an empty cache.
//!
//! The thread that has the heap writes the cache, and so do its signal handlers. A word is written
//! as a whole, so every word that is read is right, whichever of them wrote it.

use super::table::{NUMBER_BITS, NUMBER_MAX, key_of};
use super::wrappers::STEP_FIRST;
use crate::region::{Partition, Site};
use crate::sync::{AtomicU64, Ordering};
use Ordering::Relaxed;

/// The number of places in a cache.
const PLACES: usize = 1024;

/// A thread's cache.
#[repr(C)]
#[derive(Debug)]
pub struct Cache {
    places: [AtomicU64; PLACES],
}

impl Cache {
    /// The number of bytes of a cache, which begin as zero.
    pub const BYTES: usize = size_of::<Cache>();

    /// Returns the cache at an address.
    ///
    /// # Safety
    /// 1. At `address` are `BYTES` bytes that live for ever, begin as zero and are written only by
    ///    this value.
    #[inline(always)]
    pub unsafe fn at(address: usize) -> &'static Cache {
        // SAFETY: duty 1; all-zero is a `Cache`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    #[inline(always)]
    fn place(&self, site: Site) -> &AtomicU64 {
        // Sites of one function differ in their low bits, those of generated code in higher ones.
        let mixed = site.address() ^ site.address() >> 10;
        // SAFETY: the remainder is below the array's length.
        unsafe { self.places.get_unchecked(mixed % PLACES) }
    }

    /// Returns what `partition` returns, or `None` instead of zero. The branch can be predicted.
    #[inline(always)]
    pub fn remembered(&self, site: Site) -> Option<Partition> {
        let number = self.place(site).load(Relaxed) ^ key_of(site);
        (number < STEP_FIRST as u64).then_some(Partition::new(number as usize))
    }

    /// Returns a site's partition. Returns partition 0 if the cache does not have the site, or the
    /// site is in a wrapper.
    #[inline(always)]
    pub fn partition(&self, site: Site) -> Partition {
        let number = self.place(site).load(Relaxed) ^ key_of(site);
        Partition::new(if number < STEP_FIRST as u64 { number as usize } else { 0 })
    }

    /// Returns the number of a site's partition, or the code of a site in a wrapper. Returns zero
    /// if the cache does not have the site.
    #[inline(always)]
    pub fn code(&self, site: Site) -> usize {
        let code = self.place(site).load(Relaxed) ^ key_of(site);
        if code <= NUMBER_MAX { code as usize } else { 0 }
    }

    /// Forgets a site. Its next call searches the table.
    pub fn forget(&self, site: Site) {
        if self.code(site) != 0 {
            self.place(site).store(0, Relaxed);
        }
    }

    /// Remembers a site's partition.
    pub fn remember(&self, site: Site, number: usize) {
        debug_assert!(number >> NUMBER_BITS == 0);
        self.place(site).store(key_of(site) | number as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Cache> {
        Box::new(Cache { places: [const { AtomicU64::new(0) }; PLACES] })
    }

    #[test]
    fn what_is_remembered_is_known_until_another_takes_its_place() {
        let cache = empty();
        let [known, next] = [0x5555_5555_1234, 0x5555_5555_1235].map(Site::at);
        let number = |site| cache.partition(site).number();
        assert_eq!(number(Site::default()), 0);
        assert_eq!(number(known), 0);
        cache.remember(known, 77);
        assert_eq!(number(known), 77);
        assert_eq!(number(next), 0);
        let rival = (1..)
            .map(|step| Site::at(known.address() + step))
            .find(|&site| core::ptr::eq(cache.place(site), cache.place(known)));
        cache.remember(rival.unwrap(), 78);
        assert_eq!((number(known), number(rival.unwrap())), (0, 78));
        cache.remember(known, STEP_FIRST + 3);
        assert_eq!(number(known), 0);
        assert_eq!(cache.code(known), STEP_FIRST + 3);
        cache.forget(rival.unwrap());
        assert_eq!(cache.code(known), STEP_FIRST + 3, "it is another's place");
        cache.forget(known);
        assert_eq!(cache.code(known), 0);
    }

    #[test]
    fn sites_of_a_page_hardly_meet() {
        let cache = empty();
        let sites = || (0..PLACES / 4).map(|i| Site::at(0x7f12_3456_7000 + 17 * i));
        sites().enumerate().for_each(|(i, site)| cache.remember(site, i + 1));
        let known = sites()
            .enumerate()
            .filter(|&(i, site)| cache.partition(site).number() == i + 1)
            .count();
        assert!(known > PLACES / 5, "{known}");
    }
}
