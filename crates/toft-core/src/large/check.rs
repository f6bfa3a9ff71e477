//! Verification of the invariants of large blocks.

use super::blocks::{Blocks, view};
use super::figures::Figures;
use super::kept::PLACES;
use super::{Block, BlockState, Damage};
use crate::sync::Ordering::{Acquire, Relaxed};
use core::cell::Cell;

/// The number of bytes beside a block that `damage_from_outside` reads at a time.
const PIECE: usize = 256;

view!(pub Checks, checks, "The checks of the invariants.");

impl Checks<'_> {
    /// Verifies L1 to L5. Returns the first violation. No other thread may be in the allocator.
    ///
    /// - L1: a live block has `head + bytes <= resident <= mapped`, and a free one has `resident <=
    ///   mapped`. An extent has a page that is never mapped, unless its block shares a mapping.
    /// - L2: a block in a place of `kept.rs` is free, has a mapping, and is in one place only.
    /// - L3: a block on a stack is free, has the partition and class of the stack, and is in no
    ///   place.
    /// - L4: each counter is the sum over all blocks.
    /// - L5: a block that waits (`waiting.rs`) is free, and is in no place.
    pub fn all(self) -> Result<(), &'static str> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let (sums, mut result) = (Figures::default(), Ok(()));
        self.0.units().for_each(|block| {
            if result.is_ok() {
                result = self.check_block(block, &sums);
            }
        });
        result?;
        let units = self.0.units();
        let mut kept_units = [usize::MAX; PLACES];
        for (number, kept) in self.0.state().places.all().enumerate() {
            let (unit, block) = (kept.unit(), units.block(kept.unit()));
            let class = block.class();
            ensure(kept.is_of(block.partition(), class), "L2: a place names another class")?;
            ensure(block.state() == BlockState::Free, "L2: in a place but not free")?;
            ensure(block.mapped.load(Relaxed) != 0, "L2: in a place without a mapping")?;
            ensure(!kept_units.contains(&unit), "L2: in two places")?;
            if let Some(entry) = kept_units.get_mut(number) {
                *entry = unit;
            }
        }
        for (partition, class) in self.0.stacks().all() {
            let mut next = self.0.stacks().of(partition, class).load(Relaxed) as u32;
            let mut left = units.count();
            while let Some(unit) = next.checked_sub(1) {
                let block = units.block(unit as usize);
                ensure(block.state() == BlockState::Free, "L3: on a stack but not free")?;
                let same = block.partition() == partition && block.class() == class;
                ensure(same, "L3: on the stack of another class")?;
                ensure(!kept_units.contains(&(unit as usize)), "L3: on a stack and in a place")?;
                ensure(left > 0, "L3: a stack has a cycle")?;
                left -= 1;
                next = block.below.load(Relaxed);
            }
        }
        for block in self.0.waiting().all() {
            ensure(block.state() == BlockState::Free, "L5: waits but is not free")?;
            ensure(!kept_units.contains(&units.of(block)), "L5: waits and is in a place")?;
        }
        self.0.figures().check(&sums)
    }

    /// Verifies L1 of one block. Other threads may change the block, so a check that fails may
    /// succeed the next time.
    pub fn one(self, block: &Block) -> Result<(), &'static str> {
        self.check_block(block, &Figures::default())
    }

    /// Returns where bytes beside a live block were overwritten, or `None` if they are intact. Also
    /// returns `None` if the block is freed or resized meanwhile. Any thread. Secure build.
    ///
    /// `peek` reads memory, and returns false if there is nothing to read.
    pub fn damage_from_outside(
        self,
        block: &Block,
        peek: &dyn Fn(usize, &mut [u8]) -> bool,
    ) -> Option<Damage> {
        let seen = (block.bytes(), block.since.load(Acquire));
        if block.state() != BlockState::Live {
            return None;
        }
        // The last piece that was read, and its address. A head may be as long as a page.
        let known = Cell::new((0, [0u8; PIECE]));
        let damage = self.0.canaries().damage_read(block, |address| {
            let piece = address & !(PIECE - 1);
            let (mut at, mut bytes) = known.get();
            if at != piece {
                at = if peek(piece, &mut bytes) { piece } else { 0 };
                known.set((at, bytes));
            }
            bytes.get(address - piece).copied().filter(|_| at == piece)
        });
        let same =
            block.state() == BlockState::Live && (block.bytes(), block.since.load(Acquire)) == seen;
        damage.filter(|_| same)
    }

    /// Verifies L1 of one block, and adds the block to the sums.
    fn check_block(self, block: &Block, sums: &Figures) -> Result<(), &'static str> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        let (bytes, resident) = (block.bytes(), block.resident.load(Relaxed));
        let mapped = block.mapped.load(Relaxed);
        ensure(resident <= mapped, "L1: resident but not mapped")?;
        let shared = self.0.pages().is_shared(block);
        ensure(shared || mapped <= self.0.placement().room(block), "L1: no guard page")?;
        if block.state() == BlockState::Live {
            ensure(
                self.0.placement().span(block, bytes) <= resident,
                "L1: usable but not resident",
            )?;
            sums.begin(bytes, resident);
        } else {
            sums.put(resident);
        }
        if !shared {
            sums.change_mapping(0, mapped);
        }
        Ok(())
    }
}
