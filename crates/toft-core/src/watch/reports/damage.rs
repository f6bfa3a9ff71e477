//! Reports the damage that the secure build finds: a write outside live blocks, or a size that is
//! not the block's.

use crate::large::Block;
use crate::os::Os;
use crate::report::{Call, Line, head};
use crate::slab::{Slab, SlotIndex};
use crate::watch::reports::Reports;
use crate::watch::reports::misuse::tier;

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The byte at this offset from the block's end was overwritten.
    Behind(usize),
    /// The byte before the block was overwritten.
    Before,
    /// The byte at this offset in a free block was overwritten.
    AfterFree(usize),
    /// The block was freed with this wrong size in bytes.
    Size(usize),
    /// The byte at this offset in a reserved slot was overwritten.
    Reserved(usize),
}

impl<O: Os> Reports<'_, O> {
    /// Reports the damage of a slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn damaged(self, call: Call, slab: &Slab, slot: SlotIndex, damage: Damage) {
        let mut line = Line::new(self.hide_addresses);
        let bytes = slab.block_bytes(slot) as u64;
        head(&mut line, damage.name(), call, slab.slot_address(slot));
        match damage {
            Damage::Behind(place) => {
                line.text("byte ").number(place as u64).text(" behind this ");
                line.number(bytes).text("-byte block was overwritten");
            }
            Damage::Before => {
                line.text("the byte before this ").number(bytes);
                line.text("-byte block was overwritten");
            }
            Damage::AfterFree(place) => {
                line.text("byte ").number(place as u64).text(" of this free ");
                line.number(bytes).text("-byte block was overwritten");
            }
            Damage::Size(given) => {
                line.text("this ").number(bytes).text("-byte block is not one of ");
                line.number(given as u64).text(" bytes");
            }
            Damage::Reserved(place) => {
                line.text("byte ").number(place as u64).text(" of this reserved ");
                line.number(bytes).text("-byte slot, which nobody has, was overwritten");
            }
        }
        line.text(" (").text(tier(slab)).text(" slab, slot ").number(slot.number() as u64);
        line.text(", partition ").number(slab.partition().number() as u64);
        line.text("; call site ").address(slab.site().address()).text(")");
        self.conclude(&mut line);
    }
}

impl<O: Os> Reports<'_, O> {
    /// Reports that a large block was freed with a wrong size of `given` bytes.
    #[cold]
    #[inline(never)]
    pub(crate) fn large_size_differs(
        self,
        block: &Block,
        address: usize,
        given: usize,
        call: Call,
    ) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, Damage::Size(given).name(), call, address);
        line.text("this ").number(block.bytes() as u64).text("-byte block is not one of ");
        line.number(given as u64).text(" bytes (large block, partition ");
        line.number(block.partition().number() as u64);
        line.text("; call site ").address(block.site().address()).text(")");
        self.conclude(&mut line);
    }

    /// Reports that a zero-size block was freed with a size of `given` bytes.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_zero_size_mismatch(self, address: usize, given: usize, call: Call) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, Damage::Size(given).name(), call, address);
        line.text("this 0-byte block is not one of ").number(given as u64);
        line.text(" bytes (of no bytes)");
        self.conclude(&mut line);
    }
}

impl Damage {
    fn name(self) -> &'static str {
        match self {
            Damage::Behind(_) => "heap overflow",
            Damage::Before => "heap underflow",
            Damage::AfterFree(_) => "write after free",
            Damage::Size(_) => "size mismatch",
            Damage::Reserved(_) => "wild write",
        }
    }
}
