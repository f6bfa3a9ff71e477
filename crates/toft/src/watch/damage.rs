//! Names what the hardened build finds wrong with a block: a write outside live blocks, and a size
//! that is not the block's.

use crate::allocator::Allocator;
use crate::large::Block;
use crate::os::Os;
use crate::report::{Call, Line, head};
use crate::slab::Slab;
use crate::watch::misuse::tier;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The byte of this number behind the block was overwritten.
    Behind(usize),
    /// The byte before the block was.
    Before,
    /// The byte of this number of a free block was.
    AfterFree(usize),
    /// The block was freed with this size in bytes.
    Size(usize),
    /// The byte of this number of a reserved slot was.
    Reserved(usize),
}

impl<O: Os> Allocator<O> {
    /// Says what is wrong with a slot of a slab.
    #[cold]
    #[inline(never)]
    pub(crate) fn damaged(&self, call: Call, slab: &Slab, slot: usize, damage: Damage) {
        let mut line = Line::new(self.hide_addresses);
        let bytes = slab.block_bytes(slot) as u64;
        head(&mut line, damage.name(), call, slab.base() + slot * slab.size());
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
        line.text(" (").text(tier(slab)).text(" slab, slot ").number(slot as u64);
        line.text(", partition ").number(slab.partition() as u64);
        line.text("; call site ").address(slab.site()).text(")");
        self.conclude(&mut line);
    }
}

impl<O: Os> Allocator<O> {
    /// A large block was freed with a size of `given` bytes.
    #[cold]
    #[inline(never)]
    pub(crate) fn large_size_differs(
        &self,
        block: &Block,
        address: usize,
        given: usize,
        call: Call,
    ) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, Damage::Size(given).name(), call, address);
        line.text("this ").number(block.bytes() as u64).text("-byte block is not one of ");
        line.number(given as u64).text(" bytes (large block, partition ");
        line.number(block.partition() as u64);
        line.text("; call site ").address(block.site()).text(")");
        self.conclude(&mut line);
    }

    /// A zero-size block was freed with another size.
    #[cold]
    #[inline(never)]
    pub(crate) fn nothing_size_differs(&self, address: usize, given: usize, call: Call) {
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
