//! Counts of the large blocks that each call site has ever allocated.
//!
//! A block's descriptor names only the last call site that allocated it. The next one may be
//! another call site of the same partition. A separate table therefore counts allocations by (site,
//! partition). It grows as needed. An allocation costs one look-up and two additions there. The
//! freed blocks of a call site are those that it has allocated and that are not live.

use crate::os::Memory;
use crate::region::{Carve, Keyed, Levels, Partition, STEP, Site};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use core::mem::offset_of;

/// The low bits of a key that are the partition plus one. No key is zero.
const PARTITION_BITS: u32 = 16;
const _: () = assert!(crate::options::PARTITIONS_MAX + 1 < 1 << PARTITION_BITS);

/// The counts of one call site in one partition. Any thread adds to them.
#[repr(C)]
#[derive(Debug)]
struct Entry {
    /// The site's low bits and the partition plus one.
    key: AtomicU64,
    /// The site. Zero until the first thread that counts here has stored it. All threads store the
    /// same value.
    site: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
}

// SAFETY: (1), (2) the type is four atomic numbers.
unsafe impl Keyed for Entry {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
}

/// The state of the table, which is in the metadata tables and zero at first.
#[repr(C)]
#[derive(Debug)]
struct State {
    carve: Carve,
    /// The blocks, and their bytes, that were not counted because the table could not grow. Any
    /// thread adds.
    missed: [AtomicU64; 2],
}

/// The large blocks that a call site has allocated in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The site.
    pub site: Site,
    /// The partition.
    pub partition: Partition,
    /// The number of blocks that it has allocated.
    pub blocks: u64,
    /// The bytes of these blocks when they were allocated, plus those by which they have grown.
    pub bytes: u64,
}

/// The addresses of the table and the offsets of its fields, for readers outside the process.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TallyPlaces {
    pub entries: usize,
    pub first: usize,
    pub first_bytes: usize,
    pub mapped: usize,
    pub entry_bytes: usize,
    pub site: usize,
    pub blocks: usize,
    pub bytes: usize,
    /// The number of low bits of an entry's first word that are the partition plus one.
    pub partition_bits: u32,
    /// The address of two numbers: the blocks that were not counted, and their bytes.
    pub missed: usize,
}

/// The counts of all call sites, in a table that grows.
#[derive(Debug)]
pub struct Tally {
    entries: Levels<Entry>,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Tally {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Tally {}

impl Tally {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();
    /// Bytes of the first entries, for two thousand call sites.
    pub const FIRST_BYTES: usize = STEP;

    /// Returns a tally that counts nothing.
    pub const fn none() -> Tally {
        Tally { entries: Levels::none(), state: core::ptr::null() }
    }

    /// Returns a tally whose first entries are at `first`. Its table grows in the address space
    /// `window`.
    ///
    /// # Safety
    /// 1. `table` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `window` is address space for this object alone, and begins with a page.
    /// 3. `first` is the address of `FIRST_BYTES` zero bytes that live for ever, are aligned to a
    ///    cache line, and belong to this object alone.
    pub unsafe fn new(window: (usize, usize), table: usize, first: usize) -> Tally {
        let carve = table + offset_of!(State, carve);
        // SAFETY: (1) to (3) the caller's; a `State` begins with its `Carve`.
        let entries = unsafe { Levels::new(window, carve).with_first((first, Self::FIRST_BYTES)) };
        Tally { entries, state: core::ptr::with_exposed_provenance(table) }
    }

    fn state(&self) -> Option<&State> {
        // SAFETY: `new` duty 1, or null; all-zero is a `State`.
        unsafe { self.state.as_ref() }
    }

    /// Adds blocks that a call site has allocated, and bytes, which may be those by which a block
    /// has grown. They are missed if the table has to grow and there is no memory, or `os` is
    /// `None`.
    pub(super) fn add(
        &self,
        os: Option<&impl Memory>,
        site: Site,
        partition: Partition,
        [blocks, bytes]: [u64; 2],
    ) {
        if [blocks, bytes] == [0, 0] {
            return;
        }
        let Some(state) = self.state() else { return };
        let key = (site.address() as u64) << PARTITION_BITS | (partition.number() as u64 + 1);
        match self.entries.find_or_add(os, key) {
            Ok(entry) => {
                if entry.site.load(Relaxed) == 0 {
                    entry.site.store(site.address() as u64, Relaxed);
                }
                entry.blocks.fetch_add(blocks, Relaxed);
                entry.bytes.fetch_add(bytes, Relaxed);
            }
            Err(_) => {
                for (missed, more) in state.missed.iter().zip([blocks, bytes]) {
                    missed.fetch_add(more, Relaxed);
                }
            }
        }
    }

    /// Calls `each` with the counts of each call site and partition.
    pub fn for_each(&self, mut each: impl FnMut(Made)) {
        self.entries.for_each(|entry| {
            let number = (entry.key.load(Relaxed) & ((1 << PARTITION_BITS) - 1)) as usize - 1;
            let partition = Partition::new(number);
            let site = Site::at(entry.site.load(Relaxed) as usize);
            let (blocks, bytes) = (entry.blocks.load(Relaxed), entry.bytes.load(Relaxed));
            each(Made { site, partition, blocks, bytes });
        });
    }

    /// Returns the number of blocks that were not counted for lack of memory, and their bytes.
    pub fn missed(&self) -> [u64; 2] {
        self.state()
            .map_or([0, 0], |state| state.missed.each_ref().map(|count| count.load(Relaxed)))
    }

    /// Returns where a reader outside the process finds the table.
    pub fn places(&self) -> TallyPlaces {
        let (entries, mapped) = self.entries.places();
        let (first, first_bytes) = self.entries.first();
        TallyPlaces {
            entries,
            first,
            first_bytes,
            mapped,
            entry_bytes: size_of::<Entry>(),
            site: offset_of!(Entry, site),
            blocks: offset_of!(Entry, blocks),
            bytes: offset_of!(Entry, bytes),
            partition_bits: PARTITION_BITS,
            missed: self.state().map_or(0, |state| (&raw const state.missed).addr()),
        }
    }

    /// Returns the number of bytes mapped for the table.
    pub fn mapped_bytes(&self) -> usize {
        self.entries.mapped_bytes()
    }

    /// Finishes a mapping that another thread had begun at a fork. Called in the child.
    pub fn repair(&self, os: &impl Memory) {
        self.entries.repair(os);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};

    fn tally(bytes: usize) -> (Fake, Tally) {
        let fake = Fake::new(Machine::LARGE);
        let table = fake.address_space().start.next_multiple_of(1 << 40);
        fake.map(table, 4096 + Tally::FIRST_BYTES).unwrap();
        let start = table + (1 << 30);
        // SAFETY: (1), (3) mapped above; (2) the fake's address space is not used otherwise.
        let tally = unsafe { Tally::new((start, start + bytes), table, table + 4096) };
        (fake, tally)
    }

    #[test]
    fn each_site_and_partition_has_separate_counts() {
        let (fake, tally) = tally(1 << 20);
        let sites = [Site::at(0x40_1000), Site::at(0x40_1005), Site::of_token(7)];
        for (number, site) in (1..).zip(sites) {
            for partition in [0, 63].map(Partition::new) {
                (0..number)
                    .for_each(|_| tally.add(Some(&fake), site, partition, [1, 1000 * number]));
                tally.add(Some(&fake), site, partition, [0, 5]);
            }
        }
        let mut seen = std::vec::Vec::new();
        tally.for_each(|made| seen.push((made.site, made.partition, made.blocks, made.bytes)));
        seen.sort_unstable();
        let wanted: std::vec::Vec<_> = (1..)
            .zip(sites)
            .flat_map(|(n, site)| [0, 63].map(|p| (site, Partition::new(p), n, 1000 * n * n + 5)))
            .collect();
        assert_eq!(seen, wanted);
        assert_eq!(tally.missed(), [0, 0]);
    }

    #[test]
    fn blocks_without_memory_for_a_count_are_missed() {
        let (fake, tally) = tally(0);
        tally.add(Some(&fake), Site::at(0x40_1000), Partition::new(3), [1, 1 << 20]);
        tally.add(Some(&fake), Site::at(0x40_1000), Partition::new(3), [1, 1 << 20]);
        assert_eq!(tally.missed(), [2, 2 << 20]);
        tally.for_each(|made| panic!("{made:?}"));
    }
}
