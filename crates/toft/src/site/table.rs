//! The process's call sites and their partitions, in exact mode.
//!
//! ```text
//! level 0  1024 entries   level 1  2048   level 2  4096   ...      one behind the other, mapped as needed
//! entry    site, 48 bits | partition, 16 bits      a word of its own for what else is known
//! ```
//!
//! A site is looked for in a few places of each level, in order, and the first empty one is its own; where
//! all are taken, in the next level. Nothing is ever taken out. So two threads that bring the same site at
//! the same time compete for the same place, and one of them finds what the other has put there.
//!
//! Row 0 is nobody's (see the [module](super)). The next ones are for sites that come when all partitions
//! of their own are given out: they share these by a keyed hash, and no other site ever does. The rest are
//! given out in order, the first of them to the groups of sites that [hints](super::Hints) tell of.
//!
//! Numbers that no partition has say how to come from a site in a [wrapper](super::Wrappers) to its caller's. Where that is
//! found out late, the number is exchanged for such a one, once; the partition is never given out again.
//!
//! Invariants:
//! - T1 a site is in the table once at most.
//! - T2 a number above the shared ones and those of groups is in the table once at most.
//! - T3 `given` counts the numbers given out, no fewer than are in the table; `merged` the sites that share one of the
//!   first, `grouped` those that share one of a group.

use super::SiteHash;
use super::wrappers::STEP_FIRST;
use crate::os::{Error, Os};
use crate::region::{Carve, STEP};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

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

/// A site as it stands in a word. Of an address, all that tells it from others; of any other number, its
/// low bits.
#[inline(always)]
pub const fn key_of(site: usize) -> u64 {
    (site as u64) << NUMBER_BITS
}

/// The site that a program's own number stands for: no address of code has its highest bits. Numbers below 2^47
/// are all different; of larger ones, those with the same remainder may be the same.
pub const fn site_of_token(token: u64) -> usize {
    const BITS: u32 = 47;
    let folded = token ^ (token >> BITS).wrapping_mul(0x5851_F42D_4C95_7F2D);
    let low = folded & ((1 << BITS) - 1);
    (1 << 63 | 1 << BITS | low) as usize
}

/// One site. All zero is nobody's.
#[repr(C)]
#[derive(Debug)]
struct Entry {
    /// The site and its number. Any thread, by compare and exchange: once from nobody's, and the number seldom again.
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
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this object
    ///    alone.
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
        // SAFETY: `new` duty 1; all-zero is a `State`. Nobody asks where there is no table.
        unsafe { &*self.state }
    }

    fn entry(&self, number: usize) -> &Entry {
        let address = self.base + number * size_of::<Entry>();
        // SAFETY: `new` duty 2, and `entry_of` has mapped the level; all-zero is an `Entry`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Sets numbers aside for so many groups, or as many as there are. Before any site comes.
    pub fn reserve(&self, groups: usize) {
        if self.is_exact() {
            let groups = (groups as u32).min(self.own);
            self.state().groups.store(groups, Relaxed);
            self.state().given.store(groups, Relaxed);
        }
    }

    fn groups(&self) -> usize {
        self.state().groups.load(Relaxed) as usize
    }

    /// The first number that one site has for itself.
    fn first_own(&self) -> usize {
        1 + self.shared as usize + self.groups()
    }

    /// The number of a group's partition; where none was left for it, one that `site` shares anyway.
    pub fn group_number(&self, group: usize, site: usize) -> usize {
        if group < self.groups() {
            1 + self.shared as usize + group
        } else {
            self.shared_number(site)
        }
    }

    /// The number of a site's partition, which it gets if it has none yet; or what `code` says at that moment: a
    /// code, or a group's number. Without memory for the table it shares one, this time.
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

    /// A site turns out to be one of a wrapper, which `code` looks through. The partition that it had so far stays as
    /// it is, and is nobody else's. Says whether it was this call that said so.
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

    /// The same backwards, with a partition that nobody has had. Says whether it was this call that said so.
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

    /// A partition for a site that is not in the table: its own, while there are such.
    fn give(&self, site: usize) -> u64 {
        let state = self.state();
        let next = |given: u32| (given < self.own).then_some(given + 1);
        match state.given.fetch_update(AcqRel, Acquire, next) {
            Ok(given) => u64::from(1 + self.shared + given),
            Err(_) => {
                state.merged.fetch_add(1, Relaxed);
                self.shared_number(site) as u64
            }
        }
    }

    /// What a site is to have that is in nobody's gift: a code, or a number that it shares.
    fn take(&self, code: usize) -> u64 {
        match self.kind(code) {
            Kind::Group => {
                self.state().grouped.fetch_add(1, Relaxed);
            }
            Kind::Shared => {
                self.state().merged.fetch_add(1, Relaxed);
            }
            Kind::Own | Kind::Code => {}
        }
        code as u64
    }

    /// Another thread was faster. Its number is free again, if none was given out since; else lost.
    fn take_back(&self, number: u64) {
        let state = self.state();
        match self.kind(number as usize) {
            Kind::Code => {}
            Kind::Own => {
                let given = number as u32 - 1 - self.shared;
                let _ = state.given.compare_exchange(given + 1, given, AcqRel, Relaxed);
            }
            Kind::Group => {
                state.grouped.fetch_sub(1, Relaxed);
            }
            Kind::Shared => {
                state.merged.fetch_sub(1, Relaxed);
            }
        }
    }

    fn kind(&self, number: usize) -> Kind {
        if number >= STEP_FIRST {
            Kind::Code
        } else if number >= self.first_own() {
            Kind::Own
        } else if number > self.shared as usize {
            Kind::Group
        } else {
            Kind::Shared
        }
    }

    /// The partition that a site has where all others are given out.
    pub fn shared_number(&self, site: usize) -> usize {
        1 + self.hash.partition(site)
    }

    /// Whether one site has a partition for itself, and for certain.
    pub fn is_own(&self, partition: usize) -> bool {
        self.is_exact() && partition >= self.first_own()
    }

    /// Partitions that may have something, the empty one included, of `all` that there are.
    #[inline]
    pub fn rows(&self, all: usize) -> usize {
        if self.is_exact() {
            (1 + self.shared + self.state().given.load(Acquire)) as usize
        } else {
            all
        }
    }

    /// Sites that have a partition of their own; sites that share one, because they came late.
    pub fn counts(&self) -> (usize, usize) {
        if !self.is_exact() {
            return (0, 0);
        }
        let state = self.state();
        let given = state.given.load(Relaxed) as usize;
        (given.saturating_sub(self.groups()), state.merged.load(Relaxed) as usize)
    }

    /// Sites that share one because hints say so.
    pub fn grouped(&self) -> usize {
        if self.is_exact() { self.state().grouped.load(Relaxed) as usize } else { 0 }
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

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A partition of those that come late.
    Shared,
    /// One of a group.
    Group,
    /// One of one site.
    Own,
    /// No partition: the site is one of a wrapper.
    Code,
}

/// Where a site is looked for first, in the upper bits.
fn first_place(key: u64) -> u64 {
    let product = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};

    fn table(partitions: usize, bytes: usize) -> (Fake, Sites) {
        let fake = Fake::new(Machine::LARGE);
        let tables = fake.address_space().start.next_multiple_of(1 << 40);
        fake.map(tables, 4096).unwrap();
        let start = tables + (1 << 30);
        // SAFETY: (1) mapped above; (2) nobody else uses the fake's address space.
        let sites = unsafe { Sites::new((start, start + bytes), partitions, 0x1234_5679, tables) };
        (fake, sites)
    }

    fn number(sites: &Sites, fake: &Fake, site: usize) -> usize {
        sites.number(fake, site, || None)
    }

    #[test]
    fn each_site_has_a_partition_of_its_own_until_they_are_used_up() {
        let (fake, sites) = table(256, 1 << 24);
        let own = 256 - 1 - 4;
        let mut seen = std::collections::HashSet::new();
        for i in 0..own {
            let number = number(&sites, &fake, 0x5555_0000_0000 + 16 * i);
            assert!((5..256).contains(&number) && seen.insert(number), "{i}: {number}");
        }
        assert_eq!((sites.counts(), sites.rows(256)), ((own, 0), 256));
        // Those that come later have none of these, whoever comes.
        let mut shared = std::collections::HashSet::new();
        for i in 0..1000 {
            let number = number(&sites, &fake, 0x6666_0000_0000 + 16 * i);
            assert!((1..5).contains(&number));
            shared.insert(number);
        }
        assert_eq!((shared.len(), sites.counts()), (4, (own, 1000)));
        // And all find theirs again.
        for i in 0..own {
            assert_eq!(number(&sites, &fake, 0x5555_0000_0000 + 16 * i), 5 + i);
        }
        assert_eq!(sites.counts(), (own, 1000));
        sites.check().unwrap();
    }

    #[test]
    fn it_grows_as_far_as_there_is_room_and_says_what_it_could_not_keep() {
        let (fake, sites) = table(4096, 7 * FIRST * size_of::<Entry>());
        assert_eq!(sites.levels, 3);
        let count = |limit: usize| {
            for i in 0..limit {
                number(&sites, &fake, 0x7000_0000_0000 + 5 * i);
            }
        };
        count(6 * FIRST);
        let full = sites.counts();
        assert_eq!(full.0 + full.1 + sites.state().unknown.load(Relaxed) as usize, 6 * FIRST);
        count(100_000);
        let full = sites.counts();
        assert!(full.0 + full.1 <= 7 * FIRST && full.0 + full.1 > 6 * FIRST, "{full:?}");
        assert!(sites.state().unknown.load(Relaxed) > 90_000);
        sites.check().unwrap();
    }

    #[test]
    fn threads_that_bring_the_same_sites_agree() {
        let (fake, sites) = table(4096, 1 << 24);
        let all: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let run = || (0..3000).map(|i| number(&sites, &fake, 0x5000 + 4 * i)).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|numbers| *numbers == all[0]));
        sites.check().unwrap();
    }

    #[test]
    fn tokens_are_sites_that_no_code_has() {
        let tokens = [0, 1, 2, 0x5555_5555_4000, (1 << 47) - 1, 1 << 47, u64::MAX];
        let keys: std::collections::HashSet<u64> =
            tokens.iter().map(|&token| key_of(site_of_token(token))).collect();
        assert_eq!(keys.len(), tokens.len());
        assert!(tokens.iter().all(|&token| key_of(site_of_token(token)) >> 63 == 1));
        assert_ne!(key_of(0x5555_5555_4000), key_of(site_of_token(0x5555_5555_4000)));
    }

    #[test]
    fn sites_of_wrappers_take_no_partition() {
        let (fake, sites) = table(64, 1 << 24);
        let code = sites.number(&fake, 0x1000, || Some(STEP_FIRST + 5));
        assert_eq!((code, sites.counts(), sites.rows(64)), (STEP_FIRST + 5, (0, 0), 2));
        assert_eq!(sites.number(&fake, 0x1000, || panic!("it is known")), STEP_FIRST + 5);
        assert_eq!(number(&sites, &fake, 0x2000), 2);
        sites.check().unwrap();
    }

    #[test]
    fn a_site_that_turns_out_to_be_a_wrapper_s_leaves_its_partition_to_nobody() {
        let (fake, sites) = table(64, 1 << 24);
        assert_eq!((number(&sites, &fake, 0x1000), sites.find(0x2000)), (2, None));
        let known = sites.find(0x1000).unwrap();
        assert!(sites.turn_into_code(known, 0x1000, STEP_FIRST + 5));
        assert!(!sites.turn_into_code(known, 0x1000, STEP_FIRST + 6), "another was faster");
        assert_eq!(number(&sites, &fake, 0x1000), STEP_FIRST + 5);
        assert_eq!((number(&sites, &fake, 0x2000), sites.rows(64)), (3, 4));
        sites.check().unwrap();
        // And back: never to the partition that it had.
        let known = sites.find(0x1000).unwrap();
        assert!(sites.turn_back(known, 0x1000) && !sites.turn_back(known, 0x1000));
        assert_eq!((number(&sites, &fake, 0x1000), number(&sites, &fake, 0x3000)), (4, 5));
        sites.check().unwrap();
        // One that shares does not count among those that do any more.
        (0..100).for_each(|i| assert_ne!(number(&sites, &fake, 0x9000 + i), 0));
        let ((own, merged), last) = (sites.counts(), sites.find(0x9000 + 99).unwrap());
        assert!(last.0 == 1 && sites.turn_into_code(last, 0x9000 + 99, STEP_FIRST));
        assert_eq!(sites.counts(), (own, merged - 1));
    }

    #[test]
    fn sites_of_a_group_share_one_and_no_other_has_it() {
        let (fake, sites) = table(64, 1 << 24);
        sites.reserve(3);
        let group =
            |group, site| sites.number(&fake, site, || Some(sites.group_number(group, site)));
        let shared = [group(0, 0x1000), group(2, 0x2000), group(0, 0x3000), group(2, 0x2000)];
        assert_eq!((shared, sites.counts(), sites.grouped()), ([2, 4, 2, 4], (0, 0), 3));
        let own: std::collections::HashSet<usize> =
            (0..60).map(|i| number(&sites, &fake, 0x5000 + 16 * i)).collect();
        // The one that is nobody's, the one of those that come late, and three of groups.
        assert!(own.contains(&1) && own.contains(&5) && own.contains(&63) && own.len() == 60);
        assert!((2..5).all(|number| !own.contains(&number)));
        // What sites share by a hint is none's own.
        assert!((0..5).all(|number| !sites.is_own(number)) && sites.is_own(5));
        assert_eq!((sites.counts(), sites.places().first_own), ((59, 1), 5));
        sites.check().unwrap();
        // Who has no number left is with those that come late.
        assert_eq!(group(3, 0x9000), 1);
        assert_eq!((sites.counts(), sites.grouped()), ((59, 2), 3));
        sites.check().unwrap();
        sites.state().grouped.store(4, Relaxed);
        assert!(sites.check().unwrap_err().contains("T3"));
    }

    #[test]
    fn threads_that_bring_the_same_sites_of_groups_take_nothing_back() {
        let (fake, sites) = table(4096, 1 << 24);
        sites.reserve(1);
        std::thread::scope(|scope| {
            let run = || {
                for site in 0..3000 {
                    sites.number(&fake, 0x5000 + 4 * site, || Some(sites.group_number(0, site)));
                }
            };
            (0..4).for_each(|_| {
                scope.spawn(run);
            });
        });
        assert_eq!((sites.counts(), sites.grouped()), ((0, 0), 3000));
        assert_eq!(number(&sites, &fake, 0x1), 1 + 64 + 1);
        sites.check().unwrap();
    }

    #[test]
    fn a_table_without_memory_shares_for_now() {
        let (fake, sites) = table(4096, 0);
        assert!((1..65).contains(&number(&sites, &fake, 0x1234)));
        assert_eq!((sites.counts(), sites.levels), ((0, 0), 0));
    }
}
