//! The table of call sites: which partition each draws from. It exists where sites are exact.

use crate::bytes::u64_at;
use crate::entries::Entries;
use crate::{Error, Memory, Tables};

/// The most entries that are believed: all the call sites of a very large program, a hundred times.
const ENTRIES_MOST: u64 = 1 << 26;

/// A call site and its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The partition that it draws from.
    pub partition: u32,
    /// The address that the call returns to.
    pub address: u64,
    /// True if no other site draws from that partition.
    pub own: bool,
}

impl Tables {
    /// Returns true if each call site has a separate partition, until they are used up.
    pub fn sites_are_exact(&self) -> bool {
        self.root.sites != 0
    }

    /// Returns the call sites that have allocated something, by partition; none where sites are
    /// hashed.
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

    /// Returns the call sites in wrappers of malloc, whose callers are counted instead. What they
    /// have was allocated before the library recognised the wrapper.
    pub fn wrappers(&self, memory: &impl Memory) -> Result<Vec<u64>, Error> {
        let mut sites = Vec::new();
        self.for_each_site(memory, |address, partition| {
            if partition >= self.root.site_first_code {
                sites.push(address);
            }
        })?;
        Ok(sites)
    }

    /// Hands each call site to `each`, with its partition or its code; none where sites are hashed.
    fn for_each_site(
        &self,
        memory: &impl Memory,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let root = &self.root;
        if !self.sites_are_exact() {
            return Ok(());
        }
        let table = Entries {
            name: "the table of call sites",
            start: root.sites,
            first: (0, 0),
            mapped: root.sites_mapped,
            entry: root.site_bytes,
            most: ENTRIES_MOST * root.site_bytes,
        };
        self.for_each_entry(memory, &table, |entry| {
            let word = u64_at(entry, 0);
            if word != 0 {
                let partition = word & ((1 << root.site_partition_bits) - 1);
                each(word >> root.site_partition_bits, partition);
            }
            Ok(())
        })
    }
}
