//! Reports the damage that the secure build finds: a write outside live blocks, or a size or an
//! alignment that is not the block's.

use crate::large::Block;
use crate::os::Os;
use crate::report::{Call, Line, head};
use crate::slab::{Slab, SlotIndex};
use crate::watch::reports::Reports;
use crate::watch::reports::misuse::tier;
use crate::zero_size::ALIGN;

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
    /// The block was freed with this wrong alignment in bytes.
    Alignment(usize),
    /// The byte at this offset in a reserved slot was overwritten.
    Reserved(usize),
    /// The last byte of a slot that is not in use was overwritten. If the next slot is in use, the
    /// byte is the one before its block.
    Unused,
}

impl<O: Os> Reports<'_, O> {
    /// Reports the damage of a slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn damaged(self, call: Call, slab: &Slab, slot: SlotIndex, damage: Damage) {
        let [_, after] = slot.beside();
        let is_before = damage == Damage::Unused && after.number() < slab.slots();
        let (slot, damage) = match is_before && slab.is_in_use(after) {
            true => (after, Damage::Before),
            false => (slot, damage),
        };
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
            Damage::Size(_) | Damage::Alignment(_) => damage.say_request(&mut line, bytes),
            Damage::Reserved(place) => {
                line.text("byte ").number(place as u64).text(" of this reserved ");
                line.number(bytes).text("-byte slot, which nobody has, was overwritten");
            }
            Damage::Unused => {
                line.text("the last byte of this unused ").number(slab.size() as u64);
                line.text("-byte slot was overwritten");
            }
        }
        line.text(" (").text(tier(slab)).text(" slab, slot ").number(slot.number() as u64);
        line.text(", partition ").number(slab.partition().number() as u64);
        line.text("; call site ").address(slab.site().address()).text(")");
        self.conclude(&mut line);
    }
}

impl<O: Os> Reports<'_, O> {
    /// Reports that a large block was freed with a wrong size or alignment.
    #[cold]
    #[inline(never)]
    pub(crate) fn large_differs(self, block: &Block, address: usize, wrong: Damage, call: Call) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, wrong.name(), call, address);
        wrong.say_request(&mut line, block.bytes() as u64);
        line.text(" (large block, partition ").number(block.partition().number() as u64);
        line.text("; call site ").address(block.site().address()).text(")");
        self.conclude(&mut line);
    }

    /// Reports that a zero-size block was freed with a wrong size or alignment.
    #[cold]
    #[inline(never)]
    pub(crate) fn zero_size_differs(self, address: usize, wrong: Damage, call: Call) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, wrong.name(), call, address);
        wrong.say_request(&mut line, 0);
        line.text(" (of no bytes)");
        self.conclude(&mut line);
    }
}

impl Damage {
    /// Writes that a block of `bytes` bytes was not requested with this size or alignment.
    fn say_request(self, line: &mut Line, bytes: u64) {
        line.text("this ").number(bytes);
        match self {
            Damage::Alignment(given) if given > ALIGN => {
                line.text("-byte block was not requested at a multiple of ").number(given as u64)
            }
            Damage::Alignment(_) => line.text("-byte block was requested with an alignment"),
            Damage::Size(given) => {
                line.text("-byte block is not one of ").number(given as u64).text(" bytes")
            }
            _ => line,
        };
    }

    fn name(self) -> &'static str {
        match self {
            Damage::Behind(_) => "heap overflow",
            Damage::Before => "heap underflow",
            Damage::AfterFree(_) => "write after free",
            Damage::Size(_) => "size mismatch",
            Damage::Alignment(_) => "alignment mismatch",
            Damage::Reserved(_) | Damage::Unused => "wild write",
        }
    }
}
