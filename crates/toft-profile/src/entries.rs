//! Tables of entries of one size, of which the library maps as much as it needs: call sites, the
//! counts of large blocks, and sampled stacks.

use crate::memory::read_u64;
use crate::{Error, Memory, Tables};

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// A table of entries.
pub(crate) struct Entries {
    /// What the entries are, for messages.
    pub(crate) name: &'static str,
    /// The address of the first entry, were it not for those that are apart.
    pub(crate) start: u64,
    /// The address and the number of bytes of the first entries if they are apart.
    pub(crate) first: (u64, u64),
    /// The address of the word that has the number of mapped bytes.
    pub(crate) mapped: u64,
    /// Bytes in an entry.
    pub(crate) entry: u64,
    /// The most bytes that are believed.
    pub(crate) most: u64,
}

impl Tables {
    /// Hands each entry to `each`, used or not.
    pub(crate) fn for_each_entry(
        &self,
        memory: &impl Memory,
        table: &Entries,
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let unread = || memory.unread(table.name);
        let mapped = read_u64(memory, table.mapped).ok_or_else(unread)?;
        let mapped = mapped.min(table.most);
        let (first, apart) = (table.first.0, table.first.1.min(mapped));
        let ranges = [
            (first, first.saturating_add(apart)),
            (table.start.saturating_add(apart), table.start.saturating_add(mapped)),
        ];
        let step = PIECE / table.entry * table.entry;
        for (start, end) in ranges {
            if end > self.root.end {
                return Err(Error::Nonsense(memory.pid(), table.name));
            }
            let mut at = start;
            while at < end {
                let mut bytes = vec![0; step.min(end - at) as usize];
                if memory.read(at, &mut bytes) != bytes.len() {
                    return Err(unread());
                }
                bytes.chunks_exact(table.entry as usize).try_for_each(&mut each)?;
                at += step;
            }
        }
        Ok(())
    }
}
