//! What is written on a block's own pages before and behind it, in the secure build, and read
//! again when the block is freed or its size changes: who wrote there has missed the block.
//!
//! ```text
//!            | head: up to a page | bytes ..... | tail: up to 15 bytes | no mapping
//!                                  program's
//! ```
//!
//! The tail is longer only after a block with a requested alignment, or one whose size has changed
//! where it is. No byte of the canary is zero, so that a zero that is written beside the block is
//! found.

use super::Block;
use super::blocks::{Blocks, view};

/// Where a block was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The number of bytes before its first byte.
    Before(usize),
    /// The number of bytes after its last byte: zero is the first one after.
    Behind(usize),
}

/// The canary of a block: what its bytes repeat.
#[derive(Clone, Copy)]
struct Canary([u8; 8]);

impl Canary {
    /// The byte at a place of the head, counted from the page's start, or of the tail, counted from
    /// the block's end.
    fn byte(self, place: usize) -> u8 {
        let [byte, ..] = self.0;
        self.0.get(place & 7).copied().unwrap_or(byte)
    }
}

view!(pub(super) Canaries, canaries, "What is written beside blocks.");

impl Canaries<'_> {
    fn of(self, block: &Block) -> Canary {
        let word = self.0.key().mix(self.0.placement().address(block) as u64);
        Canary(word.to_le_bytes().map(|byte| byte.max(1)))
    }

    /// Bytes on the last page of a block of `bytes` that follow it.
    fn tail(self, block: &Block, bytes: usize) -> usize {
        let placement = self.0.placement();
        placement.span(block, bytes) - placement.head(block) - bytes
    }

    /// Writes before and after a held block, whose pages are mapped, which is to have `bytes`
    /// bytes.
    pub(super) fn write(self, block: &Block, bytes: usize) {
        let canary = self.of(block);
        if bytes != 0 {
            let start = self.0.placement().start(block);
            for place in 0..self.0.placement().head(block) {
                write(start + place, canary.byte(place));
            }
        }
        self.write_tail(block, bytes);
    }

    /// Writes after a held block alone.
    pub(super) fn write_tail(self, block: &Block, bytes: usize) {
        let canary = self.of(block);
        let (end, tail) = (self.0.placement().address(block) + bytes, self.tail(block, bytes));
        if bytes != 0 {
            for place in 0..tail {
                write(end + place, canary.byte(place));
            }
        }
    }

    /// Makes what was written behind a held block zero: it is about to be the program's.
    pub(super) fn clear_tail(self, block: &Block) {
        let bytes = block.bytes();
        let end = self.0.placement().address(block) + bytes;
        if bytes != 0 {
            for place in 0..self.tail(block, bytes) {
                write(end + place, 0);
            }
        }
    }

    /// Where a held block that was live a moment ago was missed, if it was: what is nearest to it.
    pub(super) fn damage(self, block: &Block) -> Option<Damage> {
        self.damage_read(block, |address| Some(read(address)))
    }

    /// As `damage`, by bytes that are read as the caller likes: what it does not know is as it must
    /// be.
    pub(super) fn damage_read(
        self,
        block: &Block,
        read: impl Fn(usize) -> Option<u8>,
    ) -> Option<Damage> {
        let differs = |address, must: u8| read(address).is_some_and(|byte| byte != must);
        let (canary, bytes) = (self.of(block), block.bytes());
        if bytes == 0 {
            return None;
        }
        let (end, tail) = (self.0.placement().address(block) + bytes, self.tail(block, bytes));
        let behind = (0..tail).find(|&place| differs(end + place, canary.byte(place)));
        if let Some(place) = behind {
            return Some(Damage::Behind(place));
        }
        let placement = self.0.placement();
        let (start, head) = (placement.start(block), placement.head(block));
        let before = (0..head).rev().find(|&place| differs(start + place, canary.byte(place)));
        before.map(|place| Damage::Before(head - place))
    }
}

fn write(address: usize, byte: u8) {
    let place: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: callers name bytes of the pages of a block that they hold, beside what its program
    // has.
    unsafe { place.write(byte) };
}

fn read(address: usize) -> u8 {
    let place: *const u8 = core::ptr::with_exposed_provenance(address);
    // SAFETY: as in `write`. The program may just be writing there, which is what is looked for:
    // the compiler must take each read for what it is.
    unsafe { place.read_volatile() }
}
