//! The invariants of large blocks, verified.

use super::blocks::{Blocks, rows};
use super::class::LARGE_CLASSES;
use super::kept::PLACES;
use super::{Block, BlockState, Damage};
use crate::sync::Ordering::Relaxed;
use core::cell::Cell;

/// Bytes beside a block that are read at a time.
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
    /// Verifies L1 to L5, and names what does not hold. With no other thread in the allocator.
    ///
    /// - L1: of a live block, `head + bytes <= resident <= mapped`; of a free one `resident <=
    ///   mapped`; a page of the extent is never mapped, or all of it is.
    /// - L2: a block in a place is free, has a mapping, and is there once.
    /// - L3: a block on a stack is free, of that partition and class, and in no place.
    /// - L4: the counters are the sums over all blocks.
    /// - L5: a block that waits (`waiting.rs`) is free, and nowhere else.
    pub fn check(&self) -> Result<(), &'static str> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let (mut sums, mut result) = (Sums::default(), Ok(()));
        self.for_each(|block| {
            if result.is_ok() {
                result = self.check_block(block, &mut sums);
            }
        });
        result?;
        let mut waiting = [usize::MAX; PLACES];
        for (number, kept) in self.state().places.all().enumerate() {
            let (unit, block) = (kept.unit(), self.block(kept.unit()));
            let class = block.class();
            ensure(kept.is_of(block.partition(), class), "L2: in a place as another's")?;
            ensure(block.state() == BlockState::Free, "L2: in a place but not free")?;
            ensure(block.mapped.load(Relaxed) != 0, "L2: in a place without a mapping")?;
            ensure(!waiting.contains(&unit), "L2: in two places")?;
            if let Some(entry) = waiting.get_mut(number) {
                *entry = unit;
            }
        }
        for index in 0..rows(self.partitions) * LARGE_CLASSES {
            let (partition, class) = (index / LARGE_CLASSES, index % LARGE_CLASSES);
            let mut next = self.stack(partition, class).load(Relaxed) as u32;
            let mut left = self.units;
            while let Some(unit) = next.checked_sub(1) {
                let block = self.block(unit as usize);
                ensure(block.state() == BlockState::Free, "L3: on a stack but not free")?;
                let same = block.partition() == partition && block.class() == class;
                ensure(same, "L3: on another's stack")?;
                ensure(!waiting.contains(&(unit as usize)), "L3: on a stack and in a place")?;
                ensure(left > 0, "L3: a stack without an end")?;
                left -= 1;
                next = block.below.load(Relaxed);
            }
        }
        for block in self.all_waiting() {
            ensure(block.state() == BlockState::Free, "L5: waits but is not free")?;
            ensure(!waiting.contains(&self.unit_of(block)), "L5: waits in two ways")?;
        }
        let state = self.state();
        ensure(sums.live_blocks == state.live_blocks.load(Relaxed), "L4: live blocks")?;
        ensure(sums.live_bytes == state.live_bytes.load(Relaxed), "L4: live bytes")?;
        ensure(sums.slack == state.slack.load(Relaxed), "L4: slack")?;
        ensure(sums.kept == state.kept.load(Relaxed), "L4: kept")?;
        ensure(sums.mapped == state.mapped.load(Relaxed), "L4: mapped")?;
        ensure(sums.separate == state.separate.load(Relaxed), "L4: mappings")
    }

    /// Verifies L1 of one block that other threads may change: a check that fails once may hold the
    /// next time.
    pub fn check_one(&self, block: &Block) -> Result<(), &'static str> {
        self.check_block(block, &mut Sums::default())
    }

    /// Where a live block was missed, read by `peek`, which returns false if there is nothing to
    /// read; `None` if the block is freed or resized meanwhile. Any thread. Hardened build.
    pub fn damage_from_outside(
        &self,
        block: &Block,
        peek: &dyn Fn(usize, &mut [u8]) -> bool,
    ) -> Option<Damage> {
        let seen = (block.bytes(), block.since());
        if block.state() != BlockState::Live {
            return None;
        }
        // What was read last, and where: a head may be a page.
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

    fn check_block(&self, block: &Block, sums: &mut Sums) -> Result<(), &'static str> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let (bytes, resident) = (block.bytes(), block.resident.load(Relaxed));
        let mapped = block.mapped.load(Relaxed);
        ensure(resident <= mapped, "L1: resident but not mapped")?;
        let shared = self.is_shared(block);
        ensure(shared || mapped <= self.room(block), "L1: no guard")?;
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
