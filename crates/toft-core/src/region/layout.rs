//! The places of the windows, which are chosen once, at random.

use super::field::{descriptor_space, map_bytes};
use super::lookup::Lookup;
use super::plot::short_bytes;
use super::{MEDIUM, SMALL};
use crate::os::{Error, Os};
use crate::policy::{SECURE, SLAB_BYTES, ZERO_SIZE_SPAN};

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
/// The smallest useful span of a tier. With less, the address space is too small for Toft.
const SPAN_MIN: usize = 1 << 26;

/// The two windows of address space that Toft uses, by their first addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first address of the data window.
    pub data: usize,
    /// The number of bytes of the field of slabs. In the secure builds those of the small tier, and
    /// also of the medium tier.
    pub span: usize,
    /// The number of bytes of the large tier, which is behind the field, or between the tiers.
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
    /// Descriptors of the field's slabs, in the order of demand. In the secure builds those of
    /// small slabs: of short plots, then the others by slab index.
    pub small_slabs: usize,
    /// Secure builds: descriptors of medium slabs, in the same order. Default build: the page map.
    pub medium_slabs: usize,
    /// The number of bytes of address space for the descriptors that are in the order of demand. In
    /// the secure builds those of short plots, in each tier.
    pub short_bytes: usize,
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
    /// Returns the first address behind the large tier, where the medium tier is in the secure
    /// builds.
    pub fn medium(&self) -> usize {
        self.data + self.span + self.large_span
    }

    /// Returns the number of bytes of the medium tier, which the default build does not have.
    pub const fn medium_span(&self) -> usize {
        if SECURE { self.span } else { 0 }
    }

    /// Returns the number of bytes of the data window.
    pub fn data_bytes(&self) -> usize {
        self.span + self.large_span + self.medium_span()
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
    ///
    /// Each plot has an entry in a table that every free reads. The slab tiers are therefore only
    /// as large as the number of partitions requires, so that the entries are on few pages.
    pub fn choose<O: Os>(
        mut os: O,
        partitions: usize,
        bytes: impl Fn(&Layout) -> usize,
    ) -> Result<(O, Layout), Error> {
        let page = os.page_size();
        let all = os.address_space();
        let mut space = all.len();
        while space / 32 >= SPAN_MIN {
            // The middle of the address space, from two thirds on, holds the program and its brk
            // heap. The top holds libraries and stacks. The places below are clear of both.
            let span = if partitions <= 256 { space / 32 } else { space / 8 };
            let large_span = space / 4;
            let data = Windows { data: 0, span, large_span, metadata: 0 }.data_bytes();
            let low = all.start + space / 128 + random_below(&os, space / 128 * 82 - data)?;
            let high = all.start + space / 64 * 45 + random_below(&os, space / 64 * 10)?;
            // The lookup of plots keeps bounds for each granule, so a plot of a granule's size must
            // not straddle two.
            let unit = if !SECURE {
                DATA_ALIGN
            } else if span >> 32 >= 512 {
                1 << 32
            } else {
                (span / 512).max(page << 11).max(1 << 24)
            };
            let windows =
                Windows { data: low & !(unit - 1), span, large_span, metadata: high & !(page - 1) };
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
        let small_slabs = tables + (1 << 26) + gap;
        let (short_bytes, medium_slabs, large_blocks) = if SECURE {
            // The descriptors of each tier are followed by the space that its lookup needs.
            let (small_lookup, medium_lookup) =
                (Lookup::<SMALL, ()>::span_bytes(span), Lookup::<MEDIUM, ()>::span_bytes(span));
            let short_bytes = short_bytes(span, SLAB_BYTES);
            let medium_slabs =
                small_slabs + short_bytes + (span >> 16) * SLAB_BYTES + small_lookup + gap;
            let large_blocks =
                medium_slabs + short_bytes + (span >> 19) * SLAB_BYTES + medium_lookup + gap;
            (short_bytes, medium_slabs, large_blocks)
        } else {
            let descriptors = descriptor_space(span);
            let page_map = small_slabs + descriptors + gap;
            let entries = (map_bytes(span) + page - 1) & !(page - 1);
            (descriptors, page_map, page_map + entries + gap)
        };
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
            small_slabs,
            medium_slabs,
            short_bytes,
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

    const PARTITIONS: usize = 64;
    const BYTES: usize = 1 << 20;

    fn choose(fake: &Fake) -> Result<Layout, Error> {
        Windows::choose(fake.clone(), PARTITIONS, |_| BYTES).map(|(_, layout)| layout)
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
