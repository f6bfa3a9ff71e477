//! Where the windows are: chosen once, at random, and tried out.

use super::lookup::Lookup;
use super::{MEDIUM, SMALL};
use crate::os::{Error, Os};
use crate::policy::{HARDENED, NOTHING_SPAN, SLAB_BYTES};

/// The most heaps' worth of metadata address space, in bytes.
const HEAPS_SPAN: usize = 1 << 36;
/// The most bytes of wrappers of malloc.
const WRAPPERS_SPAN: usize = 1 << 28;
/// The most bytes of notes on call sites.
const NOTES_SPAN: usize = 1 << 32;
/// The most bytes of counts by call site.
const TALLIES_SPAN: usize = 1 << 30;
/// The most bytes of sampled stacks and blocks.
const SAMPLES_SPAN: usize = 1 << 35;
/// The most bytes of call sites.
const SITES_SPAN: usize = 1 << 33;
/// Smallest useful span of a tier: below this the address space is too small for Toft.
const SPAN_MIN: usize = 1 << 26;

/// The two windows of address space that Toft uses, by their first address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// First address of the data window.
    pub data: usize,
    /// Bytes in the small tier, and in the medium tier.
    pub span: usize,
    /// Bytes in the large tier, which lies between them.
    pub large_span: usize,
    /// First address of the metadata window.
    pub metadata: usize,
}

/// Where each part of the metadata window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The windows.
    pub windows: Windows,
    /// Tables of plots, partitions and stacks.
    pub tables: usize,
    /// Descriptors of small slabs, by slab index.
    pub small_slabs: usize,
    /// Descriptors of medium slabs, by slab index.
    pub medium_slabs: usize,
    /// Descriptors of large blocks, by unit.
    pub large_blocks: usize,
    /// Bits of zero-size blocks.
    pub nothing: usize,
    /// Call sites, in exact mode.
    pub sites: usize,
    /// Bytes of address space for them.
    pub sites_span: usize,
    /// Wrappers of malloc.
    pub wrappers: usize,
    /// Bytes of address space for them.
    pub wrappers_span: usize,
    /// What is noted of call sites, to find wrappers.
    pub notes: usize,
    /// Bytes of address space for that.
    pub notes_span: usize,
    /// Counts of large blocks by call site.
    pub tallies: usize,
    /// Bytes of address space for them.
    pub tallies_span: usize,
    /// Sampled stacks and blocks.
    pub samples: usize,
    /// Bytes of address space for them.
    pub samples_span: usize,
    /// Heaps, by number.
    pub heaps: usize,
    /// The end of the metadata window.
    pub end: usize,
}

impl Windows {
    /// First address of the medium tier.
    pub fn medium(&self) -> usize {
        self.data + self.span + self.large_span
    }

    /// Bytes at the end of the large tier for zero-size blocks, 16 for each: none in the default
    /// build.
    pub fn nothing_span(&self) -> usize {
        if HARDENED { (self.large_span / 256).min(NOTHING_SPAN) } else { 0 }
    }

    /// Picks windows at random places, halving them until the system lets us map at their ends.
    ///
    /// A plot takes one entry of a table that every free reads, so the slab tiers are no larger
    /// than the number of partitions asks for: few entries lie on few pages.
    pub fn choose(os: &impl Os, partitions: usize) -> Result<Windows, Error> {
        let page = os.page_size();
        let all = os.address_space();
        let mut space = all.len();
        while space / 32 >= SPAN_MIN {
            // The middle of the address space holds the program and its brk heap (from two thirds),
            // the top holds libraries and stacks; the places below stay clear of both.
            let span = if partitions <= 256 { space / 32 } else { space / 8 };
            let large_span = space / 4;
            let data = 2 * span + large_span;
            let low = all.start + space / 128 + random_below(os, space / 128 * 82 - data)?;
            let high = all.start + space / 64 * 45 + random_below(os, space / 64 * 10)?;
            // Bounds are kept by granule, so a plot that is as large must not straddle two.
            let unit =
                if span >> 32 >= 512 { 1 << 32 } else { (span / 512).max(page << 11).max(1 << 24) };
            let windows =
                Windows { data: low & !(unit - 1), span, large_span, metadata: high & !(page - 1) };
            let last = windows.data + data - page;
            let end = Layout::new(windows, page).end - page;
            if [windows.data, last, windows.metadata, end].iter().all(|&a| can_map(os, a, page)) {
                return Ok(windows);
            }
            space /= 2;
        }
        Err(Error::NoMemory)
    }
}

impl Layout {
    /// Lays the metadata out, each part followed by a gap that is never mapped.
    pub fn new(windows: Windows, page: usize) -> Layout {
        let gap = 64 * page;
        let span = windows.span;
        let tables = windows.metadata;
        let small_slabs = tables + (1 << 26) + gap;
        // Behind its descriptors each tier has what finding them asks for.
        let (small_lookup, medium_lookup) =
            (Lookup::<SMALL, ()>::span_bytes(span), Lookup::<MEDIUM, ()>::span_bytes(span));
        let medium_slabs = small_slabs + (span >> 16) * SLAB_BYTES + small_lookup + gap;
        let large_blocks = medium_slabs + (span >> 19) * SLAB_BYTES + medium_lookup + gap;
        let nothing = large_blocks + (windows.large_span >> 16) * 64 + gap;
        let sites = match windows.nothing_span() / (16 * 8) {
            0 => nothing,
            bytes => nothing + ((bytes + page - 1) & !(page - 1)) + gap,
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
            large_blocks,
            nothing,
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
    // SAFETY: (1) mapped by the line above and known to no other code.
    unsafe { os.unmap(addr, len) }.is_ok()
}
