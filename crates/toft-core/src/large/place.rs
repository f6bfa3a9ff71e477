//! Where in its extent a large block lies.
//!
//! ```text
//! default    | bytes (whole pages) ......... |            | next extent
//!            ^ unit
//! secure   |  lead      | head | bytes ....| tail |     |  gap  | next extent
//!            ^ unit       ^ first page             ^ guard
//! ```
//!
//! In the secure build a block is a random number of pages after the start of its unit. On its
//! first page it is as far back as its alignment allows, so that it ends against the page after it,
//! which is not mapped. Neither is the page before its first one: it is in the lead, or the last
//! page of the extent before, which never is. Between two extents there is a random number of
//! units.

use super::Block;
use super::blocks::{Blocks, Need, view};
use super::units::UNIT;
use crate::keyed::below;
use crate::policy::{LARGE_GAP, SECURE};
use crate::sync::Ordering::Relaxed;

/// The least alignment that a block is promised.
const ALIGN_LEAST: usize = 16;

view!(pub Placement, placement, "Where blocks are in their extents.");

impl Placement<'_> {
    /// The address where a block begins.
    pub fn address(self, block: &Block) -> usize {
        self.unit_address(block) + block.lead()
    }

    /// The address of its first page: where its mapping begins.
    pub fn start(self, block: &Block) -> usize {
        self.unit_address(block) + (block.lead() & !(self.0.page_size() - 1))
    }

    /// The address of its unit.
    pub(super) fn unit_address(self, block: &Block) -> usize {
        self.0.units().extent_address(self.0.units().of(block))
    }

    /// Bytes on the block's first page that lie before it.
    pub(super) fn head(self, block: &Block) -> usize {
        block.lead() & (self.0.page_size() - 1)
    }

    /// Bytes of the pages that hold a block of `bytes`, for a number that fits the address space.
    pub(super) fn span(self, block: &Block, bytes: usize) -> usize {
        if SECURE { whole(self.head(block) + bytes, self.0.page_size()) } else { bytes }
    }

    /// Bytes of the extent that may be mapped from the block's first page on.
    pub(super) fn room(self, block: &Block) -> usize {
        block.extent() - (self.start(block) - self.unit_address(block)) - self.0.page_size()
    }

    /// Bytes that an extent needs beside those of its block: a guard, and room for the lead.
    pub(super) fn extent_beside(self) -> usize {
        self.0.page_size() + if SECURE { UNIT } else { 0 }
    }

    /// A random word.
    pub(super) fn draw(self) -> u64 {
        self.0.key().mix(self.0.state().drawn.fetch_add(1, Relaxed))
    }

    /// Chooses where in its extent a held block is to lie that has no mapping, or none but guards.
    pub(super) fn choose(self, block: &Block, need: &Need) {
        if SECURE && (block.mapped() == 0 || self.0.pages().is_shared(block)) {
            let lead = lead_for(need.size, need.align, self.0.page_size(), self.draw());
            block.lead.store(lead as u16, Relaxed);
        }
    }

    /// As `choose`, for a block that will get the pages of `other`: on its first page it has
    /// the same offset as that one.
    pub(super) fn choose_like(self, block: &Block, other: &Block) {
        if SECURE && block.mapped() == 0 {
            let pages = below(self.draw(), (UNIT >> self.0.page_size().trailing_zeros()).max(1))
                * self.0.page_size();
            block.lead.store((pages + self.head(other)) as u16, Relaxed);
        }
    }

    /// Units that are left without a mapping before a new extent. Those that share a mapping must
    /// lie together.
    pub(super) fn choose_gap(self, apart: bool) -> usize {
        if !SECURE || !apart {
            return 0;
        }
        below(self.draw(), LARGE_GAP.min(self.0.units().count() >> 16) + 1)
    }
}

/// Rounds `bytes` up to whole units, of a power of two.
fn whole(bytes: usize, unit: usize) -> usize {
    (bytes + unit - 1) & !(unit - 1)
}

/// How far behind the start of its unit a block is to lie: less than a unit.
fn lead_for(size: usize, align: usize, page: usize, random: u64) -> usize {
    let align = align.max(ALIGN_LEAST);
    // Whole pages at random places that keep the alignment.
    let step = align.max(page);
    let pages = below(random, (UNIT >> step.trailing_zeros()).max(1)) * step;
    if align > page || size == 0 {
        return pages;
    }
    // The callers' sizes fit the address space.
    let rounded = whole(size, align);
    let head = whole(rounded, page) - rounded;
    pages + head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_are_aligned_and_end_against_a_page() {
        for page in [4096usize, 16384, 65536] {
            for shift in 0..22 {
                let align = 1usize << shift;
                for size in [0, 1, 15, 131_073, 200_000, 262_144, 1_000_001] {
                    for draw in 0..40u64 {
                        let lead = lead_for(size, align, page, draw << 58 | draw);
                        assert!(lead < UNIT);
                        assert!(
                            lead.is_multiple_of(align.clamp(16, UNIT)),
                            "{page} {align} {size}"
                        );
                        let behind = (lead + size).next_multiple_of(page) - (lead + size);
                        let least = if align > page { page } else { align.max(16) };
                        assert!(size == 0 || behind < least, "{page} {align} {size}: {behind}");
                    }
                }
            }
        }
    }

    #[test]
    fn leads_take_every_page_of_the_unit() {
        let mut seen = [0; 16];
        for draw in 0..1600u64 {
            seen[lead_for(200_000, 1, 4096, draw.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 12] += 1;
        }
        assert!(seen.iter().all(|&times| times > 50), "{seen:?}");
    }
}
