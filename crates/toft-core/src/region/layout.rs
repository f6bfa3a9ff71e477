//! The places of the windows, which are chosen once, at random.

use super::Slabs;
use crate::os::{Error, Os};
use crate::policy::ZERO_SIZE_SPAN;

/// The largest address space of heaps, in bytes.
const HEAPS_SPAN: usize = 1 << 36;
/// The largest table of malloc's wrappers, in bytes.
const WRAPPERS_SPAN: usize = 1 << 28;
/// The largest table of notes on call sites, in bytes.
const NOTES_SPAN: usize = 1 << 32;
/// The largest table of counts by call site, in bytes.
const TALLIES_SPAN: usize = 1 << 30;
/// The largest table of sampled stacks and blocks, in bytes.
const SAMPLES_SPAN: usize = 1 << 35;
/// The largest table of call sites, in bytes.
const SITES_SPAN: usize = 1 << 33;
/// The data window begins at a multiple of a huge page, so that large blocks can have some.
const DATA_ALIGN: usize = 2 << 20;
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
    /// The first address of the metadata window.
    pub metadata: usize,
}

/// The start of each part of the metadata window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The windows.
    pub windows: Windows,
    /// Tables of plots, partitions and stacks.
    pub tables: usize,
    /// Descriptors of slabs, in the order of demand.
    pub slabs: usize,
    /// The number of bytes of address space for descriptors of slabs.
    pub slabs_span: usize,
    /// The page map.
    pub page_map: usize,
    /// Descriptors of large blocks, by unit.
    pub large_blocks: usize,
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
    /// Notes on call sites, which serve to find wrappers.
    pub notes: usize,
    /// The number of bytes of address space for notes.
    pub notes_span: usize,
    /// Counts of large blocks by call site.
    pub tallies: usize,
    /// The number of bytes of address space for counts.
    pub tallies_span: usize,
    /// Sampled stacks and blocks.
    pub samples: usize,
    /// The number of bytes of address space for samples.
    pub samples_span: usize,
    /// Heaps, by number.
    pub heaps: usize,
    /// The end of the metadata window.
    pub end: usize,
}

impl Windows {
    /// Returns the number of bytes of the data window.
    pub fn data_bytes(&self) -> usize {
        self.span + self.large_span
    }

    /// Returns the number of bytes at the end of the large tier for zero-size blocks, at 16 bytes
    /// each.
    pub fn zero_size_span(&self) -> usize {
        (self.large_span / 256).min(ZERO_SIZE_SPAN)
    }

    /// Chooses windows at random places, and maps the tables, which are the first bytes of the
    /// metadata. `bytes` returns their number. Returns the system, which knows its tables now.
    ///
    /// Halves the sizes of the windows until the system can map the tables. All other addresses are
    /// then usable, too: the tables are in the upper half of the chosen space, systems support
    /// powers of two, and nothing is above the end of that space.
    pub fn choose<O: Os>(
        mut os: O,
        bytes: impl Fn(&Layout) -> usize,
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
            let (data, metadata) = (low & !(DATA_ALIGN - 1), high & !(page - 1));
            let windows = Windows { data, span, large_span, metadata };
            let layout = Layout::new(windows, page);
            os = os.with_tables(layout.tables..layout.end);
            match os.map(layout.tables, bytes(&layout)) {
                Ok(()) => return Ok((os, layout)),
                // The addresses are usable, and the system has too little memory for the tables.
                // Smaller windows would need as much.
                Err(Error::NoMemory) if can_map(&os, layout.tables, page) => break,
                Err(_) => space /= 2,
            }
        }
        Err(Error::NoMemory)
    }
}

impl Layout {
    /// Returns the layout of the metadata. A gap that is never mapped follows each part.
    pub fn new(windows: Windows, page: usize) -> Layout {
        let gap = 64 * page;
        let span = windows.span;
        let tables = windows.metadata;
        let slabs = tables + (1 << 26) + gap;
        let slabs_span = Slabs::<()>::descriptor_space(span);
        let page_map = slabs + slabs_span + gap;
        let map_bytes = (Slabs::<()>::map_space(span) + page - 1) & !(page - 1);
        let large_blocks = page_map + map_bytes + gap;
        let zero_size = large_blocks + (windows.large_span >> 16) * 64 + gap;
        let sites = match windows.zero_size_span() / (16 * 8) {
            0 => zero_size,
            bytes => zero_size + ((bytes + page - 1) & !(page - 1)) + gap,
        };
        let sites_span = SITES_SPAN.min(span / 64) & !(page - 1);
        let wrappers = sites + sites_span + gap;
        let wrappers_span = WRAPPERS_SPAN.min(span / 256) & !(page - 1);
        let notes = wrappers + wrappers_span + gap;
        let notes_span = NOTES_SPAN.min(span / 128) & !(page - 1);
        let tallies = notes + notes_span + gap;
        let tallies_span = TALLIES_SPAN.min(span / 256) & !(page - 1);
        let samples = tallies + tallies_span + gap;
        let samples_span = SAMPLES_SPAN.min(span / 64) & !(page - 1);
        let heaps = samples + samples_span + gap;
        let end = heaps + HEAPS_SPAN.min(span / 16);
        Layout {
            windows,
            tables,
            slabs,
            slabs_span,
            page_map,
            large_blocks,
            zero_size,
            sites,
            sites_span,
            wrappers,
            wrappers_span,
            notes,
            notes_span,
            tallies,
            tallies_span,
            samples,
            samples_span,
            heaps,
            end,
        }
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

    const BYTES: usize = 1 << 20;

    fn choose(fake: &Fake) -> Result<Layout, Error> {
        Windows::choose(fake.clone(), |_| BYTES).map(|(_, layout)| layout)
    }

    /// Nothing is mapped on trial.
    #[test]
    fn the_tables_are_the_only_mapping() {
        let fake = Fake::new(Machine::LARGE);
        let layout = choose(&fake).unwrap();
        assert_eq!(layout.windows.large_span, fake.address_space().len() / 4);
        assert_eq!((fake.calls(Request::Map), fake.calls(Request::Unmap)), (1, 0));
        assert_eq!(fake.mapped_bytes(), BYTES);
        assert!(fake.map(layout.tables, BYTES).is_err(), "the tables are elsewhere");
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
            assert!(windows.data >= all.start && data_end <= layout.tables, "{bits}");
            assert!(layout.tables < layout.end && layout.end <= end, "{bits}");
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
