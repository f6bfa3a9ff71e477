//! Verification of the invariants of large blocks.

use super::blocks::{Blocks, rows};
use super::class::LARGE_CLASSES;
use super::kept::PLACES;
use super::{Block, BlockState, Damage};
use crate::region::Partition;
use crate::sync::Ordering::Relaxed;
use core::cell::Cell;

/// The number of bytes beside a block that `damage_from_outside` reads at a time.
const PIECE: usize = 256;

/// Sums over all blocks.
#[derive(Default)]
struct Sums {
    live_blocks: usize,
    live_bytes: usize,
    slack: usize,
    kept: usize,
    mapped: usize,
    separate: usize,
}

impl Blocks {
    /// Verifies L1 to L5. Returns the first violation. No other thread may be in the allocator.
    ///
    /// - L1: a live block has `head + bytes <= resident <= mapped`, and a free one has `resident <=
    ///   mapped`. An extent has a page that is never mapped, unless its block shares a mapping.
    /// - L2: a block in a place of `kept.rs` is free, has a mapping, and is in one place only.
    /// - L3: a block on a stack is free, has the partition and class of the stack, and is in no
    ///   place.
    /// - L4: each counter is the sum over all blocks.
    /// - L5: a block that waits (`waiting.rs`) is free, and is in no place.
    pub fn check(&self) -> Result<(), &'static str> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let (mut sums, mut result) = (Sums::default(), Ok(()));
        self.for_each(|block| {
            if result.is_ok() {
                result = self.check_block(block, &mut sums);
            }
        });
        result?;
        let mut kept_units = [usize::MAX; PLACES];
        for (number, kept) in self.state().places.all().enumerate() {
            let (unit, block) = (kept.unit(), self.block(kept.unit()));
            let class = block.class();
            ensure(kept.is_of(block.partition(), class), "L2: a place names another class")?;
            ensure(block.state() == BlockState::Free, "L2: in a place but not free")?;
            ensure(block.mapped.load(Relaxed) != 0, "L2: in a place without a mapping")?;
            ensure(!kept_units.contains(&unit), "L2: in two places")?;
            if let Some(entry) = kept_units.get_mut(number) {
                *entry = unit;
            }
        }
        for index in 0..rows(self.partitions) * LARGE_CLASSES {
            let (partition, class) = (Partition::new(index / LARGE_CLASSES), index % LARGE_CLASSES);
            let mut next = self.stack(partition, class).load(Relaxed) as u32;
            let mut left = self.units;
            while let Some(unit) = next.checked_sub(1) {
                let block = self.block(unit as usize);
                ensure(block.state() == BlockState::Free, "L3: on a stack but not free")?;
                let same = block.partition() == partition && block.class() == class;
                ensure(same, "L3: on the stack of another class")?;
                ensure(!kept_units.contains(&(unit as usize)), "L3: on a stack and in a place")?;
                ensure(left > 0, "L3: a stack has a cycle")?;
                left -= 1;
                next = block.below.load(Relaxed);
            }
        }
        for block in self.all_waiting() {
            ensure(block.state() == BlockState::Free, "L5: waits but is not free")?;
            ensure(!kept_units.contains(&self.unit_of(block)), "L5: waits and is in a place")?;
        }
        let state = self.state();
        ensure(sums.live_blocks == state.live_blocks.load(Relaxed), "L4: live blocks")?;
        ensure(sums.live_bytes == state.live_bytes.load(Relaxed), "L4: live bytes")?;
        ensure(sums.slack == state.slack.load(Relaxed), "L4: slack")?;
        ensure(sums.kept == state.kept.load(Relaxed), "L4: kept")?;
        ensure(sums.mapped == state.mapped.load(Relaxed), "L4: mapped")?;
        ensure(sums.separate == state.separate.load(Relaxed), "L4: separate mappings")
    }

    /// Verifies L1 of one block. Other threads may change the block, so a check that fails may
    /// succeed the next time.
    pub fn check_one(&self, block: &Block) -> Result<(), &'static str> {
        self.check_block(block, &mut Sums::default())
    }

    /// Returns where bytes beside a live block were overwritten, or `None` if they are intact. Also
    /// returns `None` if the block is freed or resized meanwhile. Any thread. Secure build.
    ///
    /// `peek` reads memory, and returns false if there is nothing to read.
    pub fn damage_from_outside(
        &self,
        block: &Block,
        peek: &dyn Fn(usize, &mut [u8]) -> bool,
    ) -> Option<Damage> {
        let seen = (block.bytes(), block.since());
        if block.state() != BlockState::Live {
            return None;
        }
        // The last piece that was read, and its address. A head may be as long as a page.
        let known = Cell::new((0, [0u8; PIECE]));
        let damage = self.damage_read(block, |address| {
            let piece = address & !(PIECE - 1);
            let (mut at, mut bytes) = known.get();
            if at != piece {
                at = if peek(piece, &mut bytes) { piece } else { 0 };
                known.set((at, bytes));
            }
            bytes.get(address - piece).copied().filter(|_| at == piece)
        });
        let same = block.state() == BlockState::Live && (block.bytes(), block.since()) == seen;
        damage.filter(|_| same)
    }

    /// Verifies L1 of one block, and adds the block to the sums.
    fn check_block(&self, block: &Block, sums: &mut Sums) -> Result<(), &'static str> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let (bytes, resident) = (block.bytes(), block.resident.load(Relaxed));
        let mapped = block.mapped.load(Relaxed);
        ensure(resident <= mapped, "L1: resident but not mapped")?;
        let shared = self.is_shared(block);
        ensure(shared || mapped <= self.room(block), "L1: no guard page")?;
        if block.state() == BlockState::Live {
            ensure(self.span(block, bytes) <= resident, "L1: usable but not resident")?;
            sums.live_blocks += 1;
            sums.live_bytes += bytes;
            sums.slack += resident - bytes;
        } else {
            sums.kept += resident;
        }
        if !shared && mapped != 0 {
            sums.mapped += mapped;
            sums.separate += 1;
        }
        Ok(())
    }
}
