//! The large blocks that each call site has ever allocated. The library counts them where they are
//! made.

use crate::bytes::u64_at;
use crate::entries::Entries;
use crate::memory::read_u64;
use crate::{Error, Memory, Tables};

/// The most bytes of entries that are believed.
const BYTES_MOST: u64 = 1 << 30;

/// The large blocks of a call site in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    /// The address that the call returns to.
    pub site: u64,
    /// The partition.
    pub partition: u32,
    /// Blocks that were ever allocated.
    pub blocks: u64,
    /// Bytes of these blocks, with those by which they grew in place.
    pub bytes: u64,
}

/// The counts of all call sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The call sites, in no order.
    pub made: Vec<Made>,
    /// Blocks that the process had no memory to count.
    pub missed: u64,
}

impl Tables {
    /// Returns the large blocks that were ever allocated.
    pub fn tally(&self, memory: &impl Memory) -> Result<Tally, Error> {
        let root = &self.root;
        let mut tally = Tally::default();
        if root.tally == 0 {
            return Ok(tally);
        }
        let table = Entries {
            name: "the counts of large blocks",
            start: root.tally,
            first: (root.tally_first, root.tally_first_bytes),
            mapped: root.tally_mapped,
            entry: root.tally_bytes,
            most: BYTES_MOST,
        };
        let missed = read_u64(memory, root.tally_missed);
        tally.missed = missed.ok_or_else(|| memory.unread(table.name))?;
        self.for_each_entry(memory, &table, |entry| {
            let word = |at: u64| u64_at(entry, at as usize);
            let partition = word(0) & ((1 << root.tally_partition_bits) - 1);
            let site = word(root.tally_site);
            // Zero in an entry that is not in use, or not filled yet.
            if partition != 0 && site != 0 {
                let (blocks, bytes) = (word(root.tally_blocks), word(root.tally_allocated));
                tally.made.push(Made { site, partition: partition as u32 - 1, blocks, bytes });
            }
            Ok(())
        })?;
        Ok(tally)
    }
}
