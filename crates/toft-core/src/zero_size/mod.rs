//! L3: zero-size blocks: addresses that are never mapped.
//!
//! Each call of `malloc(0)` returns a separate address. The program can free it once, and every
//! access to it faults. The only metadata of such a block is a bit, which is set while the block is
//! live. The addresses are at the end of the large tier.
//!
//! ```text
//! addresses   | 16 bytes | 16 bytes | ...                never mapped
//! bits        |64 blocks |64 blocks | ... mapped | not yet
//!                            ^ cursor: each block is from the word after that of the last block
//! ```
//!
//! The cursor wraps around. An address is reused after as many allocations as there are words,
//! which is 8192 at least. In the default build each heap has a cursor: threads do not share a
//! cache line, but one of them may reuse an address that another has just freed.
//!
//! - N1 `full` is the number of words whose bits are all set.

use crate::os::{Error, Os};
use crate::region::{Carve, STEP};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// The largest alignment that a block has which asks for none.
pub(crate) const ALIGN: usize = 16;
/// The largest alignment of blocks of this set: one word in four has such an address.
pub(crate) const ALIGN_MAX: usize = 4 * WORD_SPAN;

/// log2 of the distance between two blocks, which is malloc's alignment.
const SHIFT: u32 = 4;
/// The number of bytes of addresses of a word of bits.
const WORD_SPAN: usize = 64 << SHIFT;
/// The distance between the words at which two cursors begin.
const STRIDE: usize = 1000;
/// More bits are mapped if fewer than one in this number of the mapped words has a clear bit.
const SPARE_DIVISOR: usize = 4;

/// The state of the set, which is in the metadata tables and zero at first.
#[derive(Debug)]
struct State {
    /// The mapped part of the bits.
    bits: Carve,
    /// The number of words whose bits are all set. Any thread; it publishes no other data. A
    /// thread may count a word that is full no longer before another has counted it as full.
    full: AtomicUsize,
    /// The word where the next search begins that has no other cursor, and where the next cursor
    /// begins. Any thread.
    cursor: AtomicUsize,
}

/// The set of all zero-size blocks.
#[derive(Debug)]
pub struct ZeroSizeBlocks {
    base: usize,
    /// The number of blocks that have an address.
    count: usize,
    /// Address of the first word of bits.
    bits: usize,
    state: *const State,
}

/// The number of a block, live or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(usize);

/// What an address in the range of zero-size blocks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroSizePlace {
    /// The address of a block, live or not.
    Block(Number),
    /// An address between two blocks.
    Between,
}

impl ZeroSizeBlocks {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns a set without addresses, for use before initialization.
    pub const fn none() -> ZeroSizeBlocks {
        ZeroSizeBlocks { base: 0, count: 0, bits: 0, state: core::ptr::null() }
    }

    /// Returns the set for the `span` addresses from `base` on, with its bits from `bits` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. The span, and from `bits` on a bit for each 16 bytes of it, are address space for this
    ///    object alone.
    pub unsafe fn new(
        (base, span): (usize, usize),
        bits: usize,
        tables: usize,
        random: u64,
    ) -> ZeroSizeBlocks {
        let blocks = ZeroSizeBlocks {
            base,
            count: span >> SHIFT,
            bits,
            state: core::ptr::with_exposed_provenance(tables),
        };
        if blocks.count != 0 {
            blocks.state().cursor.store((random >> 1) as usize, Relaxed);
        }
        blocks
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read if there are no addresses.
        unsafe { &*self.state }
    }

    /// Returns the number of mapped words of bits.
    fn words(&self) -> usize {
        (self.state().bits.mapped() / size_of::<AtomicU64>()).min(self.count / 64)
    }

    /// Returns a mapped word of bits.
    fn word(&self, number: usize) -> &AtomicU64 {
        let address = self.bits + number * size_of::<AtomicU64>();
        // SAFETY: each caller's number is below `words`; zero bytes are a word without set bits.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Allocates a block at a multiple of `align`, a power of two. Returns its address. The search
    /// begins at the word of `cursor`, which is the caller's, or at that of all threads.
    #[inline]
    pub fn allocate(
        &self,
        os: &impl Os,
        align: usize,
        cursor: Option<&AtomicU32>,
    ) -> Result<usize, Error> {
        if self.count == 0 {
            return Err(Error::NoMemory);
        }
        let words = self.words();
        let full = self.state().full.load(Relaxed).cast_signed();
        if full >= (words / SPARE_DIVISOR * (SPARE_DIVISOR - 1)).cast_signed() {
            self.map_more(os, words);
        }
        // Blocks of a large alignment need bits of which all may be set.
        let found = self.search(align, cursor).or_else(|| {
            self.map_more(os, Some(words).filter(|&words| words != 0)?);
            self.search(align, cursor)
        });
        found.ok_or(Error::NoMemory)
    }

    /// Maps more bits than `words` words. If there is no memory, the mapped ones may suffice.
    #[cold]
    #[inline(never)]
    fn map_more(&self, os: &impl Os, words: usize) {
        let wanted = (words * size_of::<AtomicU64>() + STEP).min(self.count / 8);
        let _ = self.state().bits.reach(os, self.bits, self.bits + wanted, STEP);
    }

    /// Sets a clear bit of a block at a multiple of `align`. Returns the block's address.
    #[inline]
    fn search(&self, align: usize, cursor: Option<&AtomicU32>) -> Option<usize> {
        let words = self.words();
        for _ in 0..words {
            let at = self.step(cursor, words);
            let begin = self.base + at * WORD_SPAN;
            let word = self.word(at);
            if let Some((bit, after)) = set_lowest_clear(word, aligned_bits(begin, align)) {
                if after == u64::MAX {
                    self.state().full.fetch_add(1, Relaxed);
                }
                return Some(begin + (bit << SHIFT));
            }
        }
        None
    }

    /// Returns the number of the next word to search, below `words`, which is not zero.
    #[inline]
    fn step(&self, cursor: Option<&AtomicU32>, words: usize) -> usize {
        let shared = |steps| self.state().cursor.fetch_add(steps, Relaxed) % words.max(1);
        let Some(cursor) = cursor else { return shared(1) };
        let at = match cursor.load(Relaxed) as usize {
            0 => shared(STRIDE),
            next if next < words => next,
            _ => 0,
        };
        cursor.store(at as u32 + 1, Relaxed);
        at
    }

    /// Returns what an address is, or `None` if it is not in the range of zero-size blocks.
    pub fn at(&self, address: usize) -> Option<ZeroSizePlace> {
        let offset = address.wrapping_sub(self.base);
        let number = offset >> SHIFT;
        if number >= self.count {
            return None;
        }
        let begins = offset & ((1 << SHIFT) - 1) == 0;
        Some(if begins { ZeroSizePlace::Block(Number(number)) } else { ZeroSizePlace::Between })
    }

    /// Returns the word and the mask of a block's bit, or `None` if the word is not mapped.
    fn bit(&self, Number(number): Number) -> Option<(&AtomicU64, u64)> {
        let word = number / 64;
        (word < self.words()).then(|| (self.word(word), 1 << (number % 64)))
    }

    /// Returns true if the block's bit is mapped: it or a neighbour may have been allocated.
    pub fn is_in_use(&self, number: Number) -> bool {
        self.bit(number).is_some()
    }

    /// Returns true if the block is live.
    pub fn is_live(&self, number: Number) -> bool {
        self.bit(number).is_some_and(|(word, bit)| word.load(Acquire) & bit != 0)
    }

    /// Frees a block. Returns false if it is not live.
    pub fn free(&self, number: Number) -> bool {
        let Some((word, bit)) = self.bit(number) else { return false };
        let before = word.fetch_and(!bit, AcqRel);
        if before == u64::MAX {
            self.state().full.fetch_sub(1, Relaxed);
        }
        before & bit != 0
    }

    /// Returns the number of bytes mapped for bits.
    pub fn mapped_bytes(&self) -> usize {
        if self.count == 0 { 0 } else { self.state().bits.mapped() }
    }

    /// Finishes a mapping that another thread had begun at a fork. Called in the child.
    pub fn repair(&self, os: &impl Os) {
        if self.count != 0 {
            self.state().bits.repair(os, self.bits);
        }
    }

    /// Verifies N1. No other thread may be in the allocator.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.count == 0 {
            return Ok(());
        }
        let full = (0..self.words()).filter(|&at| self.word(at).load(Relaxed) == u64::MAX).count();
        let same = full == self.state().full.load(Relaxed);
        if same { Ok(()) } else { Err("N1: the number of full words of zero-size blocks") }
    }
}

/// Returns the bits of the blocks at multiples of `align` in the word whose first block is at
/// `begin`, a multiple of 16.
#[inline]
fn aligned_bits(begin: usize, align: usize) -> u64 {
    if align <= 1 << SHIFT {
        return u64::MAX;
    }
    let first = (begin.wrapping_neg() & (align - 1)) >> SHIFT;
    if first >= 64 {
        return 0;
    }
    let (mut bits, mut step) = (1, align >> SHIFT);
    while step < 64 {
        bits |= bits << step;
        step *= 2;
    }
    bits << first
}

/// Sets the lowest clear bit of a word among `allowed`. Returns its number and the word, or `None`
/// if each of these bits is set.
#[inline]
fn set_lowest_clear(word: &AtomicU64, allowed: u64) -> Option<(usize, u64)> {
    let mut clear = !word.load(Relaxed) & allowed;
    while clear != 0 {
        let bit = clear.trailing_zeros();
        let before = word.fetch_or(1 << bit, AcqRel);
        if before >> bit & 1 == 0 {
            return Some((bit as usize, before | 1 << bit));
        }
        clear = !before & allowed;
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn aligned_bits_are_those_of_multiples() {
        for shift in 0..=14 {
            let align = 1usize << shift;
            for begin in (0..4 * ALIGN_MAX).step_by(WORD_SPAN).map(|offset| (7 << 40) + offset) {
                let blocks = (0..64).map(|bit| (bit, begin + (bit << SHIFT)));
                let aligned = blocks.filter(|(_, address)| address & (align - 1) == 0);
                let expected = aligned.fold(0u64, |bits, (bit, _)| bits | 1 << bit);
                assert_eq!(aligned_bits(begin, align), expected, "{align} {begin:#x}");
            }
        }
    }
}
