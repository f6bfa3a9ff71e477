//! What each call site has ever had in large blocks, counted where they are made.
//!
//! A block's descriptor names the last call site that had it, and its next owner may be another one
//! of the same partition. So what was had is counted beside it, by (site, partition), in a table
//! that grows: one look-up and two additions for a block of more than 128 KiB. What was freed is
//! what was had and does not live.

use crate::os::Os;
use crate::region::{Carve, Keyed, Levels};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use core::mem::offset_of;

/// Bits of a key that are the partition, plus one, so that no key is zero.
const PARTITION_BITS: u32 = 16;
const _: () = assert!(crate::options::PARTITIONS_MAX + 1 < 1 << PARTITION_BITS);

/// What one call site has had in one partition. Any thread adds.
#[repr(C)]
#[derive(Debug)]
struct Entry {
    /// The site's low bits and the partition plus one.
    key: AtomicU64,
    /// The site. Any thread that counts there, and always the same; zero for a moment.
    site: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
}

// SAFETY: (1), (2) four atomic numbers.
unsafe impl Keyed for Entry {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
}

/// Lives in the metadata tables, zero at first.
#[repr(C)]
#[derive(Debug)]
struct State {
    carve: Carve,
    /// Blocks, and their bytes, for which there was no memory in the table. Any thread adds.
    missed: [AtomicU64; 2],
}

/// What a call site has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The site.
    pub site: usize,
    /// The partition.
    pub partition: usize,
    /// Blocks that were handed out to it.
    pub blocks: u64,
    /// Their bytes when they were, and those by which they have grown in place.
    pub bytes: u64,
}

/// Where the table is found from outside the process, and where the fields of its entries lie.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TallyPlaces {
    pub entries: usize,
    pub mapped: usize,
    pub entry_bytes: usize,
    pub site: usize,
    pub blocks: usize,
    pub bytes: usize,
    /// Low bits of an entry's first word that are the partition plus one.
    pub partition_bits: u32,
    /// Address of two numbers: what was not counted for lack of memory.
    pub missed: usize,
}

/// The counts of all call sites.
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

    /// Nothing is counted.
    pub const fn none() -> Tally {
        Tally { entries: Levels::none(), state: core::ptr::null() }
    }

    /// Counts in the address space `window`.
    ///
    /// # Safety
    /// 1. `table` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `window` is address space for this object alone, and begins with a page.
    pub unsafe fn new(window: (usize, usize), table: usize) -> Tally {
        // SAFETY: (1), (2) the caller's; a `State` begins with its `Carve`.
        let entries = unsafe { Levels::new(window, table + offset_of!(State, carve)) };
        Tally { entries, state: core::ptr::with_exposed_provenance(table) }
    }

    fn state(&self) -> Option<&State> {
        // SAFETY: `new` duty 1, or null; all-zero is a `State`.
        unsafe { self.state.as_ref() }
    }

    /// A block was made.
    pub(super) fn made(&self, os: &impl Os, site: usize, partition: usize, bytes: usize) {
        self.add(os, site, partition, [1, bytes as u64]);
    }

    /// A block has grown by `bytes`, or not at all.
    pub(super) fn grown(&self, os: &impl Os, site: usize, partition: usize, bytes: usize) {
        if bytes > 0 {
            self.add(os, site, partition, [0, bytes as u64]);
        }
    }

    fn add(&self, os: &impl Os, site: usize, partition: usize, [blocks, bytes]: [u64; 2]) {
        let Some(state) = self.state() else { return };
        let key = (site as u64) << PARTITION_BITS | (partition as u64 + 1);
        match self.entries.find_or_add(os, key) {
            Ok(entry) => {
                if entry.site.load(Relaxed) == 0 {
                    entry.site.store(site as u64, Relaxed);
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

    /// What each call site has ever had.
    pub fn for_each(&self, mut each: impl FnMut(Made)) {
        self.entries.for_each(|entry| {
            let partition = (entry.key.load(Relaxed) & ((1 << PARTITION_BITS) - 1)) as usize - 1;
            let site = entry.site.load(Relaxed) as usize;
            let (blocks, bytes) = (entry.blocks.load(Relaxed), entry.bytes.load(Relaxed));
            each(Made { site, partition, blocks, bytes });
        });
    }

    /// Blocks that were not counted for lack of memory, and their bytes.
    pub fn missed(&self) -> [u64; 2] {
        self.state()
            .map_or([0, 0], |state| state.missed.each_ref().map(|count| count.load(Relaxed)))
    }

    /// Where it is found from outside the process.
    pub fn places(&self) -> TallyPlaces {
        let (entries, mapped) = self.entries.places();
        TallyPlaces {
            entries,
            mapped,
            entry_bytes: size_of::<Entry>(),
            site: offset_of!(Entry, site),
            blocks: offset_of!(Entry, blocks),
            bytes: offset_of!(Entry, bytes),
            partition_bits: PARTITION_BITS,
            missed: self.state().map_or(0, |state| (&raw const state.missed).addr()),
        }
    }

    /// Bytes of metadata mapped for it.
    pub fn mapped_bytes(&self) -> usize {
        self.entries.mapped_bytes()
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os) {
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
        fake.map(table, 4096).unwrap();
        let start = table + (1 << 30);
        // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
        let tally = unsafe { Tally::new((start, start + bytes), table) };
        (fake, tally)
    }

    #[test]
    fn sites_and_partitions_are_told_apart() {
        let (fake, tally) = tally(1 << 20);
        // A token of the program's own has its highest bit set.
        let sites = [0x40_1000, 0x40_1005, 1 << 63 | 1 << 47 | 7];
        for (number, site) in (1..).zip(sites) {
            for partition in [0, 63] {
                (0..number).for_each(|_| tally.made(&fake, site, partition, 1000 * number));
                tally.grown(&fake, site, partition, 5);
            }
        }
        let mut seen = std::vec::Vec::new();
        tally.for_each(|made| seen.push((made.site, made.partition, made.blocks, made.bytes)));
        seen.sort_unstable();
        let wanted: std::vec::Vec<_> = (1..)
            .zip(sites)
            .flat_map(|(n, site)| [0, 63].map(|p| (site, p, n, 1000 * n * n + 5)))
            .collect();
        assert_eq!(seen, wanted);
        assert_eq!(tally.missed(), [0, 0]);
    }

    #[test]
    fn what_finds_no_memory_is_counted_as_missed() {
        let (fake, tally) = tally(0);
        tally.made(&fake, 0x40_1000, 3, 1 << 20);
        tally.made(&fake, 0x40_1000, 3, 1 << 20);
        assert_eq!(tally.missed(), [2, 2 << 20]);
        tally.for_each(|made| panic!("{made:?}"));
    }
}
