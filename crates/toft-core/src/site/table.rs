//! The call sites of the process and their partitions, in exact mode.
//!
//! ```text
//! level 0  1024 entries   level 1  2048   level 2  4096   ...  one after another, mapped as needed
//! entry    site, 48 bits | partition, 16 bits      a separate word for what else is known
//! ```
//!
//! A site is searched for in a few places of each level, in order. The first empty place becomes
//! its own. If all are taken, the search goes on in the next level. No entry is ever removed. So
//! two threads that add the same site at once compete for the same place. One of them finds the
//! entry of the other.
//!
//! Row 0 is unowned (see the [module](super)). The next rows are for late sites: those that are
//! added when all unshared partitions are given out. Late sites share these rows by a keyed hash,
//! and no other site ever gets them. The other rows are given out in order, the first of them to
//! the groups of sites that [hints](super::Hints) name: `table/numbers.rs`.
//!
//! Numbers above those of partitions are codes. A code tells how to get from a site in a
//! [wrapper](super::Wrappers) to its caller's site. If the wrapper's library has been unloaded,
//! the code is exchanged for a number that no site has had.
//!
//! Invariants:
//! - T1 a site is in the table at most once.
//! - T2 a number above those of late sites and groups is in the table at most once.
//! - T3 `given` counts the numbers given out, no fewer than are in the table. `merged` counts the
//!   sites that share a partition of late sites, and `grouped` those that share one of a group.

mod numbers;

use super::SiteHash;
use super::wrappers::STEP_FIRST;
use crate::os::{Error, Memory};
use crate::region::{Carve, STEP, Site};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};
use numbers::Kind;

/// The number of low bits of a word that are the partition's number.
pub(super) const NUMBER_BITS: u32 = 16;
/// The largest number.
pub const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;
const _: () = assert!(crate::options::PARTITIONS_MAX < STEP_FIRST);

/// The number of entries of level 0. Each level has twice as many as the one before.
const FIRST: usize = 1024;
/// The number of entries of a level that may have a site.
const WINDOW: usize = 16;
/// The most levels: entries for half a billion sites.
const LEVELS_MAX: u32 = 19;

/// Returns the bits of a word that are the site. They tell all addresses of code apart. Of any
/// other number they are the low bits.
#[inline(always)]
pub const fn key_of(site: Site) -> u64 {
    (site.address() as u64) << NUMBER_BITS
}

/// One site. All zero is an empty entry.
#[repr(C)]
#[derive(Debug)]
struct Entry {
    /// The site and its number. Any thread writes it by compare-and-exchange: once when the entry
    /// is empty, and seldom again to change the number.
    word: AtomicU64,
    /// Not used yet.
    more: AtomicU64,
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// The number of partitions given out, to groups and to single sites. Any thread.
    given: AtomicU32,
    /// The number of sites that share a partition for being late. Any thread.
    merged: AtomicU32,
    /// The number of groups, whose numbers are given out first. Written at the start.
    groups: AtomicU32,
    /// The number of sites in groups. Any thread.
    grouped: AtomicU32,
    /// The number of times that a site was not found for lack of memory. Any thread.
    unknown: AtomicU32,
    entries: Carve,
}

/// Where the table is found from outside the process.
#[derive(Clone, Copy, Debug)]
pub struct SitesPlaces {
    /// The address of the first entry, or zero if sites are hashed.
    pub entries: usize,
    /// The number of bytes in an entry. The first eight are the site and its number.
    pub entry_bytes: usize,
    /// The address of a 64-bit word: the number of bytes of entries that are mapped.
    pub mapped: usize,
    /// The number of low bits of an entry's first word that are the partition's number.
    pub number_bits: u32,
    /// The first partition that one site has alone. Those below are shared.
    pub first_own: usize,
    /// The first number that is no partition. A site with such a number is in a wrapper.
    pub first_code: usize,
}

/// All call sites of a process.
#[derive(Clone, Copy, Debug)]
pub struct Sites {
    /// The address of the first entry.
    base: usize,
    levels: u32,
    /// The number of partitions for late sites, which begin with 1.
    shared: u32,
    /// The number of partitions after those, for groups and for single sites.
    own: u32,
    /// Tells which late sites share a partition.
    hash: SiteHash,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Sites {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Sites {}

impl Sites {
    /// The number of zeroed bytes that `new` needs for its tables.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// The least number of partitions with which a site can have its own.
    pub const PARTITIONS_LEAST: usize = 3;

    /// Returns no table: sites are hashed.
    pub const fn none() -> Sites {
        Sites {
            base: 0,
            levels: 0,
            shared: 0,
            own: 0,
            hash: SiteHash::single(),
            state: core::ptr::null(),
        }
    }

    /// Returns a table of `partitions`, with row 0, in the address space from `start` to `end`.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `start..end` is address space for this object alone.
    pub unsafe fn new(
        (start, end): (usize, usize),
        partitions: usize,
        random: u64,
        tables: usize,
    ) -> Sites {
        debug_assert!(partitions >= Sites::PARTITIONS_LEAST);
        let shared = (partitions / 64).max(1).next_power_of_two();
        let room = (end - start) / size_of::<Entry>();
        let fits = |levels: &u32| (FIRST << levels) - FIRST <= room;
        Sites {
            base: start,
            levels: (1..=LEVELS_MAX).take_while(fits).count() as u32,
            shared: shared as u32,
            own: (partitions - 1 - shared) as u32,
            hash: SiteHash::new(shared, random),
            state: core::ptr::with_exposed_provenance(tables),
        }
    }

    /// Returns true if there is a table.
    #[inline(always)]
    pub fn is_exact(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> &State {
        debug_assert!(self.is_exact());
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read if there is no table.
        unsafe { &*self.state }
    }

    fn entry(&self, number: usize) -> &Entry {
        let address = self.base + number * size_of::<Entry>();
        // SAFETY: `new` duty 2; callers stay below what is mapped; all-zero is an `Entry`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Returns the number of a site's partition. A new site gets the number that `code` returns, a
    /// code or a group's number, or else a partition. Without memory for the table the site shares
    /// a partition, this time.
    pub fn number(&self, os: &impl Memory, site: Site, code: impl Fn() -> Option<usize>) -> usize {
        match self.find_or_add(os, site, &code) {
            Ok(word) => (word & NUMBER_MAX) as usize,
            Err(_) => {
                self.state().unknown.fetch_add(1, Relaxed);
                self.shared_number(site)
            }
        }
    }

    fn find_or_add(
        &self,
        os: &impl Memory,
        site: Site,
        code: &impl Fn() -> Option<usize>,
    ) -> Result<u64, Error> {
        let key = key_of(site);
        let entries = &self.state().entries;
        let mut before = 0;
        let mut mine = None;
        for level in 0..self.levels {
            let count = FIRST << level;
            let bytes = (before + count) * size_of::<Entry>();
            if entries.mapped() < bytes {
                entries.reach(os, self.base, self.base + bytes, STEP)?;
            }
            let first = first_place(key) >> (64 - count.trailing_zeros());
            for step in 0..WINDOW {
                let entry = self.entry(before + ((first as usize + step) & (count - 1)));
                // find site: pairs with the exchange below.
                let mut word = entry.word.load(Acquire);
                if word == 0 {
                    let number = *mine.get_or_insert_with(|| match code() {
                        Some(code) => self.take(code),
                        None => self.give(site),
                    });
                    match entry.word.compare_exchange(0, key | number, AcqRel, Acquire) {
                        Ok(_) => return Ok(key | number),
                        Err(other) => word = other,
                    }
                }
                if word & !NUMBER_MAX == key {
                    if let Some(number) = mine {
                        self.take_back(number);
                    }
                    return Ok(word);
                }
            }
            before += count;
        }
        if let Some(number) = mine {
            self.take_back(number);
        }
        Err(Error::NoMemory)
    }

    /// Returns the number or code of a site in the table, and which entry it has.
    pub fn find(&self, site: Site) -> Option<(usize, usize)> {
        if !self.is_exact() {
            return None;
        }
        let key = key_of(site);
        let mapped = self.state().entries.mapped();
        let mut before = 0;
        for level in 0..self.levels {
            let count = FIRST << level;
            if mapped < (before + count) * size_of::<Entry>() {
                return None;
            }
            let first = first_place(key) >> (64 - count.trailing_zeros());
            for step in 0..WINDOW {
                let number = before + ((first as usize + step) & (count - 1));
                // find site: pairs with the exchanges of `find_or_add` and `turn_back`.
                match self.entry(number).word.load(Acquire) {
                    0 => return None,
                    word if word & !NUMBER_MAX == key => {
                        return Some(((word & NUMBER_MAX) as usize, number));
                    }
                    _ => {}
                }
            }
            before += count;
        }
        None
    }

    /// Gives a site of a wrapper a new partition in place of its code. Returns true if this call
    /// made the change.
    pub fn turn_back(&self, (code, entry): (usize, usize), site: Site) -> bool {
        debug_assert!(code >= STEP_FIRST);
        let number = self.give(site);
        let (word, key) = (&self.entry(entry).word, key_of(site));
        let turned = word.compare_exchange(key | code as u64, key | number, AcqRel, Relaxed);
        if turned.is_err() {
            self.take_back(number);
        }
        turned.is_ok()
    }

    /// Passes each known site and its number to `each`.
    pub fn for_each(&self, mut each: impl FnMut(Site, usize)) {
        if !self.is_exact() {
            return;
        }
        for number in 0..self.state().entries.mapped() / size_of::<Entry>() {
            let word = self.entry(number).word.load(Acquire);
            if word != 0 {
                each(Site::at((word >> NUMBER_BITS) as usize), (word & NUMBER_MAX) as usize);
            }
        }
    }

    /// Verifies T1 to T3. No other thread may be using the allocator.
    pub fn check(&self) -> Result<(), &'static str> {
        let (mut own, mut merged, mut grouped, mut sum) = (0, 0, 0, Ok(()));
        self.for_each(|site, number| {
            let (mut same, kind) = (0, self.kind(number));
            self.for_each(|other, its| {
                let twice = its == number && kind == Kind::Own;
                same += usize::from(other == site) + usize::from(twice);
            });
            if same != 1 + usize::from(kind == Kind::Own) {
                sum = Err("T1, T2: a site or a partition twice");
            }
            match kind {
                Kind::Own => own += 1,
                Kind::Group => grouped += 1,
                Kind::Shared => merged += 1,
                Kind::Code => {}
            }
        });
        sum?;
        let (given, shared) = self.counts();
        let fits = own <= given && merged == shared && grouped == self.grouped();
        if fits { Ok(()) } else { Err("T3: the counts of sites") }
    }

    /// Completes, in the child of a fork, the mapping that a thread of the parent had begun.
    pub fn repair(&self, os: &impl Memory) {
        if self.is_exact() {
            self.state().entries.repair(os, self.base);
        }
    }

    /// Returns where the table is found from outside the process.
    pub fn places(&self) -> SitesPlaces {
        let exact = self.is_exact();
        SitesPlaces {
            entries: if exact { self.base } else { 0 },
            entry_bytes: size_of::<Entry>(),
            mapped: if exact { self.state().entries.mapped_at() } else { 0 },
            number_bits: NUMBER_BITS,
            first_own: if exact { self.first_own() } else { 1 },
            first_code: STEP_FIRST,
        }
    }

    /// Returns the number of bytes of metadata mapped for the table.
    pub fn mapped_bytes(&self) -> usize {
        if self.is_exact() { self.state().entries.mapped() } else { 0 }
    }
}

/// Returns a hash of a site. Its upper bits are the place where the search begins.
fn first_place(key: u64) -> u64 {
    let product = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests;
