//! The live blocks and all earlier blocks of each call site. A walk over slabs and large blocks
//! fills the table, in memory mapped for it.

use toft_core::allocator::Allocator;
use toft_core::large::{BlockState, Made};
use toft_core::os::{Linux, process};
use toft_core::reclaim::heap_sort;
use toft_core::region::{Partition, Site};
use toft_core::slab::SlotState;

/// The blocks of a call site in slots of one size.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) partition: Partition,
    pub(super) site: Site,
    /// The number of bytes in a slot, or zero for large blocks.
    pub(super) size: usize,
    /// The live blocks, and their bytes.
    pub(super) objects: usize,
    pub(super) bytes: usize,
    /// All blocks ever allocated, and their bytes.
    pub(super) allocations: u64,
    pub(super) allocated: u64,
}

impl Entry {
    fn key(&self) -> (Partition, Site, usize) {
        (self.partition, self.site, self.size)
    }
}

/// All entries, in memory mapped for the table.
pub(super) struct Table {
    address: usize,
    mapped: usize,
    entries: &'static mut [Entry],
    len: usize,
}

/// Extra entries for allocations of other threads while the table is filled.
const SPARE: usize = 4096;

impl Table {
    /// Returns the present state, or `None` if there is no memory for it.
    pub(super) fn of(allocator: &Allocator<Linux>) -> Option<Table> {
        let mut count = SPARE;
        allocator.for_each_slab(|_| count += 1);
        allocator.large().units().for_each(|_| count += 1);
        allocator.large().tally().for_each(|_| count += 1);
        let mapped = count.checked_mul(size_of::<Entry>())?;
        let address = process::scratch(mapped)?;
        let first: *mut Entry = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: these bytes were mapped a moment ago, for this table alone, and stay until
        // `give_back`; zero is an `Entry`.
        let entries = unsafe { core::slice::from_raw_parts_mut(first, count) };
        let mut table = Table { address, mapped, entries, len: 0 };
        allocator.for_each_slab(|slab| {
            let live = slab.all_slots().filter(|&slot| slab.state(slot) == SlotState::Live);
            let (objects, size) = (live.count(), slab.size());
            let (partition, site) = (slab.partition(), slab.site());
            // The slab's owner may be allocating, so the count may be less than the states show.
            let allocations = slab.allocations().max(objects as u64);
            let allocated = allocations.wrapping_mul(size as u64);
            let bytes = objects * size;
            table.add(Entry { partition, site, size, objects, bytes, allocations, allocated });
        });
        allocator.large().units().for_each(|block| {
            if block.state() == BlockState::Live {
                let (partition, site, bytes) = (block.partition(), block.site(), block.bytes());
                table.add(Entry { partition, site, objects: 1, bytes, ..Entry::default() });
            }
        });
        allocator.large().tally().for_each(|made| {
            let Made { site, partition, blocks, bytes } = made;
            let (allocations, allocated) = (blocks, bytes);
            table.add(Entry { partition, site, allocations, allocated, ..Entry::default() });
        });
        table.merge();
        Some(table)
    }

    fn add(&mut self, entry: Entry) {
        if let Some(place) = self.entries.get_mut(self.len) {
            *place = entry;
            self.len += 1;
        }
    }

    /// Merges the entries of each partition, site and size, and sorts them in that order.
    fn merge(&mut self) {
        self.sort_by(|a, b| a.key() < b.key());
        let Some(entries) = self.entries.get_mut(..self.len) else { return };
        let mut kept = 0;
        for place in 0..entries.len() {
            let Some(&entry) = entries.get(place) else { break };
            match entries.get_mut(kept.max(1) - 1) {
                Some(last) if kept > 0 && last.key() == entry.key() => {
                    last.objects += entry.objects;
                    last.bytes += entry.bytes;
                    last.allocations += entry.allocations;
                    last.allocated += entry.allocated;
                }
                _ => {
                    if let Some(to) = entries.get_mut(kept) {
                        *to = entry;
                    }
                    kept += 1;
                }
            }
        }
        self.len = kept;
    }

    /// Merges the entries of each site. Their partitions and sizes have no meaning afterwards.
    pub(super) fn merge_sites(&mut self) {
        for entry in self.entries.iter_mut().take(self.len) {
            (entry.partition, entry.size) = (Partition::default(), 0);
        }
        self.merge();
    }

    /// Returns the entries, sorted by partition, site and size unless `sort_by` has changed that.
    pub(super) fn entries(&self) -> &[Entry] {
        self.entries.get(..self.len).unwrap_or(&[])
    }

    /// Returns true if the slots of a partition are from several sites. Slabs without live blocks
    /// count, too. The entries must be in the order of `merge`.
    pub(super) fn is_shared(&self, partition: Partition) -> bool {
        let entries = self.entries();
        let first = entries.partition_point(|entry| entry.partition < partition);
        let mut slots = entries
            .iter()
            .skip(first)
            .take_while(|entry| entry.partition == partition)
            .filter(|entry| entry.size != 0);
        let site = slots.next().map(|entry| entry.site);
        slots.any(|entry| Some(entry.site) != site)
    }

    /// Sorts the entries by `before`, instead of the order of `merge`.
    pub(super) fn sort_by(&mut self, before: impl Fn(&Entry, &Entry) -> bool) {
        let Some(entries) = self.entries.get_mut(..self.len) else { return };
        heap_sort(
            entries,
            |entries, a, b| match (entries.get(a), entries.get(b)) {
                (Some(a), Some(b)) => before(a, b),
                _ => false,
            },
            |entries, a, b| entries.swap(a, b),
        );
    }

    /// Unmaps the table.
    pub(super) fn unmap(self) {
        process::unmap(self.address, self.mapped);
    }
}
