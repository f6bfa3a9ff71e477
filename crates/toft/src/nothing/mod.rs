//! L3: zero-size blocks, in the hardened build: addresses that are never mapped.
//!
//! `malloc(0)` gives each call its own address, which can be freed once, and at which there is
//! nothing: every access faults. All there is of such a block is a bit, set while it is live. The
//! addresses are the end of the large tier.
//!
//! ```text
//! addresses   | 16 bytes | 16 bytes | ...                never mapped
//! bits        |64 blocks |64 blocks | ... mapped | not yet
//!                            ^ cursor: each block comes from the word behind the last one's
//! ```
//!
//! The cursor goes round, so an address comes back when as many blocks have been given out as there
//! are words: 8192 at least.
//!
//! - N1 `live` is the number of bits that are set.

use crate::os::{Error, Os};
use crate::region::{Carve, STEP};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// log2 of the distance between two blocks: what malloc promises to align to.
const SHIFT: u32 = 4;
/// The share of bits that must be clear, as a divisor, before more are mapped.
const SPARE: usize = 4;

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// The bits, as mapped.
    bits: Carve,
    /// Bits that are set. Any thread; it publishes nothing.
    live: AtomicUsize,
    /// The word where the next search begins. Any thread.
    cursor: AtomicUsize,
}

/// All zero-size blocks.
#[derive(Debug)]
pub struct Nothing {
    base: usize,
    /// Blocks that there are addresses for.
    count: usize,
    /// Address of the first word of bits.
    bits: usize,
    state: *const State,
}

/// A number of a block that there is an address for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(usize);

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where a block may begin.
    Block(Number),
    /// Between two.
    Between,
}

impl Nothing {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Before anything is known: contains no address.
    pub const fn none() -> Nothing {
        Nothing { base: 0, count: 0, bits: 0, state: core::ptr::null() }
    }

    /// The blocks of `span` bytes of addresses from `base` on, with bits from `bits` on.
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
    ) -> Nothing {
        let nothing = Nothing {
            base,
            count: span >> SHIFT,
            bits,
            state: core::ptr::with_exposed_provenance(tables),
        };
        if nothing.count != 0 {
            nothing.state().cursor.store((random >> 1) as usize, Relaxed);
        }
        nothing
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`. Not read where there are no blocks.
        unsafe { &*self.state }
    }

    /// Words of bits that are mapped.
    fn words(&self) -> usize {
        (self.state().bits.mapped() / size_of::<AtomicU64>()).min(self.count / 64)
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        let address = self.bits + number * size_of::<AtomicU64>();
        // SAFETY: callers' numbers are below `words`; zero bytes are a word of which no bit is set.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// A block that is not in use.
    pub fn allocate(&self, os: &impl Os) -> Result<usize, Error> {
        if self.count == 0 {
            return Err(Error::NoMemory);
        }
        let words = self.words();
        if self.state().live.load(Relaxed) >= words * 64 / SPARE * (SPARE - 1) {
            let wanted = (words * size_of::<AtomicU64>() + STEP).min(self.count / 8);
            // Where there is no memory for more, what there is may do.
            let _ = self.state().bits.reach(os, self.bits, self.bits + wanted, STEP);
        }
        let words = self.words();
        for _ in 0..words {
            let at = self.state().cursor.fetch_add(1, Relaxed) % words.max(1);
            if let Some(bit) = take(self.word(at)) {
                self.state().live.fetch_add(1, Relaxed);
                return Ok(self.base + ((at * 64 + bit) << SHIFT));
            }
        }
        Err(Error::NoMemory)
    }

    /// What an address is, if it is one of these.
    pub fn at(&self, address: usize) -> Option<Place> {
        let offset = address.wrapping_sub(self.base);
        let number = offset >> SHIFT;
        if number >= self.count {
            return None;
        }
        let begins = offset & ((1 << SHIFT) - 1) == 0;
        Some(if begins { Place::Block(Number(number)) } else { Place::Between })
    }

    fn bit(&self, Number(number): Number) -> Option<(&AtomicU64, u64)> {
        let word = number / 64;
        (word < self.words()).then(|| (self.word(word), 1 << (number % 64)))
    }

    /// Whether an address like this was ever given out, or a neighbour's.
    pub fn is_in_use(&self, number: Number) -> bool {
        self.bit(number).is_some()
    }

    /// Whether the program has the block.
    pub fn is_live(&self, number: Number) -> bool {
        self.bit(number).is_some_and(|(word, bit)| word.load(Acquire) & bit != 0)
    }

    /// Frees a block; says no when it is not live.
    pub fn free(&self, number: Number) -> bool {
        let Some((word, bit)) = self.bit(number) else { return false };
        let freed = word.fetch_and(!bit, AcqRel) & bit != 0;
        if freed {
            self.state().live.fetch_sub(1, Relaxed);
        }
        freed
    }

    /// Bytes mapped for bits.
    pub fn mapped_bytes(&self) -> usize {
        if self.count == 0 { 0 } else { self.state().bits.mapped() }
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os) {
        if self.count != 0 {
            self.state().bits.repair(os, self.bits);
        }
    }

    /// Verifies N1. With no other thread in the allocator.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.count == 0 {
            return Ok(());
        }
        let set = (0..self.words()).map(|at| self.word(at).load(Relaxed).count_ones() as usize);
        let same = set.sum::<usize>() == self.state().live.load(Relaxed);
        if same { Ok(()) } else { Err("N1: the count of blocks of no bytes") }
    }
}

/// Sets the lowest bit that is clear, if one is; says which.
fn take(word: &AtomicU64) -> Option<usize> {
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
