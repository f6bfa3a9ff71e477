//! L3: zero-size blocks of the secure build: addresses that are never mapped.
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
//! which is 8192 at least.
//!
//! - N1 `live` is the number of bits that are set.

use crate::os::{Error, Os};
use crate::region::{Carve, STEP};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// The largest alignment that a block has which asks for none.
pub(crate) const ALIGN: usize = 16;

/// log2 of the distance between two blocks, which is malloc's alignment.
const SHIFT: u32 = 4;
/// More bits are mapped if fewer than one in this number of the mapped bits is clear.
const SPARE_DIVISOR: usize = 4;

/// The state of the set, which is in the metadata tables and zero at first.
#[derive(Debug)]
struct State {
    /// The mapped part of the bits.
    bits: Carve,
    /// The number of bits that are set. Any thread; it publishes no other data.
    live: AtomicUsize,
    /// The word where the next search begins. Any thread.
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

    /// Allocates a block, and returns its address.
    pub fn allocate(&self, os: &impl Os) -> Result<usize, Error> {
        if self.count == 0 {
            return Err(Error::NoMemory);
        }
        let words = self.words();
        if self.state().live.load(Relaxed) >= words * 64 / SPARE_DIVISOR * (SPARE_DIVISOR - 1) {
            let wanted = (words * size_of::<AtomicU64>() + STEP).min(self.count / 8);
            // If there is no memory for more bits, the mapped ones may suffice.
            let _ = self.state().bits.reach(os, self.bits, self.bits + wanted, STEP);
        }
        let words = self.words();
        for _ in 0..words {
            let at = self.state().cursor.fetch_add(1, Relaxed) % words.max(1);
            if let Some(bit) = set_lowest_clear(self.word(at)) {
                self.state().live.fetch_add(1, Relaxed);
                return Ok(self.base + ((at * 64 + bit) << SHIFT));
            }
        }
        Err(Error::NoMemory)
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
        let freed = word.fetch_and(!bit, AcqRel) & bit != 0;
        if freed {
            self.state().live.fetch_sub(1, Relaxed);
        }
        freed
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
        let set = (0..self.words()).map(|at| self.word(at).load(Relaxed).count_ones() as usize);
        let same = set.sum::<usize>() == self.state().live.load(Relaxed);
        if same { Ok(()) } else { Err("N1: the number of live zero-size blocks") }
    }
}

/// Sets the lowest clear bit of a word. Returns its number, or `None` if every bit is set.
fn set_lowest_clear(word: &AtomicU64) -> Option<usize> {
    let mut seen = word.load(Relaxed);
    while seen != u64::MAX {
        let bit = seen.trailing_ones();
        let before = word.fetch_or(1 << bit, AcqRel);
        if before >> bit & 1 == 0 {
            return Some(bit as usize);
        }
        seen = before;
    }
    None
}
