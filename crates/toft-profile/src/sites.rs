//! The table of call sites: which partition each draws from. It exists where sites are exact.

use crate::memory::read_word;
use crate::{Error, Memory, Tables};

/// The most entries that are believed: all the call sites of a very large program, a hundred times.
const ENTRIES_MOST: u64 = 1 << 26;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// A call site and its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The partition that it draws from.
    pub partition: u32,
    /// Where the call returns to.
    pub address: u64,
    /// Whether no other site draws from that partition.
    pub own: bool,
}

impl Tables {
    /// Whether each call site has a separate partition, until they are used up.
    pub fn sites_are_exact(&self) -> bool {
        self.root.sites != 0
    }

    /// The call sites that have allocated something, by partition; none where sites are hashed.
    pub fn sites(&self, memory: &impl Memory) -> Result<Vec<Site>, Error> {
        let root = &self.root;
        let mut sites = Vec::new();
        self.for_each_site(memory, |address, partition| {
            // A site in a wrapper allocates nothing for itself.
            if partition < root.site_first_code {
                let own = partition >= root.site_first_own;
                sites.push(Site { partition: partition as u32, address, own });
            }
        })?;
        sites.sort_unstable();
        Ok(sites)
    }

    /// The call sites in wrappers of malloc, of which the callers count. What is told as theirs was
    /// allocated before that was found out.
    pub fn wrappers(&self, memory: &impl Memory) -> Result<Vec<u64>, Error> {
        let mut sites = Vec::new();
        self.for_each_site(memory, |address, partition| {
            if partition >= self.root.site_first_code {
                sites.push(address);
            }
        })?;
        Ok(sites)
    }

    /// Each call site, and its partition or its code; none where sites are hashed.
    fn for_each_site(
        &self,
        memory: &impl Memory,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let root = &self.root;
        if !self.sites_are_exact() {
            return Ok(());
        }
        let mapped = read_word(memory, root.sites_mapped)
            .ok_or_else(|| memory.unread("the number of call sites cannot be read"))?;
        let end = root.sites.saturating_add(mapped.min(ENTRIES_MOST * root.site_bytes));
        if end > root.end {
            return Err(Error::Nonsense(memory.pid(), "the table of call sites"));
        }
        let step = PIECE / root.site_bytes * root.site_bytes;
        let mut at = root.sites;
        while at < end {
            let mut bytes = vec![0; step.min(end - at) as usize];
            let got = memory.read(at, &mut bytes);
            if got != bytes.len() {
                return Err(memory.unread("the table of call sites cannot be read"));
            }
            for entry in bytes.chunks_exact(root.site_bytes as usize) {
                let word = entry.first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
                let partition = word & ((1 << root.site_partition_bits) - 1);
                if word != 0 {
                    each(word >> root.site_partition_bits, partition);
                }
            }
            at += step;
        }
        Ok(())
    }
}
