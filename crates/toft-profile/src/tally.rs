//! What each call site has ever had in large blocks: the library counts that where they are made.

use crate::memory::read_word;
use crate::{Error, Memory, Tables};

/// The most bytes of entries that are believed.
const BYTES_MOST: u64 = 1 << 30;

/// What a call site has had in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    /// The site.
    pub site: u64,
    /// The partition.
    pub partition: u32,
    /// Blocks.
    pub blocks: u64,
    /// Their bytes, with those by which they have grown in place.
    pub bytes: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In no order.
    pub made: Vec<Made>,
    /// Blocks for which the process had no memory to count them.
    pub missed: u64,
}

impl Tables {
    /// What was ever had in large blocks.
    pub fn tally(&self, memory: &impl Memory) -> Result<Tally, Error> {
        let root = &self.root;
        let mut tally = Tally::default();
        if root.tally == 0 {
            return Ok(tally);
        }
        let unread = || memory.unread("the counts of large blocks cannot be read");
        tally.missed = read_word(memory, root.tally_missed).ok_or_else(unread)?;
        let mapped = read_word(memory, root.tally_mapped).ok_or_else(unread)?;
        if mapped > BYTES_MOST || root.tally.saturating_add(mapped) > root.end {
            return Err(Error::Nonsense(memory.pid(), "the counts of large blocks"));
        }
        let mut bytes = vec![0; mapped as usize];
        if memory.read(root.tally, &mut bytes) != bytes.len() {
            return Err(unread());
        }
        for entry in bytes.chunks_exact(root.tally_bytes as usize) {
            let word = |at: u64| {
                let word =
                    entry.get(at as usize..at as usize + 8).and_then(|word| word.try_into().ok());
                word.map_or(0, u64::from_le_bytes)
            };
            let partition = word(0) & ((1 << root.tally_partition_bits) - 1);
            let site = word(root.tally_site);
            // Not in use, or not filled yet.
            if partition == 0 || site == 0 {
                continue;
            }
            let (blocks, bytes) = (word(root.tally_blocks), word(root.tally_allocated));
            tally.made.push(Made { site, partition: partition as u32 - 1, blocks, bytes });
        }
        Ok(tally)
    }
}
