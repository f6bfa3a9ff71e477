//! The grammar: eight bytes are one operation, and any eight bytes are one.
//!
//! ```text
//! byte  0        1      2         3     4  5      6  7
//!       what     who    size's    site  size      which block, or alignment, or offset
//!                       kind
//! ```
//!
//! The property tests draw these bytes at random, the fuzzer mutates them, and a byte set to zero
//! is always the simplest of its kind, so that both shrink a failure to something short.

use toft_core::slab::SizeClass;

/// Bytes of one encoded operation.
pub const OP_BYTES: usize = 8;
/// "Threads" there may be at once.
pub const THREADS: usize = 5;
/// Call sites.
pub const SITES: usize = 24;

/// Which call an operation makes with a bad pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    Free,
    Delete,
    FreeSized,
    Realloc,
    UsableSize,
}

/// Which bad pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPointer {
    /// The start of a block that was freed.
    Freed,
    /// Inside a live block.
    Inside,
    /// Inside a block that was freed.
    InsideFreed,
    /// A slot of a live block's slab that was never handed out.
    NeverHandedOut,
    /// Nothing of the allocator's.
    Foreign,
}

/// One operation. `who` is the thread that carries it out; `which` picks a block, or whatever else
/// there is a choice of, modulo how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Malloc {
        who: usize,
        size: usize,
        site: usize,
    },
    Calloc {
        who: usize,
        size: usize,
        site: usize,
    },
    Aligned {
        who: usize,
        size: usize,
        align: usize,
        site: usize,
    },
    /// `count` blocks of one size.
    Burst {
        who: usize,
        size: usize,
        site: usize,
        count: usize,
    },
    Realloc {
        who: usize,
        which: usize,
        size: usize,
        site: usize,
    },
    /// Realloc to exactly what is usable: must not move.
    ReallocSame {
        who: usize,
        which: usize,
    },
    Free {
        who: usize,
        which: usize,
    },
    /// Every second block from `which` on, `count` of them.
    FreeMany {
        who: usize,
        which: usize,
        count: usize,
    },
    Misuse {
        who: usize,
        call: BadCall,
        pointer: BadPointer,
        which: usize,
        offset: usize,
    },
    Birth,
    Exit {
        who: usize,
    },
    /// A child of a fork goes on: the other threads are gone, some in the middle of a change.
    Fork {
        who: usize,
        torn: u8,
    },
    /// Give back what can be given back.
    Trim,
    /// The next operation runs in a signal handler that has interrupted a change of the heap.
    Interrupt {
        who: usize,
    },
}

/// Sizes that the interesting limits lie between, all tiers.
fn size(kind: u8, word: u16) -> usize {
    let word = word as usize;
    match kind % 16 {
        0..=3 => word % 257,
        4..=6 => word % 1100,
        7..=9 => 1025 + word * 2,
        10 => {
            let class = SizeClass::all().nth(word / 4 % 60).map_or(16, SizeClass::size);
            class + word % 4 - 1
        }
        11 => (128 << 10) + word * 8,
        12 => 4096 * (word % 512) + word / 512 % 3,
        13 => word * 129,
        14 => word << 16,
        _ => {
            let limit = isize::MAX as usize;
            [
                limit,
                limit - 4096,
                limit + 1,
                usize::MAX,
                usize::MAX - 4095,
                1 << 47,
                1 << 40,
                1 << 62,
            ][word % 8]
        }
    }
}

/// Alignments from none to beyond every tier.
fn align(word: u16) -> usize {
    const SHIFTS: [u32; 16] = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 13, 16, 17, 21, 26];
    1 << SHIFTS[word as usize % 16]
}

impl Op {
    /// The operation that eight bytes stand for.
    pub fn decode(bytes: [u8; OP_BYTES]) -> Op {
        let [what, who, kind, site, size_low, size_high, low, high] = bytes;
        let (who, site) = (who as usize % (THREADS + 1), site as usize % SITES);
        let word = u16::from_le_bytes([size_low, size_high]);
        let size = size(kind, word);
        let pick = u16::from_le_bytes([low, high]);
        let (which, count) = (pick as usize, 2 + word as usize % 60);
        match what {
            0..=49 => Op::Malloc { who, size, site },
            50..=69 => Op::Calloc { who, size, site },
            70..=81 => Op::Aligned { who, size, align: align(pick), site },
            82..=95 => Op::Burst { who, size: size % 70_000, site, count },
            96..=127 => Op::Realloc { who, which, size: size.max(1), site },
            128..=131 => Op::ReallocSame { who, which },
            132..=187 => Op::Free { who, which },
            188..=203 => Op::FreeMany { who, which, count },
            204..=233 => {
                let call = match kind % 8 {
                    0..=3 => BadCall::Free,
                    4 => BadCall::Delete,
                    5 => BadCall::FreeSized,
                    6 => BadCall::Realloc,
                    _ => BadCall::UsableSize,
                };
                let pointer = match site % 8 {
                    0..=2 => BadPointer::Freed,
                    3 => BadPointer::Inside,
                    4 => BadPointer::InsideFreed,
                    5..=6 => BadPointer::NeverHandedOut,
                    _ => BadPointer::Foreign,
                };
                Op::Misuse { who, call, pointer, which, offset: word as usize }
            }
            234..=239 => Op::Birth,
            240..=244 => Op::Exit { who },
            245..=246 => Op::Fork { who, torn: high },
            247..=249 => Op::Trim,
            250..=255 => Op::Interrupt { who },
        }
    }

    /// Every whole operation in `bytes`.
    pub fn decode_all(bytes: &[u8]) -> Vec<Op> {
        bytes.as_chunks::<OP_BYTES>().0.iter().map(|&chunk| Op::decode(chunk)).collect()
    }
}

/// Bytes for a script of `count` operations, the same for the same seed.
pub fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut word = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        // xorshift64*
        word ^= word >> 12;
        word ^= word << 25;
        word ^= word >> 27;
        word.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    (0..count).flat_map(|_| next().to_be_bytes()).collect()
}
