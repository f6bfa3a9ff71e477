//! What a report says of a block.

use crate::allocator::Found;
use crate::guarded::{Slot, SlotCondition};
use crate::large::BlockState;
use crate::os::Os;
use crate::region::{Partition, Site};
use crate::slab::SlotState;
use crate::watch::reports::Reports;
use crate::watch::reports::misuse::tier;

/// A block as a report shows it.
#[derive(Clone, Copy, Debug)]
pub struct BlockFacts {
    /// The address of the block.
    pub begin: usize,
    /// The number of its bytes.
    pub size: usize,
    /// Which kind of block it is.
    pub kind: &'static str,
    /// The number of its slot, or zero.
    pub slot: usize,
    /// Its partition.
    pub partition: Partition,
    /// Whether it is live, in a word.
    pub state: &'static str,
    /// The first call site that drew from the slab, or the block's own.
    pub site: Site,
}

impl<O: Os> Reports<'_, O> {
    /// Returns the block at or around an address.
    pub fn facts(self, address: usize) -> Option<BlockFacts> {
        let (slab, slot) = match self.find(address) {
            Found::Slot(slab, slot) => (slab, slot),
            Found::InSlab(slab, offset) => (slab, slab.slot_around(offset)?),
            Found::Large(block) | Found::InLarge(block) => {
                let live = block.state() == BlockState::Live;
                return Some(BlockFacts {
                    begin: self.large.placement().address(block),
                    size: block.bytes(),
                    kind: "large",
                    slot: 0,
                    partition: block.partition(),
                    state: if live { "live" } else { "free" },
                    site: block.site(),
                });
            }
            Found::Guarded(slot) => {
                let live = slot.condition() == SlotCondition::Live;
                return Some(BlockFacts {
                    begin: slot.begin(),
                    size: slot.bytes(),
                    kind: "guarded",
                    slot: 0,
                    partition: Partition::default(),
                    state: if live { "live" } else { "free" },
                    site: site_of(slot),
                });
            }
            Found::ZeroSize(_) | Found::Foreign => return None,
        };
        Some(BlockFacts {
            begin: slab.slot_address(slot),
            size: slab.block_bytes(slot),
            kind: tier(slab),
            slot: slot.number(),
            partition: slab.partition(),
            state: match slab.state(slot) {
                SlotState::Live => "live",
                SlotState::Fresh => "never handed out",
                SlotState::Free | SlotState::Remote => "free",
            },
            site: slab.site(),
        })
    }
}

/// Returns the call site that allocated a guarded block.
pub(crate) fn site_of(slot: &Slot) -> Site {
    Site::at(slot.allocated().frames().next().map_or(0, |(address, _)| address))
}
