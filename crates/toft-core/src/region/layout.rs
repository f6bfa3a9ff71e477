//! The places of the windows, which are chosen once, at random.
//!
//! ```text
//! ... large blocks | tables | first heap | slabs | page map ...         | more slabs ... | heaps ...
//!               |<----------- mapped at the start ----------->|
//! ```
//!
//! A small process needs little of each part of the metadata. So the beginnings of those that each
//! process needs are side by side, in one mapping. They share page tables, which each fork copies.
//! The descriptors of large blocks are in the order of falling addresses, and end there.

use super::Slabs;
use super::run::up;
use crate::os::{Error, Os};
use crate::policy::ZERO_SIZE_SPAN;
use core::ops::Range;

/// The bytes of descriptors of slabs that are mapped at the start: a thousand of them.
const SLABS_FIRST: usize = 512 << 10;
/// The bytes of descriptors of large blocks that are mapped at the start.
const LARGE_FIRST: usize = 64 << 10;
/// log2 of the bytes of the large tier for each byte of descriptors.
const LARGE_SHIFT: u32 = 10;
/// The largest address space of the states of heaps, in bytes.
const STATES_SPAN: usize = 1 << 24;
/// The largest address space of heaps, in bytes.
const HEAPS_SPAN: usize = 1 << 36;
/// The largest table of malloc's wrappers, in bytes.
const WRAPPERS_SPAN: usize = 1 << 28;
/// The largest table of counts by call site, in bytes.
const TALLIES_SPAN: usize = 1 << 30;
/// The largest table of sampled stacks and blocks, in bytes.
const SAMPLES_SPAN: usize = 1 << 35;
/// The largest table of call sites, in bytes.
const SITES_SPAN: usize = 1 << 33;
/// The data window begins at a multiple of a huge page, so that large blocks can have some.
const DATA_ALIGN: usize = 2 << 20;
/// The metadata window begins in the first part of a page table of the lowest level, so that the
/// first page of each part is in the same one: these bits of its address are zero.
const METADATA_ZEROS: usize = 0x1C_0000;
/// The smallest useful span of the field. With less, the address space is too small for Toft.
const SPAN_MIN: usize = 1 << 26;

/// The two windows of address space that Toft uses, by their first addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first address of the data window.
    pub data: usize,
    /// The number of bytes of the field of slabs.
    pub span: usize,
    /// The number of bytes of the large tier, which follows the field.
    pub large_span: usize,
    /// The first address of the metadata that is mapped at the start.
    pub first_metadata: usize,
}

/// The start of each part of the metadata window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The windows.
    pub windows: Windows,
    /// Tables of all parts, and the first heap.
    pub tables: usize,
    /// The first descriptors of slabs, [`Layout::SLABS_FIRST`] bytes, in the order of demand.
    pub slabs: usize,
    /// The page map.
    pub page_map: usize,
    /// The other descriptors of slabs.
    pub more_slabs: usize,
    /// The number of bytes of address space for them.
    pub more_slabs_span: usize,
    /// The bits of zero-size blocks.
    pub zero_size: usize,
    /// Call sites, in exact mode.
    pub sites: usize,
    /// The number of bytes of address space for call sites.
    pub sites_span: usize,
    /// Wrappers of malloc.
    pub wrappers: usize,
    /// The number of bytes of address space for wrappers.
    pub wrappers_span: usize,
    /// Counts of large blocks by call site.
    pub tallies: usize,
    /// The number of bytes of address space for counts.
    pub tallies_span: usize,
    /// Sampled stacks and blocks.
    pub samples: usize,
    /// The number of bytes of address space for samples.
    pub samples_span: usize,
    /// The states of heaps that are not among the tables.
    pub more_states: usize,
    /// Heaps, by number. The place of the first is not used.
    pub heaps: usize,
    /// The end of the metadata window.
    pub end: usize,
}

impl Windows {
    /// Returns the number of bytes of the data window.
    pub fn data_bytes(&self) -> usize {
        self.span + self.large_span
    }

    /// Returns the first address of the metadata window.
    pub fn metadata(&self) -> usize {
        self.first_metadata - (self.large_span >> LARGE_SHIFT)
    }

    /// Returns the first address of the tables.
    pub fn tables(&self) -> usize {
        self.first_metadata + LARGE_FIRST
    }

    /// Returns the number of bytes at the end of the large tier for zero-size blocks, at 16 bytes
    /// each.
    pub fn zero_size_span(&self) -> usize {
        (self.large_span / 256).min(ZERO_SIZE_SPAN)
    }

    /// Chooses windows at random places, and maps the first bytes of the metadata, up to the first
    /// part of the page map. `table_bytes` returns the number of bytes of the tables and the first
    /// heap. Returns the system, which knows its tables now.
    ///
    /// Halves the sizes of the windows until the system can map the tables. All other addresses are
    /// then usable, too: the tables are in the upper half of the chosen space, systems support
    /// powers of two, and nothing is above the end of that space.
    pub fn choose<O: Os>(
        mut os: O,
        table_bytes: impl Fn(&Windows) -> usize,
    ) -> Result<(O, Layout), Error> {
        let page = os.page_size();
        let all = os.address_space();
        let mut space = all.len();
        while space / 32 >= SPAN_MIN {
            // The middle of the address space, from two thirds on, holds the program and its brk
            // heap. The top holds libraries and stacks. The places below are clear of both.
            let (span, large_span) = (space / 32, space / 4);
            let data = span + large_span;
            let low = all.start + space / 128 + random_below(&os, space / 128 * 82 - data)?;
            let high = all.start + space / 64 * 45 + random_below(&os, space / 64 * 10)?;
            let data = low & !(DATA_ALIGN - 1);
            let first_metadata = high & !(METADATA_ZEROS | (page - 1));
            let windows = Windows { data, span, large_span, first_metadata };
            let layout = Layout::new(windows, table_bytes(&windows), page);
            os = os.with_tables(windows.metadata()..layout.end);
            match os.map(first_metadata, layout.first_bytes(page)) {
                Ok(()) => return Ok((os, layout)),
                // The addresses are usable, and the system has too little memory for the tables.
                // Smaller windows would need as much.
                Err(Error::NoMemory) if can_map(&os, first_metadata, page) => break,
                Err(_) => space /= 2,
            }
        }
        Err(Error::NoMemory)
    }
}

impl Layout {
    /// The number of bytes of the first descriptors of slabs, which is whole pages on every kernel.
    pub const SLABS_FIRST: usize = SLABS_FIRST;
    /// The number of bytes of the first descriptors of large blocks.
    pub const LARGE_FIRST: usize = LARGE_FIRST;
    /// log2 of the bytes of the large tier for each byte of descriptors.
    pub const LARGE_SHIFT: u32 = LARGE_SHIFT;

    /// Returns the addresses of the two windows, used or not.
    pub fn addresses(&self) -> [Range<usize>; 2] {
        let windows = &self.windows;
        let data = windows.data;
        [data..data + windows.data_bytes(), windows.metadata()..self.end]
    }

    /// Returns the layout of the metadata, with `table_bytes` bytes of tables and the first heap. A
    /// gap that is never mapped follows each part from the page map on.
    pub fn new(windows: Windows, table_bytes: usize, page: usize) -> Layout {
        let gap = 64 * page;
        let span = windows.span;
        let tables = windows.tables();
        let slabs = tables + up(table_bytes, page);
        let page_map = slabs + SLABS_FIRST;
        let more_slabs = page_map + up(Slabs::<()>::map_space(span), page) + gap;
        let more_slabs_span = Slabs::<()>::descriptor_space(span, more_slabs - slabs);
        let zero_size = more_slabs + more_slabs_span + gap;
        let sites = match windows.zero_size_span() / (16 * 8) {
            0 => zero_size,
            bytes => zero_size + up(bytes, page) + gap,
        };
        let sites_span = SITES_SPAN.min(span / 64) & !(page - 1);
        let wrappers = sites + sites_span + gap;
        let wrappers_span = WRAPPERS_SPAN.min(span / 256) & !(page - 1);
        let tallies = wrappers + wrappers_span + gap;
        let tallies_span = TALLIES_SPAN.min(span / 256) & !(page - 1);
        let samples = tallies + tallies_span + gap;
        let samples_span = SAMPLES_SPAN.min(span / 64) & !(page - 1);
        let more_states = samples + samples_span + gap;
        let heaps = more_states + STATES_SPAN + gap;
        let end = heaps + HEAPS_SPAN.min(span / 16);
        Layout {
            windows,
            tables,
            slabs,
            page_map,
            more_slabs,
            more_slabs_span,
            zero_size,
            sites,
            sites_span,
            wrappers,
            wrappers_span,
            tallies,
            tallies_span,
            samples,
            samples_span,
            more_states,
            heaps,
            end,
        }
    }

    /// Returns the number of bytes that are mapped at the start.
    pub fn first_bytes(&self, page: usize) -> usize {
        self.page_map + up(Slabs::<()>::MAP_FIRST, page) - self.windows.first_metadata
    }
}

fn random_below(os: &impl Os, limit: usize) -> Result<usize, Error> {
    Ok(((u128::from(os.random()?) * limit as u128) >> 64) as usize)
}

fn can_map(os: &impl Os, addr: usize, len: usize) -> bool {
    if os.map(addr, len).is_err() {
        return false;
    }
    // SAFETY: (1) mapped by the call above, and known to no other code.
    unsafe { os.unmap(addr, len) }.is_ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::Memory;
    use crate::os::fake::{Fake, Machine, Request};

    /// The bytes of the tables, and of all that is mapped at the start.
    const TABLES: usize = 1 << 20;
    const BYTES: usize = LARGE_FIRST + TABLES + SLABS_FIRST + Slabs::<()>::MAP_FIRST;

    fn choose(fake: &Fake) -> Result<Layout, Error> {
        Windows::choose(fake.clone(), |_| TABLES).map(|(_, layout)| layout)
    }

    /// Nothing is mapped on trial.
    #[test]
    fn the_tables_are_the_only_mapping() {
        let fake = Fake::new(Machine::LARGE);
        let layout = choose(&fake).unwrap();
        assert_eq!(layout.windows.large_span, fake.address_space().len() / 4);
        assert_eq!((fake.calls(Request::Map), fake.calls(Request::Unmap)), (1, 0));
        assert_eq!(fake.mapped_bytes(), BYTES);
        let first = layout.windows.first_metadata;
        assert!(fake.map(first, BYTES).is_err(), "the tables are elsewhere");
    }

    /// A processor or kernel with fewer bits of address space refuses what is above.
    #[test]
    fn a_system_with_fewer_bits_gets_smaller_windows() {
        for bits in 1..6 {
            let fake = Fake::new(Machine::LARGE);
            let all = fake.address_space();
            let end = all.start + (all.len() >> bits);
            assert!(fake.occupy(end..all.end));
            let layout = choose(&fake).unwrap();
            let windows = layout.windows;
            assert_eq!(windows.large_span, all.len() >> bits >> 2, "{bits}");
            let data_end = windows.data + windows.data_bytes();
            assert!(windows.data >= all.start && data_end <= windows.metadata(), "{bits}");
            assert!(windows.metadata() < layout.tables && layout.end <= end, "{bits}");
            assert_eq!(fake.calls(Request::Unmap), 0, "{bits}");
        }
    }

    /// Windows do not shrink because memory is short. A later start may have more.
    #[test]
    fn too_little_memory_is_no_reason_for_smaller_windows() {
        let fake = Fake::new(Machine::LARGE);
        fake.set_limit(BYTES - 4096);
        assert_eq!(choose(&fake).unwrap_err(), Error::NoMemory);
        assert_eq!((fake.calls(Request::Map), fake.mapped_bytes()), (2, 0));
        fake.set_limit(BYTES);
        assert_eq!(choose(&fake).unwrap().windows.large_span, fake.address_space().len() / 4);
    }

    #[test]
    fn a_system_without_any_room_ends_the_search() {
        let fake = Fake::new(Machine::LARGE);
        assert!(fake.occupy(fake.address_space()));
        assert_eq!(choose(&fake).unwrap_err(), Error::NoMemory);
        fake.set_fault(Some(crate::os::fake::Fault::from(0).only(Request::Map)));
        assert_eq!(choose(&fake).unwrap_err(), Error::NoMemory);
        assert_eq!(fake.mapped_bytes(), 0);
    }
}
