//! The process's call sites and their partitions, in exact mode.
//!
//! ```text
//! level 0  1024 entries   level 1  2048   level 2  4096   ...      one behind the other, mapped as needed
//! entry    site, 48 bits | partition, 16 bits      a word of its own for what else is known
//! ```
//!
//! A site is looked for in a few places of each level, in order, and the first empty one is its
//! own; where all are taken, in the next level. Nothing is ever taken out. So two threads that
//! bring the same site at the same time compete for the same place, and one of them finds what the
//! other has put there.
//!
//! Row 0 is unowned (see the [module](super)). The next ones are for sites that come when all
//! unshared partitions are given out: they share these by a keyed hash, and no other site ever
//! does. The rest are given out in order, the first of them to the groups of sites that
//! [hints](super::Hints) name: `table/numbers.rs`.
//!
//! Numbers that no partition has say how to come from a site in a [wrapper](super::Wrappers) to its
//! caller's. Where that is found out late, the number is exchanged for such a one, once; the
//! partition is never given out again.
//!
//! Invariants:
//! - T1 a site is in the table once at most.
//! - T2 a number above the shared ones and those of groups is in the table once at most.
//! - T3 `given` counts the numbers given out, no fewer than are in the table; `merged` the sites
//!   that share one of the first, `grouped` those that share one of a group.

mod numbers;

use super::SiteHash;
use super::wrappers::STEP_FIRST;
use crate::os::{Error, Os};
use crate::region::{Carve, STEP};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};
use numbers::Kind;

/// Bits of a word that are the partition's number.
pub(super) const NUMBER_BITS: u32 = 16;
/// The largest number.
pub const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;
const _: () = assert!(crate::options::PARTITIONS_MAX < STEP_FIRST);

/// Entries of level 0; each level has twice as many as the one before.
const FIRST: usize = 1024;
/// Entries of a level that a site may have.
const WINDOW: usize = 16;
/// Levels at most: entries for half a billion sites.
const LEVELS_MAX: u32 = 19;

/// A site as it stands in a word. Of an address, all that tells it from others; of any other
/// number, its low bits.
#[inline(always)]
pub const fn key_of(site: usize) -> u64 {
    (site as u64) << NUMBER_BITS
}

/// The site that a program's own number stands for: no address of code has its highest bits.
/// Numbers below 2^47 are all different; of larger ones, those with the same remainder may be the
/// same.
pub const fn site_of_token(token: u64) -> usize {
    const BITS: u32 = 47;
    let folded = token ^ (token >> BITS).wrapping_mul(0x5851_F42D_4C95_7F2D);
    let low = folded & ((1 << BITS) - 1);
    (1 << 63 | 1 << BITS | low) as usize
}

/// One site. All zero is an unowned entry.
#[repr(C)]
#[derive(Debug)]
struct Entry {
    /// The site and its number. Any thread, by compare and exchange: once from unowned, and the
    /// number seldom again.
    word: AtomicU64,
    /// Nothing yet.
    more: AtomicU64,
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// Partitions given to one site each. Any thread.
    given: AtomicU32,
    /// Sites that share a partition. Any thread.
    merged: AtomicU32,
    /// Numbers that are those of groups, the first given out. Written at the start.
    groups: AtomicU32,
    /// Sites of groups. Any thread.
    grouped: AtomicU32,
    /// How often a site was not found for lack of memory. Any thread.
    unknown: AtomicU32,
    entries: Carve,
}

/// Where the table is found from outside the process.
#[derive(Clone, Copy, Debug)]
pub struct SitesPlaces {
    /// Address of the first entry; zero where sites are hashed.
    pub entries: usize,
    /// Bytes in an entry, of which the first eight are the site and its number.
    pub entry_bytes: usize,
    /// Address of the number of bytes of entries that are mapped, 64 bits.
    pub mapped: usize,
    /// Bits of an entry's first word that are the partition's number.
    pub number_bits: u32,
    /// The first partition that one site alone has: those below are shared.
    pub first_own: usize,
    /// From here on a number is none of a partition: the site is one of a wrapper.
    pub first_code: usize,
}

/// All call sites of a process.
#[derive(Clone, Copy, Debug)]
pub struct Sites {
    /// First address of the entries.
    base: usize,
    levels: u32,
    /// Partitions for those that come late, from 1 on.
    shared: u32,
    /// Partitions for one site each, behind them.
    own: u32,
    /// Who shares which.
    hash: SiteHash,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Sites {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Sites {}

impl Sites {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Partitions below which no site can have its own.
    pub const PARTITIONS_LEAST: usize = 3;

    /// No table: sites are hashed.
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

    /// A table of `partitions`, row 0 included, in the address space from `start` to `end`.
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

    /// Whether there is a table.
    #[inline(always)]
    pub fn is_exact(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> &State {
        debug_assert!(self.is_exact());
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read where there is no table.
        unsafe { &*self.state }
    }

    fn entry(&self, number: usize) -> &Entry {
        let address = self.base + number * size_of::<Entry>();
        // SAFETY: `new` duty 2, and `entry_of` has mapped the level; all-zero is an `Entry`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The number of a site's partition, which it gets if it has none yet; or what `code` says at
    /// that moment: a code, or a group's number. Without memory for the table it shares one, this
    /// time.
    pub fn number(&self, os: &impl Os, site: usize, code: impl Fn() -> Option<usize>) -> usize {
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
        os: &impl Os,
        site: usize,
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

    /// The number or code of a site that is in the table, and which entry it has.
    pub fn find(&self, site: usize) -> Option<(usize, usize)> {
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
                // find site: pairs with the exchanges of `find_or_add` and `turn`.
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

    /// A site turns out to be one of a wrapper, which `code` looks through. The partition that it
    /// had so far stays as it is, and no other site gets it. Returns true if this call made the
    /// change.
    pub fn turn_into_code(
        &self,
        (number, entry): (usize, usize),
        site: usize,
        code: usize,
    ) -> bool {
        debug_assert!(number < STEP_FIRST && code >= STEP_FIRST);
        let turned = self.turn(entry, site, number as u64, code as u64);
        if turned && self.kind(number) != Kind::Own {
            self.take_back(number as u64);
        }
        turned
    }

    /// Reverses that, with a partition that was never used. Returns true if this call made the
    /// change.
    pub fn turn_back(&self, (code, entry): (usize, usize), site: usize) -> bool {
        debug_assert!(code >= STEP_FIRST);
        let number = self.give(site);
        let turned = self.turn(entry, site, code as u64, number);
        if !turned {
            self.take_back(number);
        }
        turned
    }

    fn turn(&self, entry: usize, site: usize, from: u64, to: u64) -> bool {
        let (word, key) = (&self.entry(entry).word, key_of(site));
        word.compare_exchange(key | from, key | to, AcqRel, Relaxed).is_ok()
    }

    /// Tells each site that is known, and its partition.
    pub fn for_each(&self, mut each: impl FnMut(usize, usize)) {
        if !self.is_exact() {
            return;
        }
        for number in 0..self.state().entries.mapped() / size_of::<Entry>() {
            let word = self.entry(number).word.load(Acquire);
            if word != 0 {
                each((word >> NUMBER_BITS) as usize, (word & NUMBER_MAX) as usize);
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

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os) {
        if self.is_exact() {
            self.state().entries.repair(os, self.base);
        }
    }

    /// Where the table is found from outside the process.
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

    /// Bytes of metadata mapped for the table.
    pub fn mapped_bytes(&self) -> usize {
        if self.is_exact() { self.state().entries.mapped() } else { 0 }
    }
}

/// Where a site is looked for first, in the upper bits.
fn first_place(key: u64) -> u64 {
    let product = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests;
